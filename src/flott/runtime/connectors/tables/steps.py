"""What a table's log says, as steps to read one after the other. Driver side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flott.datastream.connectors.base import Json


@dataclass(frozen=True)
class DataFile:
    """A file to read, as it stands in the log."""

    path: str
    rows: int
    kind: str = "insert"  #: insert, delete: what the rows are; changes: each row says it itself
    #: By column, a value that is not in the file and its Arrow type, as texts.
    constants: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    deletes: tuple[str, ...] = ()  #: files that say which rows do not count any more


@dataclass(frozen=True)
class Step:
    """One version of a table, or its content at a version."""

    ident: Json  #: a list of JSON values; the position in the log
    files: tuple[DataFile, ...]
    next: Json | None  #: the step after it, there or not; None: the source ends here
    names: tuple[str, ...]  #: the columns, in order
    ids: tuple[int, ...] | None = None  #: their ids in files, where names may change
    ordered: bool = False  #: must not share an epoch with other steps, since subtasks have no order among them
    note: str = ""  #: what a reader calls it in an error

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


class TableLog(Protocol):
    """Reads the log of a table."""

    def open(self) -> None:
        """Look at the table; raise ``ProgramError`` if it cannot be read."""

    def first(self) -> Json | None:
        """Return the first step of a job without state; None: it has nothing to read, ever."""

    def load(self, ident: Json) -> Step | None:
        """Return a step; None: it is not there yet. Raises ``StateError`` if it is gone."""

    def close(self) -> None:
        """Let go of the table."""
