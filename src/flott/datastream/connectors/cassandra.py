"""A sink for Apache Cassandra, with PyFlink's builder. Specifications only. Extra: ``flott[cassandra]``.

The import in ``create_writer`` stands inside, so that the API does not load the runtime, nor the client library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from flott.common.time import Duration
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import Committer, Guarantee, OnError, SinkWriter, WriterContext
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.datastream._data_stream import DataStream, DataStreamSink

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "CassandraTableSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

#: ``count = count + ?`` adds again when it is repeated.
_ADDS = re.compile(r"\bSET\b.*=\s*\w+\s*[+-]", re.IGNORECASE | re.DOTALL)


class ConsistencyLevel(Enum):
    """How many replicas must have a write."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


@dataclass
class MapperOptions:
    """How rows are inserted if the sink makes the statements itself (``set_table``).

    >>> MapperOptions().ttl(1800).consistency_level(ConsistencyLevel.QUORUM).ttl_seconds
    1800
    """

    ttl_seconds: int | None = None
    timestamp_micros: int | None = None
    level: ConsistencyLevel | None = None
    traces: bool = False
    saves_nulls: bool = True
    only_new: bool = False

    @staticmethod
    def simple_mapper_options() -> MapperOptions:
        """Return options to be set."""
        return MapperOptions()

    def ttl(self, ttl: int) -> Self:
        """Let rows expire after so many seconds."""
        self.ttl_seconds = ttl
        return self

    def timestamp(self, timestamp: int) -> Self:
        """Give all rows this time of writing, in microseconds, instead of that of their epoch."""
        self.timestamp_micros = timestamp
        return self

    def consistency_level(self, cl: ConsistencyLevel) -> Self:
        """Set how many replicas must have a write."""
        self.level = cl
        return self

    def tracing(self, enabled: bool) -> Self:
        """Let Cassandra record what it does for each write."""
        self.traces = enabled
        return self

    def save_null_fields(self, enabled: bool) -> Self:
        """Set whether None deletes the value of a column (the default), or leaves it as it is."""
        self.saves_nulls = enabled
        return self

    def if_not_exists(self, enabled: bool) -> Self:
        """Insert rows only if there is none with their key."""
        self.only_new = enabled
        return self


@dataclass(frozen=True)
class ClusterBuilder:
    """How to connect to a cluster. In PyFlink this wraps a Java class, here it is a value."""

    contact_points: tuple[str, ...]
    port: int = 9042
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate_authority: str | None = None  #: the file of a certificate to trust; with it, connections use TLS
    timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        if not self.contact_points:
            raise ProgramError("A ClusterBuilder needs the address of at least one node, found none.")
        if (self.username is None) != (self.password is None):
            raise ProgramError("A login needs a username and a password, found one of them.")


@dataclass(frozen=True)
class CassandraCommitter:
    """Accepted by ``enable_write_ahead_log``, for ported programs: Flott's checkpoints know what was committed."""

    builder: ClusterBuilder | None = None
    key_space: str | None = None

    @staticmethod
    def default_checkpoint_committer(builder: ClusterBuilder, key_space: str | None = None) -> CassandraCommitter:
        """Return a committer."""
        return CassandraCommitter(builder, key_space)


