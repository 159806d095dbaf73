"""The root of all nodes of the syntax tree, and the place in the text from which a node was read.

A node is a frozen value. Two nodes are equal when they say the same, wherever they stand in the text: the position
takes no part in comparisons and is ``None`` for nodes that the Table API makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Position(NamedTuple):
    """A place in SQL text. Line and column begin at 1."""

    line: int
    column: int


@dataclass(frozen=True)
class SqlNode:
    """Any part of the syntax tree."""

    position: Position | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class SqlTypeField(SqlNode):
    """One field of a ROW type."""

    name: str
    type: SqlTypeName
    description: str | None = None


@dataclass(frozen=True)
class SqlTypeName(SqlNode):
    """A data type as it is written, with synonyms replaced: INTEGER is INT, NUMERIC is DECIMAL, and so on.

    ``name`` is one of CHAR, VARCHAR, STRING, BOOLEAN, BINARY, VARBINARY, BYTES, DECIMAL, TINYINT, SMALLINT, INT,
    BIGINT, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, TIMESTAMP_TZ, INTERVAL, ARRAY, MAP, MULTISET, ROW,
    RAW, NULL, VARIANT, STRUCTURED, or the dotted name of a type that the program defines.
    ``parameters`` are the numbers in parentheses, ``elements`` the types in angle brackets, ``fields`` those of a ROW,
    ``interval`` the units of an INTERVAL such as ``("DAY", "SECOND")``, ``texts`` the quoted arguments of RAW and
    STRUCTURED.
    """

    name: str
    parameters: tuple[int, ...] = ()
    elements: tuple[SqlTypeName, ...] = ()
    fields: tuple[SqlTypeField, ...] = ()
    interval: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    nullable: bool = True
