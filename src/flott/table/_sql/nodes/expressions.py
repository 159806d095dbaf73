"""Nodes of expressions, as the parser reads them and the Table API builds them. Names are not resolved yet.

Special syntax of the standard's functions is read into ``SqlFunctionCall`` with arguments in this order:

    EXTRACT(unit FROM x)                        EXTRACT(SqlSymbol unit, x)
    CEIL(x TO unit), FLOOR(x TO unit)           CEIL(x, SqlSymbol unit)
    TIMESTAMPADD(unit, n, x), TIMESTAMPDIFF(unit, a, b)   the unit is a SqlSymbol
    POSITION(a IN b FROM n)                     POSITION(a, b, n)
    TRIM(BOTH a FROM b)                         TRIM(SqlSymbol BOTH, a, b); TRIM(b) has a = ' '
    SUBSTRING(x FROM a FOR b)                   SUBSTRING(x, a, b)
    OVERLAY(x PLACING y FROM a FOR b)           OVERLAY(x, y, a, b)
    CURRENT_DATE and its like                   a call without arguments
    JSON_OBJECT(KEY k VALUE v, ...)             JSON_OBJECT(k, v, ...), clauses such as NULL ON NULL in ``options``
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flott.table._sql.nodes.base import SqlNode, SqlTypeName

if TYPE_CHECKING:
    from flott.table._sql.nodes.queries import SqlQuery, SqlRelation


@dataclass(frozen=True)
class SqlExpression(SqlNode):
    """Any expression."""


# --- literals -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlNumberLiteral(SqlExpression):
    """An unsigned number as it is written: ``1`` and ``1.50`` are exact, ``1e3`` is DOUBLE."""

    text: str


@dataclass(frozen=True)
class SqlStringLiteral(SqlExpression):
    """A character string without its quotes."""

    value: str


@dataclass(frozen=True)
class SqlBinaryLiteral(SqlExpression):
    """``X'0AFF'``."""

    value: bytes


@dataclass(frozen=True)
class SqlBooleanLiteral(SqlExpression):
    """TRUE, FALSE, or UNKNOWN with the value None."""

    value: bool | None


@dataclass(frozen=True)
class SqlNullLiteral(SqlExpression):
    """NULL, of no type yet."""


@dataclass(frozen=True)
class SqlTemporalLiteral(SqlExpression):
    """``DATE '2020-01-01'``, ``TIME '10:00:00'`` or ``TIMESTAMP '2020-01-01 10:00:00'``; ``kind`` is the keyword."""

    kind: str
    text: str


@dataclass(frozen=True)
class SqlIntervalQualifier(SqlNode):
    """The units of an interval, singular: ``DAY``, or ``DAY TO SECOND`` with ``end``; precisions as written."""

    start: str
    end: str | None = None
    precision: int | None = None
    fraction: int | None = None


@dataclass(frozen=True)
class SqlIntervalLiteral(SqlExpression):
    """``INTERVAL '1 10' DAY TO HOUR``. ``negative`` says that a minus stands before the quoted text."""

    text: str
    qualifier: SqlIntervalQualifier
    negative: bool = False


@dataclass(frozen=True)
class SqlIntervalValue(SqlExpression):
    """``INTERVAL x DAY``: an interval of a number that is computed."""

    operand: SqlExpression
    qualifier: SqlIntervalQualifier


@dataclass(frozen=True)
class SqlValueLiteral(SqlExpression):
    """A Python value, made by ``lit`` of the Table API. ``type`` is a logical type, or None to infer it."""

    value: Hashable
    type: Hashable = None


@dataclass(frozen=True)
class SqlSymbol(SqlExpression):
    """A keyword that stands where an argument does: a time unit, or BOTH, LEADING, TRAILING."""

    name: str


# --- references -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlColumnReference(SqlExpression):
    """``a``, ``t.a`` or ``t.a.field``: which part is table, column or field is not known before names are resolved."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class SqlStar(SqlExpression):
    """``*``, or ``t.*`` with a qualifier."""

    qualifier: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlFieldAccess(SqlExpression):
    """``(x).name``: a field of a row that is computed. ``name`` may be an index from the Table API."""

    operand: SqlExpression
    name: str | int


