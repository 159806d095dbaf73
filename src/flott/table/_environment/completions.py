"""Suggests words that may stand at a place of a statement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flott.table._functions.registry import functions
from flott.table._sql.keywords import RESERVED

if TYPE_CHECKING:
    from flott.table import TableEnvironment


def completions(text: str, environment: TableEnvironment) -> list[str]:
    """Return the words that may stand where a text ends: key words, functions, tables and columns of named tables."""
    word = text.split()[-1].lower() if text and not text[-1].isspace() else ""
    word = word.rpartition("(")[2].rpartition(",")[2].strip("`")
    tables = environment.list_tables()
    columns: set[str] = set()
    for table in tables:
        if table.lower() in text.lower():
            columns |= set(_columns(environment, table))
    words = {*RESERVED, *(name for name in functions() if name.isidentifier()), *tables, *columns}
    return sorted(one for one in words if word and one.lower().startswith(word) and one.lower() != word)


def _columns(environment: TableEnvironment, table: str) -> Iterable[str]:
    try:
        return environment.from_path(f"`{table}`").get_schema().get_field_names()
    except Exception:  # a table that cannot be resolved has no columns to suggest
        return ()
