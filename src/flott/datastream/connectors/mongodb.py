"""A sink for MongoDB. A specification only; not in PyFlink. Extra: ``flott[mongodb]``.

Flink's Java API has a connector of the same name. The import in ``create_writer`` stands inside, so that the API does
not load the runtime, nor the client library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from flott.common._secrets import without_secrets
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import Guarantee, OnError, SinkWriter, WriterContext
from flott.errors import ProgramError

__all__ = ["MongoSink", "MongoSinkBuilder"]


@dataclass(frozen=True)
class MongoSink(StoreSink[Any]):
    """Writes documents in bulk, by ``_id``. Made by :class:`MongoSinkBuilder`.

    >>> sink = (
    ...     MongoSink.builder()
    ...     .set_uri("mongodb://user:secret@localhost:27017")
    ...     .set_database("shop")
    ...     .set_collection("orders")
    ...     .set_key_fields("id")
    ...     .build()
    ... )
    >>> sink.address
    'mongodb://user:******@localhost:27017 (shop.orders)'
    """

    uri: str = field(repr=False)
    database: str
    collection: str
    key_fields: tuple[str, ...] = ()  #: what the ``_id`` is made of; none: each record is a new document
    version_field: str | None = None
    timeout_ms: int = 30_000
    limits: BulkLimits = field(default_factory=BulkLimits)
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @staticmethod
    def builder() -> MongoSinkBuilder:
        """Start building a sink."""
        return MongoSinkBuilder()

    @property
    def address(self) -> str:
        """Return where documents go, without a password."""
        return f"{without_secrets(self.uri)} ({self.database}.{self.collection})"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.IDEMPOTENT if self.key_fields else Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.mongodb import check_connection

        check_connection(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.mongodb import MongoStore
        from flott.runtime.connectors.stores.writer import StoreWriter

        return StoreWriter(MongoStore(self, context), context, self.limits, self.retries, self.on_rejected)


class MongoSinkBuilder:
    """Collects the settings of a :class:`MongoSink`."""

    def __init__(self) -> None:
        self._place: dict[str, Any] = {}
        self._settings: dict[str, Any] = {}

    def set_uri(self, uri: str) -> Self:
        """Set where the server is: ``mongodb://user:password@host:port/?options``, or ``mongodb+srv://``."""
        if not uri.startswith(("mongodb://", "mongodb+srv://")):
            raise ProgramError(f"The URI begins with mongodb:// or mongodb+srv://, found {without_secrets(uri)!r}.")
        self._place["uri"] = uri
        return self

    def set_database(self, database: str) -> Self:
        """Set the database."""
        self._place["database"] = database
        return self

    def set_collection(self, collection: str) -> Self:
        """Set the collection."""
        self._place["collection"] = collection
        return self

    def set_key_fields(self, *fields: str) -> Self:
        """Set what the ``_id`` is made of: the value of one field, or a document of several."""
        return self._with(key_fields=fields)

    def set_version_field(self, name: str) -> Self:
        """Store the version of each document in a field, so that a process that writes late changes nothing."""
        return self._with(version_field=name)

    def set_batch_size(self, documents: int) -> Self:
        """Set how many changes a request holds at most."""
        return self._with(limits=BulkLimits(max_actions=documents))

    def set_timeout(self, timeout_ms: int) -> Self:
        """Set how long to wait for a server, a connection and an answer."""
        if timeout_ms < 1:
            raise ProgramError(f"A time-out is at least 1 ms, found {timeout_ms}.")
        return self._with(timeout_ms=timeout_ms)

    def set_retries(self, retries: RetryPolicy) -> Self:
        """Set how often and when a request is sent again."""
        return self._with(retries=retries)

    def set_on_rejected(self, on_rejected: OnError) -> Self:
        """Set what becomes of a document that the collection refuses, for example because of its validation rules."""
        return self._with(on_rejected=check_on_rejected(on_rejected))

    def build(self) -> MongoSink:
        """Return the sink."""
        for name in ("uri", "database", "collection"):
            if not self._place.get(name):
                raise ProgramError(f"A MongoSink needs set_{name}() before build().")
        return replace(MongoSink(**self._place), **self._settings)

    def _with(self, **settings: Any) -> Self:
        self._settings |= settings
        return self
