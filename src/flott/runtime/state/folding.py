"""Folding: several state files into one. Files in, a file out; nothing else is read or changed.

It goes key group by key group, so it needs the memory of one key group however large the files are, and it can run
anywhere: beside the epochs to keep chains short, for a savepoint, to make a savepoint self-contained.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from flott.runtime.state.chains import Chain, StateFile, remembered
from flott.runtime.state.files import StateFileReader, create_state_file, open_state_file
from flott.runtime.state.table_header import TableHeader
from flott.runtime.state.table_kinds import make_table
from flott.runtime.state.tables import Delta
from flott.runtime.storage import LocalStorage


@dataclass(frozen=True)
class FoldOrder:
    """What to fold, and where to."""

    chain: Chain  #: all files of an operator subtask, or a run of neighbours among them
    groups: tuple[int, int]  #: the key groups of the subtask, from and up to
    target: str  #: the name of the new file
    whole: bool  #: the chain is complete from its beginning: the result is a base, and names nothing that is gone


def fold(order: FoldOrder, storage: LocalStorage) -> StateFile:
    """Write the folded file and return the reference to it."""
    groups = range(*order.groups)
    with ExitStack() as stack:
        readers = [stack.enter_context(open_state_file(storage, file.name)) for file in order.chain]
        headers = _headers(readers)
        with create_state_file(storage, order.target, headers.values()) as writer:
            for group in groups:
                counting = [
                    reader
                    for reader, file in zip(readers, order.chain, strict=True)
                    if group in file.within(groups)
                ]
                if deltas := _fold_group(counting, group, headers, order.whole):
                    writer.add(group, deltas)
    return StateFile(order.target, writer.size, order.whole, remembered(order.chain))


def _headers(readers: Iterable[StateFileReader]) -> dict[str, TableHeader]:
    """The tables of all files; what the newest says about a table counts."""
    return {table.name: table for reader in readers for table in reader.tables}


def _fold_group(
    readers: Iterable[StateFileReader], group: int, headers: dict[str, TableHeader], whole: bool
) -> dict[str, Delta]:
    found: dict[str, list[Delta]] = {}
    for reader in readers:
        for name, delta in reader.block(group).items():
            found.setdefault(name, []).append(delta)
    folded: dict[str, Delta] = {}
    for name, deltas in found.items():
        table = make_table(headers[name].kind, headers[name].namespaced)
        if whole:
            for delta in deltas:
                table.apply(delta)
            folded.update({name: delta for delta in table.dump(lambda entry: group).values()})
        else:
            folded[name] = deltas[0] if len(deltas) == 1 else table.merge(deltas)
    return folded
