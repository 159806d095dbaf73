"""Dialects of SQL."""

from __future__ import annotations

from enum import Enum

__all__ = ["SqlDialect"]


class SqlDialect(Enum):
    """Dialects of SQL. Flott has the default one only."""

    DEFAULT = 0
    HIVE = 1
