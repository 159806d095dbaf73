"""The table sink: records become rows of a table, appended or by key. A specification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import (
    Committer,
    DeliveryGuarantee,
    Guarantee,
    Sink,
    SinkWriter,
    WriterContext,
)
from flott.datastream.connectors.jdbc._address import Dialect
from flott.datastream.connectors.jdbc._options import JdbcConnectionOptions, JdbcExecutionOptions
from flott.errors import ProgramError


class CommitBy(Enum):
    """How an epoch's rows become visible exactly once."""

    #: Tasks write into a staging table. The rows are moved into the table by one transaction after the checkpoint.
    STAGING = "staging"
    #: Every task prepares a transaction, which is committed after the checkpoint. It holds its locks until then.
    PREPARED_TRANSACTION = "prepared transaction"


_EXECUTION = JdbcExecutionOptions(batch_size=20_000)


@dataclass(frozen=True)
class JdbcTableSink(Sink[Any]):
    """Writes records into a table: appends them, or inserts, updates and deletes rows by key.

    >>> sink = (
    ...     JdbcTableSink.builder()
    ...     .set_url("jdbc:sqlite:/tmp/shop.db")
    ...     .set_table("totals")
    ...     .upsert("customer")
    ...     .build()
    ... )
    >>> sink.guarantee
    <Guarantee.IDEMPOTENT: 'idempotent'>
    """

    connection_options: JdbcConnectionOptions
    table: str  #: with its schema, if that is not the default one
    columns: tuple[str, ...] = ()  #: empty: the fields of the declared type; without one, the columns of the table
    key: tuple[str, ...] = ()  #: empty: append
    execution_options: JdbcExecutionOptions = _EXECUTION
    delivery: DeliveryGuarantee | None = None  #: None: exactly once for append, idempotent for upsert
    commit_by: CommitBy = CommitBy.STAGING
    create_table: bool = False

    @staticmethod
    def builder() -> JdbcTableSink.Builder:
        """Start building."""
        return JdbcTableSink.Builder()

    @property
    def exactly_once(self) -> bool:
        """Whether rows become visible with the checkpoint only."""
        if self.delivery is None:
            return not self.key
        return self.delivery is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def waits_for_commits(self) -> bool:
        return self.exactly_once and self.commit_by is CommitBy.PREPARED_TRANSACTION

    @property
    def guarantee(self) -> Guarantee:
        if self.exactly_once:
            return Guarantee.EXACTLY_ONCE
        return Guarantee.IDEMPOTENT if self.key else Guarantee.AT_LEAST_ONCE

    def validate_records(self, record_type: TypeInformation | None) -> None:
        from flott.runtime.connectors.jdbc.validation import check_table_sink

        check_table_sink(self, record_type)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        if not self.exactly_once:
            from flott.runtime.connectors.jdbc.table_writer import DirectTableWriter

            return DirectTableWriter(self, context)
        if self.commit_by is CommitBy.PREPARED_TRANSACTION:
            from flott.runtime.connectors.jdbc.table_writer import PreparedTableWriter

            return PreparedTableWriter(self, context)
        from flott.runtime.connectors.jdbc.table_writer import StagingTableWriter

        return StagingTableWriter(self, context)

    def create_committer(self) -> Committer | None:
        if not self.exactly_once:
            return None
        if self.commit_by is CommitBy.PREPARED_TRANSACTION:
            from flott.runtime.connectors.jdbc.prepared import PreparedCommitter

            return PreparedCommitter(self.connection_options)
        from flott.runtime.connectors.jdbc.staging import StagingCommitter

        return StagingCommitter(self)

    class Builder:
        """Collects the settings of a table sink."""

        def __init__(self) -> None:
            self._connection_options: JdbcConnectionOptions | None = None
            self._table = ""
            self._settings: dict[str, Any] = {}

        def set_connection_options(self, options: JdbcConnectionOptions) -> JdbcTableSink.Builder:
            """Set where the database is; needed for more than a URL, a user and a password."""
            self._connection_options = options
            return self

        def set_url(self, url: str, user_name: str | None = None, password: str | None = None) -> JdbcTableSink.Builder:
            """Set where the database is, such as jdbc:postgresql://host:5432/database."""
            self._connection_options = JdbcConnectionOptions(url, user_name, password)
            return self

        def set_table(self, table: str) -> JdbcTableSink.Builder:
            """Set the table, with its schema if that is not the default one (``sales.orders``)."""
            self._table = table
            return self

        def set_columns(self, *columns: str) -> JdbcTableSink.Builder:
            """Set which fields are written, to columns of these names. The default are those of the declared type."""
            self._settings["columns"] = columns
            return self

        def append(self) -> JdbcTableSink.Builder:
            """Insert every record as a new row. This is the default."""
            self._settings["key"] = ()
            return self

        def upsert(self, *key: str) -> JdbcTableSink.Builder:
            """Insert, update and delete rows by these columns, which need a unique index, such as the primary key.

            A ``Row`` of kind DELETE deletes its row, one of kind UPDATE_BEFORE is ignored, all else is written.
            """
            if not key:
                raise ProgramError("upsert() takes the columns of the key: write upsert('id').")
            self._settings["key"] = key
            return self

        def set_delivery_guarantee(self, guarantee: DeliveryGuarantee) -> JdbcTableSink.Builder:
            """Choose EXACTLY_ONCE (the default for append) or AT_LEAST_ONCE (with upsert: idempotent, the default)."""
            if guarantee is DeliveryGuarantee.NONE:
                raise ProgramError("A table sink writes at least once: choose AT_LEAST_ONCE or EXACTLY_ONCE.")
            self._settings["delivery"] = guarantee
            return self

        def commit_by(self, way: CommitBy) -> JdbcTableSink.Builder:
            """Choose how rows become visible exactly once: by staging (the default) or prepared transactions."""
            self._settings["commit_by"] = way
            return self

        def create_table_if_missing(self) -> JdbcTableSink.Builder:
            """Create the table when the job is submitted, with the columns of the declared type."""
            self._settings["create_table"] = True
            return self

        def set_execution_options(self, options: JdbcExecutionOptions) -> JdbcTableSink.Builder:
            """Set the size of batches, and how often one is retried."""
            self._settings["execution_options"] = options
            return self

        def build(self) -> JdbcTableSink:
            """Return the sink."""
            if self._connection_options is None:
                raise ProgramError("The table sink has no database. Call set_url('jdbc:postgresql://host/database').")
            if not self._table:
                raise ProgramError("The table sink has no table. Call set_table('orders').")
            sink = JdbcTableSink(self._connection_options, self._table, **self._settings)
            if sink.columns and (missing := [name for name in sink.key if name not in sink.columns]):
                raise ProgramError(f"The key columns {missing} are not among the columns {list(sink.columns)}.")
            prepares = sink.exactly_once and sink.commit_by is CommitBy.PREPARED_TRANSACTION
            if prepares and sink.connection_options.address.dialect is Dialect.SQLITE:
                raise ProgramError("SQLite has no prepared transactions. Leave out commit_by(), or use STAGING.")
            return sink
