"""Checks the server, and creates, inspects, moves and drops the replication slot and its publication. Driver side.

The publication says which tables are logged for the slot, so it must exist before the slot: the slot decodes with the
catalog as it was at each point of the log. Creating the slot waits until all transactions that are open have ended. So
a transaction that was running before the publication existed is over, and in no log that the slot reads.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from flott._extras import require
from flott.datastream.connectors.cdc import StartupMode
from flott.datastream.connectors.postgres_cdc import PostgresSource, default_publication
from flott.errors import ConnectorError, ProgramError, StateError
from flott.runtime.connectors.cdc.postgres_connection import application_name, connect, time_limit, wording

R = TypeVar("R")

#: How often a slot in use is tried again, and for how long before the session that holds it is ended.
BUSY_INTERVAL_S = 0.1
BUSY_PATIENCE_S = 15

_INTEGERS = ("int2", "int4", "int8")


def lsn_of(text: str) -> int:
    """Return a position in the log as a number.

    >>> lsn_of("1/16B3748")
    4318771016
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(position: int) -> str:
    """Return a position in PostgreSQL's form."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def quoted(name: str) -> str:
    """Return an identifier for a statement."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class PostgresTable:
    """A table of the source."""

    schema: str
    name: str
    key: str | None  #: the column of its only key, if that is an integer: the snapshot is cut by it
    identified: bool  #: updates and deletes can be logged
    partitioned: bool
    readable: bool  #: whether the role may read it

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted_name(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"


@dataclass(frozen=True)
class Slot:
    """What the server knows about the slot."""

    confirmed: int
    wal_status: str
    active_pid: int | None


_TABLES = """
SELECT n.nspname, c.relname, c.relkind = 'p', has_table_privilege(c.oid, 'SELECT'), c.relreplident::text,
       (SELECT array_agg(a.attname::text || ':' || t.typname ORDER BY a.attnum) FROM pg_attribute a
        JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = c.oid AND a.attnum = ANY (
            SELECT unnest(i.indkey::int2[]) FROM pg_index i
            WHERE i.indrelid = c.oid AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1, 2
"""


def check_server(connection: Any, source: PostgresSource) -> None:
    """Raise ProgramError if the server cannot deliver changes to any user."""
    version, wal_level, recovering = connection.execute(
        "SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery()"
    ).fetchone()
    if version < 130000:
        raise ProgramError(f"Change data capture needs PostgreSQL 13 or later, found {version // 10000}.")
    if source.startup.mode is StartupMode.SNAPSHOT:
        return
    if wal_level != "logical":
        raise ProgramError(
            f"The server at {source.hostname}:{source.port} has wal_level={wal_level}, but change data capture needs"
            " wal_level=logical. Set it (ALTER SYSTEM SET wal_level = logical) and restart the server."
        )
    if recovering:
        raise ProgramError(
            f"The server at {source.hostname}:{source.port} is a standby. Change data capture reads the primary."
        )


def find_tables(connection: Any, source: PostgresSource) -> list[PostgresTable]:
    """Return the tables of the source. Raises ProgramError if one cannot be captured."""
    found = [_table(*row) for row in connection.execute(_TABLES).fetchall()]
    tables = [table for table in found if source.captures(table.schema, table.name)]
    for pattern in source.tables:
        if not any(re.fullmatch(pattern, table.full_name) for table in tables):
            raise ProgramError(
                f"table_list: {pattern!r} matches no table in database {source.database!r}"
                f"{' in schemas ' + ', '.join(source.schemas) if source.schemas else ''}. Names have the form"
                f" schema.table; there are {', '.join(sorted(table.full_name for table in found)[:10]) or 'none'}."
            )
    for table in tables:
        if not table.readable:
            raise ProgramError(
                f"The role {source.username!r} may not read {table.full_name}: GRANT SELECT ON {table.quoted_name}."
            )
        if not table.identified and source.startup.mode is not StartupMode.SNAPSHOT:
            raise ProgramError(
                f"The table {table.full_name} has no primary key, so PostgreSQL would refuse updates and deletes of it"
                " once it is published. Add a primary key, or: ALTER TABLE"
                f" {table.quoted_name} REPLICA IDENTITY FULL."
            )
    return tables


def _table(
    schema: str, name: str, partitioned: bool, readable: bool, identity: str, columns: list[str] | None
) -> PostgresTable:
    key = None
    if columns is not None and len(columns) == 1 and identity != "n":
        column, _, kind = columns[0].rpartition(":")
        key = column if kind in _INTEGERS else None
    identified = identity == "f" or (columns is not None and identity != "n")
    return PostgresTable(schema, name, key, identified, partitioned, readable)


# ---------------------------------------------------------------------------------------------------------------------
# Publication
# ---------------------------------------------------------------------------------------------------------------------


def ensure_publication(connection: Any, source: PostgresSource, tables: list[PostgresTable]) -> None:
    """Create the publication, or check that it has all tables, whole."""
    psycopg = require("psycopg", extra="postgres")
    if not _publication(connection, source):
        listed = ", ".join(table.quoted_name for table in tables)
        with suppress(psycopg.errors.DuplicateObject):  # another process was first
            connection.execute(
                f"CREATE PUBLICATION {quoted(source.publication)} FOR TABLE {listed}"
                " WITH (publish_via_partition_root = true)"
            )
    via_root, changes = _publication(connection, source) or (False, False)
    if not changes:
        raise ProgramError(
            f"The publication {source.publication!r} does not publish inserts, updates and deletes. Drop it, or: ALTER"
            f" PUBLICATION {quoted(source.publication)} SET (publish = 'insert, update, delete, truncate')."
        )
    published = _published(connection, source)
    for table in tables:
        if table.partitioned and not via_root:
            raise ProgramError(
                f"The publication {source.publication!r} publishes the partitions of {table.full_name} under their own"
                f" names. Use: ALTER PUBLICATION {quoted(source.publication)} SET (publish_via_partition_root = true)."
            )
        if published.get(table.full_name):
            raise ProgramError(
                f"The publication {source.publication!r} has a row filter or a column list for {table.full_name}, so"
                " the log would have less than the snapshot. Publish the whole table, and filter in the program."
            )
    if missing := [table for table in tables if table.full_name not in published]:
        _add_tables(connection, source, missing)


def _add_tables(connection: Any, source: PostgresSource, missing: list[PostgresTable]) -> None:
    """Publish tables that were added to the program. The lock waits for transactions that have begun to change them."""
    listed = ", ".join(table.quoted_name for table in missing)
    statement = f"ALTER PUBLICATION {quoted(source.publication)} ADD TABLE {listed}"
    psycopg = require("psycopg", extra="postgres")
    try:
        with connection.transaction():
            connection.execute(f"LOCK TABLE {listed} IN SHARE ROW EXCLUSIVE MODE")
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        raise ProgramError(
            f"The publication {source.publication!r} lacks {', '.join(table.full_name for table in missing)}, and the"
            f" role {source.username!r} may not add tables. Let the owner run: {statement}."
        ) from None


def _publication(connection: Any, source: PostgresSource) -> tuple[bool, bool] | None:
    row: tuple[bool, bool] | None = connection.execute(
        "SELECT pubviaroot, pubinsert AND pubupdate AND pubdelete FROM pg_publication WHERE pubname = %s",
        (source.publication,),
    ).fetchone()
    return row


def _published(connection: Any, source: PostgresSource) -> dict[str, bool]:
    """Return the published tables, and whether only a part of each is published."""
    partly = connection.execute(
        "SELECT n.nspname || '.' || c.relname, to_jsonb(r) ->> 'prqual' IS NOT NULL OR to_jsonb(r) ->> 'prattrs' IS NOT"
        " NULL FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid JOIN pg_class c ON c.oid ="
        " r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s",
        (source.publication,),
    ).fetchall()
    whole = connection.execute(
        "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s", (source.publication,)
    ).fetchall()
    return {name: False for (name,) in whole} | dict(partly)


# ---------------------------------------------------------------------------------------------------------------------
# Slot
# ---------------------------------------------------------------------------------------------------------------------


def system_of(connection: Any) -> str:
    """Return what identifies the server and the database: positions of another mean nothing here."""
    row = connection.execute(
        "SELECT system_identifier::text || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())"
        " FROM pg_control_system()"
    ).fetchone()
    return str(row[0])


def read_slot(connection: Any, source: PostgresSource) -> Slot | None:
    """Return the state of the slot, None if there is none. Raises ProgramError if it is of another kind."""
    row = connection.execute(
        "SELECT plugin, database, confirmed_flush_lsn::text, wal_status, active_pid FROM pg_replication_slots"
        " WHERE slot_name = %s",
        (source.slot,),
    ).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, wal_status, active_pid = row
    if confirmed is None and wal_status != "lost":
        raise ConnectorError(
            f"The replication slot {source.slot!r} is being created by another session, which waits until all open"
            " transactions have ended. Look for them in pg_stat_activity."
        )
    if plugin != "pgoutput" or database != source.database:
        raise ProgramError(
            f"The replication slot {source.slot!r} is for the plugin {plugin!r} and the database {database!r}, expected"
            f" 'pgoutput' and {source.database!r}. Choose another slot_name()."
        )
    return Slot(lsn_of(confirmed or "0/0"), wal_status or "lost", active_pid)


def log_end(connection: Any, source: PostgresSource) -> tuple[int, bool]:
    """Return the end of the log that is on disk, and whether the publication exists."""
    text, published = connection.execute(
        "SELECT pg_current_wal_flush_lsn()::text, EXISTS (SELECT 1 FROM pg_publication WHERE pubname = %s)",
        (source.publication,),
    ).fetchone()
    return lsn_of(text), published


def unpublished(source: PostgresSource) -> str:
    """Return the message for a publication that was dropped. From version 18 on the server says nothing about it."""
    return (
        f"The publication {source.publication!r} does not exist any more, so changes are missing from the log. Drop"
        f" the replication slot {source.slot!r}, and start the job without its checkpoints: it takes a new snapshot."
    )


def create_slot(connection: Any, source: PostgresSource) -> None:
    """Create the slot. Waits until every transaction that is open now has ended."""
    psycopg = require("psycopg", extra="postgres")
    try:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (source.slot,))
    except psycopg.errors.DuplicateObject:
        pass
    except psycopg.errors.ConfigurationLimitExceeded:
        raise ProgramError(
            "All replication slots of the server are in use: raise max_replication_slots, or drop slots that nothing"
            " reads (SELECT slot_name FROM pg_replication_slots WHERE NOT active)."
        ) from None


