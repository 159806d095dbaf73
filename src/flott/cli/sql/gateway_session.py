"""A session of a SQL gateway as a shell uses it: values arrive as texts, or as JSON if JSON is to be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from flott.cli.sql.statement_session import ShownResult
from flott.client.gateway_client import GatewayOperation, ResultHeader, SqlClientSession
from flott.common.types import Row, RowKind
from flott.errors import FlottError
from flott.table._types import logical
from flott.table._types.record_types import distinct_names

#: Keys of options that this process needs for its connection, and that are no settings of a session.
_OF_THE_CONNECTION = ("flott.rest.", "security.ssl.", "flott.progress")

_PLAIN_TYPES: dict[str, logical.LogicalType] = {
    "BOOLEAN": logical.BooleanType(),
    "TINYINT": logical.TinyIntType(),
    "SMALLINT": logical.SmallIntType(),
    "INTEGER": logical.IntType(),
    "BIGINT": logical.BigIntType(),
    "FLOAT": logical.FloatType(),
    "DOUBLE": logical.DoubleType(),
    "DATE": logical.DateType(),
}


def session_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a command line that are settings of a session, without tokens and certificates."""
    return {key: value for key, value in properties.items() if not key.startswith(_OF_THE_CONNECTION)}


class RemoteShellSession:
    """Runs statements at a gateway. Jobs of INSERTs continue there when the shell ends."""

    def __init__(self, session: SqlClientSession, *, json: bool = False):
        self._session = session
        self._row_format = "JSON" if json else "PLAIN_TEXT"

    def execute(self, statement: str) -> ShownResult:
        """Run a statement."""
        operation = self._session.start(statement, self._row_format)
        try:
            header = operation.await_header()
            changelog = header.is_query and self.setting("execution.runtime-mode", "").lower() != "batch"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                with suppress(FlottError):
                    operation.cancel()
            operation.close()
            raise
        if header.kind == "SUCCESS":
            operation.close()
        return _shown(header, operation, changelog)

    def setting(self, key: str, default: str) -> str:
        """Return a setting, as the gateway has it now."""
        return self._session.properties().get(key, default)

    def complete(self, text: str) -> Sequence[str]:
        """Return words; none if the gateway cannot be asked, because a completion is no place for an error."""
        try:
            return self._session.complete(text)
        except FlottError:
            return ()

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _shown(header: ResultHeader, operation: GatewayOperation, changelog: bool) -> ShownResult:
    def rows() -> Iterator[Row]:
        for changed in operation.rows():
            row = Row(*changed.fields)
            row.set_row_kind(RowKind[changed.kind])
            yield row

    names = distinct_names([column.name for column in header.columns])
    types = [column_type(column.type) for column in header.columns]
    return ShownResult(
        logical.row_type(dict(zip(names, types, strict=True))),
        rows,
        lambda value, _: value,
        success_only=header.kind == "SUCCESS",
        is_query=header.is_query,
        changelog=changelog,
        job_id=header.job_id,
        cancel=operation.cancel,
        close=operation.close,
    )


def column_type(document: Mapping[str, Any]) -> logical.LogicalType:
    """Return the type of a column, of which only the width of the column depends. A nested type loses its parts."""
    return _bare_type(document).as_nullable(bool(document.get("nullable", True)))


def _bare_type(document: Mapping[str, Any]) -> logical.LogicalType:
    root = str(document.get("type"))
    length, precision = int(document.get("length", 1)), int(document.get("precision", 0))
    match root:
        case "CHAR" | "VARCHAR":
            return logical.VarCharType(length=length)
        case "DECIMAL":
            return logical.DecimalType(precision=precision, scale=int(document.get("scale", 0)))
        case "TIME_WITHOUT_TIME_ZONE":
            return logical.TimeType(precision=precision)
        case "TIMESTAMP_WITHOUT_TIME_ZONE":
            return logical.TimestampType(precision=precision)
        case "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
            return logical.LocalZonedTimestampType(precision=precision)
    return _PLAIN_TYPES.get(root) or logical.RawType(class_name=root)
