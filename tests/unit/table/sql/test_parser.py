"""The parser reads Flink's SQL into the syntax tree, and says where a text is wrong."""

from __future__ import annotations

import pytest

from flott.table._sql import nodes as ast
from flott.table._sql.errors import SqlError
from flott.table._sql.parser import parse_expression, parse_query, parse_statement, parse_statements, parse_type_name


def column(*parts: str) -> ast.SqlColumnReference:
    return ast.SqlColumnReference(parts)


def number(text: str) -> ast.SqlNumberLiteral:
    return ast.SqlNumberLiteral(text)


def binary(operator: str, left: ast.SqlExpression, right: ast.SqlExpression) -> ast.SqlBinaryOperation:
    return ast.SqlBinaryOperation(operator, left, right)


A, B, C = column("a"), column("b"), column("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", binary("+", A, binary("*", B, C))),
        ("a - b - c", binary("-", binary("-", A, B), C)),
        ("(a - b) * c", binary("*", binary("-", A, B), C)),
        ("a OR b AND c", binary("OR", A, binary("AND", B, C))),
        ("NOT a = b", ast.SqlUnaryOperation("NOT", binary("=", A, B))),
        ("a != b", binary("<>", A, B)),
        ("a = b IS NULL", ast.SqlUnaryOperation("IS NULL", binary("=", A, B))),
        ("a IS NOT DISTINCT FROM b", binary("IS NOT DISTINCT FROM", A, B)),
        ("a || b = c", binary("=", binary("||", A, B), C)),
        ("-a + b", binary("+", ast.SqlUnaryOperation("-", A), B)),
        ("a BETWEEN 1 AND 2 AND b", binary("AND", ast.SqlBetween(A, number("1"), number("2")), B)),
        ("a NOT IN (1, 2)", ast.SqlInList(A, (number("1"), number("2")), negated=True)),
        (
            "a NOT LIKE 'x!%' ESCAPE '!'",
            ast.SqlLike("LIKE", A, ast.SqlStringLiteral("x!%"), ast.SqlStringLiteral("!"), True),
        ),
        ("t.a.b", column("t", "a", "b")),
        ("a[1].b", ast.SqlFieldAccess(ast.SqlItemAccess(A, number("1")), "b")),
        ("'it''s' 'more'", ast.SqlStringLiteral("it'smore")),
        ("U&'\\0041b'", ast.SqlStringLiteral("Ab")),
        ("X'0aFF'", ast.SqlBinaryLiteral(b"\x0a\xff")),
        ("`select`", column("select")),
        ("DATE '2020-01-02'", ast.SqlTemporalLiteral("DATE", "2020-01-02")),
        ("INTERVAL '1' MINUTES", ast.SqlIntervalLiteral("1", ast.SqlIntervalQualifier("MINUTE"))),
        (
            "INTERVAL -'1 2' DAY(3) TO HOUR",
            ast.SqlIntervalLiteral("1 2", ast.SqlIntervalQualifier("DAY", "HOUR", 3), True),
        ),
        ("EXTRACT(DAY FROM a)", ast.SqlFunctionCall(("EXTRACT",), (ast.SqlSymbol("DAY"), A))),
        ("FLOOR(a TO HOUR)", ast.SqlFunctionCall(("FLOOR",), (A, ast.SqlSymbol("HOUR")))),
        (
            "TRIM(LEADING 'x' FROM a)",
            ast.SqlFunctionCall(("TRIM",), (ast.SqlSymbol("LEADING"), ast.SqlStringLiteral("x"), A)),
        ),
        ("TRIM(a)", ast.SqlFunctionCall(("TRIM",), (ast.SqlSymbol("BOTH"), ast.SqlStringLiteral(" "), A))),
        ("SUBSTRING(a FROM 1 FOR 2)", ast.SqlFunctionCall(("SUBSTRING",), (A, number("1"), number("2")))),
        ("POSITION(a IN b)", ast.SqlFunctionCall(("POSITION",), (A, B))),
        ("OVERLAY(a PLACING b FROM 2)", ast.SqlFunctionCall(("OVERLAY",), (A, B, number("2")))),
        ("TIMESTAMPADD(DAY, 1, a)", ast.SqlFunctionCall(("TIMESTAMPADD",), (ast.SqlSymbol("DAY"), number("1"), A))),
        ("CURRENT_DATE", ast.SqlFunctionCall(("CURRENT_DATE",))),
        ("COUNT(*)", ast.SqlFunctionCall(("COUNT",), (ast.SqlStar(),))),
        ("SUM(DISTINCT a) FILTER (WHERE b)", ast.SqlFunctionCall(("SUM",), (A,), distinct=True, filter=B)),
        ("(SELECT 1)", ast.SqlScalarQuery(ast.SqlSelect((ast.SqlSelectItem(number("1")),)))),
        ("((SELECT 1)) + a", binary("+", ast.SqlScalarQuery(ast.SqlSelect((ast.SqlSelectItem(number("1")),))), A)),
        ("(a, b)", ast.SqlRowConstructor((A, B), explicit=False)),
        ("MAP['k', a]", ast.SqlMapConstructor((ast.SqlStringLiteral("k"), A))),
        ("TRY_CAST(a AS INTEGER NOT NULL)", ast.SqlCast(A, ast.SqlTypeName("INT", nullable=False), safe=True)),
        ("CASE a WHEN 1 THEN b END", ast.SqlCase(A, (ast.SqlWhen(number("1"), B),))),
    ],
)
def test_an_expression_is_read_by_precedence(text: str, tree: ast.SqlExpression) -> None:
    assert parse_expression(text) == tree


