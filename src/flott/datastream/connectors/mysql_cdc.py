"""Change data capture from MySQL and MariaDB. A specification only: ``flott.runtime.connectors.cdc`` reads it.

    source = (
        MySqlSource.builder()
        .hostname("localhost").port(3306).username("flott").password("…")
        .database_list("shop").table_list("shop.orders")
        .server_id(5401)
        .build()
    )

The names are those of Flink CDC's ``MySqlSourceBuilder``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from flott.datastream.connectors._change_source import ChangeSource, ChangeSourceBuilder
from flott.datastream.connectors.base import SourceReader, SplitEnumerator
from flott.datastream.connectors.cdc import (
    ChangeDeserializer,
    ChangelogRowDeserializer,
    ChangeRecord,
    DebeziumDictDeserializer,
    StartupMode,
    StartupOptions,
)
from flott.errors import ProgramError

__all__ = [
    "ChangeDeserializer",
    "ChangeRecord",
    "ChangelogRowDeserializer",
    "DebeziumDictDeserializer",
    "MySqlSource",
    "MySqlSourceBuilder",
    "StartupOptions",
]

_PROPERTIES = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password", "ssl_verify_cert", "ssl_verify_identity")


@dataclass(frozen=True, kw_only=True)
class MySqlSource(ChangeSource):
    """The rows of tables, and then every change of them, from the binary log of a MySQL or MariaDB server."""

    port: int = 3306
    databases: tuple[str, ...] = ()  #: where tables are looked for; empty: everywhere
    server_id: int = 0  #: the number as which the job reads the log, unique among all replicas of the server

    @staticmethod
    def builder() -> MySqlSourceBuilder:
        """Start building a source."""
        return MySqlSourceBuilder()

    def captures(self, database: str, table: str) -> bool:
        """Return whether the changes of a table are read."""
        return self._matches(database, table, self.databases)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.cdc.mysql_enumerator import MySqlEnumerator

        return MySqlEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.cdc.mysql_reader import MySqlReader

        return MySqlReader(self)


class MySqlSourceBuilder(ChangeSourceBuilder[MySqlSource]):
    """Collects the settings of a :class:`MySqlSource`.

    Its user needs SELECT, REPLICATION SLAVE, REPLICATION CLIENT, and RELOAD on MySQL.
    """

    def __init__(self) -> None:
        super().__init__(MySqlSource())

    def database_list(self, *databases: str) -> MySqlSourceBuilder:
        """Look for tables in these databases only."""
        return self._with(databases=tuple(databases))

    def server_id(self, server_id: int) -> MySqlSourceBuilder:
        """Set the number as which the job reads the log. No other reader of the server may have it."""
        if not 0 < server_id < 1 << 32:
            raise ProgramError(f"A server id is between 1 and 4294967295, found {server_id}.")
        return self._with(server_id=server_id)

    def startup_options(self, startup_options: StartupOptions) -> MySqlSourceBuilder:
        """Set where to begin: ``initial`` (the default), ``snapshot``, ``latest``, ``earliest``, an offset."""
        if startup_options.mode is StartupMode.COMMITTED_OFFSETS:
            raise ProgramError(
                "A MySQL server keeps no position for its readers. Use StartupOptions.initial(), snapshot(), latest(),"
                " earliest() or specific_offset()."
            )
        return self._with(startup=startup_options)

    def property(self, name: str, value: str) -> MySqlSourceBuilder:
        """Set a TLS parameter of the connection by PyMySQL's name, such as ``ssl_ca``."""
        if name not in _PROPERTIES:
            raise ProgramError(f"Found the property {name!r}, expected one of {', '.join(_PROPERTIES)}.")
        return self._with(properties=self._source.properties | {name: value})

    def build(self) -> MySqlSource:
        """Return the source."""
        source = self._complete("username", "tables")
        if not source.server_id:
            # The same in every run of the program, and unlikely to be that of another.
            facts = (source.hostname, source.port, source.databases, source.tables, source.username)
            source = replace(source, server_id=1_000_000_000 + crc32(repr(facts).encode()) % 1_000_000_000)
        return source
