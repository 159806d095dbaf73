"""Printed queries are read back as the same tree, and mutated texts give an error with a place, never another one."""

from __future__ import annotations

import random
import string

import pytest

from flott.table._sql.errors import SqlError
from flott.table._sql.parser import parse_expression, parse_query, parse_statements, parse_type_name
from flott.table._sql.print_expressions import print_expression, print_type
from flott.table._sql.print_queries import print_query
from flott.table._sql.splitter import split_statements
from flott.table._sql.type_names import parse_type

QUERIES = [
    "SELECT * FROM t",
    "SELECT a, b AS `x y`, t.*, -1 + 2 * (3 - 4), 'it''s', X'00FF', DATE '2020-01-01' FROM c.d.t AS t (a, b)",
    "SELECT DISTINCT a FROM t /*+ OPTIONS('k' = 'v'), STATE_TTL('t' = '1d') */ WHERE a IS NOT NULL AND NOT b OR c",
    "SELECT /*+ BROADCAST('t') */ a FROM t JOIN u ON t.a = u.a LEFT JOIN v USING (a, b), w",
    "SELECT COUNT(*), COUNT(DISTINCT a) FILTER (WHERE b > 1), SUM(a) OVER (PARTITION BY b ORDER BY c DESC NULLS LAST "
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW), LAG(a, 1) IGNORE NULLS OVER w FROM t WINDOW w AS (ORDER BY c)",
    "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ()), ROLLUP (a, (b, c)), CUBE (a) "
    "HAVING MAX(a) > ALL (SELECT 1)",
    "WITH w (a) AS (SELECT 1), v AS (VALUES (1, 2), ROW(3, 4)) SELECT * FROM w UNION ALL SELECT * FROM v "
    "ORDER BY a OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY",
    "(SELECT 1 EXCEPT SELECT 2) INTERSECT ALL (SELECT 3 ORDER BY 1 LIMIT 1)",
    "SELECT window_start FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end",
    "SELECT * FROM SESSION(DATA => TABLE t PARTITION BY (a, b), TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' SECOND)",
    "SELECT * FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts AS r ON o.c = r.c CROSS JOIN UNNEST(o.a) AS e (x)",
    "SELECT * FROM t, LATERAL TABLE(f(a, b => 1)) AS x (y), (SELECT 1) z WHERE EXISTS (SELECT 1) AND a IN (SELECT 2)",
    "SELECT CASE a WHEN 1 THEN 'x' ELSE 'y' END, CASE WHEN a THEN b END, CAST(a AS ROW<x INT NOT NULL, y MAP<STRING, "
    "ARRAY<DECIMAL(3, 1)>>>), TRY_CAST(a AS INTERVAL DAY TO SECOND), a[1].b, MAP['k', 1]['k'], ARRAY[], (a, b)",
    "SELECT EXTRACT(YEAR FROM a), FLOOR(a TO DAY), CEIL(a), TRIM(LEADING 'x' FROM a), POSITION('a' IN b), "
    "SUBSTRING(a FROM 2 FOR 3), OVERLAY(a PLACING b FROM 1), TIMESTAMPDIFF(HOUR, a, b), CURRENT_TIMESTAMP, PI()",
    "SELECT JSON_VALUE(a, '$.x' RETURNING INT NULL ON EMPTY DEFAULT 1 ON ERROR), JSON_OBJECT('a' VALUE 1, b VALUE 2 "
    "ABSENT ON NULL), JSON_QUERY(a, '$' WITH CONDITIONAL ARRAY WRAPPER EMPTY OBJECT ON ERROR), JSON_EXISTS(a, '$' TRUE "
    "ON ERROR), JSON_ARRAYAGG(a ORDER BY b NULL ON NULL), LISTAGG(DISTINCT a, ';'), a IS JSON ARRAY",
    "SELECT a LIKE 'x' ESCAPE '!', a NOT SIMILAR TO b, a BETWEEN SYMMETRIC 1 AND 2, a NOT IN (1, 2), "
    "a IS DISTINCT FROM b",
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY a ORDER BY ts MEASURES FIRST(A.x) AS f, FINAL LAST(B.x) AS l ONE "
    "ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+? (C | D){2,3} {- E -}) WITHIN INTERVAL '1' HOUR "
    "DEFINE A AS A.x > 1, B AS B.x > LAST(A.x, 1)) AS m",
]
STATEMENTS = [
    *QUERIES,
    "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b AS a + 1 COMMENT 'c', m STRING METADATA FROM 'k' VIRTUAL, "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) PARTITIONED BY (a) WITH ('connector' = 'x') LIKE u (INCLUDING ALL)",
    "CREATE OR REPLACE TABLE t WITH ('a' = 'b') AS SELECT 1",
    "CREATE TEMPORARY VIEW IF NOT EXISTS v (x) COMMENT 'y' AS SELECT 1",
    "CREATE TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE PYTHON",
    "ALTER TABLE t ADD (c INT FIRST, d STRING AFTER c, WATERMARK FOR c AS c)",
    "ALTER TABLE t DROP (a, b)",
    "INSERT OVERWRITE t PARTITION (a = 1, b) (c, d) SELECT 1, 2",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT CASE WHEN 1 = 1 THEN 2 END; END",
    "EXPLAIN CHANGELOG_MODE, ESTIMATED_COST SELECT 1",
    "SHOW TABLES FROM c.d NOT LIKE '%x'",
    "COMPILE PLAN 'p' IF NOT EXISTS FOR INSERT INTO t SELECT 1",
    "ANALYZE TABLE t PARTITION (a) COMPUTE STATISTICS FOR COLUMNS a, b",
]
TYPES = ["DECIMAL(10, 2) NOT NULL", "ROW<a INT 'x', `b c` ARRAY<TIMESTAMP(3) NOT NULL>>", "MAP<STRING, MULTISET<INT>>"]


