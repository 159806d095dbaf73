"""The bytes of a section: the changes of one table in one key group. ``docs/formats/columns.md`` describes them.

Where the program declared no type, a section is one pickle of the delta. Where it declared one, the delta is taken
apart into columns (keys, namespaces, values, ...), each typed as far as its type is known. Each kind of state says in
its module which columns it has; operator state, which has no keys, is here.
"""

from __future__ import annotations

import pickle
from typing import NamedTuple

from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_bodies import Cursor, Parts, spell_number
from flott.runtime.managed_state.files.section_columns import SectionTypes, read_items, write_items
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import KINDS
from flott.runtime.managed_state.kinds.table_kind import Delta
from flott.runtime.managed_state.operator.operator_shares import Mode

_WHOLE = b"\0"
_COLUMNS = b"\1"

_OPERATOR_LISTS = frozenset({Mode.SPLIT.value, Mode.UNION.value})
_KNOWN = frozenset({*KINDS, *(mode.value for mode in Mode)})


class EncodedDelta(NamedTuple):
    """The changes of a table that have their bytes already."""

    data: bytes


def encode_delta(header: TableHeader, delta: Delta) -> bytes:
    """Return the bytes of a table's changes."""
    if delta.__class__ is EncodedDelta:
        return delta.data
    kind = KINDS.get(header.kind)
    if header.key_type is header.value_type is header.map_key_type is None or header.kind not in _KNOWN:
        return _WHOLE + pickle.dumps(delta if kind is None else kind.to_plain(delta), protocol=5)
    parts: Parts = [_COLUMNS]
    types = SectionTypes(header)
    if kind is not None:
        kind.write(types, delta, parts)
    elif header.kind in _OPERATOR_LISTS:
        parts.append(spell_number(len(delta)))
        types.value.write(delta, parts)
    else:
        write_items(types, [delta], parts)
    return b"".join(parts)


def decode_delta(header: TableHeader, data: bytes, *, plain: bool = False) -> Delta:
    """Return the changes in a section. ``plain``: records come without the classes of the program that wrote them."""
    layout, kind = data[:1], KINDS.get(header.kind)
    if layout == _WHOLE:
        content = pickle.loads(memoryview(data)[1:])
        return content if kind is None else kind.from_plain(content)
    if layout != _COLUMNS or header.kind not in _KNOWN:
        raise CorruptStateError(
            f"The changes of state {header.name!r} are written in a way ({layout!r}, {header.kind}) that this version"
            " of Flott does not know. Use the version of Flott that wrote them, or a later one."
        )
    types, cursor = SectionTypes(header), Cursor(data, plain, 1)
    if kind is not None:
        return kind.read(types, cursor)
    if header.kind in _OPERATOR_LISTS:
        return types.value.read(cursor, cursor.number())
    return read_items(types, cursor, 1)[0]
