"""Commands for Redis as values. A specification only; loads no client library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from flott.common.types import Row, RowKind
from flott.errors import ProgramError

#: What Redis stores; a number is written in its decimal form.
RedisValue = str | bytes | int | float


class RedisCommand(tuple[bytes, ...]):
    """A command and its arguments, as Redis receives them.

    >>> RedisCommand.set("greeting", "hello")
    RedisCommand('SET', 'greeting', 'hello')
    >>> RedisCommand("GEOADD", "places", 13.36, 38.11, "Palermo")[0]
    b'GEOADD'
    """

    __slots__ = ()

    def __new__(cls, name: str, *arguments: RedisValue) -> RedisCommand:
        return super().__new__(cls, [_encoded(name), *map(_encoded, arguments)])

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"RedisCommand({', '.join(repr(part.decode('utf-8', 'backslashreplace')) for part in self)})"

    @staticmethod
    def set(key: RedisValue, value: RedisValue, ttl_seconds: int | None = None) -> RedisCommand:
        """Store a string."""
        return (
            RedisCommand("SET", key, value) if ttl_seconds is None else RedisCommand("SETEX", key, ttl_seconds, value)
        )

    @staticmethod
    def incrby(key: RedisValue, amount: int = 1) -> RedisCommand:
        """Add to a counter."""
        return RedisCommand("INCRBY", key, amount)

    @staticmethod
    def delete(*keys: RedisValue) -> RedisCommand:
        """Delete keys of any type."""
        return RedisCommand("DEL", *keys)

    @staticmethod
    def expire(key: RedisValue, seconds: int) -> RedisCommand:
        """Let a key expire."""
        return RedisCommand("EXPIRE", key, seconds)

    @staticmethod
    def hset(key: RedisValue, mapping: Mapping[str, RedisValue]) -> RedisCommand:
        """Set fields of a hash."""
        return RedisCommand("HSET", key, *[part for item in mapping.items() for part in item])

    @staticmethod
    def hdel(key: RedisValue, *names: RedisValue) -> RedisCommand:
        """Delete fields of a hash."""
        return RedisCommand("HDEL", key, *names)

    @staticmethod
    def hincrby(key: RedisValue, name: RedisValue, amount: int = 1) -> RedisCommand:
        """Add to a counter in a hash."""
        return RedisCommand("HINCRBY", key, name, amount)

    @staticmethod
    def rpush(key: RedisValue, *values: RedisValue) -> RedisCommand:
        """Append to a list."""
        return RedisCommand("RPUSH", key, *values)

    @staticmethod
    def lpush(key: RedisValue, *values: RedisValue) -> RedisCommand:
        """Put values before a list."""
        return RedisCommand("LPUSH", key, *values)

    @staticmethod
    def ltrim(key: RedisValue, start: int, stop: int) -> RedisCommand:
        """Keep a part of a list."""
        return RedisCommand("LTRIM", key, start, stop)

    @staticmethod
    def sadd(key: RedisValue, *members: RedisValue) -> RedisCommand:
        """Add members to a set."""
        return RedisCommand("SADD", key, *members)

    @staticmethod
    def srem(key: RedisValue, *members: RedisValue) -> RedisCommand:
        """Remove members from a set."""
        return RedisCommand("SREM", key, *members)

    @staticmethod
    def zadd(key: RedisValue, scores: Mapping[str, float]) -> RedisCommand:
        """Set the scores of members of a sorted set."""
        return RedisCommand("ZADD", key, *[part for member, score in scores.items() for part in (score, member)])

    @staticmethod
    def zincrby(key: RedisValue, member: RedisValue, amount: float = 1) -> RedisCommand:
        """Add to the score of a member of a sorted set."""
        return RedisCommand("ZINCRBY", key, amount, member)

    @staticmethod
    def zrem(key: RedisValue, *members: RedisValue) -> RedisCommand:
        """Remove members from a sorted set."""
        return RedisCommand("ZREM", key, *members)

    @staticmethod
    def xadd(key: RedisValue, mapping: Mapping[str, RedisValue], max_length: int | None = None) -> RedisCommand:
        """Append an entry to a stream; Redis chooses its id. ``max_length`` drops the oldest, approximately."""
        limit: tuple[RedisValue, ...] = () if max_length is None else ("MAXLEN", "~", max_length)
        return RedisCommand("XADD", key, *limit, "*", *[part for item in mapping.items() for part in item])

    @staticmethod
    def publish(channel: RedisValue, message: RedisValue) -> RedisCommand:
        """Send a message to the subscribers of a channel."""
        return RedisCommand("PUBLISH", channel, message)


def _encoded(part: RedisValue) -> bytes:
    if type(part) is bytes:
        return part
    if type(part) is str:
        return part.encode()
    if type(part) is int or type(part) is float:
        return repr(part).encode()
    raise ProgramError(
        f"A Redis command consists of str, bytes, int and float, found {part!r} of type {type(part).__name__}: convert"
        " it first, for example with json.dumps()."
    )


def commands_for_rows(key_field: str, key_prefix: str) -> Callable[[Any], list[RedisCommand]]:
    """Return a mapper that stores each record as a hash. Fields that are None are absent in the hash.

    >>> commands_for_rows("id", "user:")(Row(id=7, name="Ada"))
    [RedisCommand('DEL', 'user:7'), RedisCommand('HSET', 'user:7', 'id', '7', 'name', 'Ada')]
    """

    def commands(record: Any) -> list[RedisCommand]:
        kind = record.get_row_kind() if isinstance(record, Row) else RowKind.INSERT
        if kind is RowKind.UPDATE_BEFORE:
            return []
        mapping = _mapping(record)
        if mapping.get(key_field) is None:
            raise ProgramError(f"Found no field {key_field!r}, which is the key, in the record {record!r}.")
        key = f"{key_prefix}{mapping[key_field]}"
        # The hash is written as a whole: fields that an older record had, and this one lacks, must not remain.
        removal = RedisCommand("DEL", key)
        if kind is RowKind.DELETE:
            return [removal]
        present = {name: _scalar(value) for name, value in mapping.items() if value is not None}
        return [removal, RedisCommand.hset(key, present)]

    return commands


def _mapping(record: Any) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    if isinstance(record, Row):
        return record.as_dict()
    if is_dataclass(record) and not isinstance(record, type):
        return {one.name: getattr(record, one.name) for one in fields(record)}
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return record._asdict()  # type: ignore[no-any-return]
    raise ProgramError(
        f"set_hash_per_row() stores dicts, rows with names, dataclasses and named tuples, found {record!r}."
    )


def _scalar(value: Any) -> RedisValue:
    if type(value) is bool:
        return "true" if value else "false"
    return value if isinstance(value, (str, bytes, int, float)) else str(value)
