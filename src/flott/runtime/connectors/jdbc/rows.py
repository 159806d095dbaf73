"""Turns records into rows of values, in the order of the columns. Runs in tasks, on every record."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from flott.common.time import Instant
from flott.common.types import Row, RowKind
from flott.errors import ProgramError

_values_of = attrgetter("_values")
_kind_of = attrgetter("_row_kind")
_CHANGES_ONLY = {RowKind.INSERT, RowKind.UPDATE_AFTER}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(values: Sequence[Any], columns: tuple[str, ...]) -> Sequence[Sequence[Any]]:
    """Return the values of the columns for each record: rows, dataclasses, dicts, or tuples in the columns' order."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return [_row_of(value, columns) for value in values]
    kind = kinds.pop()
    if kind is Row:
        if {*map(attrgetter("_fields"), values)} == {columns}:
            return list(map(_values_of, values))
    elif issubclass(kind, dict):
        try:
            return list(map(_getter(itemgetter, columns), values))
        except KeyError:
            pass  # find out which record lacks the field
    elif dataclasses.is_dataclass(kind):
        return list(map(_getter(attrgetter, columns), values))
    elif issubclass(kind, tuple | list) and {*map(len, values)} == {len(columns)} and not _is_renamed(kind, columns):
        return values
    return [_row_of(value, columns) for value in values]


def _getter(make: Any, columns: tuple[str, ...]) -> Callable[[Any], Sequence[Any]]:
    if len(columns) == 1:
        single = make(columns[0])
        return lambda value: (single(value),)
    getter: Callable[[Any], Sequence[Any]] = make(*columns)
    return getter


def _is_renamed(kind: type, columns: tuple[str, ...]) -> bool:
    return getattr(kind, "_fields", columns) != columns


def _row_of(value: Any, columns: tuple[str, ...]) -> Sequence[Any]:
    if isinstance(value, Row):
        if value._fields is None or set(value._fields) == {f"f{index}" for index in range(len(value._values))}:
            return _of_length(value._values, value, columns)
        return _named(dict(zip(value._fields, value._values, strict=True)), value, columns)
    if isinstance(value, Mapping):
        return _named(value, value, columns)
    if dataclasses.is_dataclass(value):
        return _named(vars(value) if hasattr(value, "__dict__") else _slots(value), value, columns)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _named(value._asdict(), value, columns)
    if isinstance(value, tuple | list):
        return _of_length(value, value, columns)
    if len(columns) == 1:
        return (value,)
    raise ProgramError(
        f"The sink writes the columns {list(columns)}, found the record {shown(value)}. Give it rows, dataclasses,"
        " dicts, or tuples with these fields."
    )


def _slots(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _of_length(found: Sequence[Any], value: Any, columns: tuple[str, ...]) -> Sequence[Any]:
    if len(found) != len(columns):
        raise ProgramError(
            f"The sink writes the {len(columns)} columns {list(columns)}, found {len(found)} values in the record"
            f" {shown(value)}."
        )
    return found


def _named(found: Mapping[str, Any], value: Any, columns: tuple[str, ...]) -> Sequence[Any]:
    missing = [name for name in columns if name not in found]
    if missing:
        raise ProgramError(
            f"The record {shown(value)} has no field {missing[0]!r}, which the sink writes to the column of this name."
            " Add the field, or choose the columns with set_columns()."
        )
    return [found[name] for name in columns]


def changes_of(
    values: Sequence[Any], rows: Sequence[Sequence[Any]]
) -> tuple[Sequence[Sequence[Any]], list[bool] | None]:
    """Return the rows without those of kind UPDATE_BEFORE, and which of them are deletions. None: no row is."""
    kinds = list(map(_kind_of, values)) if all(type(value) is Row for value in values) else list(map(_kind, values))
    found = set(kinds)
    if found <= _CHANGES_ONLY:
        return rows, None
    kept = [
        (row, kind is RowKind.DELETE)
        for row, kind in zip(rows, kinds, strict=True)
        if kind is not RowKind.UPDATE_BEFORE
    ]
    return [row for row, _ in kept], [deleted for _, deleted in kept]


def _kind(value: Any) -> RowKind:
    return value.get_row_kind() if isinstance(value, Row) else RowKind.INSERT


def check_inserts_only(values: Sequence[Any]) -> None:
    """Refuse changelog rows other than insertions: a sink that appends cannot take anything back."""
    for value in values:
        if type(value) is Row and value._row_kind is not RowKind.INSERT:
            raise ProgramError(
                f"The sink appends, found {shown(value)} of kind {value.get_row_kind().name}. Call upsert() with the"
                " columns of the key, so that rows can be changed and deleted."
            )


def adapted(rows: Sequence[Sequence[Any]], adapters: Mapping[type, Callable[[Any], Any]]) -> Sequence[Sequence[Any]]:
    """Return the rows with values converted that the driver does not take. Looks at types only, at C speed."""
    found = set(map(type, chain.from_iterable(rows)))
    wanted = {kind: adapt for kind in found if (adapt := _adapter(kind, adapters)) is not None}
    if not wanted:
        return rows
    return [[value if (adapt := wanted.get(type(value))) is None else adapt(value) for value in row] for row in rows]


def _adapter(kind: type, adapters: Mapping[type, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    if kind in adapters:
        return adapters[kind]
    if dataclasses.is_dataclass(kind) and kind is not Instant:
        return to_json
    return next((adapters[base] for base in kind.__mro__[1:-1] if base in adapters), None)


def to_json(value: Any) -> str:
    """Return a nested value as JSON text."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict() if value._fields is not None else list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _slots(value)
    return str(value)


def to_datetime(value: Instant) -> datetime:
    """Return a point in time, to the microsecond."""
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
