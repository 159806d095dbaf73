"""What the change data capture sources share: changes, how they become records, and where reading begins.

A specification only. ``postgres_cdc`` and ``mysql_cdc`` in this package have the sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from flott.common.types import Row, RowKind, restore_row
from flott.errors import ProgramError

__all__ = [
    "UNAVAILABLE_VALUE",
    "ChangeDeserializer",
    "ChangeRecord",
    "ChangelogRowDeserializer",
    "DebeziumDictDeserializer",
    "StartupMode",
    "StartupOptions",
]

T = TypeVar("T")

#: Stands for a value that the server did not send: it is large, did not change, and the log leaves it out. Debezium
#: uses the same text.
UNAVAILABLE_VALUE = "__debezium_unavailable_value"


class StartupMode(Enum):
    """Where a source begins if there is no checkpoint to continue from."""

    INITIAL = "initial"
    SNAPSHOT = "snapshot"
    LATEST_OFFSET = "latest-offset"
    COMMITTED_OFFSETS = "committed-offsets"
    EARLIEST_OFFSET = "earliest-offset"
    SPECIFIC_OFFSET = "specific-offset"


@dataclass(frozen=True)
class StartupOptions:
    """Where a source begins. A job that continues from a checkpoint continues where the checkpoint is.

    >>> StartupOptions.initial().mode
    <StartupMode.INITIAL: 'initial'>
    """

    mode: StartupMode
    offset: tuple[str, int] | None = None  #: a file of the binary log and a position in it

    @staticmethod
    def initial() -> StartupOptions:
        """Read the rows that are there, then the log."""
        return StartupOptions(StartupMode.INITIAL)

    @staticmethod
    def snapshot() -> StartupOptions:
        """Read the rows that are there, and end."""
        return StartupOptions(StartupMode.SNAPSHOT)

    @staticmethod
    def latest() -> StartupOptions:
        """Read the log from its present end."""
        return StartupOptions(StartupMode.LATEST_OFFSET)

    @staticmethod
    def committed() -> StartupOptions:
        """Read the log from the position that the replication slot confirmed last. PostgreSQL only."""
        return StartupOptions(StartupMode.COMMITTED_OFFSETS)

    @staticmethod
    def earliest() -> StartupOptions:
        """Read the log from the oldest file that the server still has. MySQL only."""
        return StartupOptions(StartupMode.EARLIEST_OFFSET)

    @staticmethod
    def specific_offset(file: str, position: int) -> StartupOptions:
        """Read the log from a position in one of its files. MySQL only."""
        if position < 4:
            raise ProgramError(f"The first event of a binary log is at position 4, found {position}.")
        return StartupOptions(StartupMode.SPECIFIC_OFFSET, (file, position))


class ChangeRecord(NamedTuple):
    """One change of one row, or one row of the snapshot."""

    #: Debezium's letters: ``r`` read in the snapshot, ``c`` created, ``u`` updated, ``d`` deleted, ``t`` truncated.
    op: str
    fields: tuple[str, ...]  #: the names of the columns
    before: list[Any] | None  #: the values before the change, as far as the server logs them
    after: list[Any] | None  #: the values after the change
    database: str
    schema: str  #: empty where the database has no schemas
    table: str
    ts_ms: int  #: when the transaction was committed; for the snapshot: when it began
    position: str  #: where in the log: an LSN, or a file and a position; for the snapshot, empty
    transaction: str  #: the transaction in the log, empty for the snapshot
    before_is_whole: bool  #: whether ``before`` has all columns; if not, only those of the key are set


class ChangeDeserializer(ABC, Generic[T]):
    """Turns changes into the records of the stream. It is called for every change, in a task."""

    @abstractmethod
    def deserialize(self, change: ChangeRecord) -> Sequence[T]:
        """Return the records of a change: none, one or several."""


_INSERT, _BEFORE, _AFTER, _DELETE = (kind.value for kind in RowKind)
_METADATA: dict[str, Callable[[ChangeRecord], Any]] = {
    "database_name": lambda change: change.database,
    "schema_name": lambda change: change.schema,
    "table_name": lambda change: change.table,
    "op_ts": lambda change: change.ts_ms,
    "position": lambda change: change.position,
}


@dataclass(frozen=True)
class ChangelogRowDeserializer(ChangeDeserializer[Row]):
    """Turns changes into rows with the names of the columns and a row kind, as a changelog stream has them.

    An update becomes a row of kind UPDATE_BEFORE, if the server logs the row as it was, and one of UPDATE_AFTER. A
    deleted row of which only the key is logged has None in its other fields. ``metadata`` names fields to be appended:
    ``database_name``, ``schema_name``, ``table_name``, ``op_ts`` (milliseconds) and ``position``.

    Rows cannot say that their table was emptied by TRUNCATE. The job fails then, unless ``ignore_truncate`` is set.
    """

    metadata: tuple[str, ...] = ()
    ignore_truncate: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "metadata", tuple(self.metadata))
        if unknown := [name for name in self.metadata if name not in _METADATA]:
            raise ProgramError(f"Found the metadata {unknown}, expected names out of {sorted(_METADATA)}.")

    def deserialize(self, change: ChangeRecord) -> Sequence[Row]:
        op, fields, before, after = change[:4]
        if op == "t":
            return self._truncated(change)
        if self.metadata:
            fields = (*fields, *self.metadata)
            extra = [_METADATA[name](change) for name in self.metadata]
            before = None if before is None else [*before, *extra]
            after = None if after is None else [*after, *extra]
        if op == "d":
            assert before is not None
            return (restore_row(fields, before, _DELETE),)
        assert after is not None
        if op != "u":
            return (restore_row(fields, after, _INSERT),)
        if before is None or not change.before_is_whole:
            return (restore_row(fields, after, _AFTER),)
        return (restore_row(fields, before, _BEFORE), restore_row(fields, after, _AFTER))

    def _truncated(self, change: ChangeRecord) -> Sequence[Row]:
        if self.ignore_truncate:
            return ()
        raise ProgramError(
            f"The table {change.table!r} was emptied by TRUNCATE at {change.position} of the log, which a changelog of"
            " rows cannot express. Use ChangelogRowDeserializer(ignore_truncate=True) if the rows that were read before"
            " may stay, or a deserializer that handles changes with op 't', such as DebeziumDictDeserializer."
        )


@dataclass(frozen=True)
class DebeziumDictDeserializer(ChangeDeserializer[dict[str, Any]]):
    """Turns changes into dicts of Debezium's form: ``op``, ``before``, ``after``, ``source``, ``ts_ms``.

    The values are Python's (``Decimal``, ``datetime``), not Debezium's encodings of them.
    """

    def deserialize(self, change: ChangeRecord) -> Sequence[dict[str, Any]]:
        op, fields, before, after, database, schema, table, ts_ms, position, transaction, whole = change
        if before is not None and not whole and op == "u":
            before = None
        record = {
            "op": op,
            "before": None if before is None else dict(zip(fields, before, strict=True)),
            "after": None if after is None else dict(zip(fields, after, strict=True)),
            "source": {
                "db": database,
                "schema": schema,
                "table": table,
                "ts_ms": ts_ms,
                "position": position,
                "transaction": transaction,
                "snapshot": op == "r",
            },
            "ts_ms": ts_ms,
        }
        return (record,)
