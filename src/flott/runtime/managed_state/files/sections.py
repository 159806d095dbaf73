"""The bytes of a section: the changes of one table in one key group. ``docs/formats/columns.md`` describes them.

Where the program declared no type, a section is one pickle of the delta. Where it declared one, the delta is taken
apart into columns (keys, namespaces, values, …), each typed as far as its type is known. What a delta looks like is the
table's affair; here stands, once per kind of table, in which order its columns are written and read.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_bodies import BOOLEANS, INTS, PICKLES, Codec, Cursor, Parts, spell_number
from flott.runtime.managed_state.files.column_codec import codec_of
from flott.runtime.managed_state.files.column_records import TupleCodec, read_lists, write_lists
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.tables import Delta, ListTable, MapTable, ValueTable
from flott.runtime.managed_state.kinds.timelines import TimelineTable
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.operator.operator_shares import Mode

_WHOLE = b"\0"
_COLUMNS = b"\1"

_WINDOWS = TupleCodec((INTS, INTS))
#: What a namespace or a pane may be: a number, a window, the end of a window, or whatever the program made.
_NAMESPACES: tuple[Codec, ...] = (INTS, _WINDOWS, TupleCodec((_WINDOWS,)), PICKLES)


def encode_delta(header: TableHeader, delta: Delta) -> bytes:
    """The bytes of a table's changes."""
    if header.key_type is header.value_type is header.map_key_type is None or header.kind not in _LAYOUTS:
        return _WHOLE + pickle.dumps(delta, protocol=5)
    parts: Parts = [_COLUMNS]
    _LAYOUTS[header.kind][0](_Types(header), delta, parts)
    return b"".join(parts)


def decode_delta(header: TableHeader, data: bytes, *, plain: bool = False) -> Delta:
    """The changes in a section. ``plain``: records come without the classes of the program that wrote them."""
    layout = data[:1]
    if layout == _WHOLE:
        return pickle.loads(memoryview(data)[1:])  # type: ignore[no-any-return]
    if layout != _COLUMNS or header.kind not in _LAYOUTS:
        raise CorruptStateError(
            f"The changes of state {header.name!r} are written in a way ({layout!r}, {header.kind}) that this version"
            " of Flott does not know. Use the version of Flott that wrote them, or a later one."
        )
    return _LAYOUTS[header.kind][1](_Types(header), Cursor(data, plain, 1))


class _Types:
    """What the columns of a table are made of."""

    __slots__ = ("key", "map_key", "namespaced", "value")

    def __init__(self, header: TableHeader):
        self.namespaced = header.namespaced
        self.key = codec_of(header.key_type)
        self.map_key = codec_of(header.map_key_type)
        value = codec_of(header.value_type)
        self.value = value if header.ttl is None else TupleCodec((value, INTS))  # with the time of the last access


# ---------------------------------------------------------------------------------------------------------------------
# What several kinds have
# ---------------------------------------------------------------------------------------------------------------------


def _write_entries(types: _Types, entries: Sequence[Any], parts: Parts) -> None:
    """How many entries, their keys, their namespaces."""
    parts.append(spell_number(len(entries)))
    if types.namespaced:
        types.key.write([key for key, _ in entries], parts)
        _write_namespaces([namespace for _, namespace in entries], parts)
    else:
        types.key.write(list(entries), parts)


def _read_entries(types: _Types, cursor: Cursor) -> list[Any]:
    count = cursor.number()
    keys = types.key.read(cursor, count)
    return list(zip(keys, _read_namespaces(cursor, count), strict=True)) if types.namespaced else keys


def _write_namespaces(namespaces: list[Any], parts: Parts) -> None:
    number = _form_of(next((namespace for namespace in namespaces if namespace is not None), 0))
    parts.append(bytes((number,)))
    _NAMESPACES[number].write(namespaces, parts)


def _form_of(namespace: Any) -> int:
    kind = namespace.__class__
    if kind is tuple:
        return 2 if len(namespace) == 1 else 1
    return 0 if kind is int else 3


def _read_namespaces(cursor: Cursor, count: int) -> list[Any]:
    return _NAMESPACES[cursor.byte()].read(cursor, count)