@dataclass(frozen=True)
class CassandraFailureHandler:
    """Accepted for ported programs. ``set_on_rejected`` decides about rows that Cassandra refuses."""

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Return the handler that fails on every failure."""
        return CassandraFailureHandler()

    default_failure_handler = no_op


@dataclass(frozen=True)
class CassandraTableSink(StoreSink[Any]):
    """Executes a statement for each record. :meth:`CassandraSink.add_sink` builds it and adds it to a stream.

    Every write has a timestamp made of the time of its epoch and the position of the record. Cassandra keeps the value
    with the highest timestamp: the order of requests does not matter, nor does a process that writes late.
    """

    cluster: ClusterBuilder
    query: str = ""  #: with a ``?`` for each field of a record
    table: str = ""  #: instead of a query: rows are inserted by their names, and deleted by their kind
    key_fields: tuple[str, ...] = ()
    key_space: str | None = None
    options: MapperOptions = field(default_factory=MapperOptions)
    after_checkpoint: bool = False  #: write when the checkpoint is complete, not before
    concurrent_requests: int = 64
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @property
    def address(self) -> str:
        """Return where it writes."""
        return f"Cassandra at {self.cluster.contact_points[0]}:{self.cluster.port}"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE if _ADDS.search(self.query) else Guarantee.IDEMPOTENT

    def validate(self) -> None:
        from flott.runtime.connectors.cassandra.connection import check_statement

        check_statement(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.cassandra.store import CassandraStore
        from flott.runtime.connectors.stores.writer import StoreWriter

        if self.after_checkpoint:
            from flott.runtime.connectors.cassandra.write_ahead import WriteAheadWriter

            return WriteAheadWriter(self, context)
        limits = BulkLimits(max_actions=1000, buffer_actions=1000)
        return StoreWriter(CassandraStore(self, context), context, limits, self.retries, self.on_rejected)

    def create_committer(self) -> Committer | None:
        if self.after_checkpoint:
            from flott.runtime.connectors.cassandra.write_ahead import WriteAheadCommitter

            return WriteAheadCommitter(self)
        return super().create_committer()


class CassandraSink:
    """A Cassandra sink in a program. Made by ``CassandraSink.add_sink(stream)…build()``."""

    def __init__(self, sink: DataStreamSink):
        self._sink = sink

    @staticmethod
    def add_sink(input: DataStream[Any]) -> CassandraSink.CassandraSinkBuilder:
        """Start building a sink for a stream."""
        return CassandraSink.CassandraSinkBuilder(input)

    def name(self, name: str) -> Self:
        """Set the name of the operator."""
        self._sink.name(name)
        return self

    def uid(self, uid: str) -> Self:
        """Set the id of the operator, by which its state is found again."""
        self._sink.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Set the id of the operator as a hash."""
        self._sink.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks."""
        self._sink.set_parallelism(parallelism)
        return self

    def disable_chaining(self) -> Self:
        """Keep the operator out of chains."""
        self._sink.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> Self:
        """Set the slot sharing group."""
        self._sink.slot_sharing_group(slot_sharing_group)
        return self

    class CassandraSinkBuilder:
        """Collects the settings of a sink."""

        def __init__(self, stream: DataStream[Any]):
            self._stream = stream
            self._cluster: ClusterBuilder | None = None
            self._settings: dict[str, Any] = {}
            self._ignores_nulls = False

        def set_query(self, query: str) -> Self:
            """Set the statement for each record, with a ``?`` for each of its fields."""
            return self._with(query=query)

        def set_table(self, table: str, *key_fields: str) -> Self:
            """Insert rows by the names of their fields; the key fields find rows to delete. Not in PyFlink."""
            return self._with(table=table, key_fields=key_fields)

        def set_default_key_space(self, key_space: str) -> Self:
            """Set the keyspace of tables that are named without one."""
            return self._with(key_space=key_space)

        def set_host(self, host: str, port: int = 9042) -> Self:
            """Set a node of the cluster."""
            self._cluster = ClusterBuilder((host,), port)
            return self

        def set_cluster_builder(self, builder: ClusterBuilder) -> Self:
            """Set how to connect, with a login for example."""
            if not isinstance(builder, ClusterBuilder):
                raise ProgramError(f"set_cluster_builder() takes flott's ClusterBuilder, found {builder!r}.")
            self._cluster = builder
            return self

        def enable_write_ahead_log(self, committer: CassandraCommitter | None = None) -> Self:
            """Write rows after the checkpoint, not before; until then they are part of it."""
            return self._with(after_checkpoint=True)

        def set_mapper_options(self, options: MapperOptions) -> Self:
            """Set how rows are inserted into a table."""
            return self._with(options=replace(options))

        def set_failure_handler(self, failure_handler: CassandraFailureHandler) -> Self:
            """Do nothing, for ported programs: the sink fails, unless ``set_on_rejected`` says otherwise."""
            return self

        def set_max_concurrent_requests(self, max_concurrent_requests: int, duration: Duration | None = None) -> Self:
            """Set how many requests of a subtask are under way at once. The duration is not used."""
            if max_concurrent_requests < 1:
                raise ProgramError(f"There is at least one request at once, found {max_concurrent_requests}.")
            return self._with(concurrent_requests=max_concurrent_requests)

        def enable_ignore_null_fields(self) -> Self:
            """Leave columns as they are whose value is None, instead of deleting their values."""
            self._ignores_nulls = True
            return self

        def set_retries(self, retries: RetryPolicy) -> Self:
            """Set how often and when a request is sent again. Not in PyFlink."""
            return self._with(retries=retries)

        def set_on_rejected(self, on_rejected: OnError) -> Self:
            """Set what becomes of a row that Cassandra refuses. Not in PyFlink."""
            return self._with(on_rejected=check_on_rejected(on_rejected))

        def build(self) -> CassandraSink:
            """Add the sink to the stream."""
            return CassandraSink(self._stream.sink_to(self.table_sink()))

        def table_sink(self) -> CassandraTableSink:
            """Return the sink without adding it to a stream. Not in PyFlink."""
            if self._cluster is None:
                raise ProgramError("A CassandraSink needs set_host() or set_cluster_builder() before build().")
            if bool(self._settings.get("query")) == bool(self._settings.get("table")):
                raise ProgramError("A CassandraSink needs either set_query() or set_table() before build().")
            sink = replace(CassandraTableSink(self._cluster), **self._settings)
            if sink.table and not sink.key_fields:
                raise ProgramError(f"set_table({sink.table!r}) needs the names of the key's fields, found none.")
            if sink.after_checkpoint and sink.on_rejected.dead_letters is not None:
                raise ProgramError("With a write-ahead log rows are written when no task can write a dead letter.")
            return replace(sink, options=replace(sink.options, saves_nulls=False)) if self._ignores_nulls else sink

        def _with(self, **settings: Any) -> Self:
            self._settings |= settings
            return self