def test_clauses_of_json_functions_are_options_of_the_call() -> None:
    found = parse_expression("JSON_VALUE(a, '$.x' RETURNING INT DEFAULT 0 ON EMPTY ERROR ON ERROR)")
    assert found == ast.SqlFunctionCall(
        ("JSON_VALUE",),
        (A, ast.SqlStringLiteral("$.x")),
        options=(
            ast.SqlCallOption("RETURNING", value=ast.SqlTypeName("INT")),
            ast.SqlCallOption("ON EMPTY", "DEFAULT", number("0")),
            ast.SqlCallOption("ON ERROR", "ERROR"),
        ),
    )
    assert parse_expression("JSON_OBJECT(KEY 'k' VALUE a, 'l' VALUE NULL ABSENT ON NULL)") == ast.SqlFunctionCall(
        ("JSON_OBJECT",),
        (ast.SqlStringLiteral("k"), A, ast.SqlStringLiteral("l"), ast.SqlNullLiteral()),
        options=(ast.SqlCallOption("ON NULL", "ABSENT"),),
    )


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("NUMERIC(10, 2) NOT NULL", ast.SqlTypeName("DECIMAL", (10, 2), nullable=False)),
        ("CHARACTER VARYING(3)", ast.SqlTypeName("VARCHAR", (3,))),
        ("DOUBLE PRECISION", ast.SqlTypeName("DOUBLE")),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", ast.SqlTypeName("TIMESTAMP_LTZ", (3,))),
        ("INT NOT NULL ARRAY", ast.SqlTypeName("ARRAY", elements=(ast.SqlTypeName("INT", nullable=False),))),
        (
            "MAP<STRING, ARRAY<INT>>",
            ast.SqlTypeName(
                "MAP",
                elements=(ast.SqlTypeName("STRING"), ast.SqlTypeName("ARRAY", elements=(ast.SqlTypeName("INT"),))),
            ),
        ),
        (
            "ROW<a INT 'why', `b c` DATE>",
            ast.SqlTypeName(
                "ROW",
                fields=(
                    ast.SqlTypeField("a", ast.SqlTypeName("INT"), "why"),
                    ast.SqlTypeField("b c", ast.SqlTypeName("DATE")),
                ),
            ),
        ),
        ("INTERVAL DAY(2) TO SECOND(3)", ast.SqlTypeName("INTERVAL", (2, 3), interval=("DAY", "SECOND"))),
    ],
)
def test_a_type_is_read(text: str, tree: ast.SqlTypeName) -> None:
    assert parse_type_name(text) == tree


def test_a_query_holds_all_its_clauses() -> None:
    found = parse_query(
        "WITH w AS (SELECT 1) SELECT /*+ BROADCAST(t) */ DISTINCT a AS x, t.* FROM t AS u, v WHERE a > 1 "
        "GROUP BY ROLLUP (a, b) HAVING COUNT(*) > 1 WINDOW p AS (PARTITION BY a) ORDER BY x DESC NULLS LAST LIMIT 3"
    )
    assert isinstance(found, ast.SqlWithQuery)
    ordered = found.query
    assert isinstance(ordered, ast.SqlSortedQuery)
    assert ordered.limit == number("3")
    assert ordered.order_by == (ast.SqlOrderItem(column("x"), descending=True, nulls_first=False),)
    select = ordered.query
    assert isinstance(select, ast.SqlSelect)
    assert select.distinct
    assert select.hints == (ast.SqlHint("BROADCAST", (ast.SqlHintOption("t"),)),)
    assert select.items == (ast.SqlSelectItem(A, "x"), ast.SqlSelectItem(ast.SqlStar(("t",))))
    t, v = ast.SqlTableReference(("t",)), ast.SqlTableReference(("v",))
    assert select.source == ast.SqlJoin("CROSS", ast.SqlAliased(t, "u"), v)
    assert select.group_by == ast.SqlGroupBy((ast.SqlRollup((A, B)),))
    assert select.windows == (ast.SqlNamedWindow("p", ast.SqlWindowSpecification(partition_by=(A,))),)