@dataclass(frozen=True)
class SqlItemAccess(SqlExpression):
    """``x[i]``: an element of an array (from 1), the value of a map's key, or a field of a row."""

    operand: SqlExpression
    index: SqlExpression


@dataclass(frozen=True)
class SqlFlatten(SqlExpression):
    """All fields of a row as columns of their own. Only the Table API makes it, and only as an item of a SELECT."""

    operand: SqlExpression


# --- operators ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlUnaryOperation(SqlExpression):
    """``NOT``, ``-``, ``+`` before the operand; ``IS NULL``, ``IS NOT TRUE``, ``IS JSON OBJECT`` and so on after it.

    In MATCH_RECOGNIZE also ``FINAL`` and ``RUNNING``.
    """

    operator: str
    operand: SqlExpression


@dataclass(frozen=True)
class SqlBinaryOperation(SqlExpression):
    """``+ - * / % || = <> < > <= >= AND OR``, ``IS [NOT] DISTINCT FROM``, ``OVERLAPS``, ``MULTISET UNION ALL``, ..."""

    operator: str
    left: SqlExpression
    right: SqlExpression


@dataclass(frozen=True)
class SqlBetween(SqlExpression):
    operand: SqlExpression
    low: SqlExpression
    high: SqlExpression
    negated: bool = False
    symmetric: bool = False


@dataclass(frozen=True)
class SqlLike(SqlExpression):
    """``LIKE``, ``SIMILAR TO``, ``ILIKE``, ``RLIKE``; ``operator`` is the keyword."""

    operator: str
    operand: SqlExpression
    pattern: SqlExpression
    escape: SqlExpression | None = None
    negated: bool = False


@dataclass(frozen=True)
class SqlInList(SqlExpression):
    operand: SqlExpression
    values: tuple[SqlExpression, ...]
    negated: bool = False


@dataclass(frozen=True)
class SqlInQuery(SqlExpression):
    operand: SqlExpression
    query: SqlQuery
    negated: bool = False


@dataclass(frozen=True)
class SqlQuantified(SqlExpression):
    """``x > ALL (query)``; ``quantifier`` is ALL or ANY (SOME is read as ANY)."""

    operator: str
    quantifier: str
    operand: SqlExpression
    query: SqlQuery


@dataclass(frozen=True)
class SqlExists(SqlExpression):
    query: SqlQuery


@dataclass(frozen=True)
class SqlScalarQuery(SqlExpression):
    """A query in parentheses where a value stands."""

    query: SqlQuery


@dataclass(frozen=True)
class SqlWhen(SqlNode):
    condition: SqlExpression
    result: SqlExpression


@dataclass(frozen=True)
class SqlCase(SqlExpression):
    """``CASE [operand] WHEN ... THEN ... ELSE ... END``; without ELSE ``otherwise`` is None."""

    operand: SqlExpression | None
    branches: tuple[SqlWhen, ...]
    otherwise: SqlExpression | None = None


@dataclass(frozen=True)
class SqlCast(SqlExpression):
    """``CAST(x AS type)``, or with ``safe`` TRY_CAST. ``type`` is a logical type when the Table API made the node."""

    operand: SqlExpression
    type: SqlTypeName | Hashable
    safe: bool = False


@dataclass(frozen=True)
class SqlRowConstructor(SqlExpression):
    """``ROW(a, b)``, or ``(a, b)`` with ``explicit`` False."""

    items: tuple[SqlExpression, ...]
    explicit: bool = True


@dataclass(frozen=True)
class SqlArrayConstructor(SqlExpression):
    items: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlMultisetConstructor(SqlExpression):
    items: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlMapConstructor(SqlExpression):
    """``MAP[k, v, ...]``: keys and values by turns."""

    items: tuple[SqlExpression, ...]


@dataclass(frozen=True)
class SqlCollectionQuery(SqlExpression):
    """``ARRAY(query)``, ``MAP(query)`` or ``MULTISET(query)``; ``kind`` is the keyword."""

    kind: str
    query: SqlQuery


