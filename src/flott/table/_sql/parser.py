"""The entry points of the parser: text to syntax tree.

>>> parse_expression("a + 1 > 2").operator
'>'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from flott.table._sql.alter_parser import AlterParser
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.base import SqlTypeName
from flott.table._sql.nodes.expressions import SqlExpression
from flott.table._sql.nodes.queries import SqlQuery
from flott.table._sql.nodes.statements import SqlStatement

T = TypeVar("T")


def parse_statements(text: str) -> list[SqlStatement]:
    """Return the statements of a text, between which semicolons stand."""
    return _parse(text, AlterParser.statements)


def parse_statement(text: str) -> SqlStatement:
    """Return the only statement of a text. A semicolon may follow it."""
    statements = parse_statements(text)
    if len(statements) == 1:
        return statements[0]
    if not statements:
        raise SqlError("The text has no statement, expected one")
    raise SqlError(f"Found {len(statements)} statements, expected one", statements[1].position, text)


def parse_query(text: str) -> SqlQuery:
    """Return the query that the whole text is."""
    return _parse(text, AlterParser.query)


def parse_expression(text: str) -> SqlExpression:
    """Return the expression that the whole text is."""
    return _parse(text, AlterParser.expression)


def parse_type_name(text: str) -> SqlTypeName:
    """Return the data type that the whole text is."""
    return _parse(text, AlterParser.type_name)


def _parse(text: str, read: Callable[[AlterParser], T]) -> T:
    parser = AlterParser(text)
    try:
        found = read(parser)
    except RecursionError:
        raise SqlError("The statement is nested too deeply here", parser.position, text) from None
    if not parser.at_end():
        parser.fail("the end of the text")
    return found
