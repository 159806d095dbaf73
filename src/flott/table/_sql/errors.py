"""The error of SQL text that is wrong, with the place of the mistake.

SqlError             anything wrong in a statement: syntax, a name, a type
└── SqlSyntaxError   the text does not follow the grammar; it says what was found and what was expected
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from flott.errors import ProgramError
from flott.table._sql.nodes.base import Position


class SqlError(ProgramError):
    """A statement is wrong. The message holds the line of text, a caret under the mistake, and the reason."""

    def __init__(self, reason: str, position: Position | None = None, text: str | None = None) -> None:
        super().__init__(reason if position is None else _describe(reason, position, text))
        self.reason = reason
        self.position = position
        self.text = text

    def __reduce__(self) -> tuple[type[SqlError], tuple[str, Position | None, str | None]]:
        return type(self), (self.reason, self.position, self.text)

    def in_text(self, text: str) -> SqlError:
        """Return the error with the statement in which it was found, so that the message can show the line."""
        return type(self)(self.reason, self.position, text) if self.text is None else self


class SqlSyntaxError(SqlError):
    """The text does not follow the grammar."""

    @property
    def at_end(self) -> bool:
        """Return whether the text ended too early, so that more text could make it right."""
        return self.reason.startswith(_END)


_END = "Found the end of the text"


def syntax_error(found: str, expected: str, position: Position, text: str) -> SqlSyntaxError:
    """Return the error of a token that does not fit. ``found`` is empty at the end of the text."""
    shown = _END if not found else f"Found {found!r}"
    return SqlSyntaxError(f"{shown}, expected {expected}", position, text)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the sentence that suggests the known name most like a wrong one; it is empty if none is like it."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""


def _describe(reason: str, position: Position, text: str | None) -> str:
    place = f"line {position.line}, column {position.column}"
    reason = reason if reason.endswith((".", "?")) else reason + "."
    lines = text.split("\n") if text is not None else []
    if position.line > len(lines):
        return f"{reason} (at {place})"
    line = lines[position.line - 1].rstrip("\r")
    first = max(0, position.column - 1 - 60)  # a long line is cut, so that the caret stays in sight
    shown = line[first : first + 110].replace("\t", " ")
    return f"{reason} (at {place})\n  {shown}\n  {' ' * (position.column - 1 - first)}^"
