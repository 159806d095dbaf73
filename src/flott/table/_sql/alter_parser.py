"""Reads ALTER."""

from __future__ import annotations

from dataclasses import replace

from flott.table._sql.definition_parser import DefinitionParser, TableParts
from flott.table._sql.nodes.base import Position
from flott.table._sql.nodes.definitions import (
    SqlAddPartitions,
    SqlAddTableParts,
    SqlAlterCatalog,
    SqlAlterDatabase,
    SqlAlterFunction,
    SqlAlterModel,
    SqlAlterTableQuery,
    SqlAlterViewQuery,
    SqlCompactTable,
    SqlDistribution,
    SqlDropColumns,
    SqlDropConstraint,
    SqlDropDistribution,
    SqlDropPartitions,
    SqlDropPrimaryKey,
    SqlDropWatermark,
    SqlModifyTableParts,
    SqlNewPartition,
    SqlRefreshTable,
    SqlRenameColumn,
    SqlRenameTable,
    SqlRenameView,
    SqlResetTableOptions,
    SqlResumeTable,
    SqlSetTableOptions,
    SqlSuspendTable,
)
from flott.table._sql.nodes.statements import Name, PartitionSpec, SqlStatement

_LANGUAGES = ("JAVA", "SCALA", "PYTHON", "SQL")


