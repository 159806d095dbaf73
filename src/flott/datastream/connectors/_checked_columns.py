"""Checks the names of columns that a builder is given."""

from __future__ import annotations

from flott.errors import ProgramError


def checked_columns(columns: tuple[str, ...], method: str) -> tuple[str, ...]:
    """Return the names; raises if there is none, or an empty one."""
    if not columns or "" in columns:
        raise ProgramError(f"{method}() takes names of columns, found {columns!r}.")
    return columns
