"""The door to the Spark session of the driver: connectors are below the runtime of Spark and cannot import it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flott.errors import ProgramError


class TableSession(Protocol):
    """What a Spark session does with tables."""

    def count(self, table: str) -> int | None:
        """Return how many rows a table has; None: there is none."""

    def write(self, table: str, mode: str, files: Sequence[str]) -> None:
        """Write the rows of Parquet files into a table."""


_session: TableSession | None = None


def provide(session: TableSession) -> None:
    """Set the session of this process. The runtime of Spark calls this when it has a context."""
    global _session
    _session = session


def table_session() -> TableSession:
    """Return the session of this process."""
    if _session is None:
        raise ProgramError("A table of Spark is written by a job on Spark: set execution.target to spark.")
    return _session
