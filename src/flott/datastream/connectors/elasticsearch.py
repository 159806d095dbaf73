"""A sink for Elasticsearch and OpenSearch, with PyFlink's builders. Specifications only; needs no extra.

The runtime calls ``create_writer``; its import stands inside, so that the API does not load the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

from flott._absent import no_java_object
from flott.common._secrets import without_secrets
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import DeliveryGuarantee, Guarantee, OnError, SinkWriter, WriterContext
from flott.errors import ProgramError

__all__ = [
    "DocumentAction",
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchEmitter",
    "ElasticsearchSink",
    "FlushBackoffType",
]

_MEGABYTE = 1024 * 1024
_UNLIMITED = 1 << 40


class FlushBackoffType(Enum):
    """How long the sink waits before it sends a request again."""

    CONSTANT = 0
    EXPONENTIAL = 1
    NONE = 2


@dataclass(frozen=True)
class DocumentAction:
    """A change of one document, as an emitter function returns it.

    Without an id, the document gets one that follows from the job, the epoch and the position of the record.
    """

    index: str
    id: str | None
    document: Mapping[str, Any] | None  #: None: the document is deleted
    routing: str | None = None

    def __post_init__(self) -> None:
        if self.document is None and self.id is None:
            raise ProgramError("To delete a document takes its id, found None.")


@dataclass(frozen=True)
class ElasticsearchEmitter:
    """Says which document of which index a record is.

    Rows of kind DELETE delete the document of their key; rows of kind UPDATE_BEFORE are ignored.
    """

    index: str = ""  #: the index, or the field that holds its name
    is_dynamic: bool = False
    key_field: str | None = None
    doc_type: str | None = None
    function: Callable[[Any], DocumentAction | Iterable[DocumentAction] | None] | None = None

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """Write all records to one index. The key field holds the document's id."""
        if not index:
            raise ProgramError("static_index() needs the name of an index, found an empty one.")
        return ElasticsearchEmitter(index, False, key_field, doc_type)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write each record to the index that one of its fields names."""
        if not index_field:
            raise ProgramError("dynamic_index() needs the name of a field, found an empty one.")
        return ElasticsearchEmitter(index_field, True, key_field, doc_type)

    @staticmethod
    def from_function(
        function: Callable[[Any], DocumentAction | Iterable[DocumentAction] | None],
    ) -> ElasticsearchEmitter:
        """Let a function say it: it returns a :class:`DocumentAction`, several, or None."""
        if not callable(function):
            raise ProgramError(f"from_function() takes a function, found {function!r}.")
        return ElasticsearchEmitter(function=function)


@dataclass(frozen=True)
class ElasticsearchSink(StoreSink[Any]):
    """Writes documents in bulk. Made by :class:`Elasticsearch7SinkBuilder`, which shows how.

    Every document has an external version that grows with the epoch. So a repeated epoch may write again, and a process
    that was believed dead cannot replace what a later epoch wrote.
    """

    hosts: tuple[str, ...]
    emitter: ElasticsearchEmitter
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    certificate_authority: str | None = None  #: the file of a certificate to trust
    path_prefix: str = ""
    connection_timeout_ms: int = 10_000
    socket_timeout_ms: int = 60_000
    external_versions: bool = True
    typed: bool = False  #: Elasticsearch 6 wants a type for every document
    limits: BulkLimits = field(default_factory=BulkLimits)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @property
    def guarantee(self) -> Guarantee:
        has_ids = self.emitter.key_field is not None or self.emitter.function is not None
        return Guarantee.IDEMPOTENT if has_ids else Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.elasticsearch.client import check_connection

        check_connection(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.elasticsearch.store import ElasticsearchStore
        from flott.runtime.connectors.stores.writer import StoreWriter

        return StoreWriter(ElasticsearchStore(self, context), context, self.limits, self.retries, self.on_rejected)


class _SinkBuilder:
    """What the builders have in common."""

    _typed = False

    get_http_host_class = no_java_object("get_http_host_class")

    def __init__(self) -> None:
        self._hosts: tuple[str, ...] = ()
        self._emitter: ElasticsearchEmitter | None = None
        self._settings: dict[str, Any] = {}
        self._limits: dict[str, int] = {}

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Set how a record becomes a change of a document."""
        if not isinstance(emitter, ElasticsearchEmitter):
            raise ProgramError(
                "set_emitter() takes ElasticsearchEmitter.static_index(), dynamic_index() or from_function(), found"
                f" {emitter!r}."
            )
        self._emitter = emitter
        return self

    def set_hosts(self, hosts: str | Sequence[str]) -> Self:
        """Set where the nodes are: ``host:port``, ``http://host:port`` or ``https://host:port``."""
        named = [hosts] if isinstance(hosts, str) else list(hosts)
        if not named:
            raise ProgramError("set_hosts() needs at least one host, found none.")
        if any("@" in host for host in named):
            raise ProgramError(
                f"Found a login in the host {without_secrets(named[0])!r}: use set_connection_username() and"
                " set_connection_password()."
            )
        self._hosts = tuple((host if "://" in host else f"http://{host}").rstrip("/") for host in named)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Accept NONE and AT_LEAST_ONCE, for ported programs: the sink always waits for all answers."""
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ProgramError(
                "Elasticsearch has no transactions, so there is no EXACTLY_ONCE. Give the emitter a key field: then"
                " a document is the same however often it is written, and this call is not needed."
            )
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Set how many changes a request holds at most (1000); -1 for no limit."""
        self._limits["max_actions"] = _UNLIMITED if num_max_actions == -1 else num_max_actions
        return self

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Set how large a request is at most, in megabytes (5); -1 for no limit."""
        self._limits["max_bytes"] = _UNLIMITED if max_size_mb == -1 else max_size_mb * _MEGABYTE
        return self

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Do nothing, for ported programs: what is buffered is sent at the end of each epoch, or when it is much."""
        return self

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Set how often a request is sent again, and after which delay."""
        if flush_backoff_type is FlushBackoffType.NONE:
            return self.set_retries(RetryPolicy(max_attempts=1))
        grows = flush_backoff_type is FlushBackoffType.EXPONENTIAL
        longest = max(delay_millis, 60_000) if grows else delay_millis
        policy = RetryPolicy(max_retries + 1, delay_millis, 2.0 if grows else 1.0, longest, 0.5 if grows else 0.0)
        return self.set_retries(policy)

    def set_connection_username(self, username: str) -> Self:
        """Set the user."""
        return self._with(username=username)

    def set_connection_password(self, password: str) -> Self:
        """Set the password of the user."""
        return self._with(password=password)

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Set what stands before every path, if a proxy wants it."""
        return self._with(path_prefix="/" + prefix.strip("/"))

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Do nothing, for ported programs: each request has a connection of its own task."""
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Set how long to wait for a connection, in milliseconds."""
        return self._with(connection_timeout_ms=_positive(timeout))

    def set_socket_timeout(self, timeout: int) -> Self:
        """Set how long to wait for an answer, in milliseconds."""
        return self._with(socket_timeout_ms=_positive(timeout))

    # ---- not in PyFlink

    def set_api_key(self, api_key: str) -> Self:
        """Set an API key (its encoded form) instead of a user and a password."""
        return self._with(api_key=api_key)

    def set_certificate_authority(self, path: str) -> Self:
        """Set the file of a certificate that is trusted in addition to the usual ones. Each task reads it."""
        return self._with(certificate_authority=path)

    def set_external_versions(self, enabled: bool) -> Self:
        """Set whether documents get an external version; switch it off for an index that others write to as well."""
        return self._with(external_versions=enabled)

    def set_retries(self, retries: RetryPolicy) -> Self:
        """Set how often and when a request is sent again."""
        return self._with(retries=retries)

    def set_on_rejected(self, on_rejected: OnError) -> Self:
        """Set what becomes of a document that the index refuses, for example because of its mapping."""
        return self._with(on_rejected=check_on_rejected(on_rejected))

    def build(self) -> ElasticsearchSink:
        """Return the sink."""
        if not self._hosts or self._emitter is None:
            raise ProgramError(f"The sink needs {'set_emitter()' if self._hosts else 'set_hosts()'} before build().")
        if (self._settings.get("username") is None) != (self._settings.get("password") is None):
            raise ProgramError("A login needs set_connection_username() and set_connection_password(), found one.")
        limits = BulkLimits(**self._limits)
        return ElasticsearchSink(self._hosts, self._emitter, typed=self._typed, limits=limits, **self._settings)

    def _with(self, **settings: Any) -> Self:
        self._settings |= settings
        return self


class Elasticsearch7SinkBuilder(_SinkBuilder):
    """Builds a sink for Elasticsearch 7 and later, and for OpenSearch.

    >>> sink = (
    ...     Elasticsearch7SinkBuilder()
    ...     .set_hosts(["localhost:9200"])
    ...     .set_emitter(ElasticsearchEmitter.static_index("orders", key_field="id"))
    ...     .build()
    ... )
    >>> sink.guarantee.value
    'idempotent'
    """


class Elasticsearch6SinkBuilder(_SinkBuilder):
    """Builds a sink for Elasticsearch 6, whose documents have a type."""

    _typed = True


def _positive(timeout: int) -> int:
    if timeout < 1:
        raise ProgramError(f"A time-out is at least 1 ms, found {timeout}.")
    return timeout
