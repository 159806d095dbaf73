"""Cuts a script or the input of a shell into statements, also if the last one is not complete yet."""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._sql.errors import SqlError, SqlSyntaxError
from flott.table._sql.lexer import Token, tokenize
from flott.table._sql.nodes.base import Position


@dataclass(frozen=True)
class StatementText:
    """The text of one statement without its semicolon. ``complete`` is False if no semicolon has come yet."""

    text: str
    position: Position
    complete: bool


def split_statements(text: str) -> list[StatementText]:
    """Return the statements of a text. The last is not complete if it lacks its semicolon or closing quote.

    A semicolon in quotes, in a comment or between BEGIN and END of a statement set ends nothing.
    """
    try:
        tokens = tokenize(text)
    except SqlError as error:
        return _split_unfinished(text, error)
    found: list[StatementText] = []
    current: list[Token] = []
    inside = 0  # how many END are missing
    for token in tokens[:-1]:
        if token.word == ";" and not inside:
            if current:
                found.append(_statement(text, current, complete=True))
            current = []
            continue
        current.append(token)
        if (token.word == "CASE" and inside) or _begins_set(current):
            inside += 1
        elif token.word == "END" and inside:
            inside -= 1
    if current:
        found.append(_statement(text, current, complete=False))
    return found


def _begins_set(tokens: list[Token]) -> bool:
    return len(tokens) > 2 and [token.word for token in tokens[-3:]] == ["STATEMENT", "SET", "BEGIN"]


def _statement(text: str, tokens: list[Token], *, complete: bool) -> StatementText:
    return StatementText(text[tokens[0].start : tokens[-1].end], tokens[0].position, complete)


def _split_unfinished(text: str, error: SqlError) -> list[StatementText]:
    """Split a text that ends in the middle of a quoted text or a comment; anything else is an error."""
    if error.position is None or not (isinstance(error, SqlSyntaxError) and error.at_end):
        raise error
    lines = text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: error.position.line - 1]) + error.position.column - 1
    before = split_statements(text[:offset])
    rest = text[offset:]
    if before and not before[-1].complete:
        last = before.pop()
        rest = text[: offset + len(rest)][_offset_of(text, last.position) :]
        return [*before, StatementText(rest, last.position, complete=False)]
    return [*before, StatementText(rest, error.position, complete=False)]


def _offset_of(text: str, position: Position) -> int:
    return sum(len(line) + 1 for line in text.split("\n")[: position.line - 1]) + position.column - 1
