"""The built-in aggregations of keyed streams as reduce functions: ``sum``, ``min``, ``max``, ``min_by``, ``max_by``.

The semantics are Flink's: ``sum``, ``min`` and ``max`` change one field of the accumulated record and keep its other
fields, which are those of the key's first record. ``min_by`` and ``max_by`` keep the whole record, the first of equal
ones. Records are copied and never changed, because the accumulated record may already have been emitted.

How a field is read and replaced depends on the kind of the records. It is determined by the first record of a task.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError

#: A position (from 0; negative ones count from the end) or a field name.
Position: TypeAlias = int | str
Reduce: TypeAlias = Callable[[Any, Any], Any]


def rolling_sum(position: Position = 0) -> RollingAggregation:
    """Return a function that sums one field.

    >>> rolling_sum(1)(("a", 1), ("a", 2))
    ('a', 3)
    >>> rolling_sum()(20, 22)
    42
    """
    return RollingAggregation("sum", position)


def rolling_min(position: Position = 0) -> RollingAggregation:
    """Return a function that keeps the smallest value of one field, and the other fields of the first record.

    >>> rolling_min("price")({"item": "tea", "price": 3}, {"item": "ink", "price": 2})
    {'item': 'tea', 'price': 2}
    """
    return RollingAggregation("min", position)


def rolling_max(position: Position = 0) -> RollingAggregation:
    """Return a function that keeps the largest value of one field, and the other fields of the first record."""
    return RollingAggregation("max", position)


def rolling_min_by(position: Position = 0) -> RollingAggregation:
    """Return a function that keeps the record with the smallest value in one field.

    >>> rolling_min_by("price")({"item": "tea", "price": 3}, {"item": "ink", "price": 2})
    {'item': 'ink', 'price': 2}
    """
    return RollingAggregation("min_by", position)


def rolling_max_by(position: Position = 0) -> RollingAggregation:
    """Return a function that keeps the record with the largest value in one field."""
    return RollingAggregation("max_by", position)


class RollingAggregation:
    """A reduce function that determines how to access its field with the first record.

    It is called like any reduce function. :meth:`reducer_for` saves a call per record if a record is available.
    """

    __slots__ = ("_reduce", "method", "position")

    def __init__(self, method: str, position: Position):
        if isinstance(position, bool) or not isinstance(position, (int, str)):
            raise ProgramError(
                f"{method}() needs the position of a field as an int or its name as a str, "
                f"found {position!r} of type {type(position).__name__}."
            )
        self.method = method
        self.position = position
        self._reduce: Reduce | None = None

    def reducer_for(self, record: Any) -> Reduce:
        """Return the reduce function for records of the same kind as this one."""
        return _REDUCERS[self.method](_field_of(record, self.position, self.method))

    def __call__(self, value1: Any, value2: Any) -> Any:
        if self._reduce is None:
            self._reduce = self.reducer_for(value1)
        return self._reduce(value1, value2)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RollingAggregation):
            return NotImplemented
        return (self.method, self.position) == (other.method, other.position)

    def __hash__(self) -> int:
        return hash((self.method, self.position))

    def __reduce__(self) -> tuple[Any, ...]:
        return RollingAggregation, (self.method, self.position)  # each task determines the kind again

    def __repr__(self) -> str:
        return f"{self.method}({self.position!r})"


# ---------------------------------------------------------------------------------------------------------------------
# Fields: how to read one, and how to copy a record with another value in it
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], Any]  #: (record, value) → a copy of the record


def _field_of(record: Any, position: Position, method: str) -> _Field:
    if isinstance(record, tuple):
        names = getattr(record, "_fields", None)
        if names is not None:
            return _named_tuple_field(names[_index(record, names, position, method)])
        return _tuple_field(_index(record, (), position, method))
    if isinstance(record, (list, Row)):
        names = (record._fields or ()) if isinstance(record, Row) else ()
        return _item_field(_index(record, names, position, method))
    if isinstance(record, dict):
        if position not in record:
            raise _no_field(record, position, method, f"the keys {list(record)}")
        return _item_field(position)
    if is_dataclass(record) and not isinstance(record, type):
        names = tuple(field.name for field in fields(record))
        return _dataclass_field(names[_index(names, names, position, method)])
    if position == 0:
        return _Field(get=lambda value: value, put=lambda _, value: value)
    raise _no_field(record, position, method, "only itself, at position 0")


def _index(record: Any, names: tuple[str, ...], position: Position, method: str) -> int:
    """Return the index of a field. Without names, Flink's ``f0``, ``f1`` … are used."""
    size = len(record)
    names = names or tuple(f"f{index}" for index in range(size))
    if isinstance(position, str) and position in names:
        return names.index(position)
    if isinstance(position, int) and -size <= position < size:
        return position % size
    raise _no_field(record, position, method, f"{size} fields: {', '.join(names)}" if size else "no fields")


def _no_field(record: Any, position: Position, method: str, has: str) -> TypeMismatchError:
    return TypeMismatchError(
        f"{method}({position!r}) found no such field in a record of type {type(record).__name__}, which has {has}. "
        f"Give the position or name of one of its fields, or map the stream to records that have it."
    )


def _tuple_field(index: int) -> _Field:
    following = index + 1
    return _Field(
        get=operator.itemgetter(index),
        put=lambda record, value: (*record[:index], value, *record[following:]),
    )


def _named_tuple_field(name: str) -> _Field:
    return _Field(get=operator.attrgetter(name), put=lambda record, value: record._replace(**{name: value}))


def _dataclass_field(name: str) -> _Field:
    return _Field(get=operator.attrgetter(name), put=lambda record, value: replace(record, **{name: value}))


def _item_field(key: Position) -> _Field:
    def put(record: Any, value: Any) -> Any:
        changed = copy.copy(record)
        changed[key] = value
        return changed

    return _Field(get=operator.itemgetter(key), put=put)


# ---------------------------------------------------------------------------------------------------------------------
# What is done with the field
# ---------------------------------------------------------------------------------------------------------------------


def _summing(field: _Field) -> Reduce:
    get, put = field.get, field.put
    return lambda value1, value2: put(value1, get(value1) + get(value2))


def _keeping_least(field: _Field) -> Reduce:
    get, put = field.get, field.put
    return lambda value1, value2: put(value1, get(value2)) if get(value2) < get(value1) else value1


def _keeping_greatest(field: _Field) -> Reduce:
    get, put = field.get, field.put
    return lambda value1, value2: put(value1, get(value2)) if get(value2) > get(value1) else value1


def _choosing_least(field: _Field) -> Reduce:
    get = field.get
    return lambda value1, value2: value2 if get(value2) < get(value1) else value1


def _choosing_greatest(field: _Field) -> Reduce:
    get = field.get
    return lambda value1, value2: value2 if get(value2) > get(value1) else value1


_REDUCERS: dict[str, Callable[[_Field], Reduce]] = {
    "sum": _summing,
    "min": _keeping_least,
    "max": _keeping_greatest,
    "min_by": _choosing_least,
    "max_by": _choosing_greatest,
}
