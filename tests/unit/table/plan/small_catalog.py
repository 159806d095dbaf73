"""A session for tests of the resolver: tables in memory, described by the text of their columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from flott.table._catalog.catalog_table import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    Identifier,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
    WatermarkSpec,
)
from flott.table._connectors.table_source import LookupSource, TableSink, TableSource
from flott.table._expressions.expression import UserFunction
from flott.table._plan import logical
from flott.table._plan.resolve.environment import FoundTable
from flott.table._plan.resolve.resolver import resolve_insert, resolve_query
from flott.table._sql.nodes import SqlInsert, SqlQuery
from flott.table._sql.parser import parse_query, parse_statement
from flott.table._sql.type_names import parse_type
from flott.table._types.logical import BIGINT, INT, STRING, row_type


def table(
    *columns: str, watermark: tuple[str, str] | None = None, key: tuple[str, ...] = (), **options: Any
) -> CatalogTable:
    """Return a table of columns such as ``"a INT"``, ``"b AS a + 1"``, ``"c BIGINT METADATA"``."""
    found: list[PhysicalColumn | ComputedColumn | MetadataColumn] = []
    for column in columns:
        name, _, rest = column.partition(" ")
        if rest.startswith("AS "):
            found.append(ComputedColumn(name, rest[3:]))
        elif rest.endswith(" METADATA"):
            found.append(MetadataColumn(name, parse_type(rest.removesuffix(" METADATA"))))
        else:
            found.append(PhysicalColumn(name, parse_type(rest)))
    spec = None if watermark is None else WatermarkSpec(*watermark)
    partitioned = options.pop("partitioned_by", ())
    return CatalogTable(TableSchema(tuple(found), spec, key), options, partitioned)


TABLES: dict[str, Any] = {
    "t": table("a INT", "b BIGINT NOT NULL", "c STRING"),
    "u": table("a INT", "d DOUBLE", "e DECIMAL(10, 2)", "f BOOLEAN NOT NULL"),
    "events": table(
        "id INT NOT NULL",
        "kind STRING",
        "ts TIMESTAMP(3)",
        "price DECIMAL(10, 2)",
        "doubled AS price * 2",
        "pt AS PROCTIME()",
        watermark=("ts", "ts - INTERVAL '5' SECOND"),
    ),
    "rates": table(
        "currency STRING NOT NULL",
        "rate DECIMAL(10, 4)",
        "valid_from TIMESTAMP(3)",
        watermark=("valid_from", "valid_from"),
        key=("currency",),
    ),
    "dim": table("k INT", "name STRING", lookup="yes"),
    "nested": table(
        "id INT", "r ROW<x INT, y ROW<z STRING NOT NULL>>", "xs ARRAY<INT>", "items ARRAY<ROW<p INT, q STRING>>",
        "m MAP<STRING, INT>",
    ),
    "meta": table("v INT", "offset_ BIGINT METADATA"),
    "sink": table("a BIGINT", "s STRING", "n INT NOT NULL"),
    "parts": table("v INT", "region STRING", partitioned_by=("region",)),
    "v1": CatalogView("SELECT a, b + 1 AS b1 FROM t WHERE a > 0", ("x", "y")),
    "loop": CatalogView("SELECT * FROM loop"),
}  # fmt: skip

FUNCTIONS = {
    "py_add": UserFunction("py_add", None, argument_types=(BIGINT, BIGINT), result_type=BIGINT),
    "py_sum": UserFunction("py_sum", None, kind="aggregate", argument_types=(INT,), result_type=BIGINT),
    "py_split": UserFunction(
        "py_split", None, kind="table", argument_types=(STRING,), result_type=row_type({"word": STRING, "length": INT})
    ),
}


class SmallSession:
    """The resolver's view of a session."""

    catalog = "cat"
    database = "db"
    configuration: Mapping[str, str] = {}

    def __init__(self, tables: Mapping[str, Any] = TABLES):
        self.tables = tables

    def find_table(self, path: tuple[str, ...]) -> FoundTable | None:
        if path[:-1] not in ((), ("db",), ("cat", "db")) or path[-1] not in self.tables:
            return None
        return FoundTable(Identifier("cat", "db", path[-1]), self.tables[path[-1]])

    def table_names(self) -> Iterable[str]:
        return list(self.tables)

    def find_function(self, path: tuple[str, ...]) -> UserFunction | None:
        return FUNCTIONS.get(path[-1])

    def function_names(self) -> Iterable[str]:
        return list(FUNCTIONS)

    def query_of(self, table: Hashable) -> SqlQuery | logical.Node:
        assert isinstance(table, str)
        return parse_query(table)

    def source(self, identifier: Identifier, table: CatalogTable) -> TableSource:
        read = [column for column in table.schema.columns if not isinstance(column, ComputedColumn)]
        return TableSource(tuple(c.name for c in read), tuple(c.type for c in read), _unused)

    def sink(self, identifier: Identifier, table: CatalogTable) -> TableSink:
        physical = table.schema.physical
        return TableSink(tuple(c.name for c in physical), tuple(c.type for c in physical), _unused)

    def lookup(self, identifier: Identifier, table: CatalogTable) -> LookupSource | None:
        if "lookup" not in table.options:
            return None
        physical = table.schema.physical
        return LookupSource(tuple(c.name for c in physical), tuple(c.type for c in physical), _unused)


def _unused(*arguments: Any) -> Any:
    raise AssertionError("the resolver runs nothing")


def resolve(text: str, session: SmallSession | None = None) -> logical.Node:
    """Return the plan of a query."""
    return resolve_query(parse_query(text), session or SmallSession())


def resolve_into(text: str, session: SmallSession | None = None) -> logical.SinkNode:
    """Return the plan of an INSERT."""
    statement = parse_statement(text)
    assert isinstance(statement, SqlInsert)
    return resolve_insert(statement, session or SmallSession())
