"""Translates ``?`` in SQL statements into what a driver wants. Pure.

Marks inside quotes and comments stay as they are. ``??`` stands for the question mark itself, as in JDBC: PostgreSQL
has operators with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_PIECES = re.compile(
    r"""
      '(?:[^']|'')*'              # a string
    | "(?:[^"]|"")*"              # a name
    | `[^`]*`                     # a name in MySQL
    | \$(\w*)\$.*?\$\1\$          # a string in PostgreSQL
    | --[^\n]*                    # comments
    | /\*.*?\*/
    | \?\?
    | \?
    """,
    re.VERBOSE | re.DOTALL,
)


def count_marks(sql: str) -> int:
    """Return how many values a statement takes.

    >>> count_marks("UPDATE t SET a = ?, b = '?' WHERE c ?? 'x' AND d = ?")
    2
    """
    return sum(match[0] == "?" for match in _PIECES.finditer(sql))


@lru_cache(maxsize=512)
def with_percent_marks(sql: str) -> str:
    """Return the statement for drivers that want ``%s``, which also have to have other percent signs doubled.

    >>> with_percent_marks("SELECT '50%?' FROM t WHERE a = ? AND b ?? 'k'")
    "SELECT '50%%?' FROM t WHERE a = %s AND b ? 'k'"
    """
    return _translated(sql.replace("%", "%%"), lambda _: "%s")


def with_numbered_marks(sql: str) -> str:
    """Return the statement as PostgreSQL itself wants it.

    >>> with_numbered_marks("INSERT INTO t VALUES (?, ?)")
    'INSERT INTO t VALUES ($1, $2)'
    """
    return _translated(sql, lambda number: f"${number}")


def without_doubled_marks(sql: str) -> str:
    """Return the statement for drivers that want ``?``."""
    return _translated(sql, lambda _: "?")


def _translated(sql: str, mark: Callable[[int], str]) -> str:
    number = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal number
        if match[0] == "??":
            return "?"
        if match[0] != "?":
            return match[0]
        number += 1
        return mark(number)

    return _PIECES.sub(replaced, sql)
