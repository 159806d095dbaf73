"""CREATE, ALTER and DROP: statements as changes of catalogs, whose frozen values are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from flott.table._catalog.catalog_table import (
    CatalogFunction,
    CatalogTable,
    CatalogView,
    ComputedColumn,
    Identifier,
    MetadataColumn,
    PhysicalColumn,
    TableColumn,
    TableSchema,
    WatermarkSpec,
)
from flott.table._catalog.in_memory import CatalogError
from flott.table._environment.result import StatementResult, success
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.print_expressions import print_expression
from flott.table._sql.print_queries import print_query
from flott.table._sql.type_names import logical_type

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession

T = TypeVar("T")


def options_of(options: Sequence[sql.SqlOption]) -> dict[str, str]:
    """Return options of a WITH clause by key."""
    return {option.key: option.value for option in options}


# --- parts of a table ------------------------------------------------------------------------------------------------


def column_of(column: sql.ColumnDefinition) -> TableColumn:
    """Return the declared column."""
    match column:
        case sql.SqlPhysicalColumn():
            return PhysicalColumn(column.name, logical_type(column.type), column.comment)
        case sql.SqlMetadataColumn():
            return MetadataColumn(column.name, logical_type(column.type), column.key, column.virtual, column.comment)
        case sql.SqlComputedColumn():
            return ComputedColumn(column.name, print_expression(column.expression), column.comment)
    raise SqlError(f"Column '{column.name}' needs a type.", column.position)


def watermark_of(watermarks: Sequence[sql.SqlWatermark]) -> WatermarkSpec | None:
    """Return the watermark of a table, of which there may be one."""
    if len(watermarks) > 1:
        raise SqlError("A table has at most one WATERMARK.", watermarks[1].position)
    for watermark in watermarks:
        return WatermarkSpec(".".join(watermark.column), print_expression(watermark.expression))
    return None


def primary_key_of(constraints: Sequence[sql.SqlKeyConstraint]) -> sql.SqlKeyConstraint | None:
    """Return the primary key among the constraints."""
    keys = []
    for constraint in constraints:
        if constraint.kind.upper() != "PRIMARY KEY":
            raise SqlError("UNIQUE constraints are not supported yet: use PRIMARY KEY.", constraint.position)
        if constraint.enforced is not False:
            raise SqlError(
                "Flott does not own the data, so it cannot enforce a key: write PRIMARY KEY (...) NOT ENFORCED.",
                constraint.position,
            )
        keys.append(constraint)
    if len(keys) > 1:
        raise SqlError("A table has at most one PRIMARY KEY.", keys[1].position)
    return keys[0] if keys else None


def _checked(schema: TableSchema, node: sql.SqlNode) -> TableSchema:
    """Return a schema whose names fit together: columns differ, key and watermark name some of them."""
    names = [column.name for column in schema.columns]
    for name in names:
        if names.count(name) > 1:
            raise SqlError(f"The table has two columns called '{name}'.", node.position)
    for name in schema.primary_key:
        if name not in {column.name for column in schema.columns if not isinstance(column, ComputedColumn)}:
            raise SqlError(f"The primary key names '{name}', which is no physical column of the table.", node.position)
    if schema.watermark is not None and schema.watermark.column.partition(".")[0] not in names:
        raise SqlError(f"The watermark names '{schema.watermark.column}', which is no column.", node.position)
    columns = tuple(
        replace(column, type=column.type.as_nullable(False))
        if isinstance(column, PhysicalColumn) and column.name in schema.primary_key
        else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)


# --- tables ----------------------------------------------------------------------------------------------------------


def create_table(session: SqlSession, statement: sql.SqlCreateTable) -> StatementResult:
    """Create a table; with a query (CTAS) start a job that fills it."""
    identifier = session.catalogs.identifier(statement.name)
    table = table_of_statement(session, statement)
    plan = None
    if statement.query is not None:
        plan = session.resolve(statement.query)
        table = replace(table, schema=_of_query(table.schema, plan.schema.names, plan.schema.types, statement))
    exists = session.catalogs.find(statement.name) is not None
    session.catalogs.put_table(
        identifier,
        table,
        temporary=statement.temporary,
        ignore=statement.if_not_exists,
        replace=statement.replace,
    )
    if statement.query is None or (exists and statement.if_not_exists):
        return success()
    insert = sql.SqlInsert(table=statement.name, query=statement.query, position=statement.position, overwrite=False)
    return session.run_inserts([session.resolve_insert(insert)])


def _of_query(
    declared: TableSchema, names: tuple[str, ...], types: tuple[object, ...], statement: sql.SqlCreateTable
) -> TableSchema:
    """Return the columns of a query, with what the statement declares beside them."""
    from flott.table._types.logical import plain

    known = {column.name for column in declared.columns}
    own = tuple(
        PhysicalColumn(name, plain(of))  # type: ignore[arg-type]
        for name, of in zip(names, types, strict=True)
        if name not in known
    )
    return _checked(replace(declared, columns=(*declared.columns, *own)), statement)


def table_of_statement(session: SqlSession, statement: sql.SqlCreateTable) -> CatalogTable:
    """Return the table that a CREATE TABLE declares."""
    key = primary_key_of(statement.constraints)
    schema = TableSchema(
        tuple(column_of(column) for column in statement.columns if not isinstance(column, sql.SqlNamedColumn)),
        watermark_of(statement.watermarks),
        () if key is None else key.columns,
        None if key is None else key.name,
    )
    options, partitioned_by = options_of(statement.options), statement.partitioned_by
    if statement.like is not None:
        schema, options, partitioned_by = _like(session, statement.like, schema, options, partitioned_by)
    names = {column.name for column in schema.columns}
    for name in partitioned_by:
        if name not in names and statement.query is None:
            raise SqlError(f"PARTITIONED BY names '{name}', which is no column of the table.", statement.position)
    if statement.query is None:
        schema = _checked(schema, statement)
    return CatalogTable(schema, options, partitioned_by, statement.comment, statement.distribution)


def _like(
    session: SqlSession,
    clause: sql.SqlLikeClause,
    schema: TableSchema,
    options: dict[str, str],
    partitioned_by: tuple[str, ...],
) -> tuple[TableSchema, dict[str, str], tuple[str, ...]]:
    """Return declarations merged with those of another table, as the LIKE clause asks for."""
    _, other = session.catalogs.get(clause.table)
    if not isinstance(other, CatalogTable):
        raise SqlError(f"LIKE takes a table, and '{'.'.join(clause.table)}' is a view.", clause.position)
    modes = {option.feature.upper(): option.mode.upper() for option in clause.options}

    def mode(feature: str, default: str = "INCLUDING") -> str:
        return modes.get(feature, modes.get("ALL", default))

    def included(feature: str) -> bool:
        return mode(feature) != "EXCLUDING"

    own = {column.name for column in schema.columns}
    inherited = [
        column
        for column in other.schema.columns
        if not (isinstance(column, ComputedColumn) and not included("GENERATED"))
        and not (isinstance(column, MetadataColumn) and not included("METADATA"))
    ]
    for column in inherited:
        overwritten = not isinstance(column, PhysicalColumn) and (
            mode("GENERATED" if isinstance(column, ComputedColumn) else "METADATA") == "OVERWRITING"
        )
        if column.name in own and not overwritten:
            raise SqlError(f"Column '{column.name}' exists in the table of the LIKE clause as well.", clause.position)
    watermark = schema.watermark
    if watermark is None and included("WATERMARKS"):
        watermark = other.schema.watermark
    elif watermark is not None and other.schema.watermark is not None and mode("WATERMARKS") == "INCLUDING":
        raise SqlError(
            "Both tables have a WATERMARK: add EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.", clause.position
        )
    key, key_name = schema.primary_key, schema.primary_key_name
    if not key and included("CONSTRAINTS"):
        key, key_name = other.schema.primary_key, other.schema.primary_key_name
    merged = TableSchema(
        (*(column for column in inherited if column.name not in own), *schema.columns), watermark, key, key_name
    )
    if mode("OPTIONS", "OVERWRITING") != "EXCLUDING":
        options = {**other.options, **options}
    if not partitioned_by and included("PARTITIONS"):
        partitioned_by = other.partitioned_by
    return merged, options, partitioned_by


def alter_table(session: SqlSession, statement: sql.SqlAlterTable) -> StatementResult:
    """Change a table."""
    found = session.catalogs.find(statement.table)
    if found is None:
        if statement.if_exists:
            return success()
        found = session.catalogs.get(statement.table)
    identifier, table = found
    if not isinstance(table, CatalogTable):
        raise SqlError(f"'{identifier.summary}' is a view: use ALTER VIEW.", statement.position)
    if isinstance(statement, sql.SqlRenameTable):
        return _rename(session, identifier, statement.new_name)
    changed = _altered(table, statement)
    temporary = identifier in session.catalogs.temporary_tables
    session.catalogs.put_table(identifier, changed, temporary=temporary, ignore=False, replace=True)
    return success()


def _altered(table: CatalogTable, statement: sql.SqlAlterTable) -> CatalogTable:
    schema = table.schema
    match statement:
        case sql.SqlSetTableOptions():
            return replace(table, options={**table.options, **options_of(statement.options)})
        case sql.SqlResetTableOptions():
            return replace(table, options={k: v for k, v in table.options.items() if k not in statement.keys})
        case sql.SqlAddTableParts() | sql.SqlModifyTableParts():
            return replace(table, schema=_checked(_with_parts(schema, statement), statement))
        case sql.SqlRenameColumn():
            old = ".".join(statement.column)
            _column(schema, old, statement)
            return replace(table, schema=_renamed_column(schema, old, statement.new_name, statement))
        case sql.SqlDropColumns():
            gone = {".".join(name) for name in statement.columns}
            for name in gone:
                _column(schema, name, statement)
                if name in schema.primary_key or (schema.watermark is not None and schema.watermark.column == name):
                    raise SqlError(f"Column '{name}' is used by the key or the watermark.", statement.position)
            kept = tuple(column for column in schema.columns if column.name not in gone)
            return replace(table, schema=replace(schema, columns=kept))
        case sql.SqlDropPrimaryKey() | sql.SqlDropConstraint():
            if not schema.primary_key:
                raise SqlError("The table has no primary key.", statement.position)
            return replace(table, schema=replace(schema, primary_key=(), primary_key_name=None))
        case sql.SqlDropWatermark():
            if schema.watermark is None:
                raise SqlError("The table has no watermark.", statement.position)
            return replace(table, schema=replace(schema, watermark=None))
        case sql.SqlDropDistribution():
            return replace(table, distribution=None)
    raise SqlError("Flott does not run this form of ALTER TABLE.", statement.position)


def _column(schema: TableSchema, name: str, node: sql.SqlNode) -> TableColumn:
    for column in schema.columns:
        if column.name == name:
            return column
    known = ", ".join(column.name for column in schema.columns)
    raise SqlError(f"The table has no column '{name}'. It has: {known}.", node.position)


def _place_of(columns: Sequence[TableColumn], after: Sequence[str] | None, node: sql.SqlNode) -> int:
    """Return where a column belongs: FIRST, or behind another one."""
    if after is None:
        return 0
    names, name = [one.name for one in columns], ".".join(after)
    if name not in names:
        raise SqlError(f"AFTER '{name}': there is no such column. There is: {', '.join(names)}.", node.position)
    return names.index(name) + 1


def _with_parts(schema: TableSchema, statement: sql.SqlAddTableParts | sql.SqlModifyTableParts) -> TableSchema:
    adding = isinstance(statement, sql.SqlAddTableParts)
    columns = list(schema.columns)
    for placed in statement.columns:
        column = column_of(placed.column)
        known = [one.name for one in columns]
        if adding is (column.name in known):
            problem = "exists already" if adding else "does not exist"
            raise SqlError(f"Column '{column.name}' {problem}.", placed.position)
        place = len(columns)
        if not adding:
            place = known.index(column.name)
            del columns[place]
        if placed.place is not None:
            place = _place_of(columns, placed.place.after, placed)
        columns.insert(place, column)
    watermark = watermark_of(statement.watermarks) or schema.watermark
    if adding and statement.watermarks and schema.watermark is not None:
        raise SqlError("The table has a watermark already: use MODIFY WATERMARK.", statement.position)
    key = primary_key_of(statement.constraints)
    if adding and key is not None and schema.primary_key:
        raise SqlError("The table has a primary key already: use MODIFY PRIMARY KEY.", statement.position)
    return TableSchema(
        tuple(columns),
        watermark,
        schema.primary_key if key is None else key.columns,
        schema.primary_key_name if key is None else key.name,
    )


def _renamed_column(schema: TableSchema, old: str, new: str, node: sql.SqlNode) -> TableSchema:
    for column in schema.columns:
        if isinstance(column, ComputedColumn) and f"`{old}`" in column.expression:
            raise SqlError(f"Column '{old}' is used by the computed column '{column.name}'.", node.position)
    columns = tuple(replace(c, name=new) if c.name == old else c for c in schema.columns)
    key = tuple(new if name == old else name for name in schema.primary_key)
    if schema.watermark is not None and schema.watermark.column == old:
        raise SqlError(f"Column '{old}' is used by the watermark.", node.position)
    return _checked(replace(schema, columns=columns, primary_key=key), node)


def _rename(session: SqlSession, identifier: Identifier, new: tuple[str, ...]) -> StatementResult:
    target = session.catalogs.identifier(new if len(new) > 1 else (identifier.catalog, identifier.database, new[0]))
    temporary = identifier in session.catalogs.temporary_tables
    _, held = session.catalogs.get((identifier.catalog, identifier.database, identifier.name))
    session.catalogs.put_table(target, held, temporary=temporary, ignore=False)
    if temporary:
        del session.catalogs.temporary_tables[identifier]
    else:
        session.catalogs.catalog_named(identifier.catalog).drop_table(identifier.database, identifier.name)
    return success()


# --- views and functions ---------------------------------------------------------------------------------------------


def create_view(session: SqlSession, statement: sql.SqlCreateView) -> StatementResult:
    """Create a view. Its query is resolved now, so that mistakes are found here."""
    plan = session.resolve(statement.query)
    names = tuple(column.name for column in statement.columns)
    if names and len(names) != len(plan.schema):
        raise SqlError(
            f"The view names {len(names)} columns, and its query has {len(plan.schema)}.", statement.position
        )
    text = print_query(statement.query)
    view = CatalogView(text, names, statement.comment, statement.text or text)
    session.catalogs.put_table(
        session.catalogs.identifier(statement.name),
        view,
        temporary=statement.temporary,
        ignore=statement.if_not_exists,
        replace=statement.replace,
    )
    return success()


def alter_view(session: SqlSession, statement: sql.SqlAlterViewQuery | sql.SqlRenameView) -> StatementResult:
    """Change the query or the name of a view."""
    if isinstance(statement, sql.SqlRenameView):
        if statement.if_exists and session.catalogs.find(statement.name) is None:
            return success()
        return _rename(session, session.catalogs.get(statement.name)[0], statement.new_name)
    identifier, held = session.catalogs.get(statement.name)
    if not isinstance(held, CatalogView):
        raise SqlError(f"'{identifier.summary}' is no view.", statement.position)
    session.resolve(statement.query)
    text = print_query(statement.query)
    changed = CatalogView(text, (), held.comment, statement.text or text)
    temporary = identifier in session.catalogs.temporary_tables
    session.catalogs.put_table(identifier, changed, temporary=temporary, ignore=False, replace=True)
    return success()


def _function_of(statement: sql.SqlCreateFunction | sql.SqlAlterFunction) -> CatalogFunction:
    if (statement.language or "PYTHON").upper() != "PYTHON":
        raise SqlError(
            f"Functions are written in Python here, found LANGUAGE {statement.language}. Write LANGUAGE PYTHON.",
            statement.position,
        )
    return CatalogFunction(statement.implementation)


def alter_function(session: SqlSession, statement: sql.SqlAlterFunction) -> StatementResult:
    """Let the name of a function stand for another one."""
    if statement.temporary or statement.system:
        raise SqlError("A temporary function is not altered: drop it and create it again.", statement.position)
    function = _function_of(statement)
    identifier = session.catalogs.identifier(statement.name)
    catalog = session.catalogs.catalog_named(identifier.catalog)
    if identifier.name not in catalog.database(identifier.database).functions:
        if statement.if_exists:
            return success()
        raise CatalogError(f"There is no function '{'.'.join(statement.name)}'.")
    catalog.drop_function(identifier.database, identifier.name)
    catalog.put_function(identifier.database, identifier.name, function, False)
    return success()


def create_function(session: SqlSession, statement: sql.SqlCreateFunction) -> StatementResult:
    """Register a function in Python by the place where it is defined."""
    function = _function_of(statement)
    catalogs = session.catalogs
    if statement.system:
        _put_new(catalogs.system_functions, statement.name[-1].lower(), function, statement.if_not_exists)
    elif statement.temporary:
        identifier = catalogs.identifier(statement.name)
        _put_new(catalogs.temporary_functions, identifier, function, statement.if_not_exists)
    else:
        identifier = catalogs.identifier(statement.name)
        catalog = catalogs.catalog_named(identifier.catalog)
        catalog.put_function(identifier.database, identifier.name, function, statement.if_not_exists)
    return success()


def _put_new(held: dict[T, CatalogFunction], name: T, function: CatalogFunction, ignore: bool) -> None:
    if name in held and not ignore:
        raise CatalogError(f"Function '{name}' exists already.")
    held.setdefault(name, function)


def drop_function(session: SqlSession, statement: sql.SqlDropFunction) -> StatementResult:
    """Remove a function."""
    catalogs = session.catalogs
    identifier = catalogs.identifier(statement.name)
    if statement.system:
        gone = catalogs.system_functions.pop(statement.name[-1].lower(), None)
    elif statement.temporary:
        gone = catalogs.temporary_functions.pop(identifier, None)
    else:
        catalog = catalogs.catalog_named(identifier.catalog)
        gone = catalog.database(identifier.database).functions.get(identifier.name)
        if gone is not None:
            catalog.drop_function(identifier.database, identifier.name)
    if gone is None and not statement.if_exists:
        raise SqlError(f"There is no function '{'.'.join(statement.name)}'.", statement.position)
    return success()
