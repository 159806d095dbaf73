"""Writes documents to MongoDB in bulk. Task side; the check of the connection on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.common.types import Row
from flott.datastream.connectors.base import BadRecord, WriterContext
from flott.datastream.connectors.mongodb import MongoSink
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
_POOL: ClientPool[Any] = ClientPool("mongodb")
_DUPLICATE_KEY = 11000
#: Errors of single changes that pass: the primary steps down or shuts down, or two writes were in conflict.
_PASSING_CODES = frozenset({64, 91, 112, 189, 262, 10107, 11600, 11602, 13435, 13436})
_REFUSED_CODES = frozenset({13, 18, 8000})


class MongoStore(Store[Any]):
    """A collection, as one subtask writes to it in one epoch."""

    def __init__(self, sink: MongoSink, context: WriterContext):
        self._sink = sink
        self.name = f"MongoDB at {sink.address}"
        self._bson = require("bson", extra="mongodb")
        self._raw = require("bson.raw_bson", extra="mongodb").RawBSONDocument
        self._fields_of = mapping_of(context.record_type)
        self._made_up = f"{context.job_id}-{context.operator_id}-{context.epoch}-{context.subtask}"
        self._positions = 0

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        key_fields = self._sink.key_fields
        for value in values:
            if is_outdated(value):
                continue
            document = {name: self._converted(one) for name, one in self._fields_of(value).items()}
            if not key_fields:
                if is_delete(value):
                    raise ProgramError(
                        f"To delete a document takes key fields: call set_key_fields(). Found {value!r}."
                    )
                ident: Any = document.get("_id", f"{self._made_up}-{self._positions}")
                self._positions += 1
            else:
                key = key_of(document, key_fields)
                ident = key[0] if len(key) == 1 else dict(zip(key_fields, key, strict=True))
            raw = self._bson.encode({"_id": ident})
            if is_delete(value):
                yield Action(raw, None, len(raw))
            else:
                yield Action(raw, {**document, "_id": ident}, 64 + len(document) * 32)

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        errors = require("pymongo.errors", extra="mongodb")
        outcomes: list[ActionOutcome] = [DONE] * len(actions)
        try:
            with _POOL.borrow(*_borrowing(self._sink)) as client:
                database = client[self._sink.database]
                for word, field in (("update", "updates"), ("delete", "deletes")):
                    chosen = [
                        index for index, action in enumerate(actions) if (action.body is None) == (word == "delete")
                    ]
                    if chosen:
                        changes = [self._change(actions[index], version) for index in chosen]
                        command = {word: self._sink.collection, field: changes, "ordered": False}
                        for index, outcome in zip(
                            chosen, self._answers(database.command(command), chosen), strict=True
                        ):
                            outcomes[index] = outcome
            return outcomes
        except (errors.InvalidDocument, OverflowError) as error:
            return self._one_by_one(actions, version, error)
        except errors.OperationFailure as error:
            if error.code in _REFUSED_CODES:
                raise ConnectorError(_refusal(self._sink)) from None
            if error.code in _PASSING_CODES:
                raise Unavailable(str(error)) from error
            raise ConnectorError(f"{self.name} refused a request: {error}") from error
        except errors.PyMongoError as error:
            raise Unavailable(_told(self._sink, error)) from error

    def _answers(self, reply: Mapping[str, Any], chosen: Sequence[int]) -> list[ActionOutcome]:
        """Return what a reply says about each change."""
        if reply.get("writeConcernError"):
            raise Unavailable(str(reply["writeConcernError"].get("errmsg")))
        failures = reply.get("writeErrors", [])
        # MongoDB carries out all other changes and counts them. A server that does not count may have stopped.
        others = DONE if not failures or "n" in reply else ActionOutcome(ActionVerdict.RETRY, "it was not confirmed")
        outcomes = [others] * len(chosen)
        for one in failures:
            outcomes[one["index"]] = judged(one, self._sink.version_field is not None)
        return outcomes

    def rejected(self, action: Action, reason: str) -> BadRecord:
        assert isinstance(action.key, bytes)
        ident = self._bson.decode(action.key)["_id"]
        value = None if action.body is None else repr(action.body).encode()
        return BadRecord(f"document {ident!r}", reason, value, repr(ident).encode())

    def _change(self, action: Action, version: int) -> dict[str, Any]:
        name = self._sink.version_field
        chosen: Any = self._raw(action.key)
        if name is not None:
            # Anything of this epoch may be replaced, also what another attempt at it wrote: all lower bits are set.
            limit = version | (1 << FLUSH_BITS) - 1
            chosen = {"_id": chosen["_id"], "$or": [{name: {"$lte": limit}}, {name: {"$exists": False}}]}
        if action.body is None:
            return {"q": chosen, "limit": 1}
        return {"q": chosen, "u": action.body if name is None else {**action.body, name: version}, "upsert": True}

    def _one_by_one(self, actions: list[Action], version: int, error: Exception) -> Sequence[ActionOutcome]:
        """Find the document that cannot be encoded."""
        if len(actions) == 1:
            return [ActionOutcome(ActionVerdict.REJECTED, f"it cannot be encoded: {error}")]
        return [outcome for action in actions for outcome in self.send([action], version)]

    def _converted(self, value: Any) -> Any:
        """Return a value that BSON knows."""
        kind = type(value)
        if kind in (str, int, float, bool, type(None), bytes, datetime):
            return value
        if kind is Decimal:
            return require("bson.decimal128", extra="mongodb").Decimal128(value)
        if kind is date:
            return datetime(value.year, value.month, value.day)
        if kind is time:
            return value.isoformat()
        if kind is Row:
            return self._converted(value.as_dict() if value._fields is not None else list(value))
        if isinstance(value, Mapping):
            return {str(name): self._converted(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._converted(one) for one in value]
        if isinstance(value, (set, frozenset)):
            return [self._converted(one) for one in sorted(value)]
        return value


def check_connection(sink: MongoSink) -> None:
    """Raise ``ProgramError`` for a wrong login or URI. A server that does not answer may be back later."""
    errors = require("pymongo.errors", extra="mongodb")
    try:
        with _POOL.borrow(*_borrowing(sink)) as client:
            client[sink.database].command("listCollections", nameOnly=True, filter={"name": sink.collection})
    except errors.ConfigurationError as error:
        raise ProgramError(f"The URI of MongoDB cannot be used: {_told(sink, error)}.") from None
    except errors.OperationFailure as error:
        if error.code in _REFUSED_CODES:
            raise ProgramError(_refusal(sink)) from None
        _log.warning("MongoDB at %s refused a first request: %s", sink.address, error)
    except errors.PyMongoError as error:
        _log.warning("MongoDB at %s does not answer yet: %s", sink.address, _told(sink, error))


def _borrowing(sink: MongoSink) -> tuple[Any, Any, Any]:
    def connect() -> Any:
        ms = sink.timeout_ms
        return require("pymongo", extra="mongodb").MongoClient(
            sink.uri, serverSelectionTimeoutMS=ms, connectTimeoutMS=ms, socketTimeoutMS=ms, appname="flott"
        )

    return (sink.uri, sink.timeout_ms), connect, lambda client: client.close()


def judged(error: Mapping[str, Any], versioned: bool) -> ActionOutcome:
    """Return what the error of one change means.

    >>> judged({"code": 121, "errmsg": "Document failed validation"}, versioned=False).verdict.name
    'REJECTED'
    """
    code, reason = error.get("code"), str(error.get("errmsg", ""))
    if code == _DUPLICATE_KEY and _is_of_id(error):
        # With a version: no document was found to replace, because it is newer, and none could be inserted, because it
        # is there. Without one: another client inserted it at the same moment.
        return SUPERSEDED if versioned else ActionOutcome(ActionVerdict.RETRY, reason)
    return ActionOutcome(ActionVerdict.RETRY if code in _PASSING_CODES else ActionVerdict.REJECTED, reason)


def _is_of_id(error: Mapping[str, Any]) -> bool:
    """Return whether a duplicate is one of the ``_id``, which is assumed if the server does not say."""
    if pattern := error.get("keyPattern"):
        return set(pattern) == {"_id"}
    reason = str(error.get("errmsg", ""))
    return "index: _id_" in reason or "index: " not in reason


def _refusal(sink: MongoSink) -> str:
    return (
        f"MongoDB at {sink.address} does not accept the user or the password, or the user may not write. Correct them"
        " in the URI, or give the user the role readWrite."
    )


def _told(sink: MongoSink, error: Exception) -> str:
    return without_secrets(f"{type(error).__name__}: {error}")[:500]
