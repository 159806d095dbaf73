"""Connections to a cluster that are kept between epochs, and its errors in Flott's words. Driver and task side."""

from __future__ import annotations

import logging
import ssl
from contextlib import AbstractContextManager
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.cassandra import CassandraTableSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.stores.actions import ActionOutcome, ActionVerdict, Unavailable

_log = logging.getLogger(__name__)
_POOL: ClientPool[CassandraConnection] = ClientPool("cassandra")

#: Names of the errors that pass: replicas are down or busy, or a node does not answer.
_PASSING = frozenset({
    "CoordinationFailure", "NoHostAvailable", "OperationTimedOut", "ReadFailure", "ReadTimeout", "Unavailable",
    "WriteFailure", "WriteTimeout", "OverloadedErrorMessage", "IsBootstrappingErrorMessage", "ServerError",
    "ConnectionException", "ConnectionShutdown", "ConnectionBusy", "TruncateError",
})  # fmt: skip


class CassandraConnection:
    """A session, and the statements that were prepared in it. Used by one thread at a time."""

    def __init__(self, sink: CassandraTableSink):
        cluster = require("cassandra.cluster", extra="cassandra")
        policies = require("cassandra.policies", extra="cassandra")
        where, level = sink.cluster, sink.options.level
        seconds = where.timeout_ms / 1000
        profile = cluster.ExecutionProfile(
            load_balancing_policy=policies.TokenAwarePolicy(policies.DCAwareRoundRobinPolicy()),
            retry_policy=policies.FallthroughRetryPolicy(),
            request_timeout=seconds,
            **({} if level is None else {"consistency_level": level.value}),
        )
        self._timestamp = 0  #: of the next request; the client asks for it while it makes the request
        self._cluster = cluster.Cluster(
            list(where.contact_points),
            port=where.port,
            auth_provider=_login(sink),
            ssl_context=_tls(where.certificate_authority),
            timestamp_generator=lambda: self._timestamp,
            connect_timeout=seconds,
            control_connection_timeout=seconds,
            execution_profiles={cluster.EXEC_PROFILE_DEFAULT: profile},
        )
        self._prepared: dict[str, Any] = {}
        try:
            self.session = self._cluster.connect(sink.key_space)
        except BaseException:
            self._cluster.shutdown()
            raise

    def prepare(self, query: str) -> Any:
        """Return a prepared statement."""
        found = self._prepared.get(query)
        if found is None:
            found = self._prepared[query] = self.session.prepare(query)
        return found

    def execute(self, statement: Any, timestamp: int, trace: bool) -> Any:
        """Begin to execute a bound statement with this time of writing; return its future."""
        self._timestamp = timestamp
        return self.session.execute_async(statement, trace=trace)

    def close(self) -> None:
        """End the session."""
        self._cluster.shutdown()


def borrow(sink: CassandraTableSink) -> AbstractContextManager[CassandraConnection]:
    """Return a connection of this process for the sink."""
    return _POOL.borrow(
        (sink.cluster, sink.key_space, sink.options.level), lambda: CassandraConnection(sink), CassandraConnection.close
    )


def connection_failure(sink: CassandraTableSink, error: Exception) -> Exception:
    """Return what to raise for an error of connecting or preparing."""
    if is_refused_login(error):
        return ConnectorError(_refusal(sink))
    if passes(error):
        return Unavailable(told(error))
    return ConnectorError(f"{sink.address} refused the statement: {told(error)}")


def outcome_of(error: Exception) -> ActionOutcome:
    """Return what the failure of one statement means."""
    return ActionOutcome(ActionVerdict.RETRY if passes(error) else ActionVerdict.REJECTED, told(error))


def passes(error: Exception) -> bool:
    """Return whether the same request may succeed later."""
    return any(kind.__name__ in _PASSING for kind in type(error).__mro__) or isinstance(error, OSError)


def is_refused_login(error: Exception) -> bool:
    """Return whether the user or the password was refused, or a permission is missing."""
    inner = getattr(error, "errors", None)
    causes = inner.values() if isinstance(inner, dict) else []
    names = {"AuthenticationFailed", "Unauthorized"}
    return any(type(one).__name__ in names for one in (error, *causes))


def told(error: Exception) -> str:
    """Return the words of an error, without secrets."""
    return without_secrets(f"{type(error).__name__}: {error}")[:500]


def check_statement(sink: CassandraTableSink) -> None:
    """Raise ``ProgramError`` for a wrong login, and for a statement that the cluster does not understand."""
    try:
        with borrow(sink) as connection:
            if sink.query:
                connection.prepare(sink.query)
            else:
                connection.session.execute(f"SELECT * FROM {sink.table} LIMIT 1")
    except ProgramError:
        raise
    except Exception as error:
        if is_refused_login(error):
            raise ProgramError(_refusal(sink)) from None
        if not passes(error):
            raise ProgramError(f"{sink.address} does not accept the statement or table: {told(error)}") from None
        _log.warning("%s does not answer yet: %s", sink.address, told(error))


def _login(sink: CassandraTableSink) -> Any:
    where = sink.cluster
    if where.username is None:
        return None
    return require("cassandra.auth", extra="cassandra").PlainTextAuthProvider(where.username, where.password)


def _tls(certificate: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # nodes are found by their addresses
    context.load_verify_locations(certificate)
    return context


def _refusal(sink: CassandraTableSink) -> str:
    return (
        f"{sink.address} does not accept the user or the password, or the user may not write. Correct them in the"
        " ClusterBuilder, or grant the user MODIFY on the table."
    )
