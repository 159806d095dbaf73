"""Reads CREATE, DROP and ANALYZE. ALTER is in ``alter_parser.py``."""

from __future__ import annotations

from dataclasses import dataclass, field

from flott.table._sql.nodes.base import Position
from flott.table._sql.nodes.definitions import (
    ColumnDefinition,
    SqlAnalyze,
    SqlColumnPlace,
    SqlComputedColumn,
    SqlCreateCatalog,
    SqlCreateDatabase,
    SqlCreateFunction,
    SqlCreateMaterializedTable,
    SqlCreateModel,
    SqlCreateTable,
    SqlCreateView,
    SqlDistribution,
    SqlDropCatalog,
    SqlDropDatabase,
    SqlDropFunction,
    SqlDropModel,
    SqlDropTable,
    SqlDropView,
    SqlKeyConstraint,
    SqlLikeClause,
    SqlLikeOption,
    SqlMetadataColumn,
    SqlNamedColumn,
    SqlPhysicalColumn,
    SqlPlacedColumn,
    SqlResource,
    SqlWatermark,
)
from flott.table._sql.nodes.queries import SqlQuery
from flott.table._sql.nodes.statements import Name, PartitionSpec, SqlStatement
from flott.table._sql.statement_parser import StatementParser

_LANGUAGES = ("JAVA", "SCALA", "PYTHON", "SQL")
_FEATURES = (*("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS"),)


@dataclass
class TableParts:
    """What the parser found in the parentheses of a table."""

    columns: list[SqlPlacedColumn] = field(default_factory=list)
    watermarks: list[SqlWatermark] = field(default_factory=list)
    constraints: list[SqlKeyConstraint] = field(default_factory=list)

    @property
    def definitions(self) -> tuple[ColumnDefinition, ...]:
        return tuple(placed.column for placed in self.columns)