def test_set_operations_bind_by_strength() -> None:
    one, two, three = (ast.SqlValues((number(n),)) for n in "123")
    found = parse_query("VALUES 1 UNION ALL VALUES 2 INTERSECT VALUES 3")
    inner = ast.SqlSetOperation("INTERSECT", False, two, three)
    assert found == ast.SqlSetOperation("UNION", True, one, inner)
    assert parse_query("(VALUES 1 UNION ALL VALUES 2) INTERSECT VALUES 3") == ast.SqlSetOperation(
        "INTERSECT", False, ast.SqlSetOperation("UNION", True, one, two), three
    )


def source_of(text: str) -> ast.SqlRelation:
    select = parse_query(f"SELECT * FROM {text}")
    assert isinstance(select, ast.SqlSelect)
    assert select.source is not None
    return select.source


def test_relations_of_all_kinds_are_read() -> None:
    t = ast.SqlTableReference(("t",))
    select = ast.SqlSelect((ast.SqlSelectItem(number("1")),))
    hint = ast.SqlHint("OPTIONS", (ast.SqlHintOption("k", "v"),))
    assert source_of("c.d.t /*+ OPTIONS('k' = 'v') */") == ast.SqlTableReference(("c", "d", "t"), (hint,))
    assert source_of("t FOR SYSTEM_TIME AS OF a AS x") == ast.SqlAliased(ast.SqlSnapshot(t, A), "x")
    assert source_of("((SELECT 1) UNION SELECT 1) x") == ast.SqlAliased(
        ast.SqlQueryRelation(ast.SqlSetOperation("UNION", False, select, select)), "x"
    )
    assert source_of("t LEFT JOIN LATERAL TABLE(f(a)) AS x (y) ON TRUE") == ast.SqlJoin(
        "LEFT",
        t,
        ast.SqlAliased(ast.SqlLateral(ast.SqlFunctionRelation(ast.SqlFunctionCall(("f",), (A,)))), "x", ("y",)),
        ast.SqlBooleanLiteral(True),
    )
    assert source_of("t CROSS JOIN UNNEST(a) WITH ORDINALITY") == ast.SqlJoin("CROSS", t, ast.SqlUnnest((A,), True))
    assert source_of("(t JOIN t USING (a))") == ast.SqlJoin("INNER", t, t, using=("a",))


def test_window_functions_take_tables_descriptors_and_named_arguments() -> None:
    call = ast.SqlFunctionCall(
        ("SESSION",),
        (
            ast.SqlTableArgument(ast.SqlTableReference(("t",)), (A,)),
            ast.SqlDescriptor((ast.SqlDescriptorColumn("ts"),)),
            ast.SqlIntervalLiteral("5", ast.SqlIntervalQualifier("MINUTE")),
        ),
    )
    text = "SESSION(TABLE t PARTITION BY a, DESCRIPTOR(ts), INTERVAL '5' MINUTES)"
    assert source_of(f"TABLE({text})") == source_of(text) == ast.SqlFunctionRelation(call)
    named = source_of("TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '5' MINUTES)")
    assert isinstance(named, ast.SqlFunctionRelation)
    assert [argument.name for argument in named.call.arguments if isinstance(argument, ast.SqlNamedArgument)] == [
        "DATA",
        "TIMECOL",
        "SIZE",
    ]


def test_over_has_frames() -> None:
    found = parse_expression("SUM(a) OVER (w ORDER BY b RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)")
    assert isinstance(found, ast.SqlFunctionCall)
    hour = ast.SqlIntervalLiteral("1", ast.SqlIntervalQualifier("HOUR"))
    frame = ast.SqlFrame("RANGE", ast.SqlFrameBound("PRECEDING", hour), ast.SqlFrameBound("CURRENT ROW"))
    assert found.over == ast.SqlWindowSpecification("w", (), (ast.SqlOrderItem(B),), frame)


