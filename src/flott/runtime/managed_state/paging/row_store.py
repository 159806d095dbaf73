"""What a backend provides for tables that do not fit into memory: a sorted map of bytes. Task side.

A backend stores rows and knows nothing of kinds of state. A kind of state knows how its entries become rows
(``kinds``) and nothing of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: First bytes of rows: what is committed, and what the running epoch has put aside because memory is short.
COMMITTED, PENDING = b"C", b"P"


class RowStore(Protocol):
    """A sorted map of bytes. Writes are seen after ``flush`` at the latest."""

    folder: Path  #: where the rows are, for error messages
    put_aside: bool  #: there are pending rows

    def get(self, row: bytes) -> bytes | None:
        """Return one row, committed or pending, by its whole name."""

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        """Return several rows at once."""

    def scan(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return all rows that begin with a prefix, in the order of their bytes, from ``start`` on.

        Rows that are written while the scan runs are not seen.
        """

    def put(self, row: bytes, value: bytes) -> None:
        """Write a row."""

    def delete(self, row: bytes) -> None:
        """Delete a row."""

    def delete_all(self, prefix: bytes) -> None:
        """Delete all rows that begin with a prefix, as a range, and flush."""

    def flush(self) -> None:
        """Make all writes visible to reads."""


@dataclass(frozen=True)
class TablePlace:
    """Where a table over rows stands: what the backend hands to a kind that makes one."""

    name: str  #: of the table
    namespaced: bool
    store: RowStore
    max_parallelism: int
    make_room: Callable[[], None]  #: lets go of objects if they take more memory than the operator may have
