"""Compaction: several state files into one. Files in, a file out; nothing else is read or changed.

It goes key group by key group, so it needs the memory of one key group however large the files are, and it can run
anywhere: beside the epochs to keep sequences short, for a savepoint, to make a savepoint self-contained.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.common._ids import KeyGroup
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, remembered
from flott.runtime.managed_state.files.sequence_reader import applied, open_sequence
from flott.runtime.managed_state.files.state_file import create_state_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.key_groups import SameGroup
from flott.runtime.managed_state.kinds.registry import make_table
from flott.runtime.managed_state.kinds.table_kind import Delta
from flott.runtime.managed_state.ttl.time_to_live import Horizon, drop_expired
from flott.runtime.storage import Storage


@dataclass(frozen=True)
class CompactionOrder:
    """What to compact, and where to."""

    sequence: FileSequence  #: all files of an operator subtask, or a run of neighbours among them
    groups: tuple[int, int]  #: the key groups of the subtask, from and up to
    target: str  #: the name of the new file
    whole: bool  #: the sequence is complete from its beginning: the result is a base, and names nothing that is gone
    horizon: Horizon | None = None  #: a base leaves out what has expired by then, where the program wants it


def compact(order: CompactionOrder, storage: Storage) -> StateFile:
    """Write the compacted file and return the reference to it."""
    with open_sequence(order.sequence, range(*order.groups), storage) as sequence:
        headers = sequence.headers
        with create_state_file(storage, order.target, sequence.merged_headers()) as writer:
            for group in sequence.held_groups():
                if deltas := _compact_group(headers, sequence.deltas(group), group, order):
                    writer.add(group, deltas)
    return StateFile(order.target, writer.size, order.whole, remembered(order.sequence))


def _compact_group(
    headers: dict[str, TableHeader], found: dict[str, list[Delta]], group: KeyGroup, order: CompactionOrder
) -> dict[str, Delta]:
    compacted: dict[str, Delta] = {}
    for name, deltas in found.items():
        if order.whole:
            for delta in applied(headers[name], deltas).dump(SameGroup(group)).values():
                compacted[name] = _living(headers[name], delta, order.horizon)
        else:
            table = make_table(headers[name].kind, headers[name].namespaced)
            compacted[name] = deltas[0] if len(deltas) == 1 else table.merge(deltas)
    return compacted


def _living(header: TableHeader, base: Delta, horizon: Horizon | None) -> Delta:
    if header.ttl is None or horizon is None:
        return base
    return drop_expired(header.kind, base, header.ttl, horizon)
