"""The SQL texts of the table sink. Pure: names come in quoted.

What differs between the dialects is a :class:`Grammar`. Values are ``?`` everywhere; sessions translate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: The columns that a staging table has besides the columns of its table.
STAGE, SEQUENCE, KIND = "flott_stage", "flott_seq", "flott_kind"
UPSERT_KIND, DELETE_KIND = 0, 1

COMMITS_TABLE, STAGES_TABLE = "flott_commits", "flott_stages"


@dataclass(frozen=True)
class Grammar:
    """How a dialect writes what the others write differently."""

    quote_mark: str
    has_on_conflict: bool  #: ``ON CONFLICT``, as opposed to ``ON DUPLICATE KEY UPDATE``
    for_update: str = " FOR UPDATE"  #: ends a query whose rows must not change before the transaction ends

    def quote(self, name: str) -> str:
        return f"{self.quote_mark}{name.replace(self.quote_mark, self.quote_mark * 2)}{self.quote_mark}"

    def listed(self, names: Sequence[str]) -> str:
        return ", ".join(map(self.quote, names))

    def upsert_tail(self, columns: Sequence[str], key: Sequence[str]) -> str:
        """What follows an INSERT that is to update rows which are there."""
        others = [name for name in columns if name not in key]
        if self.has_on_conflict:
            if not others:
                return f" ON CONFLICT ({self.listed(key)}) DO NOTHING"
            changes = ", ".join(f"{self.quote(name)} = EXCLUDED.{self.quote(name)}" for name in others)
            return f" ON CONFLICT ({self.listed(key)}) DO UPDATE SET {changes}"
        changes = ", ".join(f"{self.quote(name)} = VALUES({self.quote(name)})" for name in others or key)
        return f" ON DUPLICATE KEY UPDATE {changes}"

    def insert(self, table: str, columns: Sequence[str], key: Sequence[str] = ()) -> str:
        """Insert one row, or update the one that has its key."""
        tail = self.upsert_tail(columns, key) if key else ""
        return f"INSERT INTO {table} ({self.listed(columns)}) VALUES ({marks(len(columns))}){tail}"

    def insert_if_absent(self, table: str, columns: Sequence[str]) -> str:
        """Insert one row unless its key is there. Waits for another transaction that is about to insert it."""
        if self.has_on_conflict:
            return f"{self.insert(table, columns)} ON CONFLICT DO NOTHING"
        return self.insert(table, columns).replace("INSERT INTO", "INSERT IGNORE INTO", 1)

    def delete(self, table: str, key: Sequence[str]) -> str:
        """Delete the row of a key."""
        return f"DELETE FROM {table} WHERE {' AND '.join(f'{self.quote(name)} = ?' for name in key)}"

    def move(self, target: str, source: str, columns: Sequence[str], key: Sequence[str]) -> str:
        """Insert all rows of another table, none of which has the key of another."""
        tail = self.upsert_tail(columns, key) if key else ""
        listed = self.listed(columns)
        return f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {source} WHERE 1 = 1{tail}"

    def move_staged(self, target: str, staging: str, columns: Sequence[str], key: Sequence[str], stages: int) -> str:
        """Insert the rows of so many stages; of several with one key the last one counts."""
        if not key:
            listed = self.listed(columns)
            return (
                f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {staging}"
                f" WHERE {STAGE} IN ({marks(stages)}) ORDER BY {STAGE}, {SEQUENCE}"
            )
        last = self._last_of_key(staging, columns, key, stages)
        return (
            f"INSERT INTO {target} ({self.listed(columns)}) SELECT {self.listed(columns)} FROM ({last}) AS flott_last"
            f" WHERE flott_rank = 1 AND {KIND} = {UPSERT_KIND}{self.upsert_tail(columns, key)}"
        )

    def delete_staged(self, target: str, staging: str, key: Sequence[str], stages: int) -> str:
        """Delete the rows whose last change in these stages is a deletion."""
        last = self._last_of_key(staging, (), key, stages)
        return (
            f"DELETE FROM {target} WHERE ({self.listed(key)}) IN (SELECT {self.listed(key)} FROM ({last}) AS flott_last"
            f" WHERE flott_rank = 1 AND {KIND} = {DELETE_KIND})"
        )

    def _last_of_key(self, staging: str, columns: Sequence[str], key: Sequence[str], stages: int) -> str:
        wanted = self.listed(columns or key)
        return (
            f"SELECT {wanted}, {KIND}, ROW_NUMBER() OVER (PARTITION BY {self.listed(key)}"
            f" ORDER BY {STAGE} DESC, {SEQUENCE} DESC) AS flott_rank FROM {staging} WHERE {STAGE} IN ({marks(stages)})"
        )


def marks(count: int) -> str:
    """Return so many marks for values."""
    return ", ".join("?" * count)


def commits_table(table: str) -> str:
    """Create the table of markers. A marker is in the transaction that it tells of."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (id VARCHAR(64) NOT NULL PRIMARY KEY, writer VARCHAR(32) NOT NULL,"
        " epoch BIGINT NOT NULL, committed_ms BIGINT NOT NULL)"
    )


def stages_table(table: str) -> str:
    """Create the table that says which attempt has staged rows."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table} (stage BIGINT NOT NULL PRIMARY KEY, writer VARCHAR(32) NOT NULL,"
        " attempt VARCHAR(200) NOT NULL, epoch BIGINT NOT NULL, staging VARCHAR(200) NOT NULL,"
        " staged_ms BIGINT NOT NULL)"
    )


def staging_table(table: str, columns: Sequence[tuple[str, str]]) -> str:
    """Create a staging table, with columns of these quoted names and types."""
    listed = "".join(f", {name} {kind}" for name, kind in columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({STAGE} BIGINT NOT NULL, {SEQUENCE} BIGINT NOT NULL,"
        f" {KIND} SMALLINT NOT NULL{listed}, PRIMARY KEY ({STAGE}, {SEQUENCE}))"
    )