def refuse_lost(slot: Slot | None, source: PostgresSource, position: int | None) -> None:
    """Raise StateError if the log from a position on cannot be read any more."""
    again = "Start the job without its checkpoints, so that it takes a new snapshot"
    if slot is None:
        if position is not None:
            raise StateError(f"The replication slot {source.slot!r} does not exist any more. {again}.")
        return
    if slot.wal_status == "lost":
        raise StateError(
            f"The server has removed the log that the replication slot {source.slot!r} needs, because it exceeded"
            f" max_slot_wal_keep_size. Drop the slot. {again}."
        )
    if position is not None and slot.confirmed > position:
        raise StateError(
            f"The checkpoint is at {lsn_text(position)} of the log, but the replication slot {source.slot!r} has been"
            f" confirmed up to {lsn_text(slot.confirmed)}: changes in between cannot be read again. Restore the latest"
            f" checkpoint. If it is lost: {again[0].lower()}{again[1:]}."
        )


def advance_slot(connection: Any, source: PostgresSource, position: int) -> None:
    """Confirm the log up to a position: the server may remove it."""
    with_slot(
        connection,
        source,
        lambda: connection.execute(
            "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (source.slot, lsn_text(position))
        ),
    )


def with_slot(
    connection: Any, source: PostgresSource, use: Callable[[], R], monotonic: Callable[[], float] = time.monotonic
) -> R:
    """Call something that needs the slot, which one session at a time may use. A task that is not waited for any more
    may still hold it: its session is ended after a while."""
    psycopg = require("psycopg", extra="postgres")
    started, ended = monotonic(), False
    while True:
        try:
            return use()
        except psycopg.errors.ObjectInUse as error:
            waited = monotonic() - started
            if waited > 2 * BUSY_PATIENCE_S:
                raise ConnectorError(
                    f"The replication slot {source.slot!r} is in use by another session ({error.diag.message_primary})."
                    " Each job needs a slot_name() of its own."
                ) from None
            if waited > BUSY_PATIENCE_S and not ended:
                ended = True
                _end_own_session(connection, source)
            time.sleep(BUSY_INTERVAL_S)


def _end_own_session(connection: Any, source: PostgresSource) -> None:
    """End the session that holds the slot, if it is one of this source."""
    connection.execute(
        "SELECT pg_terminate_backend(a.pid) FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid"
        " WHERE s.slot_name = %s AND a.application_name = %s AND a.usename = current_user",
        (source.slot, application_name(source)),
    )


def drop_slot(source: PostgresSource) -> None:
    """Drop the slot, and the publication if it has the default name."""
    with wording(source, "the slot could not be dropped"):
        connection = connect(source)
        try:
            with time_limit(connection, source.request_timeout_ms):
                if read_slot(connection, source) is not None:
                    with_slot(
                        connection,
                        source,
                        lambda: connection.execute("SELECT pg_drop_replication_slot(%s)", (source.slot,)),
                    )
                if source.publication == default_publication(source.slot):
                    connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(source.publication)}")
        finally:
            connection.close()
