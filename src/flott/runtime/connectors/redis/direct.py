"""Sends commands as soon as enough are there; a repeated epoch sends them again. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flott.datastream.connectors._stores import BulkLimits
from flott.datastream.connectors.base import BadRecord, WriterContext
from flott.datastream.connectors.redis import RedisSink
from flott.runtime.connectors.redis.client import borrow, errors, is_refused_login, login_refused, may_pass
from flott.runtime.connectors.redis.staging import commands_of
from flott.runtime.connectors.stores.actions import DONE, Action, ActionOutcome, ActionVerdict, Unavailable
from flott.runtime.connectors.stores.writer import Store, StoreWriter


def direct_writer(sink: RedisSink, context: WriterContext) -> StoreWriter:
    """Return the writer of a sink that promises at least once."""
    size = sink.commands_per_request
    return StoreWriter(
        RedisStore(sink), context, BulkLimits(max_actions=size, buffer_actions=size), sink.retries, sink.on_rejected
    )


class RedisStore(Store[Any]):
    """Redis, for commands of any kind: their keys are not known to the sink, so all are sent, in order."""

    def __init__(self, sink: RedisSink):
        self._sink = sink
        self.name = f"Redis at {sink.address}"

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        return [Action(None, command, sum(map(len, command))) for command in commands_of(self._sink.mapper, values)]

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        try:
            with borrow(self._sink) as client, client.pipeline(transaction=False) as pipeline:
                for action in actions:
                    pipeline.execute_command(*action.body)
                answers = pipeline.execute(raise_on_error=False)
        except errors().RedisError as error:
            if is_refused_login(error):
                raise login_refused(self._sink.address) from None
            raise Unavailable(f"{type(error).__name__}: {error}") from error
        return [_outcome(answer) for answer in answers]

    def rejected(self, action: Action, reason: str) -> BadRecord:
        name, *arguments = action.body
        key = arguments[0] if arguments else b""
        return BadRecord(
            f"the command {name.decode()} {key.decode('utf-8', 'replace')}", reason, repr(action.body).encode(), key
        )


def _outcome(answer: Any) -> ActionOutcome:
    if not isinstance(answer, Exception):
        return DONE
    return ActionOutcome(ActionVerdict.RETRY if may_pass(answer) else ActionVerdict.REJECTED, str(answer))
