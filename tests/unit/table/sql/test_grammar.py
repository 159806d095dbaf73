"""The description of the grammar agrees with the parser."""

from __future__ import annotations

import pytest

from flott.table._sql import nodes as ast
from flott.table._sql.grammar import GRAMMAR, Rule
from flott.table._sql.parser import parse_statement
from scripts import sql_page

RULES = [rule for chapter in GRAMMAR for rule in chapter.rules]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_examples_parse_to_the_nodes_of_their_rule(rule: Rule) -> None:
    found = {type(parse_statement(example)) for example in rule.examples}
    assert found == set(rule.nodes)


def test_every_statement_is_described() -> None:
    statements = {
        node
        for name in ast.__all__
        if isinstance(node := getattr(ast, name), type) and issubclass(node, ast.SqlStatement)
    }
    abstract = {ast.SqlStatement, ast.SqlAlterTable}
    assert statements - abstract == {node for rule in RULES for node in rule.nodes}


def test_the_page_is_written_from_the_grammar() -> None:
    assert sql_page.PAGE.read_text("utf-8") == sql_page.page(), "run make docs"
