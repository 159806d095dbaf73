"""GROUP BY: keys, grouping sets, windows of groups, and the rewriting of the SELECT over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING

from flott.table._expressions.expression import Call, Expression, InputRef, Literal, walk
from flott.table._plan import logical
from flott.table._plan.resolve.calls import call
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.group_windows import GroupWindow, group_window, is_group_window
from flott.table._plan.resolve.internal import (
    AggregateExpression,
    GroupingExpression,
    OuterRef,
    OverExpression,
    SubqueryExpression,
    WindowProperty,
)
from flott.table._plan.resolve.queries import ordinal_of, project
from flott.table._plan.resolve.scope import Scope
from flott.table._plan.resolve.walks import walk_nodes, with_expressions
from flott.table._plan.window_aggregates import windowed_aggregate
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.logical import BIGINT, LogicalType, plain

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


#: What exists only after rows were grouped.
_OF_GROUPS = (AggregateExpression, GroupingExpression, OverExpression, WindowProperty)


@dataclass(frozen=True)
class Grouping:
    """What GROUP BY says: all keys, the sets of their positions (one set without GROUPING SETS), a window."""

    keys: tuple[Expression, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    window: GroupWindow | None = None


def resolve_grouping(
    resolver: ExpressionResolver, node: sql.SqlGroupBy | None, items: Sequence[tuple[str, Expression, bool]]
) -> Grouping | None:
    """Return the keys of GROUP BY. A key may be a column of FROM, an alias of the SELECT or a position in it."""
    if node is None:
        return None
    inner = replace(resolver, clause="GROUP BY", aggregates=False, over=False)
    keys: dict[Expression, int] = {}
    window: GroupWindow | None = None
    choices: list[list[tuple[int, ...]]] = []

    def key(written: sql.SqlNode) -> tuple[int, ...]:
        if isinstance(written, sql.SqlRowConstructor):
            return tuple(position for item in written.items for position in key(item))
        expression = _key(inner, written, items)
        if any(isinstance(one, _OF_GROUPS) for one in walk(expression)):
            raise SqlError("GROUP BY cannot contain an aggregate or a function of groups", written.position)
        return (keys.setdefault(expression, len(keys)),)

    def sets_of(item: sql.SqlNode) -> list[tuple[int, ...]]:
        match item:
            case sql.SqlGroupingSets():
                return [one for inside in item.sets for one in sets_of(inside)]
            case sql.SqlRollup():
                parts = [key(part) for part in item.items]
                return [sum(parts[:count], ()) for count in range(len(parts), -1, -1)]
            case sql.SqlCube():
                parts = [key(part) for part in item.items]
                return [sum(chosen, ()) for n in range(len(parts), -1, -1) for chosen in combinations(parts, n)]
            case sql.SqlEmptyGroup():
                return [()]
        return [key(item)]

    several = False
    for item in node.items:
        if is_group_window(item) and isinstance(item, sql.SqlFunctionCall):
            if window is not None:
                raise SqlError("GROUP BY can have one window only", item.position)
            window = group_window(inner, item)
            continue
        several |= isinstance(item, sql.SqlGroupingSets | sql.SqlRollup | sql.SqlCube)
        choices.append(sets_of(item))
    sets = [tuple(sorted(set(sum(chosen, ())))) for chosen in product(*choices)]
    if node.distinct:
        sets = list(dict.fromkeys(sets))
    if len(sets) > 256:
        raise SqlError(f"GROUP BY has {len(sets)} grouping sets, at most 256 are supported", node.position)
    if several and window is not None:
        raise SqlError(
            "Grouping sets cannot be combined with a window in GROUP BY; use a window table function", node.position
        )
    return Grouping(tuple(keys), tuple(sets) if several and len(sets) > 1 else None, window)


def _key(
    resolver: ExpressionResolver, written: sql.SqlNode, items: Sequence[tuple[str, Expression, bool]]
) -> Expression:
    position = ordinal_of(written, len(items), "GROUP BY")
    if position is not None:
        return items[position][1]
    if isinstance(written, sql.SqlColumnReference) and len(written.parts) == 1:
        known = any(column.name == written.parts[0] for column in resolver.scope.columns)
        aliased = [expression for name, expression, alias in items if alias and name == written.parts[0]]
        if not known and aliased:
            return aliased[0]
    return resolver.resolve(written)


# --- the aggregation -------------------------------------------------------------------------------------------------


class _Columns:
    """The columns that an aggregation reads: each expression once."""

    def __init__(self, plan: logical.Node) -> None:
        self._plan = plan
        self.expressions: list[Expression] = []
        self.names: list[str] = []

    def add(self, expression: Expression, *, again: bool = False) -> int:
        if isinstance(expression, InputRef):
            expression = InputRef(expression.type, expression.index)
        if not again and expression in self.expressions:
            return self.expressions.index(expression)
        name = self._plan.schema.names[expression.index] if isinstance(expression, InputRef) else ""
        if not name or name in self.names:
            name = f"$f{len(self.names)}"
        self.expressions.append(expression)
        self.names.append(name)
        return len(self.expressions) - 1


def aggregated(
    queries: QueryResolver,
    plan: logical.Node,
    scope: Scope,
    grouping: Grouping,
    outputs: Sequence[Expression],
    node: sql.SqlSelect,
    ttl_ms: int | None,
) -> tuple[logical.Node, list[Expression]]:
    """Return the aggregation and the outputs as expressions over its columns."""
    from flott.table._plan.resolve.subqueries import with_subquery_columns

    found: dict[AggregateExpression, int] = {}
    for output in outputs:
        _collect(output, found)
    calls = list(found)
    inner = [*grouping.keys, *(operand for one in calls for operand in one.operands)]
    plan, inner = with_subquery_columns(plan, inner, scope.level)
    original, keys = grouping.keys, tuple(inner[: len(grouping.keys)])
    rest = inner[len(keys) :]
    mended: list[AggregateExpression] = []
    for one in calls:
        count = len(one.operands)
        changed = one.with_operands(tuple(rest[:count]))
        assert isinstance(changed, AggregateExpression)
        mended.append(changed)
        rest = rest[count:]
    columns = _Columns(plan)
    positions = [columns.add(_bare(key), again=True) for key in keys]
    time = None if grouping.window is None else columns.add(grouping.window.time, again=True)
    several = grouping.sets is not None
    specified = [_call(one, i, columns, several, bool(keys) and not several) for i, one in enumerate(mended)]
    width = len(columns.expressions)
    # Rows without any column cannot be counted: COUNT(*) reads what is there.
    below = project(plan, columns.expressions, columns.names) if width else plan
    properties: dict[str, int] = {}
    if grouping.window is not None:
        assert time is not None
        asked = list(dict.fromkeys(p.property for o in outputs for p in _properties(o, grouping.window)))
        above: logical.Node = logical.WindowAggregate(
            below,
            tuple(positions),
            tuple(specified),
            grouping.window.over(time),
            tuple(asked),
            tuple(f"${name}" for name in asked),
            time_type=plain_not_null(grouping.window.time),
            legacy=True,
        )
        properties = {name: len(positions) + len(specified) + i for i, name in enumerate(asked)}
    elif grouping.sets is not None:
        expanded = logical.Expand(below, tuple(positions), grouping.sets)
        above = windowed_aggregate(logical.Aggregate(expanded, (*positions, width), tuple(specified), ttl_ms))
    else:
        above = windowed_aggregate(logical.Aggregate(below, tuple(positions), tuple(specified), ttl_ms))
    rewriter = _Rewriter(scope, grouping, original, above, found, properties, node)
    return above, [rewriter.over_groups(output) for output in outputs]


def plain_not_null(time: Expression) -> LogicalType:
    """Return the type of TUMBLE_ROWTIME: that of the time column, not null."""
    return time.type.as_nullable(False)


def _bare(expression: Expression) -> Expression:
    """Return a group key without its time attribute: groups have no order of their own."""
    if isinstance(expression, InputRef):
        return InputRef(plain(expression.type), expression.index)
    return expression


def _collect(expression: Expression, found: dict[AggregateExpression, int]) -> None:
    if isinstance(expression, AggregateExpression):
        found.setdefault(expression, len(found))
        return
    for operand in expression.operands:
        _collect(operand, found)


def _properties(expression: Expression, window: GroupWindow) -> list[WindowProperty]:
    if isinstance(expression, WindowProperty):
        if expression.window != window:
            raise SqlError(
                "The window differs from that of GROUP BY: repeat its arguments exactly", expression.position
            )
        return [expression]
    return [found for operand in expression.operands for found in _properties(operand, window)]


def _call(
    one: AggregateExpression, number: int, columns: _Columns, several: bool, keyed: bool
) -> logical.AggregateCall:
    arguments = tuple(columns.add(_bare(argument), again=several) for argument in one.arguments)
    of = one.type
    if one.function in ("SUM", "MIN", "MAX", "AVG") and keyed and one.filter is None:
        of = of.as_nullable(one.arguments[0].type.nullable)
    return logical.AggregateCall(
        one.function,
        arguments,
        of,
        f"EXPR${number}",
        one.distinct,
        None if one.filter is None else columns.add(one.filter, again=several),
        one.user,
        one.literals,
        tuple(logical.SortKey(columns.add(o.expression, again=several), o.descending, o.nulls_last) for o in one.order),
    )


# --- what the SELECT becomes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Rewriter:
    """Turns expressions over rows into expressions over groups."""

    scope: Scope
    grouping: Grouping
    keys: tuple[Expression, ...]
    plan: logical.Node
    calls: dict[AggregateExpression, int]
    properties: dict[str, int]
    node: sql.SqlSelect

    def over_groups(self, expression: Expression) -> Expression:
        types = self.plan.schema.types
        if expression in self.keys:
            position = self.keys.index(expression)
            return InputRef(types[position], position)
        match expression:
            case AggregateExpression():
                position = self._first_call + self.calls[expression]
                return InputRef(types[position], position)
            case GroupingExpression():
                return self._grouping(expression)
            case WindowProperty():
                if self.grouping.window is None:
                    raise SqlError("The window function needs its window in GROUP BY", expression.position)
                position = self.properties[expression.property]
                return InputRef(expression.type, position)
            case InputRef():
                raise self._not_grouped(expression)
            case SubqueryExpression():
                changed = expression.with_operands(tuple(map(self.over_groups, expression.operands)))
                assert isinstance(changed, SubqueryExpression)
                return replace(changed, plan=logical.rewritten(changed.plan, self._correlated))
        operands = expression.operands
        return expression.with_operands(tuple(map(self.over_groups, operands))) if operands else expression

    @property
    def _first_call(self) -> int:
        return len(self.keys) + (self.grouping.sets is not None)

    def _correlated(self, node: logical.Node) -> logical.Node:
        def change(expression: Expression) -> Expression:
            if isinstance(expression, OuterRef) and expression.level == self.scope.level:
                inner = self.over_groups(InputRef(_type_at(self.scope, expression), expression.index))
                assert isinstance(inner, InputRef)
                return OuterRef(inner.type, inner.index, expression.level)
            return expression

        return with_expressions(node, change)

    def _grouping(self, expression: GroupingExpression) -> Expression:
        """Return GROUPING(a, b) as a choice by the number of the grouping set."""
        zero = Literal(BIGINT.as_nullable(False), 0)
        if expression.function == "GROUP_ID":
            return zero
        places = []
        for argument in expression.arguments:
            if argument not in self.keys:
                raise SqlError(f"The argument of {expression.function} must be a key of GROUP BY", expression.position)
            places.append(self.keys.index(argument))
        if self.grouping.sets is None:
            return zero
        number = InputRef(BIGINT.as_nullable(False), len(self.keys))
        branches: list[Expression] = []
        for position, chosen in enumerate(self.grouping.sets):
            value = sum((place not in chosen) << (len(places) - 1 - i) for i, place in enumerate(places))
            one = Literal(BIGINT.as_nullable(False), position)
            branches += (call("=", (number, one), expression.position), Literal(BIGINT.as_nullable(False), value))
        return Call(BIGINT.as_nullable(False), "CASE", (*branches[:-2], branches[-1]))

    def _not_grouped(self, reference: InputRef) -> SqlError:
        """Return the error of a column that is neither a key nor inside an aggregate, with its place in the text."""
        name = next((c.name for c in self.scope.columns if c.expression == reference), f"${reference.index}")
        position = self.node.position
        for part in (self.node.items, self.node.having, self.node.qualify):
            for node in walk_nodes(part):
                if isinstance(node, sql.SqlColumnReference) and name in node.parts:
                    position = node.position
                    return SqlError(_message(name, self.keys), position)
        return SqlError(_message(name, self.keys), position)


def _type_at(scope: Scope, outer: OuterRef) -> LogicalType:
    for column in scope.columns:
        if isinstance(column.expression, InputRef) and column.expression.index == outer.index:
            return column.expression.type
    return outer.type


def _message(name: str, keys: Sequence[Expression]) -> str:
    if keys:
        return f"Column {name!r} is neither in GROUP BY nor inside an aggregate"
    return f"Column {name!r} stands beside an aggregate without being in GROUP BY"
