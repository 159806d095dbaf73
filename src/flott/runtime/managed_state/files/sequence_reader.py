"""A file sequence, opened for reading: what its files say together, key group by key group. Driver and task side.

Memory is that of one key group, however large the files are. To get one table, or one key group, nothing else is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from flott.common._ids import KeyGroup
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.files.header_spans import HeaderSpans
from flott.runtime.managed_state.files.state_file import StateFileReader, open_state_file
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.registry import make_table
from flott.runtime.managed_state.kinds.table_kind import Delta, Table
from flott.runtime.managed_state.ttl.time_to_live import newest
from flott.runtime.storage import Storage


@dataclass(frozen=True)
class SequenceReader:
    """The open files of a sequence, oldest first."""

    files: tuple[tuple[StateFile, StateFileReader], ...]
    groups: range  #: the key groups that are wanted
    plain: bool = False  #: records come without the classes of the program that wrote them

    @property
    def headers(self) -> dict[str, TableHeader]:
        """Return the tables of all files; what the newest says about a table counts.

        Files of several subtasks stand one after the other, so of times to live the one that was declared last counts.
        """
        found: dict[str, TableHeader] = {}
        for _, reader in self.files:
            for table in reader.tables:
                known = found.get(table.name)
                found[table.name] = table if known is None else replace(table, ttl=newest((known.ttl, table.ttl)))
        return found

    def merged_headers(self) -> list[TableHeader]:
        """Return the headers of a file that holds all of these: several of a table if its key groups differ in type."""
        spans = HeaderSpans()
        for file, reader in self.files:
            for table in reader.tables:
                spans.add(table, file.within(self.groups))
        return [
            replace(merged, ttl=header.ttl) for name, header in self.headers.items() for merged in spans.merged(name)
        ]

    def held_groups(self) -> list[KeyGroup]:
        """Return those of the wanted key groups that any file has a block of, ascending."""
        found = {group for file, reader in self.files for group in reader.groups if group in file.within(self.groups)}
        return sorted(found)

    def readers(self, group: KeyGroup) -> Iterator[tuple[StateFile, StateFileReader]]:
        """Return the files that count for a key group and have a block of it."""
        for file, reader in self.files:
            if group in file.within(self.groups) and reader.block_bytes(group):
                yield file, reader

    def deltas(self, group: KeyGroup) -> dict[str, list[Delta]]:
        """Return the changes of each table in a key group, oldest first."""
        found: dict[str, list[Delta]] = {}
        for _, reader in self.readers(group):
            for name, delta in reader.block(group, plain=self.plain).items():
                found.setdefault(name, []).append(delta)
        return found

    def newest_deltas(self, group: KeyGroup, table: str) -> Iterator[tuple[Delta, bool]]:
        """Return the changes of one table in a key group, newest first, each with whether older ones cannot matter."""
        for file, reader in reversed(list(self.readers(group))):
            delta = reader.table_delta(group, table, plain=self.plain)
            if delta is not None:
                yield delta, file.is_base
            if file.is_base:
                return

    def tables(self, group: KeyGroup) -> dict[str, Table]:
        """Return each table of a key group as it stands at the end of the sequence."""
        headers = self.headers
        return {name: applied(headers[name], deltas) for name, deltas in self.deltas(group).items()}

    def table(self, group: KeyGroup, name: str) -> Table | None:
        """Return one table of a key group as of the end of the sequence; None if the key group has nothing of it."""
        deltas = [delta for delta, _ in self.newest_deltas(group, name)]
        return applied(self.headers[name], reversed(deltas)) if deltas else None


def applied(header: TableHeader, deltas: Iterator[Delta] | list[Delta]) -> Table:
    """Return a table after some changes, oldest first."""
    table = make_table(header.kind, header.namespaced)
    for delta in deltas:
        table.apply(delta)
    return table


@contextmanager
def open_sequence(
    sequence: FileSequence, groups: range, storage: Storage, *, plain: bool = False
) -> Iterator[SequenceReader]:
    """Return a sequence, to be read for some key groups.

    ``plain``: without the classes of the program that wrote it.
    """
    with ExitStack() as stack:
        files = tuple((file, stack.enter_context(open_state_file(storage, file.name))) for file in sequence)
        yield SequenceReader(files, groups, plain)
