"""SHOW and DESCRIBE: what is there, as rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flott.table._catalog.catalog_table import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    Identifier,
    MetadataColumn,
    PhysicalColumn,
)
from flott.table._connectors.options import shown_options
from flott.table._environment.catalogs import describe_catalog, show_create_catalog
from flott.table._environment.jobs import show_jobs
from flott.table._environment.result import StatementResult, names_of, table_of
from flott.table._plan.logical import Schema
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.print_expressions import quote_name, quote_text
from flott.table._types.logical import BOOLEAN, STRING

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession


def show(session: SqlSession, statement: sql.SqlShow) -> StatementResult:
    """Return the names of objects of a kind."""
    catalogs, kind = session.catalogs, statement.kind.upper()
    if kind == "COLUMNS":
        return _columns(session, statement.scope, statement)
    if kind == "JOBS":
        return show_jobs(session)
    match kind:
        case "CATALOGS":
            title, names = "catalog name", list(catalogs.catalogs)
        case "DATABASES":
            catalog = statement.scope[0] if statement.scope else catalogs.catalog
            title, names = "database name", list(catalogs.catalog_named(catalog).databases)
        case "TABLES" | "VIEWS":
            catalog, database = _scope(session, statement.scope)
            held = catalogs.tables_in(catalog, database)
            wanted = [name for name, one in held if kind == "TABLES" or not isinstance(one, CatalogTable)]
            title, names = kind[:-1].lower() + " name", wanted
        case "FUNCTIONS" | "USER FUNCTIONS":
            title, names = "function name", list(catalogs.function_names())
            if kind == "FUNCTIONS":
                names += _library()
        case "MODULES":
            title, names = "module name", ["core"]
        case "FULL MODULES":
            return table_of({"module name": STRING, "used": BOOLEAN}, [("core", True)])
        case "JARS":
            title, names = "jars", []
        case "PARTITIONS" | "PROCEDURES" | "MODELS" | "MATERIALIZED TABLES":
            title, names = kind[:-1].lower() + " name", []
        case _:
            raise SqlError(f"SHOW {statement.kind} is not supported.", statement.position)
    return names_of(title, sorted(_chosen(set(names), statement)))


def _library() -> list[str]:
    from flott.table._functions.aggregates.library import aggregates
    from flott.table._functions.registry import functions

    return [name.lower() for name in {*functions(), *aggregates()} if name.replace("_", "").isalnum()]


def _chosen(names: Iterable[str], statement: sql.SqlShow) -> list[str]:
    """Return the names that a LIKE pattern chooses."""
    if statement.like is None:
        return list(names)
    pattern = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in statement.like)
    matches = re.compile(pattern, re.IGNORECASE if statement.ignore_case else 0).fullmatch
    return [name for name in names if (matches(name) is None) is statement.negated]


def _scope(session: SqlSession, scope: tuple[str, ...]) -> tuple[str, str]:
    catalogs = session.catalogs
    if not scope:
        return catalogs.catalog, catalogs.database
    return (catalogs.catalog, scope[0]) if len(scope) == 1 else (scope[0], scope[1])


def describe(session: SqlSession, statement: sql.SqlDescribe) -> StatementResult:
    """Return the columns of a table, or the properties of a database or catalog."""
    kind = statement.kind.upper()
    catalogs = session.catalogs
    if kind == "TABLE":
        return _columns(session, statement.name, None)
    if kind == "DATABASE":
        catalog = statement.name[0] if len(statement.name) == 2 else catalogs.catalog
        held = catalogs.catalog_named(catalog).database(statement.name[-1])
        rows = [("Name", statement.name[-1]), ("Comment", held.comment or "")]
        if statement.extended:
            rows += [("Properties", str(dict(held.properties)))]
        return table_of({"database description item": STRING, "database description value": STRING}, rows)
    if kind == "CATALOG":
        return describe_catalog(session, statement.name[0], extended=statement.extended)
    if kind == "FUNCTION":
        found = catalogs.find_function(statement.name)
        if found is None:
            raise SqlError(f"There is no function '{'.'.join(statement.name)}'.", statement.position)
        rows = [
            ("is system function", "false"),
            ("function language", found.language),
            ("class name", found.class_name),
        ]
        return table_of({"info name": STRING, "info value": STRING}, rows)
    raise SqlError(f"DESCRIBE {statement.kind} is not supported.", statement.position)


def _columns(session: SqlSession, path: tuple[str, ...], filter_by: sql.SqlShow | None) -> StatementResult:
    """Return Flink's six columns about each column of a table or view."""
    _, held = session.catalogs.get(path)
    plan = session.resolve(sql.SqlTableQuery(path))
    schema: Schema = plan.schema
    key = set(held.schema.primary_key) if isinstance(held, CatalogTable) else set()
    extras: dict[str, str] = {}
    watermarks: dict[str, str] = {}
    comments: dict[str, str] = {}
    if isinstance(held, CatalogTable):
        for column in held.schema.columns:
            if isinstance(column, ComputedColumn):
                extras[column.name] = f"AS {column.expression}"
            elif isinstance(column, MetadataColumn):
                of = "METADATA" + (f" FROM '{column.key}'" if column.key else "")
                extras[column.name] = of + (" VIRTUAL" if column.virtual else "")
            if column.comment:
                comments[column.name] = column.comment
        if held.schema.watermark is not None:
            watermarks[held.schema.watermark.column] = held.schema.watermark.expression
    key_text = f"PRI({', '.join(held.schema.primary_key)})" if isinstance(held, CatalogTable) else ""
    wanted = schema.names if filter_by is None else _chosen(schema.names, filter_by)
    rows = [
        (
            name,
            of.root_text,
            of.nullable,
            key_text if name in key else None,
            extras.get(name),
            watermarks.get(name),
            *((comments.get(name),) if comments else ()),
        )
        for name, of in zip(schema.names, schema.types, strict=True)
        if name in wanted
    ]
    columns = {
        "name": STRING,
        "type": STRING,
        "null": BOOLEAN,
        "key": STRING,
        "extras": STRING,
        "watermark": STRING,
        **({"comment": STRING} if comments else {}),
    }
    return table_of(columns, rows)


