"""Stages commands in Redis and describes them for the committer. Task side.

The commands of a subtask in an epoch are cut into chunks. A chunk is a Redis list: for each command the number of its
parts, then its parts. The names of all chunks are in a set, where :class:`RedisCommitter` finds those of failed
attempts. A chunk that may have been written, but was not confirmed, is written again *under another name*: a request
that was stuck in the network may arrive even after the commit, and must not bring back what was executed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from random import Random
from typing import Any

from flott.datastream.connectors._redis_commands import RedisCommand
from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.redis import RedisMapper, RedisSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.connectors.redis.client import borrow, errors, is_refused_login, login_refused, may_pass

VERSION = 1
#: Lua cannot call a function with more arguments than this, and the script calls Redis with those of a command.
MAX_PARTS = 4000


def base_name(prefix: str, job_id: str, operator_id: str) -> str:
    """Return how the keys of one sink of one job begin."""
    return f"{prefix}:{job_id}:{operator_id}"


def index_name(base: str) -> str:
    """Return the key of the set of all staged chunks."""
    return f"{base}:staged"


def chunk_name(base: str, chunk: str) -> str:
    """Return the key of a chunk."""
    return f"{base}:chunk:{chunk}"


def marker_name(base: str) -> str:
    """Return the key of the hash that says what was executed."""
    return f"{base}:executed"


def attempt_of(chunk: str) -> str:
    """Return which attempt has staged a chunk.

    >>> attempt_of("12|7-a|0|3|0")
    '7-a'
    """
    return chunk.partition("|")[2].rsplit("|", 3)[0]


class StagingWriter(SinkWriter[Any]):
    """Stages the commands of one subtask and epoch."""

    def __init__(self, sink: RedisSink, context: WriterContext, clock: Clock | None = None):
        self._sink = sink
        self._context = context
        self._clock = clock or SystemClock()
        self._random = Random(context.attempt_id)
        self._base = base_name(sink.key_prefix, context.job_id, context.operator_id)
        self._commands: list[RedisCommand] = []
        self._committables: list[Json] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._commands += commands_of(self._sink.mapper, values)
        size = self._sink.commands_per_request
        if len(self._commands) >= size:
            whole = len(self._commands) // size * size
            for start in range(0, whole, size):
                self._stage(self._commands[start : start + size])
            self._commands = self._commands[whole:]

    def prepare_commit(self) -> list[Json]:
        if self._commands:
            self._stage(self._commands)
            self._commands = []
        return self._committables

    def _stage(self, commands: list[RedisCommand]) -> None:
        parts: list[Any] = []
        for command in commands:
            parts.append(len(command))
            parts += command
        where = self._context
        number = f"{where.epoch}|{where.attempt_id}|{where.subtask}|{len(self._committables)}"
        chunk = self._until_confirmed(number, parts)
        self._committables.append(
            {"version": VERSION, "base": self._base, "epoch": self._context.epoch, "chunk": chunk}
        )

    def _until_confirmed(self, number: str, parts: list[Any]) -> str:
        retries, attempts = self._sink.retries, 0
        while True:
            chunk = f"{number}|{attempts}"
            attempts += 1
            try:
                with borrow(self._sink) as client, client.pipeline(transaction=True) as pipeline:
                    pipeline.sadd(index_name(self._base), chunk)
                    pipeline.rpush(chunk_name(self._base, chunk), *parts)
                    pipeline.execute()
                return chunk
            except errors().RedisError as error:
                reason = str(error) or type(error).__name__
                if is_refused_login(error):
                    raise login_refused(self._sink.address) from None
                if not may_pass(error):
                    raise ConnectorError(
                        f"Redis at {self._sink.address} refused to stage commands: {reason}"
                    ) from error
                if attempts >= retries.max_attempts:
                    raise ConnectorError(
                        f"Redis at {self._sink.address} did not take commands in {attempts} attempts; the last failed"
                        f" with: {reason}. Look at the server, or allow more attempts in the sink's retry policy."
                    ) from error
            self._clock.wait(threading.Event(), retries.delay_ms(attempts, self._random.random()))


def commands_of(mapper: RedisMapper, values: Sequence[Any]) -> list[RedisCommand]:
    """Return the commands that records ask for, in order."""
    commands: list[RedisCommand] = []
    for value in values:
        made = mapper(value)
        if type(made) is RedisCommand:
            commands.append(made)
        elif made is not None:
            commands.extend(made)  # type: ignore[arg-type]
    for command in commands:
        if type(command) is not RedisCommand:
            raise ProgramError(
                f"The mapper of a RedisSink returns a RedisCommand, several or None, found {command!r} of type"
                f" {type(command).__name__}."
            )
        if len(command) > MAX_PARTS:
            raise ProgramError(
                f"A Redis command has at most {MAX_PARTS} parts here, found {len(command)}: make several of it."
            )
    return commands