class DefinitionParser(StatementParser):
    """Reads definitions."""

    def alter(self) -> SqlStatement:
        """Read ALTER."""
        raise NotImplementedError

    def definition(self) -> SqlStatement:
        """Read CREATE, REPLACE, ALTER, DROP or ANALYZE."""
        position = self.position
        match self.current.word:
            case "CREATE":
                return self._create(position)
            case "REPLACE":
                self.index += 1
                self.need("TABLE")
                return self._table(position, temporary=False, replace=True, create=False)
            case "ALTER":
                return self.alter()
            case "DROP":
                return self._drop(position)
        return self._analyze(position)

    # --- CREATE ---------------------------------------------------------------------------------------------------

    def _create(self, position: Position) -> SqlStatement:
        self.index += 1
        replace = self.take("OR", "REPLACE")
        or_alter = not replace and self.take("OR", "ALTER")
        temporary = self.take("TEMPORARY")
        system = temporary and self.take("SYSTEM")
        if system or self.at("FUNCTION"):
            self.need("FUNCTION")
            return self._function(position, temporary, system)
        if self.take("TABLE"):
            return self._table(position, temporary, replace, create=True)
        if self.take("VIEW"):
            return self._view(position, temporary, replace)
        if self.take("MODEL"):
            return self._model(position, temporary)
        if not temporary:
            if self.take("MATERIALIZED", "TABLE"):
                return self._materialized_table(position, or_alter)
            if self.take("DATABASE"):
                return self._database(position)
            if self.take("CATALOG"):
                return self._catalog(position)
        self.fail("TABLE, VIEW, FUNCTION, DATABASE or CATALOG")

    def _if_not_exists(self) -> bool:
        return self.take("IF", "NOT", "EXISTS")

    def _comment(self) -> str | None:
        return self.string() if self.take("COMMENT") else None

    def _table(self, position: Position, temporary: bool, replace: bool, create: bool) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        parts = self._table_parts() if self.at("(") else TableParts()
        comment = self._comment()
        distribution = self.distribution() if self.take("DISTRIBUTED") else None
        partitioned_by = self._partitioned_by()
        options = self.options() if self.take("WITH") else ()
        like = self._like() if self.at("LIKE") else None
        query = self.query() if like is None and self.take("AS") else None
        return SqlCreateTable(
            name,
            parts.definitions,
            tuple(parts.watermarks),
            tuple(parts.constraints),
            comment,
            distribution,
            partitioned_by,
            options,
            like,
            query,
            temporary,
            if_not_exists,
            replace,
            create,
            position=position,
        )

    def _partitioned_by(self) -> tuple[str, ...]:
        return self.enclosed(self.name_part, empty=True) if self.take("PARTITIONED", "BY") else ()

    def _table_parts(self) -> TableParts:
        parts = TableParts()
        self.enclosed(lambda: self.table_part(parts), empty=True)
        return parts

    def table_part(self, parts: TableParts) -> None:
        """Read a column, a watermark or a constraint of a table and add it to the parts."""
        position = self.position
        if self.take("WATERMARK"):
            self.need("FOR")
            column = self.name()
            self.need("AS")
            parts.watermarks.append(SqlWatermark(column, self.expression(), position=position))
        elif self.at("CONSTRAINT", "PRIMARY", "UNIQUE"):
            name = self.name_part() if self.take("CONSTRAINT") else None
            kind = self._key_kind()
            columns = self.enclosed(self.name_part)
            parts.constraints.append(SqlKeyConstraint(kind, columns, name, self._enforced(), position=position))
        else:
            parts.columns.append(SqlPlacedColumn(self._column(parts), position=position))

    def _key_kind(self) -> str:
        if self.take("PRIMARY"):
            self.need("KEY")
            return "PRIMARY KEY"
        return self.need_one("UNIQUE", "PRIMARY")

    def _enforced(self) -> bool | None:
        if self.take("NOT", "ENFORCED"):
            return False
        return True if self.take("ENFORCED") else None

    def _column(self, parts: TableParts) -> ColumnDefinition:
        position = self.position
        name = self.name_part()
        if self.take("AS"):
            expression = self.expression()
            return SqlComputedColumn(name, expression, self._comment(), position=position)
        if self.at(",", ")"):
            return SqlNamedColumn(name, position=position)
        type_name = self.type_name()
        if self.take("METADATA"):
            key = self.string() if self.take("FROM") else None
            virtual = self.take("VIRTUAL")
            return SqlMetadataColumn(name, type_name, key, virtual, self._comment(), position=position)
        if self.at("CONSTRAINT", "PRIMARY", "UNIQUE"):
            key_position = self.position
            key_name = self.name_part() if self.take("CONSTRAINT") else None
            kind = self._key_kind()
            parts.constraints.append(SqlKeyConstraint(kind, (name,), key_name, self._enforced(), position=key_position))
        return SqlPhysicalColumn(name, type_name, self._comment(), position=position)

    def column_place(self) -> SqlColumnPlace | None:
        """Read FIRST or AFTER of ALTER TABLE."""
        position = self.position
        if self.take("FIRST"):
            return SqlColumnPlace(position=position)
        return SqlColumnPlace(self.name(), position=position) if self.take("AFTER") else None

    def distribution(self) -> SqlDistribution:
        """Read what follows DISTRIBUTED."""
        position = self.position
        kind = None
        columns: tuple[str, ...] = ()
        if not self.at("INTO"):
            self.need("BY")
            kind = self.take_one("HASH", "RANGE")
            columns = self.enclosed(self.name_part)
        buckets = None
        if self.take("INTO"):
            buckets = self.integer()
            self.need("BUCKETS")
        return SqlDistribution(kind, columns, buckets, position=position)

    def _like(self) -> SqlLikeClause:
        position = self.position
        self.need("LIKE")
        table = self.name()
        options = []
        if self.take("("):
            while not self.take(")"):
                option_position = self.position
                mode = self.need_one("INCLUDING", "EXCLUDING", "OVERWRITING")
                options.append(SqlLikeOption(mode, self.need_one(*_FEATURES), position=option_position))
        return SqlLikeClause(table, tuple(options), position=position)

    def _materialized_table(self, position: Position, or_alter: bool) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        parts = self._table_parts() if self.at("(") else TableParts()
        comment = self._comment()
        distribution = self.distribution() if self.take("DISTRIBUTED") else None
        partitioned_by = self._partitioned_by()
        options = self.options() if self.take("WITH") else ()
        freshness = None
        if self.take("FRESHNESS"):
            self.need("=")
            freshness = self.expression()
        refresh_mode = None
        if self.take("REFRESH_MODE"):
            self.need("=")
            refresh_mode = self.need_one("FULL", "CONTINUOUS")
        self.need("AS")
        return SqlCreateMaterializedTable(
            name,
            self.query(),
            parts.definitions,
            tuple(parts.watermarks),
            tuple(parts.constraints),
            comment,
            distribution,
            partitioned_by,
            options,
            freshness,
            refresh_mode,
            if_not_exists,
            or_alter,
            position=position,
        )

    def _view(self, position: Position, temporary: bool, replace: bool) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        columns = self.enclosed(self._view_column) if self.at("(") else ()
        comment = self._comment()
        self.need("AS")
        query, text = self.query_with_text()
        return SqlCreateView(name, query, columns, comment, temporary, if_not_exists, replace, text, position=position)

    def _view_column(self) -> SqlNamedColumn:
        position = self.position
        name = self.name_part()
        return SqlNamedColumn(name, self._comment(), position=position)

    def query_with_text(self) -> tuple[SqlQuery, str]:
        """Read a query and return it with its text."""
        start = self.current.start
        query = self.query()
        return query, self.text[start : self.tokens[self.index - 1].end]

    def _function(self, position: Position, temporary: bool, system: bool) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        self.need("AS")
        implementation = self.string()
        language = self.need_one(*_LANGUAGES) if self.take("LANGUAGE") else None
        resources = self.several(self._resource) if self.take("USING") else ()
        options = self.options() if self.take("WITH") else ()
        return SqlCreateFunction(
            name, implementation, language, resources, options, temporary, system, if_not_exists, position=position
        )

    def _resource(self) -> SqlResource:
        position = self.position
        return SqlResource(self.need_one("JAR", "FILE", "ARCHIVE"), self.string(), position=position)

    def _database(self, position: Position) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        comment = self._comment()
        options = self.options() if self.take("WITH") else ()
        return SqlCreateDatabase(name, comment, options, if_not_exists, position=position)

    def _catalog(self, position: Position) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name_part()
        comment = self._comment()
        options = self.options() if self.take("WITH") else ()
        return SqlCreateCatalog(name, comment, options, if_not_exists, position=position)

    def _model(self, position: Position, temporary: bool) -> SqlStatement:
        if_not_exists = self._if_not_exists()
        name = self.name()
        inputs = self._table_parts().definitions if self.take("INPUT") else ()
        outputs = self._table_parts().definitions if self.take("OUTPUT") else ()
        comment = self._comment()
        options = self.options() if self.take("WITH") else ()
        query = self.query() if self.take("AS") else None
        return SqlCreateModel(
            name, inputs, outputs, comment, options, query, temporary, if_not_exists, position=position
        )

    # --- DROP and ANALYZE -----------------------------------------------------------------------------------------

    def _drop(self, position: Position) -> SqlStatement:
        self.index += 1
        temporary = self.take("TEMPORARY")
        system = temporary and self.take("SYSTEM")
        materialized = not temporary and self.take("MATERIALIZED")
        if materialized:
            self.need("TABLE")
            return SqlDropTable(*self._dropped(), materialized=True, position=position)
        kinds = ("FUNCTION",) if system else ("TABLE", "VIEW", "FUNCTION", "MODEL")
        kind = self.need_one(*kinds) if temporary else self.need_one(*kinds, "DATABASE", "CATALOG")
        name, if_exists = self._dropped()
        match kind:
            case "TABLE":
                return SqlDropTable(name, if_exists, temporary, position=position)
            case "VIEW":
                return SqlDropView(name, if_exists, temporary, position=position)
            case "FUNCTION":
                return SqlDropFunction(name, if_exists, temporary, system, position=position)
            case "MODEL":
                return SqlDropModel(name, if_exists, temporary, position=position)
            case "CATALOG":
                return SqlDropCatalog(".".join(name), if_exists, position=position)
        cascade = self.take_one("CASCADE", "RESTRICT") == "CASCADE"
        return SqlDropDatabase(name, if_exists, cascade, position=position)

    def _dropped(self) -> tuple[Name, bool]:
        if_exists = self.take("IF", "EXISTS")
        return self.name(), if_exists

    def _analyze(self, position: Position) -> SqlStatement:
        self.index += 1
        if self.take("TABLES"):
            name = self.name() if self.take_one("FROM", "IN") else ()
            self.need("COMPUTE", "STATISTICS")
            columns: tuple[Name, ...] | None = () if self.take("FOR", "ALL", "COLUMNS") else None
            return SqlAnalyze(name, tables=True, columns=columns, position=position)
        self.need("TABLE")
        name = self.name()
        partition: PartitionSpec = self.partition_spec() if self.take("PARTITION") else ()
        self.need("COMPUTE", "STATISTICS")
        columns = None
        if self.take("FOR", "ALL", "COLUMNS"):
            columns = ()
        elif self.take("FOR", "COLUMNS"):
            columns = self.several(self.name)
        return SqlAnalyze(name, partition=partition, columns=columns, position=position)
