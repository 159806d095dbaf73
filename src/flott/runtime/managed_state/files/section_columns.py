"""Columns that the sections of several kinds of state have: entries, namespaces, items of maps. Pure.

``docs/formats/columns.md`` describes the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from flott.runtime.managed_state.files.column_bodies import INTS, PICKLES, Codec, Cursor, Parts, spell_number
from flott.runtime.managed_state.files.column_codec import codec_of
from flott.runtime.managed_state.files.column_records import TupleCodec
from flott.runtime.managed_state.files.table_header import TableHeader

_WINDOWS = TupleCodec((INTS, INTS))
#: What a namespace or a pane may be: a number, a window, the end of a window, or any object of the program.
_NAMESPACES: tuple[Codec, ...] = (INTS, _WINDOWS, TupleCodec((_WINDOWS,)), PICKLES)


class SectionTypes:
    """The codecs of the columns of one table."""

    __slots__ = ("key", "map_key", "namespaced", "value")

    def __init__(self, header: TableHeader):
        self.namespaced = header.namespaced
        self.key = codec_of(header.key_type)
        self.map_key = codec_of(header.map_key_type)
        value = codec_of(header.value_type)
        self.value = value if header.ttl is None else TupleCodec((value, INTS))  # with the time of the last access


def write_entries(types: SectionTypes, entries: Sequence[Any], parts: Parts) -> None:
    """Append how many entries there are, their keys and their namespaces."""
    parts.append(spell_number(len(entries)))
    if types.namespaced:
        types.key.write([key for key, _ in entries], parts)
        write_namespaces([namespace for _, namespace in entries], parts)
    else:
        types.key.write(list(entries), parts)


def read_entries(types: SectionTypes, cursor: Cursor) -> list[Any]:
    """Return the entries that ``write_entries`` wrote."""
    count = cursor.number()
    keys = types.key.read(cursor, count)
    return list(zip(keys, read_namespaces(cursor, count), strict=True)) if types.namespaced else keys


def write_namespaces(namespaces: list[Any], parts: Parts) -> None:
    """Append namespaces or panes, behind a number that says what they are."""
    number = _form_of(next((namespace for namespace in namespaces if namespace is not None), 0))
    parts.append(bytes((number,)))
    _NAMESPACES[number].write(namespaces, parts)


def _form_of(namespace: Any) -> int:
    kind = namespace.__class__
    if kind is tuple:
        return 2 if len(namespace) == 1 else 1
    return 0 if kind is int else 3


def read_namespaces(cursor: Cursor, count: int) -> list[Any]:
    """Return the namespaces or panes that ``write_namespaces`` wrote."""
    return _NAMESPACES[cursor.byte()].read(cursor, count)


def write_items(types: SectionTypes, maps: list[list[tuple[Any, Any]]], parts: Parts) -> None:
    """Append the items of maps: how many each has, all keys, all values."""
    INTS.write_known(list(map(len, maps)), parts)
    items = list(chain.from_iterable(maps))
    types.map_key.write([map_key for map_key, _ in items], parts)
    types.value.write([value for _, value in items], parts)


def read_items(types: SectionTypes, cursor: Cursor, count: int) -> list[list[tuple[Any, Any]]]:
    """Return the items of so many maps."""
    lengths = INTS.read(cursor, count)
    total = sum(lengths)
    items = zip(types.map_key.read(cursor, total), types.value.read(cursor, total), strict=True)
    return [list(islice(items, length)) for length in lengths]


def column(position: int, rows: Iterable[Any]) -> list[Any]:
    """Return what stands at a position of each row."""
    return [row[position] for row in rows]