def _write_items(types: _Types, maps: list[list[tuple[Any, Any]]], parts: Parts) -> None:
    """The items of maps: how many each has, all keys, all values."""
    INTS.write_known(list(map(len, maps)), parts)
    items = list(chain.from_iterable(maps))
    types.map_key.write([map_key for map_key, _ in items], parts)
    types.value.write([value for _, value in items], parts)


def _read_items(types: _Types, cursor: Cursor, count: int) -> list[list[tuple[Any, Any]]]:
    lengths = INTS.read(cursor, count)
    total = sum(lengths)
    items = zip(types.map_key.read(cursor, total), types.value.read(cursor, total), strict=True)
    return [list(islice(items, length)) for length in lengths]


def _column(position: int, rows: Iterable[Any]) -> list[Any]:
    return [row[position] for row in rows]


# ---------------------------------------------------------------------------------------------------------------------
# The kinds
# ---------------------------------------------------------------------------------------------------------------------


def _write_values(types: _Types, delta: Delta, parts: Parts) -> None:
    entries, values, deleted = delta
    _write_entries(types, entries, parts)
    types.value.write(values, parts)
    _write_entries(types, deleted, parts)


def _read_values(types: _Types, cursor: Cursor) -> Delta:
    entries = _read_entries(types, cursor)
    return [entries, types.value.read(cursor, len(entries)), _read_entries(types, cursor)]


def _write_list_changes(types: _Types, delta: Delta, parts: Parts) -> None:
    whole, appended, deleted = delta
    _write_entries(types, _column(0, whole), parts)
    write_lists(types.value, _column(1, whole), parts)
    _write_entries(types, _column(0, appended), parts)
    INTS.write(_column(1, appended), parts)
    write_lists(types.value, _column(2, appended), parts)
    _write_entries(types, deleted, parts)


def _read_list_changes(types: _Types, cursor: Cursor) -> Delta:
    entries = _read_entries(types, cursor)
    whole = list(zip(entries, read_lists(types.value, cursor, len(entries)), strict=True))
    entries = _read_entries(types, cursor)
    positions = INTS.read(cursor, len(entries))
    tails = read_lists(types.value, cursor, len(entries))
    return [whole, list(zip(entries, positions, tails, strict=True)), _read_entries(types, cursor)]


def _write_map_changes(types: _Types, delta: Delta, parts: Parts) -> None:
    _write_entries(types, _column(0, delta), parts)
    BOOLEANS.write(_column(1, delta), parts)
    write_lists(types.map_key, _column(2, delta), parts)
    _write_items(types, _column(3, delta), parts)
    _write_items(types, _column(4, delta), parts)


def _read_map_changes(types: _Types, cursor: Cursor) -> Delta:
    entries = _read_entries(types, cursor)
    count = len(entries)
    cleared = BOOLEANS.read(cursor, count)
    removed = read_lists(types.map_key, cursor, count)
    updated = _read_items(types, cursor, count)
    return list(zip(entries, cleared, removed, updated, _read_items(types, cursor, count), strict=True))


def _write_timers(types: _Types, delta: Delta, parts: Parts) -> None:
    for timers in delta:
        parts.append(spell_number(len(timers)))
        INTS.write(_column(0, timers), parts)
        types.key.write(_column(1, timers), parts)
        _write_namespaces(_column(2, timers), parts)


def _read_timers(types: _Types, cursor: Cursor) -> Delta:
    return [_read_timer_run(types, cursor) for _ in range(2)]


def _read_timer_run(types: _Types, cursor: Cursor) -> list[Any]:
    count = cursor.number()
    timestamps = INTS.read(cursor, count)
    keys = types.key.read(cursor, count)
    return list(zip(timestamps, keys, _read_namespaces(cursor, count), strict=True))


def _write_panes(types: _Types, delta: Delta, parts: Parts) -> None:
    put, gone = delta
    _write_pane_keys(types, put, parts)
    types.value.write(list(chain.from_iterable(_column(2, put))), parts)
    _write_pane_keys(types, gone, parts)


