"""A sink for Amazon DynamoDB. A specification only; not in PyFlink. Extra: ``flott[dynamodb]``.

Flink's Java API has a connector of the same name. The import in ``create_writer`` stands inside, so that the API does
not load the runtime, nor the client library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from flott.common._secrets import Properties
from flott.datastream.connectors._stores import BulkLimits, RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import Guarantee, OnError, SinkWriter, WriterContext
from flott.errors import ProgramError

__all__ = ["DynamoDbSink", "DynamoDbSinkBuilder"]

#: What DynamoDB accepts in one BatchWriteItem.
_BATCH_ITEMS, _BATCH_BYTES = 25, 16 * 1024 * 1024


@dataclass(frozen=True)
class DynamoDbSink(StoreSink[Any]):
    """Puts and deletes items in batches, by key. Made by :class:`DynamoDbSinkBuilder`.

    >>> sink = DynamoDbSink.builder().set_table_name("orders").set_key_fields("id").build()
    >>> sink.guarantee.value
    'idempotent'
    """

    table_name: str
    key_fields: tuple[str, ...]
    item_converter: Callable[[Any], Mapping[str, Any]] | None = None
    version_attribute: str | None = None
    client_options: Properties = field(default_factory=Properties)
    timeout_ms: int = 30_000
    limits: BulkLimits = field(default_factory=lambda: BulkLimits(_BATCH_ITEMS, _BATCH_BYTES))
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @staticmethod
    def builder() -> DynamoDbSinkBuilder:
        """Start building a sink."""
        return DynamoDbSinkBuilder()

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.IDEMPOTENT

    def validate(self) -> None:
        from flott.runtime.connectors.dynamodb import check_table

        check_table(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.dynamodb import DynamoDbStore
        from flott.runtime.connectors.stores.writer import StoreWriter

        return StoreWriter(DynamoDbStore(self, context), context, self.limits, self.retries, self.on_rejected)


class DynamoDbSinkBuilder:
    """Collects the settings of a :class:`DynamoDbSink`."""

    def __init__(self) -> None:
        self._table = ""
        self._key: tuple[str, ...] = ()
        self._options: dict[str, str] = {}
        self._settings: dict[str, Any] = {}

    def set_table_name(self, table_name: str) -> Self:
        """Set the table."""
        self._table = table_name
        return self

    def set_key_fields(self, partition_key: str, sort_key: str | None = None) -> Self:
        """Set the attributes of the table's key."""
        self._key = (partition_key,) if sort_key is None else (partition_key, sort_key)
        return self

    def set_item_converter(self, converter: Callable[[Any], Mapping[str, Any]]) -> Self:
        """Set the function from a record to the attributes of an item; without it, the record's fields are used."""
        return self._with(item_converter=converter)

    def set_version_attribute(self, name: str) -> Self:
        """Store the version of each item in an attribute, so that a process that writes late changes nothing.

        Items are then written one by one, because a batch has no conditions.
        """
        return self._with(version_attribute=name)

    def set_region(self, region: str) -> Self:
        """Set the region; without it, it comes from the environment."""
        return self.set_client_options({"region_name": region})

    def set_endpoint_url(self, url: str) -> Self:
        """Set another address, such as that of a local DynamoDB."""
        return self.set_client_options({"endpoint_url": url})

    def set_client_options(self, options: Mapping[str, str]) -> Self:
        """Set options of the boto3 client, such as ``aws_access_key_id``. Credentials may come from the environment."""
        self._options |= options
        return self

    def set_timeout(self, timeout_ms: int) -> Self:
        """Set how long to wait for a connection and for an answer."""
        if timeout_ms < 1:
            raise ProgramError(f"A time-out is at least 1 ms, found {timeout_ms}.")
        return self._with(timeout_ms=timeout_ms)

    def set_retries(self, retries: RetryPolicy) -> Self:
        """Set how often and when items are sent again that DynamoDB did not process."""
        return self._with(retries=retries)

    def set_on_rejected(self, on_rejected: OnError) -> Self:
        """Set what becomes of an item that DynamoDB refuses, for example because it is larger than 400 KB."""
        return self._with(on_rejected=check_on_rejected(on_rejected))

    def build(self) -> DynamoDbSink:
        """Return the sink."""
        if not self._table or not self._key:
            raise ProgramError(f"A DynamoDbSink needs set_{'key_fields' if self._table else 'table_name'}().")
        return replace(DynamoDbSink(self._table, self._key, client_options=Properties(self._options)), **self._settings)

    def _with(self, **settings: Any) -> Self:
        self._settings |= settings
        return self
