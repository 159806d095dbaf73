"""Calls by name: scalar functions, aggregates, calls with OVER, and what GROUP BY makes available."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.table._expressions.expression import Call, Expression, Literal, UserFunction
from flott.table._functions.json_functions import mark_nested
from flott.table._functions.registry import function_named, functions
from flott.table._plan.logical import Frame
from flott.table._plan.resolve.aggregate_types import SIGNATURES, is_aggregate, typed_aggregate
from flott.table._plan.resolve.calls import call, truth, user_arguments, user_call
from flott.table._plan.resolve.expressions import ExpressionResolver, Rule, add_rules
from flott.table._plan.resolve.group_windows import PROPERTIES, group_window, property_type
from flott.table._plan.resolve.internal import (
    AggregateExpression,
    GroupingExpression,
    Ordering,
    OverExpression,
    WindowProperty,
)
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.nodes.base import SqlNode, SqlTypeName
from flott.table._sql.type_names import logical_type
from flott.table._types.logical import (
    BIGINT,
    DayTimeIntervalType,
    LocalZonedTimestampType,
    LogicalType,
    SymbolType,
    TimeAttribute,
)

_GROUPING = ("GROUPING", "GROUPING_ID", "GROUP_ID")
#: Functions whose frame is always the rows up to the current one.
_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD")


def _call(self: ExpressionResolver, node: sql.SqlFunctionCall) -> Expression:
    name = node.name[-1].upper() if len(node.name) == 1 else ""
    user = user_function(self, node)
    if user is not None:
        return _user(self, node, user)
    if name in _GROUPING:
        arguments = tuple(self.all(node.arguments))
        if not self.aggregates:
            raise SqlError(f"{name} cannot stand in {self.clause}", node.position)
        return GroupingExpression(BIGINT.as_nullable(False), name, arguments, node.position)
    if name in PROPERTIES:
        return _window_property(self, node, name)
    if is_aggregate(name):
        return _aggregate(self, node, name, None)
    if name == "PROCTIME" and not node.arguments:
        return Call(LocalZonedTimestampType(3, TimeAttribute.PROCTIME, nullable=False), "PROCTIME", ())
    if len(node.name) > 1 or function_named(name) is None:
        known = [*functions(), *SIGNATURES, *self.queries.environment.function_names()]
        shown = ".".join(node.name)
        raise SqlError(f"Function {shown!r} is not known.{nearest(shown, known)}", node.position)
    if node.over is not None or node.filter is not None or node.distinct:
        what = "OVER" if node.over is not None else "FILTER" if node.filter is not None else "DISTINCT"
        raise SqlError(f"{'.'.join(node.name)} is not an aggregate, {what} cannot be used with it", node.position)
    given = mark_nested(name, self.all(node.arguments))
    for option in node.options:
        given += _option(self, option)
    return call(name, given, node.position)


def _option(self: ExpressionResolver, option: sql.SqlCallOption) -> list[Expression]:
    """Return a clause of a JSON function as arguments: a symbol such as "DEFAULT ON EMPTY", then its value if any."""
    words = f"{option.keyword} {option.clause}".strip()
    of: LogicalType = SymbolType(words, nullable=False)
    if isinstance(option.value, SqlTypeName):
        return [Literal(of, words), Literal(logical_type(option.value), None)]
    if option.value is None:
        return [Literal(of, words)]
    return [Literal(of, words), self.resolve(option.value)]


def user_function(self: ExpressionResolver, node: sql.SqlFunctionCall) -> UserFunction | None:
    """Return the function in Python that a call means; None if it means one of the library."""
    if node.function is not None:
        found: Any = node.function
        found = found if isinstance(found, UserFunction) else getattr(found, "user_function", None)
        if not isinstance(found, UserFunction):
            raise SqlError(f"{'.'.join(node.name)} is not a function that SQL can call", node.position)
        return found
    return self.queries.environment.find_function(node.name)


def _user(self: ExpressionResolver, node: sql.SqlFunctionCall, user: UserFunction) -> Expression:
    if user.kind == "aggregate":
        return _aggregate(self, node, user.name, user)
    if user.kind != "scalar":
        raise SqlError(f"{user.name} gives rows: use it in FROM as LATERAL TABLE({user.name}(...))", node.position)
    return user_call(user, self.all(node.arguments), node.position)


# --- aggregates ------------------------------------------------------------------------------------------------------


def _aggregate(self: ExpressionResolver, node: sql.SqlFunctionCall, name: str, user: UserFunction | None) -> Expression:
    windowed = node.over is not None
    if not (self.over if windowed else self.aggregates):
        what = f"{name} with OVER" if windowed else f"The aggregate {name}"
        advice = " Use HAVING for conditions on groups." if self.clause == "WHERE" and not windowed else ""
        raise SqlError(f"{what} cannot stand in {self.clause}.{advice}", node.position)
    # What an aggregate with OVER is computed from may be an aggregate of the GROUP BY: SUM(SUM(a)) OVER (...)
    inner = replace(self, over=False) if windowed else self.inside(f"the arguments of the aggregate {name}")
    given = [] if _is_star(node) else inner.all(node.arguments)
    condition = None if node.filter is None else truth(inner.resolve(node.filter), "FILTER", node.position)
    constants: tuple[Any, ...] = ()
    if user is not None:
        if user.result_type is None:
            raise SqlError(f"The result type of function {user.name} is not declared", node.position)
        function, of = user.name, user.result_type
        arguments = user_arguments(user, given, node.position)
    else:
        typed = typed_aggregate(name, given, node.position)
        function, of, constants, arguments = typed.function, typed.type, typed.literals, typed.arguments
        function = _with_nulls(function, node)
    if windowed:
        return _over(self, node, function, of, arguments, constants, condition, user)
    if user is None and SIGNATURES[name].over_only:
        raise SqlError(f"{name} needs OVER (...)", node.position)
    order = tuple(ordering(inner, item) for item in (*node.order_by, *node.within_group))
    return AggregateExpression(of, function, arguments, node.distinct, condition, user, constants, order, node.position)


def _with_nulls(name: str, node: sql.SqlFunctionCall) -> str:
    """Return the name of JSON_OBJECTAGG, JSON_ARRAYAGG or ARRAY_AGG with what they do about nulls."""
    if name == "ARRAY_AGG" and node.nulls == "IGNORE":
        return "ARRAY_AGG_IGNORE_NULLS"
    clause = next((o.keyword for o in node.options if o.clause == "ON NULL"), None)
    return name if clause is None else f"{name}_{clause}_ON_NULL"


def _is_star(node: sql.SqlFunctionCall) -> bool:
    return len(node.arguments) == 1 and isinstance(node.arguments[0], sql.SqlStar) and not node.arguments[0].qualifier


def ordering(self: ExpressionResolver, item: sql.SqlOrderItem) -> Ordering:
    """Return a sort key with its place of nulls spelled out: NULL is the smallest value."""
    nulls_last = item.descending if item.nulls_first is None else not item.nulls_first
    return Ordering(self.resolve(item.expression), item.descending, nulls_last)


# --- OVER ------------------------------------------------------------------------------------------------------------


def _over(
    self: ExpressionResolver,
    node: sql.SqlFunctionCall,
    function: str,
    of: LogicalType,
    arguments: tuple[Expression, ...],
    constants: tuple[Any, ...],
    condition: Expression | None,
    user: UserFunction | None,
) -> Expression:
    assert node.over is not None
    window = _specification(self, node.over)
    inner = replace(self, over=False, clause="OVER")
    partition = tuple(inner.all(window.partition_by))
    order = tuple(ordering(inner, item) for item in window.order_by)
    signature = SIGNATURES.get(function)
    if signature is not None and signature.needs_order and not order:
        raise SqlError(f"{function} needs ORDER BY in OVER", node.position)
    frame = _frame(inner, window, function, bool(order))
    if function in ("SUM", "MIN", "MAX", "AVG") and arguments and condition is None and not _may_be_empty(frame):
        of = of.as_nullable(arguments[0].type.nullable)
    return OverExpression(
        of, function, arguments, partition, order, frame, node.distinct, condition, user, constants, node.position
    )


def _may_be_empty(frame: Frame) -> bool:
    return not ((frame.upper is None or frame.upper >= 0) and (frame.lower is None or frame.lower <= 0))


def _specification(
    self: ExpressionResolver, over: sql.SqlWindowSpecification | sql.SqlWindowName, depth: int = 0
) -> sql.SqlWindowSpecification:
    base = over.name if isinstance(over, sql.SqlWindowName) else over.base
    if base is None:
        assert isinstance(over, sql.SqlWindowSpecification)
        return over
    found = self.windows.get(base)
    if found is None or depth > len(self.windows):
        raise SqlError(f"Window {base!r} is not known.{nearest(base, self.windows)}", over.position)
    inner = _specification(self, found, depth + 1)
    if isinstance(over, sql.SqlWindowName):
        return inner
    if over.partition_by or (over.order_by and inner.order_by) or inner.frame is not None:
        raise SqlError(f"OVER may add an ORDER BY and a frame to the window {base!r}, not replace it", over.position)
    return replace(over, base=None, partition_by=inner.partition_by, order_by=over.order_by or inner.order_by)


def _frame(self: ExpressionResolver, window: sql.SqlWindowSpecification, function: str, ordered: bool) -> Frame:
    if window.frame is None:
        if function in _RANKS:
            return Frame(True, None, 0)
        return Frame(False, None, 0 if ordered else None)
    rows = window.frame.mode.upper() == "ROWS"
    lower = _bound(self, window.frame.start, rows)
    upper = 0 if window.frame.end is None else _bound(self, window.frame.end, rows)
    if window.frame.start.kind == "UNBOUNDED FOLLOWING" or (
        window.frame.end is not None and window.frame.end.kind == "UNBOUNDED PRECEDING"
    ):
        raise SqlError("The frame begins behind its end", window.frame.position)
    if lower is not None and upper is not None and lower > upper:
        raise SqlError("The frame begins behind its end", window.frame.position)
    return Frame(rows, lower, upper)


def _bound(self: ExpressionResolver, bound: sql.SqlFrameBound, rows: bool) -> int | None:
    if bound.kind == "CURRENT ROW":
        return 0
    if bound.offset is None:
        return None
    offset = self.resolve(bound.offset)
    fits = isinstance(offset, Literal) and isinstance(offset.value, int)
    if not fits or (rows and isinstance(offset.type, DayTimeIntervalType)):
        expected = "a whole number" if rows else "an interval such as INTERVAL '1' HOUR"
        raise SqlError(f"The bound of the frame must be {expected}", bound.position)
    assert isinstance(offset, Literal)
    return -int(offset.value) if bound.kind == "PRECEDING" else int(offset.value)


# --- group windows ---------------------------------------------------------------------------------------------------


def _window_property(self: ExpressionResolver, node: sql.SqlFunctionCall, name: str) -> Expression:
    if not self.aggregates:
        raise SqlError(f"{name} cannot stand in {self.clause}: it needs a GROUP BY with its window", node.position)
    kind, asked = PROPERTIES[name]
    window = group_window(self, replace(node, name=(kind,)))
    return WindowProperty(property_type(asked, window.time.type), asked, window, node.position)


_RULES: dict[type[SqlNode], Rule] = {sql.SqlFunctionCall: _call}
add_rules(_RULES)