def _read_panes(types: _Types, cursor: Cursor) -> Delta:
    panes, keys = _read_pane_keys(types, cursor)
    values = iter(types.value.read(cursor, sum(map(len, keys))))
    put = [(pane, held, list(islice(values, len(held)))) for pane, held in zip(panes, keys, strict=True)]
    return [put, list(zip(*_read_pane_keys(types, cursor), strict=True))]


def _write_list_panes(types: _Types, delta: Delta, parts: Parts) -> None:
    put, gone = delta
    _write_pane_keys(types, put, parts)
    tails = list(chain.from_iterable(_column(2, put)))
    INTS.write(_column(0, tails), parts)
    write_lists(types.value, _column(1, tails), parts)
    _write_pane_keys(types, gone, parts)


def _read_list_panes(types: _Types, cursor: Cursor) -> Delta:
    panes, keys = _read_pane_keys(types, cursor)
    count = sum(map(len, keys))
    positions = INTS.read(cursor, count)
    tails = zip(positions, read_lists(types.value, cursor, count), strict=True)
    put = [(pane, held, list(islice(tails, len(held)))) for pane, held in zip(panes, keys, strict=True)]
    return [put, list(zip(*_read_pane_keys(types, cursor), strict=True))]


def _write_pane_keys(types: _Types, panes: Sequence[Any], parts: Parts) -> None:
    parts.append(spell_number(len(panes)))
    _write_namespaces(_column(0, panes), parts)
    write_lists(types.key, _column(1, panes), parts)


def _read_pane_keys(types: _Types, cursor: Cursor) -> tuple[list[Any], list[list[Any]]]:
    count = cursor.number()
    return _read_namespaces(cursor, count), read_lists(types.key, cursor, count)


def _write_timelines(types: _Types, delta: Delta, parts: Parts) -> None:
    group, additions, horizon, trimmed = delta
    parts.append(spell_number(len(additions)))
    INTS.write([group, horizon, *_column(0, additions)], parts)
    write_lists(types.key, _column(1, additions), parts)
    INTS.write(list(chain.from_iterable(_column(2, additions))), parts)
    types.value.write(list(chain.from_iterable(_column(3, additions))), parts)
    _write_entries(types, trimmed, parts)


def _read_timelines(types: _Types, cursor: Cursor) -> Delta:
    count = cursor.number()
    group, horizon, *generations = INTS.read(cursor, count + 2)
    keys = read_lists(types.key, cursor, count)
    total = sum(map(len, keys))
    timestamps, values = iter(INTS.read(cursor, total)), iter(types.value.read(cursor, total))
    additions = [
        (generation, held, list(islice(timestamps, len(held))), list(islice(values, len(held))))
        for generation, held in zip(generations, keys, strict=True)
    ]
    return [group, additions, horizon, _read_entries(types, cursor)]


def _write_operator_list(types: _Types, delta: Delta, parts: Parts) -> None:
    parts.append(spell_number(len(delta)))
    types.value.write(delta, parts)


def _read_operator_list(types: _Types, cursor: Cursor) -> Delta:
    return types.value.read(cursor, cursor.number())


def _write_broadcast(types: _Types, delta: Delta, parts: Parts) -> None:
    _write_items(types, [delta], parts)


def _read_broadcast(types: _Types, cursor: Cursor) -> Delta:
    return _read_items(types, cursor, 1)[0]


_Write = Callable[[_Types, Delta, Parts], None]
_Read = Callable[[_Types, Cursor], Delta]

_LAYOUTS: dict[str, tuple[_Write, _Read]] = {
    ValueTable.kind: (_write_values, _read_values),
    ListTable.kind: (_write_list_changes, _read_list_changes),
    MapTable.kind: (_write_map_changes, _read_map_changes),
    TimerTable.kind: (_write_timers, _read_timers),
    PaneTable.kind: (_write_panes, _read_panes),
    ListPaneTable.kind: (_write_list_panes, _read_list_panes),
    TimelineTable.kind: (_write_timelines, _read_timelines),
    Mode.SPLIT.value: (_write_operator_list, _read_operator_list),
    Mode.UNION.value: (_write_operator_list, _read_operator_list),
    Mode.BROADCAST.value: (_write_broadcast, _read_broadcast),
}
