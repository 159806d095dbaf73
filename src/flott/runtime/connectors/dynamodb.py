"""Puts and deletes items in DynamoDB. Task side; the check of the table on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.common.types import Row
from flott.datastream.connectors.base import BadRecord, WriterContext
from flott.datastream.connectors.dynamodb import DynamoDbSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.stores.actions import (
    DONE,
    FLUSH_BITS,
    SUPERSEDED,
    Action,
    ActionOutcome,
    ActionVerdict,
    Unavailable,
)
from flott.runtime.connectors.stores.rows import is_delete, is_outdated, key_of, mapping_of
from flott.runtime.connectors.stores.writer import Store

_log = logging.getLogger(__name__)
_POOL: ClientPool[Any] = ClientPool("dynamodb")
_PASSING_CODES = frozenset({
    "InternalServerError", "InternalFailure", "LimitExceededException", "ProvisionedThroughputExceededException",
    "RequestLimitExceeded", "ServiceUnavailable", "ThrottlingException", "TransactionConflictException",
})  # fmt: skip
_REFUSED_CODES = frozenset({
    "AccessDeniedException", "ExpiredTokenException", "IncompleteSignature", "InvalidClientTokenId",
    "InvalidSignatureException", "MissingAuthenticationTokenException", "UnrecognizedClientException",
})  # fmt: skip
_REJECTED = "ValidationException"
#: How many items are written at the same time if they are written one by one.
_THREADS = 8


class DynamoDbStore(Store[Any]):
    """A table, as one subtask writes to it in one epoch."""

    def __init__(self, sink: DynamoDbSink, context: WriterContext):
        self._sink = sink
        self.name = f"DynamoDB table {sink.table_name}"
        self._serialize = require("boto3.dynamodb.types", extra="dynamodb").TypeSerializer().serialize
        self._fields_of = sink.item_converter or mapping_of(context.record_type)
        self._errors = require("botocore.exceptions", extra="dynamodb")

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        names = self._sink.key_fields
        for value in values:
            if is_outdated(value):
                continue
            fields = {name: _converted(one) for name, one in self._fields_of(value).items()}
            key = key_of(fields, names)
            if is_delete(value):
                yield Action(key, None, 100)
            else:
                item = {name: self._serialize(one) for name, one in fields.items()}
                yield Action(key, item, len(repr(item)))

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        with _POOL.borrow(*_borrowing(self._sink)) as client:
            if self._sink.version_attribute is not None:
                return self._send_each(client, actions, version)
            return self._send_batch(client, actions, version)

    def rejected(self, action: Action, reason: str) -> BadRecord:
        value = None if action.body is None else repr(action.body).encode()
        return BadRecord(f"the item with key {action.key!r}", reason, value, repr(action.key).encode())

    def _send_batch(self, client: Any, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        table = self._sink.table_name
        requests = [
            {"DeleteRequest": {"Key": self._key(action)}}
            if action.body is None
            else {"PutRequest": {"Item": action.body}}
            for action in actions
        ]
        try:
            answer = client.batch_write_item(RequestItems={table: requests})
        except self._errors.ClientError as error:
            if _code(error) == _REJECTED:
                return self._send_each(client, actions, version)  # one of them is refused: which?
            raise self._failure(error) from error
        except self._errors.BotoCoreError as error:
            raise Unavailable(_told(error)) from error
        left = answer.get("UnprocessedItems", {}).get(table, [])
        if not left:
            return [DONE] * len(actions)
        names = self._sink.key_fields
        unprocessed = [request.get("PutRequest", {}).get("Item") or request["DeleteRequest"]["Key"] for request in left]
        keys = [{name: one[name] for name in names} for one in unprocessed]
        again = ActionOutcome(ActionVerdict.RETRY, "it was not processed, because of the table's throughput")
        return [again if self._key(action) in keys else DONE for action in actions]

    def _send_each(self, client: Any, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        with ThreadPoolExecutor(min(_THREADS, len(actions))) as threads:
            return list(threads.map(lambda action: self._send_one(client, action, version), actions))

    def _send_one(self, client: Any, action: Action, version: int) -> ActionOutcome:
        condition: dict[str, Any] = {}
        name = self._sink.version_attribute
        item = action.body
        if name is not None:
            # Anything of this epoch may be replaced, also what another attempt at it wrote: all lower bits are set.
            limit = version | (1 << FLUSH_BITS) - 1
            condition = {
                "ConditionExpression": "attribute_not_exists(#v) OR #v <= :limit",
                "ExpressionAttributeNames": {"#v": name},
                "ExpressionAttributeValues": {":limit": {"N": str(limit)}},
            }
            item = None if item is None else {**item, name: {"N": str(version)}}
        try:
            if item is None:
                client.delete_item(TableName=self._sink.table_name, Key=self._key(action), **condition)
            else:
                client.put_item(TableName=self._sink.table_name, Item=item, **condition)
        except self._errors.ClientError as error:
            code = _code(error)
            if code == "ConditionalCheckFailedException":
                return SUPERSEDED
            if code == _REJECTED:
                return ActionOutcome(ActionVerdict.REJECTED, _told(error))
            if code in _PASSING_CODES:
                return ActionOutcome(ActionVerdict.RETRY, _told(error))
            raise self._failure(error) from error
        except self._errors.ParamValidationError as error:
            return ActionOutcome(ActionVerdict.REJECTED, _told(error))
        except self._errors.BotoCoreError as error:
            return ActionOutcome(ActionVerdict.RETRY, _told(error))
        return DONE

    def _key(self, action: Action) -> dict[str, Any]:
        key: Any = action.key
        return {name: self._serialize(value) for name, value in zip(self._sink.key_fields, key, strict=True)}

    def _failure(self, error: Any) -> Exception:
        code = _code(error)
        if code in _PASSING_CODES:
            return Unavailable(_told(error))
        if code in _REFUSED_CODES:
            return ConnectorError(_refusal(self._sink, code))
        return ConnectorError(f"{self.name} refused a request: {_told(error)}")


def check_table(sink: DynamoDbSink) -> None:
    """Raise ``ProgramError`` for wrong credentials, a missing table or another key. A server may be away for now."""
    errors = require("botocore.exceptions", extra="dynamodb")
    try:
        with _POOL.borrow(*_borrowing(sink)) as client:
            facts = client.describe_table(TableName=sink.table_name)["Table"]
    except errors.ClientError as error:
        code = _code(error)
        if code == "ResourceNotFoundException":
            raise ProgramError(f"There is no DynamoDB table {sink.table_name} in this region. Create it.") from None
        if code in _REFUSED_CODES:
            raise ProgramError(_refusal(sink, code)) from None
        _log.warning("DynamoDB did not describe table %s: %s", sink.table_name, _told(error))
        return
    except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.NoRegionError) as error:
        raise ProgramError(
            f"DynamoDB cannot be reached without credentials and a region: {error}. Set them in the environment, or"
            " with set_client_options() and set_region()."
        ) from None
    except errors.BotoCoreError as error:
        _log.warning("DynamoDB does not answer yet: %s", _told(error))
        return
    order = {"HASH": 0, "RANGE": 1}
    schema = sorted(facts["KeySchema"], key=lambda part: order[part["KeyType"]])
    names = tuple(part["AttributeName"] for part in schema)
    if names != sink.key_fields:
        raise ProgramError(
            f"The key of the DynamoDB table {sink.table_name} is {list(names)}, but set_key_fields() says"
            f" {list(sink.key_fields)}: correct it."
        )


def _borrowing(sink: DynamoDbSink) -> tuple[Any, Any, Any]:
    def connect() -> Any:
        seconds = sink.timeout_ms / 1000
        config = require("botocore.config", extra="dynamodb").Config(
            connect_timeout=seconds,
            read_timeout=seconds,
            retries={"total_max_attempts": 1},
            max_pool_connections=_THREADS,
        )
        return require("boto3", extra="dynamodb").client("dynamodb", config=config, **sink.client_options)

    return (sink.client_options, sink.timeout_ms), connect, lambda client: client.close()


def _converted(value: Any) -> Any:
    """Return a value that DynamoDB knows. It has decimal numbers only, so 0.1 becomes what Python shows as 0.1."""
    kind = type(value)
    if kind is float:
        return Decimal(repr(value))
    if kind in (datetime, date, time):
        return value.isoformat()
    if kind is Row:
        return _converted(value.as_dict() if value._fields is not None else list(value))
    if isinstance(value, Mapping):
        return {str(name): _converted(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_converted(one) for one in value]
    return value


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _told(error: Exception) -> str:
    return without_secrets(f"{error}")[:500]


def _refusal(sink: DynamoDbSink, code: str) -> str:
    return (
        f"DynamoDB does not accept the credentials for table {sink.table_name} ({code}). Set valid ones in the"
        " environment or with set_client_options(), with permission to describe the table and to write items."
    )
