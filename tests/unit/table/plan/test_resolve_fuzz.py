"""Thousands of queries that are wrong in some way: the resolver answers with a plan or an SqlError, nothing else."""

from __future__ import annotations

import random
import re

import pytest

from flott.errors import ProgramError
from flott.table._expressions.expression import walk as walk_expression
from flott.table._plan import logical
from flott.table._plan.resolve import internal
from flott.table._plan.resolve.resolver import resolve_insert, resolve_query
from flott.table._plan.resolve.walks import expressions_of
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes import SqlInsert, SqlQueryStatement
from flott.table._sql.parser import parse_statement
from tests.unit.table.plan.small_catalog import SmallSession
from tests.unit.table.plan.test_resolved_plans import queries

TOKEN = re.compile(r"'[^']*'|[A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d+)?|<>|<=|>=|\|\||=>|\S")
_INTERNAL = (
    internal.AggregateExpression, internal.OverExpression, internal.SubqueryExpression, internal.OuterRef,
    internal.GroupingExpression, internal.WindowProperty,
)  # fmt: skip


_OPERATORS = ("=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "||", "AND", "OR")


def kind_of(token: str) -> str:
    """Return of which kind a token is: tokens of one kind can stand for each other in most places."""
    if token in _OPERATORS:
        return "operator"
    if token[0].isdigit() or token[0] == "'":
        return "value"
    return "name" if token[0].isalpha() and token.islower() else "word"


def mutated(random_: random.Random, pool: list[list[str]], words: dict[str, list[str]]) -> str:
    tokens = list(random_.choice(pool))
    for _ in range(random_.randint(1, 3)):
        place = random_.randrange(len(tokens))
        kind = kind_of(tokens[place])
        match random_.randrange(20):
            case 0:
                tokens.insert(place, random_.choice(words[random_.choice(list(words))]))
            case 1 if len(tokens) > 1:
                del tokens[place]
            case 2:
                tokens[place] = random_.choice(words["word"])
            case 3 | 4 if kind in ("name", "value"):
                tokens[place] = random_.choice(words["value" if kind == "name" else "name"])
            case 5 | 6 if kind in ("name", "value"):
                tokens[place] = f"{random_.choice(FUNCTIONS)}({tokens[place]})"
            case 7 if kind in ("name", "value"):
                tokens[place] = f"({' '.join(random_.choice(pool))})"
            case _:
                if kind != "word":
                    tokens[place] = random_.choice(words[kind])
    return " ".join(tokens)


FUNCTIONS = (
    "SUM", "COUNT", "MAX", "ABS", "UPPER", "py_add", "py_sum", "py_split", "EXISTS", "ROW", "GROUPING", "UNNEST",
    "DESCRIPTOR", "TUMBLE_START", "COALESCE", "LISTAGG", "NOT", "-", "a IN", "LAG", "PERCENTILE",
)  # fmt: skip


def words_by_kind(pool: list[list[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for query in pool:
        for token in query:
            found.setdefault(kind_of(token), []).append(token)
    return found


def check(text: str) -> str:
    """Return what became of a statement; raise for anything but a plan or an SqlError."""
    try:
        statement = parse_statement(text)
    except SqlError:
        return "no statement"
    session = SmallSession()
    try:
        match statement:
            case SqlInsert():
                plan: logical.Node = resolve_insert(statement, session)
            case SqlQueryStatement():
                plan = resolve_query(statement.query, session)
            case _:
                return "no query"
    except SqlError:
        return "refused"
    for node in logical.walk(plan):
        assert len(node.schema.names) == len(node.schema.types)
        for expression in expressions_of(node):
            for one in walk_expression(expression):
                assert not isinstance(one, _INTERNAL), f"{one} is left in the plan"
        _check_columns(node)
    return "resolved"


def _check_columns(node: logical.Node) -> None:
    """Check that every column that a node reads is there."""
    from flott.table._expressions.expression import columns_of

    width = sum(len(one.schema) for one in node.inputs)
    if isinstance(node, logical.Correlate | logical.LookupJoin):
        width = len(node.input.schema) + len(node.columns if isinstance(node, logical.Correlate) else node.right)
    for column in columns_of(*expressions_of(node)):
        assert column < width, f"{type(node).__name__} reads column {column} of {width}"


@pytest.mark.parametrize("seed", range(8))
def test_mutated_queries_give_a_plan_or_a_sentence(seed: int) -> None:
    random_ = random.Random(seed)
    pool = [TOKEN.findall(query) for query in queries()]
    words = words_by_kind(pool)
    outcomes: dict[str, int] = {}
    for _ in range(700):
        text = mutated(random_, pool, words)
        try:
            outcome = check(text)
        except (Exception, AssertionError) as error:
            if isinstance(error, ProgramError):
                raise AssertionError(f"{type(error).__name__} instead of SqlError for: {text}") from error
            raise AssertionError(f"{type(error).__name__} for: {text}") from error
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    # The mutations are of some use only if many statements reach the resolver, and it refuses many of them.
    assert outcomes["refused"] > 50
    assert outcomes["resolved"] > 20
