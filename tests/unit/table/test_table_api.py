"""Tables and expressions of the Table API make the queries that SQL would, and these resolve."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.errors import ProgramError
from flott.table._catalog.catalog_table import CatalogTable, Identifier, PhysicalColumn, TableSchema, WatermarkSpec
from flott.table._expressions.expression import UserFunction
from flott.table._plan.resolve.environment import FoundTable
from flott.table._plan.resolve.resolver import resolve_query
from flott.table._remaining_rows import remaining
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_query
from flott.table._sql.print_queries import print_query
from flott.table._sql.type_names import parse_type
from flott.table._tableau import print_rows
from flott.table._types import logical
from flott.table.explain_detail import ExplainDetail
from flott.table.expression import Expression, JsonValueOnEmptyOrError, TimeIntervalUnit
from flott.table.expressions import (
    UNBOUNDED_RANGE,
    and_,
    array,
    call,
    call_sql,
    col,
    concat,
    lit,
    map_,
    range_,
    row,
    row_interval,
    with_columns,
    without_columns,
)
from flott.table.result_kind import ResultKind
from flott.table.schema import Schema
from flott.table.statement_set import StatementSet
from flott.table.table import Table
from flott.table.table_descriptor import FormatDescriptor, TableDescriptor
from flott.table.table_result import TableResult
from flott.table.types import DataTypes
from flott.table.udf import AggregateFunction, ScalarFunction, udaf, udf, udtf
from flott.table.window import Over, Session, Slide, Tumble


def unreadable(source: Any) -> Any:
    raise AssertionError("Nothing runs here")


class RecordedSession:
    """A session that knows two tables, resolves queries for real, and notes what it should run."""

    catalog = "default_catalog"
    database = "default_database"
    configuration: Mapping[str, str] = {}

    def __init__(self) -> None:
        ts = WatermarkSpec("ts", "ts - INTERVAL '5' SECOND")
        self.tables = {
            "t": TableSchema(_columns(a="INT", b="STRING", c="DOUBLE", ts="TIMESTAMP(3)"), ts),
            "u": TableSchema(_columns(d="INT", e="STRING")),
        }
        self.executed: list[ast.SqlStatement] = []

    def find_table(self, path: tuple[str, ...]) -> FoundTable | None:
        schema = self.tables.get(path[-1])
        identifier = Identifier(self.catalog, self.database, path[-1])
        return None if schema is None else FoundTable(identifier, CatalogTable(schema, {"connector": "datagen"}))

    def table_names(self) -> list[str]:
        return list(self.tables)

    def find_function(self, path: tuple[str, ...]) -> UserFunction | None:
        return None

    def function_names(self) -> list[str]:
        return []

    def schemas_of_statement(self, statement: ast.SqlStatement) -> dict[str, list[str]]:
        return {}

    def query_of(self, table: Hashable) -> Any:
        raise NotImplementedError

    def source(self, identifier: Identifier, table: CatalogTable) -> Any:
        from flott.table._connectors.table_source import TableSource

        physical = table.schema.physical
        return TableSource(
            tuple(column.name for column in physical), tuple(column.type for column in physical), make=unreadable
        )

    def sink(self, identifier: Identifier, table: CatalogTable) -> Any:
        raise NotImplementedError

    def lookup(self, identifier: Identifier, table: CatalogTable) -> Any:
        return None

    def schema_of_query(self, query: ast.SqlQuery) -> logical.RowType:
        schema = resolve_query(query, self).schema
        return logical.row_type(dict(zip(schema.names, schema.types, strict=True)))

    def execute_statement(self, statement: ast.SqlStatement) -> TableResult:
        self.executed.append(statement)
        return TableResult(ResultKind.SUCCESS, logical.RowType(()), lambda: iter(()))

    def explain_statement(self, statement: ast.SqlStatement, details: Sequence[ExplainDetail]) -> str:
        return f"{type(statement).__name__} {[detail.name for detail in details]}"

    def declare_anonymous(self, descriptor: TableDescriptor) -> tuple[str, ...]:
        return ("anonymous",)


def _columns(**types: str) -> tuple[PhysicalColumn, ...]:
    return tuple(PhysicalColumn(name, parse_type(text)) for name, text in types.items())


@pytest.fixture
def session() -> RecordedSession:
    return RecordedSession()


@pytest.fixture
def t(session: RecordedSession) -> Table:
    return Table(ast.SqlTableQuery(("t",)), session)


@pytest.fixture
def u(session: RecordedSession) -> Table:
    return Table(ast.SqlTableQuery(("u",)), session)


# --- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (col("a") + 1, "a + 1"),
        (1 - col("a"), "1 - a"),
        (-col("a") * 2, "(- a) * 2"),
        ((col("a") > 1) & (col("b") == "x"), "(a > 1) AND (b = 'x')"),
        (~col("a").is_null, "NOT (a IS NULL)"),
        (col("a") ** 2, "POWER(a, 2)"),
        (lit(-1.5), "- 1.5e0"),
        (lit(Decimal("1.50")), "1.50"),
        (lit(None, DataTypes.INT()), "CAST(NULL AS INT)"),
        (lit(datetime.date(2020, 1, 2)), "DATE '2020-01-02'"),
        (lit([1, 2]), "ARRAY[1, 2]"),
        (lit(10).minutes, "INTERVAL '10' MINUTE(2)"),
        (lit(2).weeks, "INTERVAL '14' DAY(2)"),
        (lit(1500).millis, "INTERVAL '1.500' SECOND(2, 3)"),
        (col("a").between(1, 2), "a BETWEEN 1 AND 2"),
        (col("a").in_(1, 2), "a IN (1, 2)"),
        (col("a").then("x", "y"), "CASE WHEN a THEN 'x' ELSE 'y' END"),
        (col("b").substring(1, 2), "SUBSTRING(b, 1, 2)"),
        (col("b").trim_leading("x"), "TRIM(LEADING 'x' FROM b)"),
        (col("b").like("%x"), "b LIKE '%x'"),
        (col("b").upper_case, "UPPER(b)"),
        (col("a").sum.distinct, "SUM(DISTINCT a)"),
        (col("a").count.over(col("w")), "COUNT(a) OVER w"),
        (col("a").cast(DataTypes.STRING().not_null()), "CAST(a AS STRING NOT NULL)"),
        (col("ts").extract(TimeIntervalUnit.DAY), "EXTRACT(DAY FROM ts)"),
        (col("ts").floor(TimeIntervalUnit.HOUR), "FLOOR(ts TO HOUR)"),
        (col("r").get("x"), "(r).x"),
        (col("m")["k"], "m['k']"),
        (concat("a", col("b")), "CONCAT('a', b)"),
        (row(1, col("b")), "ROW(1, b)"),
        (map_("k", 1), "MAP['k', 1]"),
        (array(1, 2)[1], "ARRAY[1, 2][1]"),
        (and_(col("a"), col("b"), col("c")), "(a AND b) AND c"),
        (call("my.func", 1), "my.func(1)"),
        (call_sql("a + 1 > 2"), "(a + 1) > 2"),
        (
            col("b").json_value("$.x", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 0),
            "JSON_VALUE(b, '$.x' RETURNING INT DEFAULT 0 ON EMPTY NULL ON ERROR)",
        ),
    ],
)
def test_an_expression_is_the_one_of_sql(expression: Expression[Any], text: str) -> None:
    assert str(expression) == text


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(ProgramError, match="combine conditions"):
        bool(col("a") == 1)


# --- tables -----------------------------------------------------------------------------------------------------------

TABLES: list[tuple[Callable[[Table, Table], Table], str]] = [
    (lambda t, u: t.select(col("a"), (col("c") * 2).alias("x")), "SELECT a, c * 2 AS x FROM t"),
    (lambda t, u: t.filter(t.a > 1).select(t.b), "SELECT b FROM (SELECT * FROM t WHERE a > 1)"),
    (lambda t, u: t.distinct(), "SELECT DISTINCT * FROM t"),
    (lambda t, u: u.alias("x"), "SELECT d AS x, e AS e FROM u"),
    (lambda t, u: u.add_columns((col("d") + 1).alias("f")), "SELECT *, d + 1 AS f FROM u"),
    (lambda t, u: u.add_or_replace_columns((col("d") + 1).alias("d")), "SELECT d + 1 AS d, e FROM u"),
    (lambda t, u: u.rename_columns(col("e").alias("f")), "SELECT d, e AS f FROM u"),
    (lambda t, u: t.drop_columns(col("a"), col("ts")), "SELECT b, c FROM t"),
    (lambda t, u: t.select(with_columns(range_("a", "c"))), "SELECT a, b, c FROM t"),
    (lambda t, u: t.select(without_columns(range_(2, 4))), "SELECT a FROM t"),
    (
        lambda t, u: t.group_by(col("b")).select(col("b"), col("a").sum.alias("s")),
        "SELECT b, SUM(a) AS s FROM t GROUP BY b",
    ),
    (lambda t, u: t.join(u, col("a") == col("d")), "SELECT * FROM t INNER JOIN u ON a = d"),
    (lambda t, u: t.left_outer_join(u, col("a") == col("d")), "SELECT * FROM t LEFT JOIN u ON a = d"),
    (lambda t, u: t.select(t.a, t.b).union_all(u), "SELECT a, b FROM t UNION ALL TABLE u"),
    (
        lambda t, u: u.order_by(col("d").desc).offset(1).fetch(2),
        "SELECT * FROM u ORDER BY d DESC OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY",
    ),
    (lambda t, u: t.filter(col("a").in_(u.select(u.d))), "SELECT * FROM t WHERE a IN (SELECT d FROM u)"),
    (
        lambda t, u: (
            t.window(Tumble.over(lit(10).minutes).on(col("ts")).alias("w"))
            .group_by(col("w"), col("b"))
            .select(col("b"), col("w").start, col("w").end.alias("e"), col("a").sum.alias("s"))
        ),
        "SELECT b, window_start AS `EXPR$1`, window_end AS e, SUM(a) AS s "
        "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE(2)) GROUP BY window_start, window_end, b",
    ),
    (
        lambda t, u: (
            t.window(Slide.over(lit(10).minutes).every(lit(5).minutes).on(col("ts")).alias("w"))
            .group_by(col("w"))
            .select(col("a").max.alias("m"), col("w").rowtime.alias("r"))
        ),
        "SELECT MAX(a) AS m, window_time AS r FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE(2), "
        "INTERVAL '10' MINUTE(2)) GROUP BY window_time, window_start, window_end",
    ),
    (
        lambda t, u: (
            t.window(Session.with_gap(lit(1).hours).on(col("ts")).alias("w"))
            .group_by(col("b"), col("w"))
            .select(col("b"), col("c").avg.alias("m"))
        ),
        "SELECT b, AVG(c) AS m FROM SESSION(TABLE t PARTITION BY (b), DESCRIPTOR(ts), INTERVAL '1' HOUR(2)) "
        "GROUP BY window_start, window_end, b",
    ),
    (
        lambda t, u: t.over_window(
            Over.partition_by(col("b")).order_by(col("ts")).preceding(row_interval(5)).alias("w")
        ).select(col("a").sum.over(col("w")).alias("s")),
        "SELECT SUM(a) OVER w AS s FROM t WINDOW w AS (PARTITION BY b ORDER BY ts ROWS BETWEEN 5 PRECEDING AND "
        "CURRENT ROW)",
    ),
    (
        lambda t, u: t.over_window(Over.order_by(col("ts")).preceding(UNBOUNDED_RANGE).alias("w")).select(
            col("a").sum.over(col("w")).alias("s")
        ),
        "SELECT SUM(a) OVER w AS s FROM t WINDOW w AS (ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    ),
]


@pytest.mark.parametrize(("make", "text"), TABLES)
def test_a_table_is_the_query_of_sql(make: Callable[[Table, Table], Table], text: str, t: Table, u: Table) -> None:
    table = make(t, u)
    assert print_query(table.query) == text
    assert parse_query(text) == table.query
    assert table.row_type.fields


def test_columns_without_names_get_those_of_flink(t: Table) -> None:
    table = t.select(col("a"), col("a") + 1, lit(2), col("a").cast(DataTypes.STRING()))
    assert table.row_type.names == ("a", "_c1", "_c2", "a-STRING")
    assert t.select(col("a").sum, col("c").avg).row_type.names == ("EXPR$0", "EXPR$1")
    assert t.add_columns(col("a") * 2).row_type.names == ("a", "b", "c", "ts", "_c4")


def test_columns_are_attributes_and_a_wrong_name_is_refused(t: Table) -> None:
    assert str(t.a) == "a"
    with pytest.raises(AttributeError, match="no column 'z'"):
        t.z  # noqa: B018
    with pytest.raises(ProgramError, match="Did you mean 'ts'"):
        t.drop_columns(col("tss"))
    with pytest.raises(ProgramError, match="Both tables have a column 'a'"):
        t.join(t, col("a") == col("a"))


def test_group_by_must_name_the_window(t: Table) -> None:
    windowed = t.window(Tumble.over(lit(1).minutes).on(col("ts")).alias("w"))
    with pytest.raises(ProgramError, match=r"expected col\('w'\)"):
        windowed.group_by(col("b"))


# --- Python functions -------------------------------------------------------------------------------------------------


class Plus(ScalarFunction):
    def eval(self, x: int, y: int) -> int:
        return x + y


class Total(AggregateFunction[int, list[int]]):
    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        accumulator[0] += args[0]

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def get_result_type(self) -> str:
        return "BIGINT"

    def get_accumulator_type(self) -> str:
        return "ARRAY<BIGINT>"


def test_a_python_function_is_called_with_its_types(t: Table) -> None:
    plus = udf(Plus())
    call_of_plus = plus(col("a"), 1).node
    assert isinstance(call_of_plus, ast.SqlFunctionCall)
    function = call_of_plus.function
    assert isinstance(function, UserFunction)
    assert (function.kind, function.style, function.result_type) == ("scalar", "general", logical.BIGINT)
    assert t.select(plus(col("a"), 1).alias("x")).row_type.types == (logical.BIGINT,)


def test_decorators_declare_all_kinds() -> None:
    def upper(texts: Any) -> Any:
        return texts.str.upper()

    async def text_of(key: int) -> str:
        return str(key)

    def parts(text: str) -> Iterator[tuple[str, int]]:
        for part in text.split():
            yield part, len(part)

    shout = udf(upper, result_type="STRING", func_type="pandas")
    fetch = udf(text_of)
    split = udtf(result_types=["STRING", DataTypes.INT()])(parts)
    total = udaf(Total())
    assert (shout.user_function.style, shout.user_function.name) == ("pandas", "upper")
    assert (fetch.user_function.style, fetch.user_function.result_type) == ("async", logical.STRING)
    assert str(split.user_function.result_type) == "ROW<`f0` STRING, `f1` INT>"
    assert (total.user_function.kind, total.user_function.result_type) == ("aggregate", logical.BIGINT)


def test_a_table_function_is_joined_or_replaces_the_rows(u: Table) -> None:
    split = udtf(lambda text: text.split(), result_types="STRING")
    joined = u.join_lateral(split(col("e")).alias("word"))
    assert print_query(joined.query) == (
        "SELECT * FROM u INNER JOIN LATERAL TABLE(`<lambda>`(e)) AS `T$` (word) ON TRUE"
    )
    assert joined.row_type.names == ("d", "e", "word")
    flat = u.flat_map(split(col("e")).alias("word"))
    assert flat.row_type.names == ("word",)


def test_map_gives_whole_rows_to_a_function_without_arguments(u: Table) -> None:
    both = udf(lambda r: Row(r.d + 1, r.e), result_type="ROW<x INT, y STRING>")
    mapped = u.map(both)
    assert mapped.row_type.names == ("x", "y")
    assert isinstance(mapped.query, ast.SqlSelect)
    assert isinstance(mapped.query.source, ast.SqlAliased)
    assert isinstance(mapped.query.source.relation, ast.SqlQueryRelation)
    inner = mapped.query.source.relation.query
    assert isinstance(inner, ast.SqlSelect)
    flatten = inner.items[0].expression
    assert isinstance(flatten, ast.SqlFlatten)
    assert isinstance(flatten.operand, ast.SqlFunctionCall)
    assert isinstance(flatten.operand.function, UserFunction)
    assert list(flatten.operand.function.function.eval(1, "z")) == [2, "z"]
    assert u.map(both.alias("p", "q")).row_type.names == ("p", "q")


def test_an_aggregate_function_gives_a_column(u: Table) -> None:
    total = udaf(Total())
    table = u.group_by(col("e")).aggregate(total(col("d")).alias("s")).select(col("e"), col("s"))
    assert table.row_type.names == ("e", "s")


# --- running, schemas, results ----------------------------------------------------------------------------------------


def test_running_hands_statements_to_the_session(t: Table, u: Table, session: RecordedSession) -> None:
    u.execute()
    u.execute_insert("c.d.sink", overwrite=True)
    both = StatementSet(session)
    both.add_insert("s1", u).add_insert_sql("INSERT INTO s2 SELECT * FROM u").execute()
    first, second, third = session.executed
    assert first == ast.SqlQueryStatement(u.query)
    assert second == ast.SqlInsert(("c", "d", "sink"), u.query, overwrite=True)
    assert isinstance(third, ast.SqlStatementSet)
    assert [insert.table for insert in third.statements if isinstance(insert, ast.SqlInsert)] == [("s1",), ("s2",)]
    assert u.explain(ExplainDetail.CHANGELOG_MODE) == "SqlQueryStatement ['CHANGELOG_MODE']"
    with pytest.raises(ProgramError, match="is empty"):
        both.execute()


def test_a_compiled_plan_holds_its_statements(u: Table, session: RecordedSession, tmp_path: Any) -> None:
    from flott.table.compiled_plan import CompiledPlan

    plan = u.insert_into("sink").compile_plan()
    plan.write_to_file(tmp_path / "plan.json")
    again = CompiledPlan.of_json((tmp_path / "plan.json").read_text(), session)
    assert again.statement() == ast.SqlInsert(("sink",), u.query)
    with pytest.raises(ProgramError, match="exists"):
        plan.write_to_file(tmp_path / "plan.json")
    with pytest.raises(ProgramError, match="the format none, expected 1"):
        CompiledPlan.of_json("{}", session)


def test_a_schema_is_declared_by_its_builder() -> None:
    schema = (
        Schema.new_builder()
        .column("a", DataTypes.INT().not_null())
        .column_by_expression("b", col("a") + 1)
        .column_by_metadata("m", "TIMESTAMP(3)", "timestamp", is_virtual=True)
        .watermark("m", "m - INTERVAL '5' SECOND")
        .primary_key("a")
        .build()
    )
    assert str(schema) == (
        "(\n  `a` INT NOT NULL,\n  `b` AS a + 1,\n  `m` TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,\n"
        "  WATERMARK FOR `m` AS m - INTERVAL '5' SECOND,\n  PRIMARY KEY (`a`) NOT ENFORCED\n)"
    )
    with pytest.raises(ProgramError, match="line 1, column 4"):
        Schema.new_builder().column_by_expression("b", "a +")
    with pytest.raises(ProgramError, match="declared twice"):
        Schema.new_builder().column("a", "INT").column("a", "INT").build()


def test_a_descriptor_collects_options() -> None:
    csv = FormatDescriptor.for_format("csv").option("ignore-parse-errors", True).build()
    descriptor = (
        TableDescriptor.for_connector("filesystem").option("path", "/x").format(csv).partitioned_by("p").build()
    )
    assert descriptor.get_options() == {
        "connector": "filesystem",
        "path": "/x",
        "format": "csv",
        "csv.ignore-parse-errors": "true",
    }
    assert descriptor.get_partition_keys() == ["p"]


def changed(kind: RowKind, *values: Any) -> Row:
    found = Row(*values)
    found.set_row_kind(kind)
    return found


def test_a_plan_is_printed_as_its_lines_and_long_texts_are_printed_whole() -> None:
    schema = logical.row_type({"result": logical.STRING})
    out = StringIO()
    print_rows([Row("CREATE TABLE t (\n  a INT\n)")], schema, out, changelog=False)
    assert out.getvalue() == "CREATE TABLE t (\n  a INT\n)\n"
    out = StringIO()
    print_rows([Row("x" * 50)], schema, out, changelog=False)
    assert "x" * 50 in out.getvalue()


def test_a_result_is_printed_as_a_table() -> None:
    schema = logical.row_type({"word": logical.VarCharType(5), "n": logical.BIGINT})
    rows = [
        changed(RowKind.INSERT, "a", 1),
        changed(RowKind.UPDATE_BEFORE, "a", 1),
        changed(RowKind.UPDATE_AFTER, None, None),
    ]
    out = StringIO()
    print_rows(rows, schema, out, changelog=True)
    assert out.getvalue() == (
        "+----+--------+----------------------+\n"
        "| op |   word |                    n |\n"
        "+----+--------+----------------------+\n"
        "| +I |      a |                    1 |\n"
        "| -U |      a |                    1 |\n"
        "| +U | <NULL> |               <NULL> |\n"
        "+----+--------+----------------------+\n"
        "3 rows in set\n"
    )
    out = StringIO()
    print_rows(rows[:1], schema, out, changelog=False)
    assert out.getvalue() == "+------+---+\n| word | n |\n+------+---+\n|    a | 1 |\n+------+---+\n1 row in set\n"
    assert [list(row) for row in remaining(rows)] == [[None, None]]
