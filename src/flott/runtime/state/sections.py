"""The bytes of a section: the changes of one table in one key group."""

from __future__ import annotations

import pickle

from flott.runtime.state.table_header import TableHeader
from flott.runtime.state.tables import Delta


def encode_delta(header: TableHeader, delta: Delta) -> bytes:
    """The bytes of a table's changes."""
    return pickle.dumps(delta, protocol=5)


def decode_delta(header: TableHeader, data: bytes, *, plain: bool = False) -> Delta:
    """The changes in a section. ``plain``: records come without the classes of the program that wrote them."""
    return pickle.loads(data)  # type: ignore[no-any-return]
