"""Which columns of a table a sink writes, and what its staging table looks like. Driver and task side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import RowTypeInfo
from flott.datastream.connectors.jdbc._table_sink import JdbcTableSink
from flott.errors import ProgramError
from flott.runtime.connectors.jdbc.session import DatabaseColumn, DatabaseTable, Session
from flott.runtime.connectors.jdbc.statements import COMMITS_TABLE, STAGES_TABLE, Grammar, staging_table

#: PostgreSQL cuts longer names.
_LONGEST_NAME = 60


@dataclass(frozen=True)
class WrittenTable:
    """How records become rows of a table."""

    grammar: Grammar
    table: DatabaseTable
    fields: tuple[str, ...]  #: of the records, one for each column
    columns: tuple[str, ...]  #: as the table calls them, unquoted
    key: tuple[str, ...]  #: columns; empty: append
    staging: str  #: quoted, with its schema
    staging_statement: str  #: creates the staging table

    @property
    def key_positions(self) -> list[int]:
        return [self.columns.index(name) for name in self.key]

    @property
    def commits_table(self) -> str:
        return f"{self.table.prefix}{COMMITS_TABLE}"

    @property
    def stages_table(self) -> str:
        return f"{self.table.prefix}{STAGES_TABLE}"


def layout_of(session: Session, sink: JdbcTableSink, record_type: TypeInformation | None) -> WrittenTable:
    """Return the layout, by the catalog. Raises ProgramError if table and records do not fit together."""
    fields = tuple(declared_fields(record_type))
    known = (sink.table, sink.columns, sink.key, fields)
    if known not in session.memory:
        table = session.table(sink.table)
        if table is None:
            raise ProgramError(
                f"There is no table {sink.table!r} in {sink.connection_options.address}. Create it, or let the sink do"
                " so with create_table_if_missing()."
            )
        session.memory[known] = choose_layout(session.grammar, table, sink.columns, sink.key, fields)
    layout: WrittenTable = session.memory[known]
    return layout


def choose_layout(
    grammar: Grammar, table: DatabaseTable, chosen: Sequence[str], key: Sequence[str], declared: Sequence[str]
) -> WrittenTable:
    """Return the layout: the chosen columns, or those of the declared type, or all of the table."""
    writable = [column.name for column in table.columns if column.writable]
    fields = tuple(chosen or declared or writable)
    columns = tuple(_column(table, name).name for name in fields)
    keys = tuple(_column(table, name).name for name in key)
    if missing := [name for name in keys if name not in columns]:
        raise ProgramError(
            f"The key column {missing[0]!r} of table {table.plain_name} is not written. The records have the fields"
            f" {list(fields)}: add it, or choose another key."
        )
    if keys and frozenset(keys) not in table.unique_keys:
        raise ProgramError(
            f"upsert() by {list(keys)} needs a primary key or a unique index on exactly these columns. Table"
            f" {table.plain_name} has {sorted(map(sorted, table.unique_keys)) or 'none'}."
        )
    by_name = {column.name: column for column in table.columns}
    staged = [(grammar.quote(name), _staged_type(by_name[name], keys)) for name in columns]
    digest = blake2b(repr(staged).encode(), digest_size=4).hexdigest()
    name = f"flott_staged_{table.plain_name}"[: _LONGEST_NAME - 9] + f"_{digest}"
    staging = f"{table.prefix}{grammar.quote(name)}"
    return WrittenTable(grammar, table, fields, columns, keys, staging, staging_table(staging, staged))


def _staged_type(column: DatabaseColumn, key: Iterable[str]) -> str:
    # What is deleted has values in its key only. Of all else a null that the table refuses is refused by the task.
    required = not column.nullable and (not key or column.name in key)
    return f"{column.kind}{' NOT NULL' if required else ''}"


def _column(table: DatabaseTable, name: str) -> DatabaseColumn:
    for column in table.columns:
        if column.name == name:
            return column
    alike = [column for column in table.columns if column.name.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    raise ProgramError(
        f"Table {table.plain_name} lacks column {name!r}. It has {[column.name for column in table.columns]}: add the"
        " column, or choose the columns to write with set_columns()."
    )


def declared_fields(record_type: TypeInformation | None) -> dict[str, TypeInformation]:
    """Return the fields of a declared type by name; nothing if the type has no names."""
    if isinstance(record_type, RowTypeInfo) and record_type._field_names is None:
        return {}
    names = getattr(record_type, "get_field_names", None)
    if record_type is None or names is None:
        return {}
    return dict(zip(names(), record_type.get_field_types(), strict=True))  # type: ignore[attr-defined]
