"""Tuples and rows: types with a fixed number of fields, each of its own type.

A batch is checked by columns: the records are transposed once and every field type looks at its whole column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from flott.common.typeinfo._basic import BasicType, BasicTypeInfo
from flott.common.typeinfo._layouts import are_number_tuples
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import Row, RowKind, restore_row
from flott.errors import ProgramError, TypeMismatchError

# Transposing with zip makes one iterator per record. More of them at once than the garbage collector's threshold (700)
# would start a collection in every batch, which costs a third of the whole check.
_CHUNK = 512

_values_of = attrgetter("_values")
_fields_of = attrgetter("_fields")
_kind_of = attrgetter("_row_kind._value_")


class TupleTypeInfo(TypeInformation):
    """A tuple of so many fields. A list or a row becomes a tuple."""

    __slots__ = ("_field_types", "_numbers")

    _field_types: tuple[TypeInformation, ...]
    _numbers: str | None  #: what ``are_number_tuples`` calls the fields, if all of them are numbers

    def __init__(self, field_types: Iterable[TypeInformation]):
        types = _checked_types(field_types)
        object.__setattr__(self, "_field_types", types)
        object.__setattr__(self, "_numbers", _numbers_of(types))

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def _python_type(self) -> type:
        return tuple

    def _matches(self, values: Sequence[Any]) -> bool:
        if self._numbers is not None and are_number_tuples(values, self._numbers):
            return True
        return TypeInformation._matches(self, values)

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return _columns_match(self._field_types, values)

    def _convert(self, values: list[Any]) -> list[Any]:
        if set(map(type, values)) <= {tuple, list}:
            columns = _convert_columns(self._field_types, _transpose(values, len(self._field_types)))
            if columns is not None:
                return list(zip(*columns, strict=True))
        return TypeInformation._convert(self, values)

    def _admit_contents(self, value: Any) -> Any:
        admitted = _admit_fields(self, self._field_types, value)
        return value if admitted is None else tuple(admitted)

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, (list, Row)):
            return self._admit_contents(tuple(value))
        raise Rejected(value, self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A type is immutable: cannot set {name!r}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TupleTypeInfo) and self._field_types == other._field_types

    def __hash__(self) -> int:
        return hash((TupleTypeInfo, self._field_types))

    def __reduce__(self) -> tuple[Any, ...]:
        return TupleTypeInfo, (self._field_types,)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self._field_types))})"


class RowTypeInfo(TypeInformation):
    """A row of so many fields, with names or without. A tuple, a list or a dict becomes a row.

    With names, every record leaves with exactly these names in this order. Without, rows that have no names get Flink's
    ``f0``, ``f1``, …, and rows that have some keep them.
    """

    __slots__ = ("_field_names", "_field_types", "_record_names")

    _field_types: tuple[TypeInformation, ...]
    _field_names: tuple[str, ...] | None
    _record_names: tuple[str, ...]  #: what a record's fields are called that does not say so itself

    def __init__(self, field_types: Iterable[TypeInformation], field_names: Iterable[str] | None = None):
        types = _checked_types(field_types)
        names = None if field_names is None else tuple(field_names)
        if names is not None and len(names) != len(types):
            raise ProgramError(f"A row type needs a name for every field: found {len(names)} names for {len(types)}.")
        if names is not None and len(set(names)) != len(names):
            raise ProgramError(f"A row type needs different names for its fields, found {list(names)}.")
        object.__setattr__(self, "_field_types", types)
        object.__setattr__(self, "_field_names", names)
        object.__setattr__(self, "_record_names", names or tuple(f"f{position}" for position in range(len(types))))

    def get_field_names(self) -> list[str]:
        """Return the names; Flink's ``f0``, ``f1``, … where none were given."""
        return list(self._record_names)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field, -1 if there is none of this name."""
        names = self.get_field_names()
        return names.index(field_name) if field_name in names else -1

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def _python_type(self) -> type:
        return Row

    def _contents_match(self, values: Sequence[Any]) -> bool:
        names = set(map(_fields_of, values))
        if None in names or (self._field_names is not None and names - {self._field_names}):
            return False
        return _columns_match(self._field_types, list(map(_values_of, values)))

    def _convert(self, values: list[Any]) -> list[Any]:
        kinds = set(map(type, values))
        if kinds == {Row} and set(map(_fields_of, values)) <= {None, self._record_names}:
            # A plain row: only the names are new. What the user made is never changed in place.
            columns = _convert_columns(self._field_types, _transpose(list(map(_values_of, values)), len(self)))
            if columns is not None:
                rows = zip(*columns, strict=True)
                return [
                    restore_row(self._record_names, row, kind)
                    for row, kind in zip(rows, map(_kind_of, values), strict=True)
                ]
        if kinds and kinds <= {tuple, list}:
            columns = _convert_columns(self._field_types, _transpose(values, len(self)))
            if columns is not None:
                return [restore_row(self._record_names, row) for row in zip(*columns, strict=True)]
        return TypeInformation._convert(self, values)

    def _admit_contents(self, value: Any) -> Any:
        ordered = self._in_order(value)
        admitted = _admit_fields(self, self._field_types, ordered, self.get_field_names())
        names = self._field_names or value._fields or self._record_names
        if admitted is None and ordered is value._values and names == value._fields:
            return value
        return restore_row(names, ordered if admitted is None else admitted, value.get_row_kind().value)

    def _in_order(self, row: Row) -> list[Any]:
        if self._field_names is None or row._fields is None or row._fields == self._field_names:
            return row._values
        if set(row._fields) != set(self._field_names):
            raise Rejected(row, self, f"its fields are {list(row._fields)}")
        return row.get_fields_by_names(self._field_names)

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, dict):
            names = self.get_field_names()
            unknown = [name for name in value if name not in names]
            if unknown:
                raise Rejected(value, self, f"it has the unknown keys {unknown}")
            value = [value.get(name) for name in names]
        if isinstance(value, (tuple, list)):
            return self._admit_contents(restore_row(self._record_names, value, RowKind.INSERT.value))
        raise Rejected(value, self)

    def __len__(self) -> int:
        return len(self._field_types)

    def __bool__(self) -> bool:
        return True  # a type is never falsy, not even one without fields

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A type is immutable: cannot set {name!r}.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RowTypeInfo)
            and self._field_types == other._field_types
            and self.get_field_names() == other.get_field_names()
        )

    def __hash__(self) -> int:
        return hash((RowTypeInfo, self._field_types))

    def __reduce__(self) -> tuple[Any, ...]:
        return RowTypeInfo, (self._field_types, self._field_names)

    def __repr__(self) -> str:
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(repr, self._field_types))})"
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type!r}' for name, field_type in pairs)})"


_NUMBERS = {BasicType.INT: "i", BasicType.LONG: "l", BasicType.DOUBLE: "g"}


def _numbers_of(types: tuple[TypeInformation, ...]) -> str | None:
    letters = [_NUMBERS.get(each._basic_type) if isinstance(each, BasicTypeInfo) else None for each in types]
    return "".join(map(str, letters)) if letters and None not in letters else None


def _checked_types(field_types: Iterable[TypeInformation]) -> tuple[TypeInformation, ...]:
    types = tuple(field_types)
    for position, field_type in enumerate(types):
        if not isinstance(field_type, TypeInformation):
            raise ProgramError(f"Field {position} needs a type such as Types.INT(), found {field_type!r}.")
    return types


def _transpose(records: Sequence[Any], arity: int) -> list[Sequence[Any]] | None:
    """Return the columns of the records, or None if one of them does not have ``arity`` fields."""
    if arity == 0 or not records:
        return [()] * arity if not any(map(len, records)) else None
    try:
        if arity in _UNPACKERS:
            return _UNPACKERS[arity](records)
        columns: list[Sequence[Any]] = list(zip(*records, strict=True))
    except ValueError:
        return None
    return columns if len(columns) == arity else None


# Most tuples are pairs and triples. For them unpacking takes two thirds of the time of zip, and checks the arity too.
_UNPACKERS: dict[int, Callable[[Sequence[Any]], list[Sequence[Any]]]] = {
    1: lambda records: [[a for (a,) in records]],
    2: lambda records: [[a for a, _ in records], [b for _, b in records]],
    3: lambda records: [[a for a, _, _ in records], [b for _, b, _ in records], [c for _, _, c in records]],
}


def _columns_match(types: tuple[TypeInformation, ...], records: Sequence[Any]) -> bool:
    chunk = max(1, len(records)) if len(types) in _UNPACKERS else _CHUNK
    for start in range(0, len(records), chunk):
        columns = _transpose(records[start : start + chunk], len(types))
        if columns is None:
            return False
        for field_type, column in zip(types, columns, strict=True):
            if not field_type._matches(column):
                return False
    return True


def _convert_columns(types: tuple[TypeInformation, ...], columns: list[Sequence[Any]] | None) -> list[list[Any]] | None:
    """Return every column converted to its type; None if the first bad record must be found one by one."""
    if not columns:
        return None
    try:
        return [field_type.conform(list(column)) for field_type, column in zip(types, columns, strict=True)]
    except TypeMismatchError:
        return None


def _admit_fields(
    owner: TypeInformation, types: tuple[TypeInformation, ...], values: Sequence[Any], names: list[str] | None = None
) -> list[Any] | None:
    """Return the admitted values, None if they are all as they were."""
    if len(values) != len(types):
        raise Rejected(values, owner, f"it has {len(values)} fields instead of {len(types)}")
    admitted = []
    for position, (field_type, value) in enumerate(zip(types, values, strict=True)):
        try:
            admitted.append(field_type._admit(value))
        except Rejected as rejected:
            raise rejected.under(f"[{position}]" if names is None else f".{names[position]}") from None
    return None if all(new is old for new, old in zip(admitted, values, strict=True)) else admitted
