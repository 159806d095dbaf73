"""What the sources of changes have in common: the settings of a server and its tables, and their builder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar
from zoneinfo import ZoneInfo

from flott.common._secrets import Properties
from flott.common.time import Duration
from flott.datastream.connectors.base import Boundedness, OnError, Source
from flott.datastream.connectors.cdc import (
    ChangeDeserializer,
    ChangelogRowDeserializer,
    StartupMode,
    StartupOptions,
)
from flott.errors import ProgramError


@dataclass(frozen=True, kw_only=True)
class ChangeSource(Source[Any]):
    """The settings that every source of changes has."""

    hostname: str = "localhost"
    port: int
    username: str = ""
    password: str = field(repr=False, default="")
    tables: tuple[str, ...] = ()  #: regular expressions; each matches whole names of the form ``schema.table``
    startup: StartupOptions = field(default_factory=StartupOptions.initial)
    deserializer: ChangeDeserializer[Any] = field(default_factory=ChangelogRowDeserializer)
    split_size: int = 8096  #: rows of a chunk of the snapshot
    time_zone: str = "UTC"
    connect_timeout_ms: int = 30_000
    request_timeout_ms: int = 120_000
    properties: Properties = field(default_factory=Properties)  #: of the connection, by the client's names
    on_error: OnError = field(default_factory=OnError.fail)

    @property
    def boundedness(self) -> Boundedness:
        bounded = self.startup.mode is StartupMode.SNAPSHOT
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def _matches(self, schema: str, table: str, schemas: tuple[str, ...]) -> bool:
        if schemas and schema not in schemas:
            return False
        return any(re.fullmatch(pattern, f"{schema}.{table}") for pattern in self.tables)


S = TypeVar("S", bound=ChangeSource)


class ChangeSourceBuilder(Generic[S]):
    """Collects the settings of a source of changes. The names are those of Flink CDC's builders."""

    def __init__(self, source: S):
        self._source = source

    def _with(self, **changes: Any) -> Self:
        self._source = replace(self._source, **changes)
        return self

    def hostname(self, hostname: str) -> Self:
        """Set the address of the server. The default is ``localhost``."""
        return self._with(hostname=hostname)

    def port(self, port: int) -> Self:
        """Set the port of the server. The default is that of the system."""
        return self._with(port=port)

    def table_list(self, *tables: str) -> Self:
        """Set the tables: names such as ``shop.orders``, or regular expressions that match whole names."""
        for pattern in tables:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ProgramError(f"table_list: {pattern!r} is no regular expression: {error}.") from error
        return self._with(tables=tuple(tables))

    def username(self, username: str) -> Self:
        """Set the user. The page of the connector says which rights it needs."""
        return self._with(username=username)

    def password(self, password: str) -> Self:
        """Set the password of the user."""
        return self._with(password=password)

    def deserializer(self, deserializer: ChangeDeserializer[Any]) -> Self:
        """Set how changes become records. The default makes rows with a row kind."""
        return self._with(deserializer=deserializer)

    def split_size(self, split_size: int) -> Self:
        """Set how many rows a chunk of the snapshot has at most. The default is 8096."""
        if split_size < 1:
            raise ProgramError(f"A chunk of the snapshot has at least one row, found {split_size}.")
        return self._with(split_size=split_size)

    def server_time_zone(self, time_zone: str) -> Self:
        """Set the time zone in which values with a time zone are given. The default is UTC."""
        try:
            ZoneInfo(time_zone)
        except (ValueError, OSError, KeyError) as error:
            raise ProgramError(f"There is no time zone {time_zone!r}. Use a name such as 'Europe/Berlin'.") from error
        return self._with(time_zone=time_zone)

    def connect_timeout(self, timeout: Duration) -> Self:
        """Set how long a connection may take. The default is 30 seconds."""
        return self._with(connect_timeout_ms=timeout.to_millis())

    def request_timeout(self, timeout: Duration) -> Self:
        """Set how long the server may take for an answer. The default is two minutes."""
        return self._with(request_timeout_ms=timeout.to_millis())

    def on_error(self, on_error: OnError) -> Self:
        """Set what happens to a row whose values Python cannot represent."""
        return self._with(on_error=on_error)

    def _complete(self, *required: str) -> S:
        """Return the source; raises if one of these settings is missing."""
        missing = [name for name in required if not getattr(self._source, name)]
        if missing:
            called = ", ".join({"tables": "table_list"}.get(name, name) + "()" for name in missing)
            raise ProgramError(f"A {type(self._source).__name__} needs more settings: call {called} of its builder.")
        return self._source
