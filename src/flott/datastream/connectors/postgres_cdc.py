"""Change data capture from PostgreSQL. A specification only: ``flott.runtime.connectors.cdc`` plans and reads it.

    source = (
        PostgresSource.builder()
        .hostname("localhost").port(5432).database("shop").username("flott").password("…")
        .schema_list("public").table_list("public.orders")
        .slot_name("orders_job")
        .build()
    )

The names are those of Flink CDC's ``PostgresSourceBuilder``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from flott.datastream.connectors._change_source import ChangeSource, ChangeSourceBuilder
from flott.datastream.connectors.base import SourceReader, SplitEnumerator
from flott.datastream.connectors.cdc import (
    UNAVAILABLE_VALUE,
    ChangeDeserializer,
    ChangelogRowDeserializer,
    ChangeRecord,
    DebeziumDictDeserializer,
    StartupMode,
    StartupOptions,
)
from flott.errors import ProgramError

__all__ = [
    "UNAVAILABLE_VALUE",
    "ChangeDeserializer",
    "ChangeRecord",
    "ChangelogRowDeserializer",
    "DebeziumDictDeserializer",
    "PostgresSource",
    "PostgresSourceBuilder",
    "StartupOptions",
]

#: PostgreSQL accepts nothing else in the name of a slot.
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_MODES = (StartupMode.INITIAL, StartupMode.SNAPSHOT, StartupMode.LATEST_OFFSET, StartupMode.COMMITTED_OFFSETS)


def default_publication(slot: str) -> str:
    """Return the name of the publication, where the program does not choose it."""
    return f"{slot[:50]}_publication"


@dataclass(frozen=True, kw_only=True)
class PostgresSource(ChangeSource):
    """The rows of tables, and then every change of them, from the log of a PostgreSQL server."""

    port: int = 5432
    database: str = ""
    schemas: tuple[str, ...] = ()  #: where tables are looked for; empty: everywhere
    slot: str = "flott"
    publication: str = "flott_publication"

    @staticmethod
    def builder() -> PostgresSourceBuilder:
        """Start building a source."""
        return PostgresSourceBuilder()

    def captures(self, schema: str, table: str) -> bool:
        """Return whether the changes of a table are read."""
        return self._matches(schema, table, self.schemas)

    def drop_slot(self) -> None:
        """Drop the replication slot, and the publication if it has the default name. Call it when the job will not be
        started again: a slot that nothing reads keeps the log of the server, until its disk is full."""
        from flott.runtime.connectors.cdc.postgres_slot import drop_slot

        drop_slot(self)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.cdc.postgres_enumerator import PostgresEnumerator

        return PostgresEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.cdc.postgres_reader import PostgresReader

        return PostgresReader(self)


class PostgresSourceBuilder(ChangeSourceBuilder[PostgresSource]):
    """Collects the settings of a :class:`PostgresSource`. Its role needs REPLICATION, and SELECT on the tables."""

    def __init__(self) -> None:
        super().__init__(PostgresSource())

    def database(self, database: str) -> PostgresSourceBuilder:
        """Set the database."""
        return self._with(database=database)

    def schema_list(self, *schemas: str) -> PostgresSourceBuilder:
        """Look for tables in these schemas only."""
        return self._with(schemas=tuple(schemas))

    def slot_name(self, slot_name: str) -> PostgresSourceBuilder:
        """Set the replication slot, which belongs to one job. The source creates it. The default is ``flott``."""
        if not _SLOT.fullmatch(slot_name):
            raise ProgramError(
                f"A slot has a name of lower-case letters, digits and underscores, 63 at most; found {slot_name!r}."
            )
        return self._with(slot=slot_name, publication=default_publication(slot_name))

    def publication_name(self, publication_name: str) -> PostgresSourceBuilder:
        """Set the publication. The source creates it if it does not exist. The default is the slot's name and
        ``_publication``."""
        return self._with(publication=publication_name)

    def decoding_plugin_name(self, name: str) -> PostgresSourceBuilder:
        """Accept ``pgoutput``, which every server has; there is no other."""
        if name != "pgoutput":
            raise ProgramError(f"Flott reads the output of the plugin pgoutput, found {name!r}.")
        return self

    def startup_options(self, startup_options: StartupOptions) -> PostgresSourceBuilder:
        """Set where to begin: ``initial`` (the default), ``snapshot``, ``latest`` or ``committed``."""
        if startup_options.mode not in _MODES:
            raise ProgramError(
                f"PostgreSQL does not offer {startup_options.mode.value}: its log can be read only from where a slot"
                " is. Use StartupOptions.initial(), snapshot(), latest() or committed()."
            )
        return self._with(startup=startup_options)

    def property(self, name: str, value: str) -> PostgresSourceBuilder:
        """Set a parameter of the connection, such as ``sslmode`` and ``sslrootcert``, by libpq's name."""
        return self._with(properties=self._source.properties | {name: value})

    def build(self) -> PostgresSource:
        """Return the source."""
        return self._complete("database", "username", "tables")
