"""Connections to Redis, kept between epochs, and Redis's errors in Flott's words. Driver and task side."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from flott._extras import require
from flott.datastream.connectors.redis import RedisSink
from flott.errors import ProgramError
from flott.runtime.connectors.client_pool import ClientPool

_log = logging.getLogger(__name__)
_POOL: ClientPool[Any] = ClientPool("redis")

#: How the errors begin that pass by themselves, or when an operator does something about the server.
PASSING = ("OOM", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF", "TRYAGAIN", "CLUSTERDOWN")


def errors() -> Any:
    """Return the module of the client library's exceptions."""
    return require("redis.exceptions", extra="redis")


def connect(url: str, timeout_ms: int) -> Any:
    """Return a client. It opens connections when they are needed, and opens them again after a failure."""
    seconds = timeout_ms / 1000
    try:
        return require("redis", extra="redis").Redis.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds, socket_keepalive=True, retry=None
        )
    except ValueError as error:
        raise ProgramError(f"The URL of Redis cannot be read: {error}.") from None


def borrow(sink: RedisSink) -> AbstractContextManager[Any]:
    """Return a client of this process for the sink's server."""
    key = ("redis", sink.url, sink.timeout_ms)
    return _POOL.borrow(key, lambda: connect(sink.url, sink.timeout_ms), lambda client: client.close())


def passes(message: str) -> bool:
    """Return whether an error of Redis may be gone later.

    >>> passes("OOM command not allowed when used memory > 'maxmemory'."), passes("WRONGTYPE Operation against a key")
    (True, False)
    """
    return message.startswith(PASSING)


def may_pass(error: Exception) -> bool:
    """Return whether a request that failed with this may succeed later. The client removes the code of some errors."""
    known = errors()
    passing = (known.ConnectionError, known.TimeoutError, known.ReadOnlyError, known.OutOfMemoryError)
    return isinstance(error, passing) or passes(str(error))


def is_refused_login(error: Exception) -> bool:
    """Return whether Redis did not accept the user or the password."""
    known = errors()
    return isinstance(error, (known.AuthenticationError, known.AuthenticationWrongNumberOfArgsError))


def login_refused(address: str) -> ProgramError:
    """Return the error of a wrong user or password."""
    return ProgramError(
        f"Redis at {address} does not accept the user or the password. Correct them in the URL:"
        " redis://user:password@host:port/database."
    )


def check_connection(sink: RedisSink) -> None:
    """Raise ``ProgramError`` for a wrong password and for a server that the sink cannot use.

    A server that does not answer is only logged: it may be away for a moment while the job recovers.
    """
    try:
        with borrow(sink) as client:
            facts = client.info()
    except errors().RedisError as error:
        if is_refused_login(error):
            raise login_refused(sink.address) from None
        _log.warning("Redis at %s does not answer yet (%s).", sink.address, type(error).__name__)
        return
    if facts.get("cluster_enabled"):
        raise ProgramError(
            f"Redis at {sink.address} is a node of a cluster. The sink writes to one server: name a server or the"
            " primary of a replicated one."
        )
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if facts.get("maxmemory") and policy.startswith("allkeys"):
        _log.warning(
            "Redis at %s evicts any key when its memory is full (maxmemory-policy %s), also commands that wait for"
            " their checkpoint: the job would fail then. Use volatile-* or noeviction.",
            sink.address, policy,
        )  # fmt: skip
