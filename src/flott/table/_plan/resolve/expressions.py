"""Expressions of the syntax tree, resolved: names become columns, implicit conversions become casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flott.table._expressions.expression import Call, Expression, Literal
from flott.table._plan.resolve.calls import call, case, cast_to, common, explicit_cast, truth
from flott.table._plan.resolve.internal import AggregateExpression, OverExpression
from flott.table._plan.resolve.literals import UNIT_MONTHS, UNIT_MS, literal, negated
from flott.table._plan.resolve.scope import Scope, field_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.base import SqlNode, SqlTypeName
from flott.table._sql.type_names import logical_type
from flott.table._types import logical as types
from flott.table._types.logical import LogicalType, RowType, SymbolType

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver


@dataclass(frozen=True)
class ExpressionResolver:
    """Resolves the expressions of one clause of one query."""

    queries: QueryResolver
    scope: Scope
    clause: str  #: for messages
    aggregates: bool = False  #: whether aggregate functions may stand here
    over: bool = False  #: whether calls with OVER may stand here
    windows: Mapping[str, sql.SqlWindowSpecification] = field(default_factory=dict)
    group_windows: bool = False  #: whether TUMBLE(...) of GROUP BY and TUMBLE_START(...) may stand here

    def resolve(self, node: SqlNode) -> Expression:
        """Return the resolved form of an expression."""
        rule = _RULES.get(type(node))
        if rule is not None:
            return rule(self, node)
        constant = literal(node) if isinstance(node, sql.SqlExpression) else None
        if constant is not None:
            return constant
        raise SqlError(f"{_described(node)} cannot stand in {self.clause}", node.position)

    def condition(self, node: sql.SqlExpression) -> Expression:
        """Return the resolved form of a condition."""
        return truth(self.resolve(node), self.clause, node.position)

    def all(self, found: Sequence[sql.SqlExpression]) -> list[Expression]:
        """Return the resolved forms of several expressions."""
        return [self.resolve(node) for node in found]

    def inside(self, what: str) -> ExpressionResolver:
        """Return the resolver of the arguments of an aggregate: no further aggregates there."""
        return replace(self, clause=what, aggregates=False, over=False)


# --- references ------------------------------------------------------------------------------------------------------


def _column(self: ExpressionResolver, node: sql.SqlColumnReference) -> Expression:
    return self.scope.find(node.parts, node.position)


def _field(self: ExpressionResolver, node: sql.SqlFieldAccess) -> Expression:
    return field_of(self.resolve(node.operand), node.name, node.position)


def _item(self: ExpressionResolver, node: sql.SqlItemAccess) -> Expression:
    operand, index = self.resolve(node.operand), self.resolve(node.index)
    if isinstance(operand.type, RowType):
        if not isinstance(index, Literal) or not isinstance(index.value, int | str):
            raise SqlError("A field of a ROW is chosen by a constant: its name, or its number from 1", node.position)
        chosen = index.value if isinstance(index.value, str) else index.value - 1
        return field_of(operand, chosen, node.position)
    return call("ITEM", (operand, index), node.position)


def _star(self: ExpressionResolver, node: sql.SqlStar) -> Expression:
    raise SqlError(
        f"* cannot stand here; it is an item of SELECT, or the argument of COUNT ({self.clause})", node.position
    )


# --- operators -------------------------------------------------------------------------------------------------------


def _unary(self: ExpressionResolver, node: sql.SqlUnaryOperation) -> Expression:
    operator = node.operator.upper()
    operand = self.resolve(node.operand)
    if operator in ("-", "+"):
        if isinstance(operand, Literal) and operand.type.is_numeric and operand.value is not None:
            return operand if operator == "+" else negated(operand, node)
        if operator == "+":
            if not operand.type.is_numeric:
                raise SqlError(f"+ cannot stand before {operand.type}", node.position)
            return operand
        return call(NEGATION, (operand,), node.position)
    if operator == "NOT":
        return call("NOT", (truth(operand, "NOT", node.position),), node.position)
    return call(operator, (operand,), node.position)


#: The library's name of the minus before an operand.
NEGATION = "NEGATIVE"


def _binary(self: ExpressionResolver, node: sql.SqlBinaryOperation) -> Expression:
    operator = {"!=": "<>"}.get(node.operator, node.operator)
    operands: list[sql.SqlExpression] = [node.right]
    left = node.left
    chained = operator in ("AND", "OR")
    while chained and isinstance(left, sql.SqlBinaryOperation) and left.operator == operator:
        operands.append(left.right)  # a long chain is not a deep recursion
        left = left.left
    whole = self.resolve(left)
    for right in reversed(operands):
        other = self.resolve(right)
        if chained:
            whole, other = truth(whole, operator, node.position), truth(other, operator, right.position)
        whole = _compare(self, operator, whole, other, node)
    return whole


def _compare(self: ExpressionResolver, operator: str, one: Expression, other: Expression, node: SqlNode) -> Expression:
    """Return one operator over two operands; rows are compared field by field."""
    if operator in ("=", "<>") and _is_row(one) and _is_row(other):
        assert isinstance(one, Call)
        assert isinstance(other, Call)
        if len(one.arguments) != len(other.arguments):
            raise SqlError("Rows of different numbers of fields cannot be compared", node.position)
        parts = [call("=", pair, node.position) for pair in zip(one.arguments, other.arguments, strict=True)]
        whole = parts[0]
        for part in parts[1:]:
            whole = call("AND", (whole, part), node.position)
        return whole if operator == "=" else call("NOT", (whole,), node.position)
    return call(operator, (one, other), node.position)


def _is_row(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function == "ROW"


def _between(self: ExpressionResolver, node: sql.SqlBetween) -> Expression:
    operand, low, high = self.resolve(node.operand), self.resolve(node.low), self.resolve(node.high)

    def within(least: Expression, most: Expression) -> Expression:
        lower, upper = call(">=", (operand, least), node.position), call("<=", (operand, most), node.position)
        return call("AND", (lower, upper), node.position)

    whole = within(low, high)
    if node.symmetric:
        whole = call("OR", (whole, within(high, low)), node.position)
    return call("NOT", (whole,), node.position) if node.negated else whole


def _like(self: ExpressionResolver, node: sql.SqlLike) -> Expression:
    arguments = [self.resolve(node.operand), self.resolve(node.pattern)]
    if node.escape is not None:
        arguments.append(self.resolve(node.escape))
    whole = call(node.operator.upper(), arguments, node.position)
    return call("NOT", (whole,), node.position) if node.negated else whole


def _in_list(self: ExpressionResolver, node: sql.SqlInList) -> Expression:
    operand = self.resolve(node.operand)
    values = self.all(node.values)
    if _is_row(operand) or any(_is_row(value) for value in values):
        parts = [_compare(self, "=", operand, value, node) for value in values]
        whole = parts[0]
        for part in parts[1:]:
            whole = call("OR", (whole, part), node.position)
    else:
        of = (
            common([operand, *values], "IN: the value and the list", node.position) if _mixed(operand, values) else None
        )
        arguments = [operand, *values] if of is None else [cast_to(one, of) for one in (operand, *values)]
        whole = call("IN", arguments, node.position)
    return call("NOT", (whole,), node.position) if node.negated else whole


def _mixed(operand: Expression, values: Sequence[Expression]) -> bool:
    """Return whether IN compares values of one kind: texts next to times are left to the function."""
    return all(value.type.family is operand.type.family for value in values)


def _case(self: ExpressionResolver, node: sql.SqlCase) -> Expression:
    operand = None if node.operand is None else self.resolve(node.operand)
    branches = []
    for branch in node.branches:
        condition = self.resolve(branch.condition)
        if operand is not None:
            condition = call("=", (operand, condition), branch.position)
        branches.append((condition, self.resolve(branch.result)))
    return case(branches, None if node.otherwise is None else self.resolve(node.otherwise), node.position)


def _cast(self: ExpressionResolver, node: sql.SqlCast) -> Expression:
    target = logical_type(node.type) if isinstance(node.type, SqlTypeName) else node.type
    if not isinstance(target, LogicalType):
        raise SqlError(f"{target!r} is not a data type", node.position)
    return explicit_cast(self.resolve(node.operand), target, node.safe, node.position)


# --- constructors ----------------------------------------------------------------------------------------------------


def _row(self: ExpressionResolver, node: sql.SqlRowConstructor) -> Expression:
    from flott.table._plan.resolve.calls import row_of

    return row_of(self.all(node.items), node.position)


def _array(self: ExpressionResolver, node: sql.SqlArrayConstructor) -> Expression:
    items = self.all(node.items)
    of = common(items, "The elements of ARRAY", node.position) if items else types.NULL
    element = of.as_nullable(any(item.type.nullable for item in items))
    return Call(types.ArrayType(element, nullable=False), "ARRAY", tuple(cast_to(item, of) for item in items))


def _map(self: ExpressionResolver, node: sql.SqlMapConstructor) -> Expression:
    items = self.all(node.items)
    if not items or len(items) % 2:
        raise SqlError("MAP needs pairs of a key and a value", node.position)
    key = common(items[::2], "The keys of MAP", node.position)
    value = common(items[1::2], "The values of MAP", node.position)
    of = types.MapType(
        key.as_nullable(any(item.type.nullable for item in items[::2])),
        value.as_nullable(any(item.type.nullable for item in items[1::2])),
        nullable=False,
    )
    cast = tuple(cast_to(item, value if i % 2 else key) for i, item in enumerate(items))
    return Call(of, "MAP", cast)


def _interval(self: ExpressionResolver, node: sql.SqlIntervalValue) -> Expression:
    operand, unit = self.resolve(node.operand), node.qualifier.start.upper()
    if not operand.type.is_numeric:
        raise SqlError(f"INTERVAL takes a number, found {operand.type}", node.position)
    months = unit in UNIT_MONTHS
    if not months and unit not in UNIT_MS:
        raise SqlError(f"INTERVAL of {unit} is not supported", node.position)
    of: LogicalType = types.YearMonthIntervalType() if months else types.DayTimeIntervalType()
    factor = UNIT_MONTHS[unit] if months else UNIT_MS[unit]
    return call("*", (cast_to(operand, types.BIGINT), Literal(of.as_nullable(False), factor)), node.position)


def _symbol(self: ExpressionResolver, node: sql.SqlSymbol) -> Expression:
    return Literal(SymbolType(node.name, nullable=False), node.name)


def _described(node: SqlNode) -> str:
    names = {sql.SqlStar: "*", sql.SqlDescriptor: "DESCRIPTOR", sql.SqlTableArgument: "TABLE"}
    return names.get(type(node), type(node).__name__.removeprefix("Sql"))


def has_aggregates(expression: Expression) -> bool:
    """Return whether an expression contains an aggregate that is not inside OVER."""
    if isinstance(expression, AggregateExpression):
        return True
    return any(has_aggregates(operand) for operand in expression.operands)


def has_over(expression: Expression) -> bool:
    """Return whether an expression contains a call with OVER."""
    return isinstance(expression, OverExpression) or any(has_over(operand) for operand in expression.operands)


Rule = Callable[[ExpressionResolver, Any], Expression]
_RULES: dict[type[SqlNode], Rule] = {
    sql.SqlColumnReference: _column,
    sql.SqlFieldAccess: _field,
    sql.SqlItemAccess: _item,
    sql.SqlStar: _star,
    sql.SqlUnaryOperation: _unary,
    sql.SqlBinaryOperation: _binary,
    sql.SqlBetween: _between,
    sql.SqlLike: _like,
    sql.SqlInList: _in_list,
    sql.SqlCase: _case,
    sql.SqlCast: _cast,
    sql.SqlRowConstructor: _row,
    sql.SqlArrayConstructor: _array,
    sql.SqlMapConstructor: _map,
    sql.SqlIntervalValue: _interval,
    sql.SqlSymbol: _symbol,
}


def add_rules(rules: Mapping[type[SqlNode], Rule]) -> None:
    """Add the rules of another module: function calls and subqueries."""
    _RULES.update(rules)