def show_current(session: SqlSession, statement: sql.SqlShowCurrent) -> StatementResult:
    """Return the current catalog or database."""
    if statement.kind.upper() == "CATALOG":
        return names_of("current catalog name", [session.catalogs.catalog])
    return names_of("current database name", [session.catalogs.database])


def show_create(session: SqlSession, statement: sql.SqlShowCreate) -> StatementResult:
    """Return the statement that would create a table, view or catalog."""
    if statement.kind.upper() == "CATALOG":
        return show_create_catalog(session, statement.name[0])
    if statement.kind.upper() not in ("TABLE", "VIEW"):
        raise SqlError(f"SHOW CREATE {statement.kind} is not supported.", statement.position)
    identifier, held = session.catalogs.get(statement.name)
    temporary = "TEMPORARY " if identifier in session.catalogs.temporary_tables else ""
    if isinstance(held, CatalogTable):
        return names_of("result", [create_text(identifier, held, temporary)])
    if isinstance(held, CatalogView):
        columns = f"({', '.join(map(quote_name, held.columns))})" if held.columns else ""
        return names_of("result", [f"CREATE {temporary}VIEW {identifier}{columns}\nAS {held.query}\n"])
    raise SqlError(
        f"'{identifier.summary}' was registered by the program: no statement creates it.", statement.position
    )


def create_text(identifier: Identifier, table: CatalogTable, temporary: str = "") -> str:
    """Return the CREATE TABLE of a table. Secrets among its options are hidden."""
    text = f"CREATE {temporary}TABLE {identifier} (\n  " + ",\n  ".join(schema_lines(table)) + "\n)"
    if table.comment:
        text += f"\nCOMMENT {quote_text(table.comment)}"
    if table.partitioned_by:
        text += f"\nPARTITIONED BY ({', '.join(map(quote_name, table.partitioned_by))})"
    options = shown_options(table.options)
    shown = ",\n  ".join(f"{quote_text(key)} = {quote_text(options[key])}" for key in sorted(options))
    return f"{text}\nWITH (\n  {shown}\n)\n"


def schema_lines(table: CatalogTable) -> list[str]:
    """Return the columns, the watermark and the key of a table as CREATE TABLE has them."""
    lines = []
    for column in table.schema.columns:
        comment = f" COMMENT {quote_text(column.comment)}" if column.comment else ""
        match column:
            case PhysicalColumn():
                lines.append(f"{quote_name(column.name)} {column.type}{comment}")
            case ComputedColumn():
                lines.append(f"{quote_name(column.name)} AS {column.expression}{comment}")
            case MetadataColumn():
                of = f" FROM {quote_text(column.key)}" if column.key else ""
                virtual = " VIRTUAL" if column.virtual else ""
                lines.append(f"{quote_name(column.name)} {column.type} METADATA{of}{virtual}{comment}")
    schema = table.schema
    if schema.watermark is not None:
        lines.append(f"WATERMARK FOR {quote_name(schema.watermark.column)} AS {schema.watermark.expression}")
    if schema.primary_key:
        name = f"CONSTRAINT {quote_name(schema.primary_key_name)} " if schema.primary_key_name else ""
        lines.append(f"{name}PRIMARY KEY ({', '.join(map(quote_name, schema.primary_key))}) NOT ENFORCED")
    return lines
