"""What a new state is made of: rows from anywhere, and how a key and a value are taken from each. Driver side.

Rows are a dict, any iterable, an Arrow table or a PySpark DataFrame. They are gone through once, when the savepoint is
written, and never held in memory as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.datastream.state._ttl import StateTtlConfig
from flott.errors import StateError, TypeMismatchError
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.operator.operator_shares import Mode
from flott.runtime.managed_state.schema.type_schema import schema_of
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive, table_name

#: How something is taken from a row: a column's name, several names (together a record, as a key a tuple), or a
#: function of the row.
Selector = str | Sequence[str] | Callable[[Any], Any]

Kind = Literal["value", "list", "map", "timers"]

#: What stands in a row of a state's table beside key and value.
_OTHER_COLUMNS = ("key", "map_key", "position", "timestamp", "window_start", "window_end", "namespace", "last_access")
#: So many rows are held against their types at once.
_BATCH = 1000


@dataclass(frozen=True)
class NewState:
    """A keyed state to be written. Made by ``value_state``, ``list_state``, ``map_state`` and ``timers``."""

    kind: Kind
    rows: Any
    key: Selector | None = None
    value: Selector | None = None
    map_key: Selector | None = None
    key_type: TypeInformation | None = None
    value_type: TypeInformation | None = None
    map_key_type: TypeInformation | None = None
    ttl: TimeToLive | None = None
    last_access: Selector | None = None

    def header(self, name: str, now_ms: int) -> TableHeader:
        """Return what its file will say about it."""
        ttl = None if self.ttl is None else replace(self.ttl, since_ms=now_ms)
        return TableHeader(
            table_name(name, ttl),
            self.kind,
            False,
            schema_of(self.key_type),
            schema_of(self.value_type) if kind_of(self.kind).has_values else None,
            schema_of(self.map_key_type),
            None if ttl is None else ttl.to_json(),
        )

    def entries(self, name: str, now_ms: int) -> Iterator[tuple[Any, Any, Any]]:
        """Key, map key (None unless it is a map) and value of every row; what lives for a time comes stamped."""
        batch: list[tuple[Any, Any, Any, Any]] = []
        for entry in self._raw(now_ms):
            batch.append(entry)
            if len(batch) == _BATCH:
                yield from self._conformed(name, batch)
                batch = []
        yield from self._conformed(name, batch)

    def _raw(self, now_ms: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Key, map key, value and time of last access of every row."""
        if isinstance(self.rows, Mapping):
            kind = kind_of(self.kind)
            for key, held in self.rows.items():
                yield from ((key, map_key, value, now_ms) for map_key, value in kind.spread_new(key, held))
            return
        for row in rows_of(self.rows):
            yield self._taken(row, now_ms)

    def _taken(self, row: Any, now_ms: int) -> tuple[Any, Any, Any, Any]:
        places = kind_of(self.kind).new_columns
        value_column = places[-1]
        selectors = {"key": self.key, "map_key": self.map_key, value_column: self.value}
        found = {
            place: take(row, selectors[place], place, position, len(places)) for position, place in enumerate(places)
        }
        stamp = now_ms
        if self.ttl is not None and self.last_access is not None:
            stamp = take(row, self.last_access, "last_access", len(places), len(places) + 1)
        return found["key"], found.get("map_key"), found[value_column], stamp

    def _conformed(self, name: str, batch: list[tuple[Any, Any, Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
        if not batch:
            return
        keys, map_keys, values, stamps = (list(column) for column in zip(*batch, strict=True))
        keys = _conform(name, "key", self.key_type, _hashable(self.key_type, keys))
        map_keys = _conform(name, "map key", self.map_key_type, _hashable(self.map_key_type, map_keys))
        values = _conform(name, "value", self.value_type, values)
        for key, map_key, value, stamp in zip(keys, map_keys, values, stamps, strict=True):
            if value is not None or kind_of(self.kind).spread is not None:  # one value that is None is the same as none
                yield key, map_key, value if self.ttl is None else (value, stamp)


def _hashable(info: TypeInformation | None, keys: list[Any]) -> list[Any]:
    """Return keys made of several columns: tuples, unless their type makes records of them."""
    if isinstance(info, RecordTypeInfo | RowTypeInfo):
        return keys
    return [tuple(key.values()) if isinstance(key, dict) else key for key in keys]


def _conform(name: str, what: str, info: TypeInformation | None, values: list[Any]) -> list[Any]:
    if info is None:
        return values
    try:
        return info.conform(values)
    except TypeMismatchError as error:
        raise StateError(f"The rows of state {name!r} have a {what} of another type: {error}") from error


# --- what users call -------------------------------------------------------------------------------------------------


def value_state(
    rows: Any,
    *,
    key: Selector | None = None,
    value: Selector | None = None,
    key_type: TypeHint | None = None,
    value_type: TypeHint | None = None,
    ttl: StateTtlConfig | None = None,
    last_access: Selector | None = None,
) -> NewState:
    """Return one value per key; also reducing state (the reduced value) and aggregating state (the accumulator).

    ``rows`` is a dict, pairs of key and value, or rows with columns: an Arrow table, a DataFrame, dicts. ``key`` and
    ``value`` say what to take from a row: a column, several (a record of them), or a function. Left out, the columns
    ``key`` and ``value`` are taken, or without a column ``value`` all other columns as a record. If a key comes twice,
    the last row counts. Declare the types that the program declares: then anybody can read the state without its
    classes.

    ``ttl``: the state's time to live, if it has one; ``last_access`` says when that began (now, if left out).
    """
    state = NewState("value", rows, key, value)
    return _typed(state, key_type, value_type, None, ttl, last_access)


def list_state(
    rows: Any,
    *,
    key: Selector | None = None,
    value: Selector | None = None,
    key_type: TypeHint | None = None,
    value_type: TypeHint | None = None,
    ttl: StateTtlConfig | None = None,
    last_access: Selector | None = None,
) -> NewState:
    """A list per key: a dict of lists, or one row for every item, in order. ``value_type`` is that of an item."""
    return _typed(NewState("list", rows, key, value), key_type, value_type, None, ttl, last_access)


def map_state(
    rows: Any,
    *,
    key: Selector | None = None,
    map_key: Selector | None = None,
    value: Selector | None = None,
    key_type: TypeHint | None = None,
    map_key_type: TypeHint | None = None,
    value_type: TypeHint | None = None,
    ttl: StateTtlConfig | None = None,
    last_access: Selector | None = None,
) -> NewState:
    """Return a map per key: a dict of dicts, or one row (key, map key, value) for every item."""
    return _typed(NewState("map", rows, key, value, map_key), key_type, value_type, map_key_type, ttl, last_access)


def timers(
    rows: Any, *, key: Selector | None = None, timestamp: Selector | None = None, key_type: TypeHint | None = None
) -> NewState:
    """Timers of keys: a dict of lists of timestamps, or rows of key and timestamp, in milliseconds."""
    return _typed(NewState("timers", rows, key, timestamp), key_type, Types.LONG(), None, None, None)


def _typed(
    state: NewState,
    key_type: TypeHint | None,
    value_type: TypeHint | None,
    map_key_type: TypeHint | None,
    ttl: StateTtlConfig | None,
    last_access: Selector | None,
) -> NewState:
    return replace(
        state,
        key_type=None if key_type is None else type_of(key_type),
        value_type=None if value_type is None else type_of(value_type),
        map_key_type=None if map_key_type is None else type_of(map_key_type),
        ttl=TimeToLive.of(ttl),
        last_access=last_access,
    )


@dataclass(frozen=True)
class NewOperatorState:
    """An operator state to be written. Made by ``split_state``, ``union_state`` and ``broadcast_state``."""

    mode: Mode
    items: tuple[Any, ...]
    value_type: TypeInformation | None = None
    key_type: TypeInformation | None = None


def split_state(items: Iterable[Any], *, value_type: TypeHint | None = None) -> NewOperatorState:
    """A list whose items are divided among the subtasks: what ``get_list_state`` of an operator state store gives."""
    return _operator_state(Mode.SPLIT, items, value_type)


def union_state(items: Iterable[Any], *, value_type: TypeHint | None = None) -> NewOperatorState:
    """Return a list that every subtask gets whole."""
    return _operator_state(Mode.UNION, items, value_type)


def broadcast_state(
    items: Mapping[Any, Any], *, key_type: TypeHint | None = None, value_type: TypeHint | None = None
) -> NewOperatorState:
    """Return a map that every subtask gets."""
    made = _operator_state(Mode.BROADCAST, items.items(), value_type)
    return replace(made, key_type=None if key_type is None else type_of(key_type))


def _operator_state(mode: Mode, items: Iterable[Any], value_type: TypeHint | None) -> NewOperatorState:
    return NewOperatorState(mode, tuple(items), None if value_type is None else type_of(value_type))


# --- rows ------------------------------------------------------------------------------------------------------------


def rows_of(rows: Any) -> Iterator[Any]:
    """Return the rows of whatever was given; those of tables as dicts."""
    if "pyspark" in sys.modules:
        from flott.runtime.spark.state_frames import is_frame, rows_of_frame

        if is_frame(rows):
            return rows_of_frame(rows)
    if hasattr(rows, "to_batches"):  # an Arrow table
        return (row for batch in rows.to_batches() for row in batch.to_pylist())
    return iter(rows)


def take(row: Any, selector: Selector | None, column: str, position: int, width: int) -> Any:
    """Return what a selector takes from a row; by default a column, or of a tuple the part at this position."""
    if callable(selector):
        return selector(row)
    if selector is not None:
        if isinstance(selector, str):
            return _column(row, selector)
        return {name: _column(row, name) for name in selector}
    if not isinstance(row, Mapping):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != width:
            raise StateError(f"A row of a new state has {width} parts, or columns with names; found {row!r}.")
        return row[position]
    if column in row or column != "value":
        return _column(row, column)
    return {name: cell for name, cell in row.items() if name not in _OTHER_COLUMNS}


def _column(row: Any, name: str) -> Any:
    try:
        return row[name] if isinstance(row, Mapping) else getattr(row, name)
    except (KeyError, AttributeError):
        known = f"it has {', '.join(map(repr, row))}" if isinstance(row, Mapping) else f"it is {row!r}"
        raise StateError(f"A row of a new state has no column {name!r}: {known}.") from None