@pytest.mark.parametrize("text", QUERIES)
def test_a_printed_query_is_read_back_as_the_same_tree(text: str) -> None:
    tree = parse_query(text)
    printed = print_query(tree)
    assert parse_query(printed) == tree
    assert print_query(parse_query(printed)) == printed


@pytest.mark.parametrize("text", TYPES)
def test_a_printed_type_is_read_back(text: str) -> None:
    assert parse_type_name(print_type(parse_type_name(text))) == parse_type_name(text)
    assert parse_type(str(parse_type(text))) == parse_type(text)


OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<>", "AND", "OR", "IS DISTINCT FROM"]


def random_expression(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return dice.choice(["a", "t.b", "`c d`", "1", "2.5", "1e3", "'s'", "NULL", "TRUE", "CURRENT_DATE", "X'0A'"])
    one, two = random_expression(dice, depth - 1), random_expression(dice, depth - 1)
    return dice.choice(
        [
            f"({one}) {dice.choice(OPERATORS)} ({two})",
            f"NOT ({one})",
            f"- ({one})",
            f"({one}) IS {dice.choice(['NULL', 'NOT TRUE', 'UNKNOWN'])}",
            f"f({one}, {two})",
            f"CASE WHEN {one} THEN {two} END",
            f"CAST({one} AS {dice.choice(['INT', 'STRING NOT NULL', 'ARRAY<INT>'])})",
            f"({one}) NOT BETWEEN ({two}) AND 3",
            f"({one}) IN ({two}, 1)",
            f"ARRAY[{one}, {two}]",
            f"ROW({one})[{two}]",
        ]
    )


def test_printed_random_expressions_are_read_back() -> None:
    dice = random.Random(7)
    for _ in range(500):
        tree = parse_expression(random_expression(dice, dice.randint(0, 5)))
        assert parse_expression(print_expression(tree)) == tree


def mutated(dice: random.Random, text: str) -> str:
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(text) + 1)
        match dice.randrange(5):
            case 0:
                text = text[:at] + text[at + dice.randint(1, 8) :]
            case 1:
                text = text[:at] + dice.choice(string.printable + "é€`'\"\\\0") + text[at:]
            case 2:
                words = text.split(" ")
                dice.shuffle(words)
                text = " ".join(words)
            case 3:
                words = text.split(" ")
                words.insert(dice.randrange(len(words) + 1), dice.choice(dice.choice(STATEMENTS).split(" ")))
                text = " ".join(words)
            case _:
                text = text[:at]
    return text


def error_of(text: str) -> SqlError | None:
    try:
        parse_statements(text)
    except SqlError as error:
        return error
    return None


def test_a_mutated_statement_gives_an_error_with_a_place_or_none() -> None:
    dice = random.Random(13)
    refused = 0
    for _ in range(6000):
        text = mutated(dice, dice.choice(STATEMENTS))
        error = error_of(text)
        if error is None:
            continue
        refused += 1
        assert error.position is not None
        lines = text.split("\n")
        assert 1 <= error.position.line <= len(lines)
        assert 1 <= error.position.column <= len(lines[error.position.line - 1]) + 1
        assert "^" in str(error)
    assert refused > 3000


def test_a_shell_gets_statements_and_what_is_not_complete_yet() -> None:
    found = split_statements("SELECT ';'; -- a; b\nBEGIN STATEMENT SET;\n SELECT 2")
    assert [(s.text, s.position.line, s.complete) for s in found] == [
        ("SELECT ';'", 1, True),
        ("BEGIN STATEMENT SET", 2, True),
        ("SELECT 2", 3, False),
    ]
    whole = "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT CASE WHEN a THEN 1 END; INSERT INTO u SELECT 1; END"
    assert [s.text for s in split_statements(f"{whole}; SELECT 1;")] == [whole, "SELECT 1"]
    assert [(s.text, s.complete) for s in split_statements("SELECT 1; SELECT 'a;")] == [
        ("SELECT 1", True),
        ("SELECT 'a;", False),
    ]
    assert split_statements("  -- nothing") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DECIMAL(39, 0)", "expected 1 to 38"),
        ("DECIMAL(3, 4)", "scale of DECIMAL is 4"),
        ("TIMESTAMP(10)", "expected 0 to 9"),
        ("STRIN", "Did you mean 'STRING'"),
        ("ARRAY<VARCHAR(0)>", "expected 1 to"),
    ],
)
def test_a_type_that_does_not_exist_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message.replace("(", r"\(")) as caught:
        parse_type(text)
    assert caught.value.position is not None