def test_a_table_is_defined_with_all_its_parts() -> None:
    found = parse_statement(
        """CREATE TEMPORARY TABLE IF NOT EXISTS d.t (
             id BIGINT PRIMARY KEY NOT ENFORCED COMMENT 'the key',
             ts AS TO_TIMESTAMP(b),
             o BIGINT METADATA FROM 'offset' VIRTUAL,
             WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
             CONSTRAINT u UNIQUE (id) NOT ENFORCED
           ) COMMENT 'all' DISTRIBUTED BY HASH (id) INTO 4 BUCKETS PARTITIONED BY (id)
           WITH ('connector' = 'kafka') LIKE base (INCLUDING ALL EXCLUDING OPTIONS)"""
    )
    five = ast.SqlIntervalLiteral("5", ast.SqlIntervalQualifier("SECOND"))
    assert found == ast.SqlCreateTable(
        ("d", "t"),
        columns=(
            ast.SqlPhysicalColumn("id", ast.SqlTypeName("BIGINT"), "the key"),
            ast.SqlComputedColumn("ts", ast.SqlFunctionCall(("TO_TIMESTAMP",), (B,))),
            ast.SqlMetadataColumn("o", ast.SqlTypeName("BIGINT"), "offset", True),
        ),
        watermarks=(ast.SqlWatermark(("ts",), binary("-", column("ts"), five)),),
        constraints=(
            ast.SqlKeyConstraint("PRIMARY KEY", ("id",), None, False),
            ast.SqlKeyConstraint("UNIQUE", ("id",), "u", False),
        ),
        comment="all",
        distribution=ast.SqlDistribution("HASH", ("id",), 4),
        partitioned_by=("id",),
        options=(ast.SqlOption("connector", "kafka"),),
        like=ast.SqlLikeClause(
            ("base",), (ast.SqlLikeOption("INCLUDING", "ALL"), ast.SqlLikeOption("EXCLUDING", "OPTIONS"))
        ),
        temporary=True,
        if_not_exists=True,
    )


def test_a_view_keeps_the_text_of_its_query() -> None:
    found = parse_statement("CREATE VIEW v (x COMMENT 'c') AS SELECT  a\nFROM t;")
    assert isinstance(found, ast.SqlCreateView)
    assert found.text == "SELECT  a\nFROM t"
    assert found.columns == (ast.SqlNamedColumn("x", "c"),)


def test_statements_stand_between_semicolons() -> None:
    text = "SET 'a' = 'b'; -- a comment; here\nEXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES 1; END;; RESET"
    found = parse_statements(text)
    insert = ast.SqlInsert(("t",), ast.SqlValues((number("1"),)))
    assert found == [ast.SqlSet("a", "b"), ast.SqlStatementSet((insert,)), ast.SqlReset()]


@pytest.mark.parametrize(
    ("text", "line", "at", "message"),
    [
        ("SELECT a FROM", 1, 14, "Found the end of the text, expected a table"),
        ("SELECT a\nFROM t WHERE", 2, 13, "Found the end of the text, expected an expression"),
        ("SELECT a FROM t GROUP a", 1, 23, "Found 'a', expected GROUP BY"),
        ("SELECT FROM t", 1, 8, "FROM is a reserved word and is a name only in backquotes"),
        ("SELECT a b c FROM t", 1, 12, "Found 'c', expected the end of the statement"),
        ("SELECT 'abc", 1, 8, "expected the end of the text that begins here"),
        ("SELECT /* abc", 1, 8, "expected the end of the comment that begins here"),
        ('SELECT "a"', 1, 8, "a name in backquotes"),
        ("SELECT ~a", 1, 8, "begins nothing in SQL"),
        ("CREATE TABEL t (a INT)", 1, 8, "Found 'TABEL', expected TABLE, VIEW, FUNCTION"),
        ("CREATE TABLE t (a INTT NULLABLE)", 1, 24, "Found 'NULLABLE'"),
        ("SELECT * FROM a JOIN b", 1, 23, "ON or USING"),
        ("SELEC 1", 1, 1, "a statement, such as SELECT"),
        ("INSERT INTO t", 1, 14, "a query"),
        ("SELECT INTERVAL '1' PARSEC", 1, 21, "a unit of time"),
        ("SELECT X'0'", 1, 8, "an odd number of digits"),
        ("DROP TABLE t CASCADE", 1, 14, "Found 'CASCADE'"),
    ],
)
def test_an_error_points_at_the_place(text: str, line: int, at: int, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse_statements(text)
    assert caught.value.position == ast.Position(line, at)
    assert message in str(caught.value)
    *_, shown, caret = str(caught.value).split("\n")
    assert shown.strip() == text.split("\n")[line - 1].strip()
    assert caret.index("^") == at + 1


def test_a_statement_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SqlError, match="nested too deeply") as caught:
        parse_statement("SELECT " + "(" * 5000 + "1" + ")" * 5000)
    assert caught.value.position is not None


def test_a_long_chain_of_conditions_is_not_deep() -> None:
    found = parse_expression(" OR ".join(f"a = {number}" for number in range(5000)))
    depth, node = 0, found
    while isinstance(node, ast.SqlBinaryOperation) and node.operator == "OR":
        depth, node = depth + 1, node.left
    assert depth < 15
    assert parse_expression("a OR b OR c AND a") == binary("OR", binary("OR", A, B), binary("AND", C, A))


def test_a_position_takes_no_part_in_comparisons() -> None:
    first, second = parse_expression("a  +  b"), parse_expression("a + b")
    assert first == second
    assert hash(first) == hash(second)
    assert first.position != second.position