# --- calls ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SqlOrderItem(SqlNode):
    """``x DESC NULLS LAST``. ``nulls_first`` is None when the text does not say: nulls are the lowest value then."""

    expression: SqlExpression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class SqlFrameBound(SqlNode):
    """``kind`` is one of CURRENT ROW, UNBOUNDED PRECEDING, UNBOUNDED FOLLOWING, PRECEDING, FOLLOWING."""

    kind: str
    offset: SqlExpression | None = None


@dataclass(frozen=True)
class SqlFrame(SqlNode):
    """``ROWS`` or ``RANGE`` with its bounds. Without BETWEEN ``end`` is None and means the current row."""

    mode: str
    start: SqlFrameBound
    end: SqlFrameBound | None = None


@dataclass(frozen=True)
class SqlWindowSpecification(SqlNode):
    """What stands in the parentheses of OVER. ``base`` is the name of a window that it refines."""

    base: str | None = None
    partition_by: tuple[SqlExpression, ...] = ()
    order_by: tuple[SqlOrderItem, ...] = ()
    frame: SqlFrame | None = None


@dataclass(frozen=True)
class SqlWindowName(SqlNode):
    """``OVER w``."""

    name: str


@dataclass(frozen=True)
class SqlCallOption(SqlNode):
    """A clause of a JSON function.

    ===================  =========================================================================================
    ``clause``           ``keyword`` and ``value``
    ===================  =========================================================================================
    ``RETURNING``        ``value`` is the type
    ``ON EMPTY``         NULL, ERROR, DEFAULT (``value`` is the expression), EMPTY ARRAY, EMPTY OBJECT
    ``ON ERROR``         as ON EMPTY; for JSON_EXISTS TRUE, FALSE, UNKNOWN, ERROR
    ``ON NULL``          NULL or ABSENT
    ``WRAPPER``          WITHOUT ARRAY, WITH CONDITIONAL ARRAY, WITH UNCONDITIONAL ARRAY
    ===================  =========================================================================================
    """

    clause: str
    keyword: str = ""
    value: SqlExpression | SqlTypeName | None = None


@dataclass(frozen=True)
class SqlFunctionCall(SqlExpression):
    """A call of a function by name, scalar, aggregate or table function.

    ``name`` is as it is written, possibly with catalog and database; built-in names of one part are compared without
    regard to case. ``function`` is a Python function that the Table API calls directly; ``name`` is then its name for
    messages. ``nulls`` is RESPECT, IGNORE or None.
    """

    name: tuple[str, ...]
    arguments: tuple[SqlExpression, ...] = ()
    distinct: bool = False
    order_by: tuple[SqlOrderItem, ...] = ()
    within_group: tuple[SqlOrderItem, ...] = ()
    filter: SqlExpression | None = None
    over: SqlWindowSpecification | SqlWindowName | None = None
    nulls: str | None = None
    options: tuple[SqlCallOption, ...] = ()
    function: Hashable = None


@dataclass(frozen=True)
class SqlNamedArgument(SqlExpression):
    """``name => value``."""

    name: str
    value: SqlExpression


@dataclass(frozen=True)
class SqlDefaultArgument(SqlExpression):
    """``DEFAULT`` as an argument."""


@dataclass(frozen=True)
class SqlDescriptorColumn(SqlNode):
    name: str
    type: SqlTypeName | None = None


@dataclass(frozen=True)
class SqlDescriptor(SqlExpression):
    """``DESCRIPTOR(ts)``: names of columns as an argument."""

    columns: tuple[SqlDescriptorColumn, ...]


@dataclass(frozen=True)
class SqlTableArgument(SqlExpression):
    """``TABLE t PARTITION BY a ORDER BY b`` as an argument of a table function. ``relation`` may have an alias."""

    relation: SqlRelation
    partition_by: tuple[SqlExpression, ...] = ()
    order_by: tuple[SqlOrderItem, ...] = ()


@dataclass(frozen=True)
class SqlModelArgument(SqlExpression):
    """``MODEL m``."""

    name: tuple[str, ...]