class AlterParser(DefinitionParser):
    """Reads ALTER."""

    def alter(self) -> SqlStatement:
        """Read ALTER."""
        position = self.advance().position
        if self.take("TABLE"):
            return self._alter_table(position, materialized=False)
        if self.take("MATERIALIZED", "TABLE"):
            return self._alter_table(position, materialized=True)
        if self.take("VIEW"):
            return self._alter_view(position)
        temporary = self.take("TEMPORARY")
        if temporary or self.at("FUNCTION"):
            return self._alter_function(position, temporary)
        if self.take("DATABASE"):
            return self._alter_database(position)
        if self.take("CATALOG"):
            return self._alter_catalog(position)
        if self.take("MODEL"):
            return self._alter_model(position)
        self.fail("TABLE, VIEW, FUNCTION, DATABASE or CATALOG")

    def _keys(self) -> tuple[str, ...]:
        return self.enclosed(self.string, empty=True)

    # --- tables ---------------------------------------------------------------------------------------------------

    def _alter_table(self, position: Position, *, materialized: bool) -> SqlStatement:
        if_exists = self.take("IF", "EXISTS")
        table = self.name()
        common = {"if_exists": if_exists, "materialized": materialized}
        if self.take("RENAME"):
            return self._rename(table, position, **common)
        if self.take("SET"):
            return SqlSetTableOptions(table, options=self.options(), position=position, **common)
        if self.take("RESET"):
            return SqlResetTableOptions(table, keys=self._keys(), position=position, **common)
        if self.at("ADD", "MODIFY"):
            return self._add_or_modify(table, position, **common)
        if self.take("DROP"):
            return self._drop_part(table, position, **common)
        if self.take("SUSPEND"):
            return SqlSuspendTable(table, position=position, **common)
        if self.take("RESUME"):
            options = self.options() if self.take("WITH") else ()
            return SqlResumeTable(table, options=options, position=position, **common)
        if self.take("REFRESH"):
            return SqlRefreshTable(table, partition=self._optional_partition(), position=position, **common)
        if self.take("AS"):
            return SqlAlterTableQuery(table, query=self.query(), position=position, **common)
        if self.at("PARTITION", "COMPACT"):
            partition = self._optional_partition()
            self.need("COMPACT")
            return SqlCompactTable(table, partition=partition, position=position, **common)
        self.fail("RENAME, SET, RESET, ADD, MODIFY or DROP")

    def _optional_partition(self) -> PartitionSpec:
        return self.partition_spec() if self.take("PARTITION") else ()

    def _rename(self, table: Name, position: Position, *, if_exists: bool, materialized: bool) -> SqlStatement:
        if self.take("TO"):
            return SqlRenameTable(table, if_exists, materialized, self.name(), position=position)
        column = self.name()
        self.need("TO")
        return SqlRenameColumn(table, if_exists, materialized, column, self.name_part(), position=position)

    def _add_or_modify(self, table: Name, position: Position, *, if_exists: bool, materialized: bool) -> SqlStatement:
        adds = self.advance().word == "ADD"
        if adds and (self.at("PARTITION") or self.sees("IF", "NOT", "EXISTS")):
            if_not_exists = self.take("IF", "NOT", "EXISTS")
            partitions = []
            while self.at("PARTITION"):
                partitions.append(self._new_partition())
            if not partitions:
                self.fail("PARTITION")
            return SqlAddPartitions(table, if_exists, materialized, tuple(partitions), if_not_exists, position=position)
        parts, distribution = TableParts(), None
        if self.take("DISTRIBUTION"):
            distribution = self._new_distribution()
        elif self.at("("):
            self.enclosed(lambda: self._placed_part(parts))
        else:
            self._placed_part(parts)
        node = SqlAddTableParts if adds else SqlModifyTableParts
        return node(
            table,
            if_exists,
            materialized,
            tuple(parts.columns),
            tuple(parts.watermarks),
            tuple(parts.constraints),
            distribution,
            position=position,
        )

    def _new_distribution(self) -> SqlDistribution:
        if self.at("BY", "INTO"):
            return self.distribution()
        position = self.position
        kind = self.take_one("HASH", "RANGE")
        columns = self.enclosed(self.name_part)
        buckets = None
        if self.take("INTO"):
            buckets = self.integer()
            self.need("BUCKETS")
        return SqlDistribution(kind, columns, buckets, position=position)

    def _placed_part(self, parts: TableParts) -> None:
        self.table_part(parts)
        place = self.column_place()
        if place is not None:
            parts.columns[-1] = replace(parts.columns[-1], place=place)

    def _new_partition(self) -> SqlNewPartition:
        position = self.advance().position
        partition = self.partition_spec()
        return SqlNewPartition(partition, self.options() if self.take("WITH") else (), position=position)

    def _drop_part(self, table: Name, position: Position, *, if_exists: bool, materialized: bool) -> SqlStatement:
        if self.at("PARTITION") or self.sees("IF", "EXISTS"):
            if_partition_exists = self.take("IF", "EXISTS")
            partitions = self.several(self._dropped_partition)
            return SqlDropPartitions(table, if_exists, materialized, partitions, if_partition_exists, position=position)
        if self.take("PRIMARY"):
            self.need("KEY")
            return SqlDropPrimaryKey(table, if_exists, materialized, position=position)
        if self.take("CONSTRAINT"):
            return SqlDropConstraint(table, if_exists, materialized, self.name_part(), position=position)
        if self.take("WATERMARK"):
            return SqlDropWatermark(table, if_exists, materialized, position=position)
        if self.take("DISTRIBUTION"):
            return SqlDropDistribution(table, if_exists, materialized, position=position)
        columns = self.enclosed(self.name) if self.at("(") else (self.name(),)
        return SqlDropColumns(table, if_exists, materialized, columns, position=position)

    def _dropped_partition(self) -> PartitionSpec:
        self.need("PARTITION")
        return self.partition_spec()

    # --- other objects --------------------------------------------------------------------------------------------

    def _alter_view(self, position: Position) -> SqlStatement:
        if_exists = self.take("IF", "EXISTS")
        name = self.name()
        if self.take("RENAME"):
            self.need("TO")
            return SqlRenameView(name, self.name(), if_exists, position=position)
        if not self.take("AS"):
            self.fail("RENAME or AS")
        query, text = self.query_with_text()
        return SqlAlterViewQuery(name, query, text, position=position)

    def _alter_function(self, position: Position, temporary: bool) -> SqlStatement:
        system = temporary and self.take("SYSTEM")
        self.need("FUNCTION")
        if_exists = self.take("IF", "EXISTS")
        name = self.name()
        self.need("AS")
        implementation = self.string()
        language = self.need_one(*_LANGUAGES) if self.take("LANGUAGE") else None
        return SqlAlterFunction(name, implementation, language, temporary, system, if_exists, position=position)

    def _alter_database(self, position: Position) -> SqlStatement:
        name = self.name()
        if self.take("RESET"):
            return SqlAlterDatabase(name, reset_keys=self._keys(), position=position)
        if not self.take("SET"):
            self.fail("SET or RESET")
        return SqlAlterDatabase(name, self.options(), position=position)

    def _alter_catalog(self, position: Position) -> SqlStatement:
        name = self.name_part()
        if self.take("RESET"):
            return SqlAlterCatalog(name, reset_keys=self._keys(), position=position)
        if self.take("COMMENT"):
            return SqlAlterCatalog(name, comment=self.string(), position=position)
        if not self.take("SET"):
            self.fail("SET, RESET or COMMENT")
        return SqlAlterCatalog(name, self.options(), position=position)

    def _alter_model(self, position: Position) -> SqlStatement:
        if_exists = self.take("IF", "EXISTS")
        name = self.name()
        if self.take("RENAME"):
            self.need("TO")
            return SqlAlterModel(name, new_name=self.name(), if_exists=if_exists, position=position)
        if self.take("RESET"):
            return SqlAlterModel(name, reset_keys=self._keys(), if_exists=if_exists, position=position)
        if not self.take("SET"):
            self.fail("SET, RESET or RENAME")
        return SqlAlterModel(name, self.options(), if_exists=if_exists, position=position)
