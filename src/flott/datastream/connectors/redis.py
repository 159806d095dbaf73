"""A sink for Redis and an asynchronous lookup in it. Specifications only; not in PyFlink. Extra: ``flott[redis]``.

The runtime calls ``create_writer`` and ``create_committer``; their imports stand inside, so that the API does not load
the runtime, nor the client library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from flott.common._secrets import without_secrets
from flott.datastream.connectors._redis_commands import RedisCommand, RedisValue, commands_for_rows
from flott.datastream.connectors._redis_lookup import RedisLookupFunction
from flott.datastream.connectors._stores import RetryPolicy, StoreSink, check_on_rejected
from flott.datastream.connectors.base import (
    Committer,
    DeliveryGuarantee,
    Guarantee,
    OnError,
    SinkWriter,
    WriterContext,
)
from flott.errors import ProgramError

__all__ = ["RedisCommand", "RedisLookupFunction", "RedisSink", "RedisSinkBuilder", "RedisValue"]

#: What a program gives to say what a record does: nothing, one command or several.
RedisMapper = Callable[[Any], RedisCommand | Iterable[RedisCommand] | None]


@dataclass(frozen=True)
class RedisSink(StoreSink[Any]):
    """Sends commands to Redis, each exactly once, also those that count or append.

    A task stages its commands in Redis. When the checkpoint is complete, a script executes them and removes them in one
    step, so that repeating it changes nothing.

    >>> sink = (
    ...     RedisSink.builder()
    ...     .set_url("redis://:secret@localhost:6379/0")
    ...     .set_mapper(lambda word: RedisCommand.hincrby("words", word, 1))
    ...     .build()
    ... )
    >>> sink.guarantee.value
    'exactly-once'
    >>> "secret" in repr(sink)
    False
    """

    url: str = field(repr=False)
    mapper: RedisMapper
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    key_prefix: str = "flott"  #: all keys of the sink itself begin with it
    commands_per_request: int = 500  #: Redis executes so many commands without serving anybody else
    timeout_ms: int = 10_000
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    on_rejected: OnError = field(default_factory=OnError.fail)

    @staticmethod
    def builder() -> RedisSinkBuilder:
        """Start building a sink."""
        return RedisSinkBuilder()

    @property
    def address(self) -> str:
        """Return the URL without its password."""
        return without_secrets(self.url)

    @property
    def guarantee(self) -> Guarantee:
        if self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return Guarantee.EXACTLY_ONCE
        return Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.redis.client import check_connection

        check_connection(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        if self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            from flott.runtime.connectors.redis.staging import StagingWriter

            return StagingWriter(self, context)
        from flott.runtime.connectors.redis.direct import direct_writer

        return direct_writer(self, context)

    def create_committer(self) -> Committer | None:
        if self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            from flott.runtime.connectors.redis.committer import RedisCommitter

            return RedisCommitter(self)
        return super().create_committer()


class RedisSinkBuilder:
    """Collects the settings of a :class:`RedisSink`."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._mapper: RedisMapper | None = None
        self._settings: dict[str, Any] = {}

    def set_url(self, url: str) -> Self:
        """Set where Redis is: ``redis://user:password@host:port/database``, ``rediss://`` for TLS, ``unix://``."""
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise ProgramError(
                f"The URL of Redis begins with redis://, rediss:// or unix://, found {without_secrets(url)!r}."
            )
        self._url = url
        return self

    def set_mapper(self, mapper: RedisMapper) -> Self:
        """Set the function that turns a record into a :class:`RedisCommand`, several of them, or None."""
        if not callable(mapper):
            raise ProgramError(f"set_mapper() takes a function from records to RedisCommand, found {mapper!r}.")
        self._mapper = mapper
        return self

    def set_hash_per_row(self, key_field: str, key_prefix: str = "") -> Self:
        """Store each record as a hash under the prefix and the value of a field; rows of kind DELETE remove theirs."""
        self._mapper = commands_for_rows(key_field, key_prefix)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set EXACTLY_ONCE (the default), or AT_LEAST_ONCE to send commands at once."""
        if delivery_guarantee is DeliveryGuarantee.NONE:
            raise ProgramError("A RedisSink waits for Redis's answers: use AT_LEAST_ONCE or EXACTLY_ONCE, found NONE.")
        return self._with(delivery_guarantee=delivery_guarantee)

    def set_key_prefix(self, key_prefix: str) -> Self:
        """Set how the names of keys begin in which the sink stages commands and records what it has executed."""
        if not key_prefix:
            raise ProgramError("The sink's own keys need a prefix, found an empty one.")
        return self._with(key_prefix=key_prefix)

    def set_commands_per_request(self, commands: int) -> Self:
        """Set how many commands Redis executes in one step, during which it serves no other client."""
        if commands < 1:
            raise ProgramError(f"A request holds at least one command, found {commands}.")
        return self._with(commands_per_request=commands)

    def set_timeout(self, timeout_ms: int) -> Self:
        """Set how long to wait for a connection and for an answer."""
        if timeout_ms < 1:
            raise ProgramError(f"A time-out is at least 1 ms, found {timeout_ms}.")
        return self._with(timeout_ms=timeout_ms)

    def set_retries(self, retries: RetryPolicy) -> Self:
        """Set how often and when a task sends a request again."""
        return self._with(retries=retries)

    def set_on_rejected(self, on_rejected: OnError) -> Self:
        """Set what becomes of a command that Redis refuses, such as RPUSH to a key that holds a hash."""
        return self._with(on_rejected=check_on_rejected(on_rejected))

    def build(self) -> RedisSink:
        """Return the sink."""
        if self._url is None or self._mapper is None:
            missing = "set_url()" if self._url is None else "set_mapper() or set_hash_per_row()"
            raise ProgramError(f"A RedisSink needs {missing}: call it before build().")
        sink = replace(RedisSink(self._url, self._mapper), **self._settings)
        if sink.on_rejected.dead_letters is not None and sink.guarantee is Guarantee.EXACTLY_ONCE:
            raise ProgramError(
                "With EXACTLY_ONCE, commands are executed after the checkpoint, when no task can write a dead letter"
                " any more. Use OnError.skip(), which keeps refused commands in the Redis list"
                f" '{sink.key_prefix}:rejected', or the guarantee AT_LEAST_ONCE."
            )
        return sink

    def _with(self, **settings: Any) -> Self:
        self._settings |= settings
        return self
