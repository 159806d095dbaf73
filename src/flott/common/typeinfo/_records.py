"""Records that are instances of a class of the program's: dataclasses, named tuples and typed dicts.

    RecordTypeInfo            a class, and its fields with their types
    ├── DataclassTypeInfo
    ├── NamedTupleTypeInfo
    └── TypedDictTypeInfo     … some of which may be missing

Records stay what they are. Where a field has to be converted the record is copied, never changed in place. A batch is
checked by columns, as tuples are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter, eq, ge, le
from typing import Any, cast

from flott.common.typeinfo._basic import PickledBytesTypeInfo
from flott.common.typeinfo._composite import _admit_fields, _columns_match, _convert_columns, _transpose
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import Row


@dataclass(frozen=True, slots=True, repr=False)
class RecordTypeInfo(TypeInformation):
    """A class and its fields. A dict, or a row with names, becomes an instance."""

    _record_class: type
    _field_names: tuple[str, ...]
    _field_types: tuple[TypeInformation, ...]

    def get_record_class(self) -> type:
        """Return the class of the records, as the program wrote it."""
        return self._record_class

    def get_field_names(self) -> list[str]:
        return list(self._field_names)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def _python_type(self) -> type:
        return self._record_class

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, Row) and value._fields is not None:
            value = value.as_dict()
        if not isinstance(value, dict):
            raise Rejected(value, self)
        fields = self._admit_items(value)
        try:
            return self._record_class(**fields)
        except Exception as error:  # a field without a value, or the class's own checks
            raise Rejected(value, self, f"{type(error).__name__}: {error}") from None

    def _admit_items(self, value: dict[Any, Any]) -> dict[str, Any]:
        """Return the admitted fields of a dict, which may leave some out."""
        unknown = [name for name in value if name not in self._field_names]
        if unknown:
            raise Rejected(value, self, f"it has the unknown keys {unknown}")
        return {
            name: _admit_field(field_type, value[name], f".{name}")
            for name, field_type in zip(self._field_names, self._field_types, strict=True)
            if name in value
        }

    def __repr__(self) -> str:
        fields = zip(self._field_names, self._field_types, strict=True)
        listed = ", ".join(f"{name}: {field_type!r}" for name, field_type in fields)
        return f"{type(self).__name__}<{self._record_class.__name__}>({listed})"


@dataclass(frozen=True, slots=True, repr=False)
class DataclassTypeInfo(RecordTypeInfo):
    """Instances of a dataclass."""

    def _contents_match(self, values: Sequence[Any]) -> bool:
        try:
            return all(
                field_type._matches(list(map(attrgetter(name), values)))
                for name, field_type in zip(self._field_names, self._field_types, strict=True)
                if not isinstance(field_type, PickledBytesTypeInfo)
            )
        except AttributeError:
            return False  # a field was deleted: find out whose

    def _admit_contents(self, value: Any) -> Any:
        changed: dict[str, Any] = {}
        for name, field_type in zip(self._field_names, self._field_types, strict=True):
            try:
                found = getattr(value, name)
            except AttributeError:
                raise Rejected(value, self, f"it has no field {name!r}") from None
            admitted = _admit_field(field_type, found, f".{name}")
            if admitted is not found:
                changed[name] = admitted
        if not changed:
            return value
        converted = copy.copy(value)
        for name, admitted in changed.items():
            object.__setattr__(converted, name, admitted)  # also where the class is frozen: it is our own copy
        return converted


@dataclass(frozen=True, slots=True, repr=False)
class NamedTupleTypeInfo(RecordTypeInfo):
    """Named tuples. A plain tuple or a list becomes one as well."""

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return _columns_match(self._field_types, values)

    def _convert(self, values: list[Any]) -> list[Any]:
        if set(map(type, values)) <= {tuple, list, self._record_class}:
            columns = _convert_columns(self._field_types, _transpose(values, len(self._field_types)))
            if columns is not None:
                return list(map(_maker(self._record_class), zip(*columns, strict=True)))
        return TypeInformation._convert(self, values)

    def _admit_contents(self, value: Any) -> Any:
        admitted = _admit_fields(self, self._field_types, value, list(self._field_names))
        return value if admitted is None else _maker(type(value))(admitted)

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)) or (isinstance(value, Row) and value._fields is None):
            fields = list(value)
            admitted = _admit_fields(self, self._field_types, fields, list(self._field_names))
            return _maker(self._record_class)(fields if admitted is None else admitted)
        return RecordTypeInfo._convert_one(self, value)


@dataclass(frozen=True, slots=True, repr=False)
class TypedDictTypeInfo(RecordTypeInfo):
    """Dicts with the keys of a ``TypedDict``: every required one, and no other."""

    _required: frozenset[str]

    def _python_type(self) -> type:
        return dict

    def _contents_match(self, values: Sequence[Any]) -> bool:
        names = frozenset(self._field_names)
        if all(map(eq, map(dict.keys, values), repeat(names))):
            columns = ([record[name] for record in values] for name in self._field_names)
        elif self._keys_match(values, names):
            columns = ([record[name] for record in values if name in record] for name in self._field_names)
        else:
            return False
        return all(field_type._matches(column) for field_type, column in zip(self._field_types, columns, strict=True))

    def _keys_match(self, values: Sequence[Any], names: frozenset[str]) -> bool:
        at_least = all(map(ge, map(dict.keys, values), repeat(self._required)))
        return at_least and all(map(le, map(dict.keys, values), repeat(names)))

    def _admit_contents(self, value: Any) -> Any:
        missing = sorted(self._required - value.keys())
        if missing:
            raise Rejected(value, self, f"it has no {missing}")
        admitted = self._admit_items(value)
        unchanged = all(admitted[name] is found for name, found in value.items())
        return value if unchanged else {name: admitted[name] for name in value}

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, Row) and value._fields is not None:
            return self._admit_contents(value.as_dict())
        raise Rejected(value, self)


def _admit_field(field_type: TypeInformation, value: Any, step: str) -> Any:
    try:
        return field_type._admit(value)
    except Rejected as rejected:
        raise rejected.under(step) from None


def _maker(named_tuple: type) -> Callable[[Sequence[Any]], Any]:
    return cast(Callable[[Sequence[Any]], Any], named_tuple._make)  # type: ignore[attr-defined]
