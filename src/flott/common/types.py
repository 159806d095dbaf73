"""Rows: the records of tables and of streams typed with ``Types.ROW``.

Plain values, used on the driver and in tasks. A row is mutable, as in PyFlink, so that ``row["f"] = x`` in a ported
program keeps working. A row that is used as a key must not be changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The kind of a row in a changelog. ``str()`` returns Flink's short form, such as ``+I``."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT_FORMS[self.value]


_SHORT_FORMS = ("+I", "-U", "+U", "-D")
_KINDS = tuple(RowKind)
_INSERT = RowKind.INSERT


class Row:
    """A fixed number of values, with or without field names.

    >>> Row(name="Alice", age=11)
    Row(name='Alice', age=11)
    >>> Row("Alice", 11)[0]
    'Alice'
    >>> Person = Row("name", "age")
    >>> Person("Alice", 11).age
    11

    A row without names also answers to Flink's default names ``f0``, ``f1``, …, by which PyFlink programs address
    the fields of a ``Types.ROW``.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _values: list[Any]
    _fields: tuple[str, ...] | None
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any):
        if args and kwargs:
            raise ValueError("A Row takes either positional or named values, found both: name all of them or none.")
        if kwargs:
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Create a row of the given kind, with the values as in the constructor."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the values by field name. ``recursive`` converts nested rows, also in lists and dicts."""
        if self._fields is None:
            raise TypeError(f"Only a row with field names becomes a dict, found {self!r}: use set_field_names first.")
        values = map(_without_rows, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        self._fields = tuple(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values in the order of ``names``, or all values if the row has no names."""
        if self._fields is None or tuple(names) == self._fields:
            return self._values
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise KeyError(f"Found no field {missing} in a row with the fields {list(self._fields)}.")
        return [self._values[self._fields.index(name)] for name in names]

    def _position(self, name: object) -> int | None:
        if self._fields is not None:
            return self._fields.index(name) if name in self._fields else None
        if isinstance(name, str) and name[:1] == "f" and name[1:].isdecimal() and int(name[1:]) < len(self._values):
            return int(name[1:])
        return None

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, (int, slice)):
            return self._values[item]
        position = self._position(item)
        if position is None:
            raise KeyError(item)
        return self._values[position]

    def __setitem__(self, key: Any, value: Any) -> None:
        position = key if isinstance(key, (int, slice)) else self._position(key)
        if position is None:
            raise KeyError(key)
        self._values[position] = value

    def __getattr__(self, item: str) -> Any:
        # Called only for names that are not attributes of the class. Underscored names are refused first, because copy
        # and pickle request some of them while the slots are empty.
        position = None if item.startswith("_") else self._position(item)
        if position is None:
            raise AttributeError(item)
        return self._values[position]

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __call__(self, *args: Any) -> Row:
        """Create a row with this row's values as field names: ``Row("name", "age")("Alice", 11)``."""
        if len(args) > len(self._values):
            raise ValueError(f"Found {len(args)} values for the {len(self._values)} fields of {self!r}.")
        return restore_row(tuple(self._values), args, self._row_kind.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        if self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        if self._fields is None or other._fields is None:
            return False
        return len(self._values) == len(other._values) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        # Equality ignores the order of names, and so must the hash.
        if self._fields is None:
            return hash(tuple(self._values))
        return hash(frozenset(zip(self._fields, self._values, strict=False)))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A common row is pickled as a plain call with its values.
        if self._fields is None and self._row_kind is _INSERT:
            return Row, tuple(self._values)
        # Uses _value_, because the property value is slower.
        return restore_row, (self._fields, tuple(self._values), self._row_kind._value_)


def restore_row(fields: tuple[str, ...] | None, values: Sequence[Any], kind: int = 0) -> Row:
    """Create a row from its parts. Unpickling and type conversion call it instead of the constructor."""
    row = Row.__new__(Row)
    row._fields = fields
    row._values = list(values)
    row._row_kind = _KINDS[kind]
    return row


def _without_rows(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_without_rows(element) for element in value]
    if isinstance(value, dict):
        return {key: _without_rows(element) for key, element in value.items()}
    return value
