"""Expressions that exist only while a query is resolved. None of them is left in a finished plan.

``AggregateExpression`` and ``OverExpression`` become columns of an aggregation, ``SubqueryExpression`` those of a join,
``OuterRef`` (a column of an outer query) moves into the condition of that join.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flott.table._expressions.expression import Expression, UserFunction
from flott.table._plan import logical
from flott.table._sql.nodes.base import Position


@dataclass(frozen=True)
class OuterRef(Expression):
    """A column of a query around this one; ``level`` is the nesting depth of that query, the outermost being 0."""

    index: int
    level: int

    def __str__(self) -> str:
        return f"$outer{self.level}.{self.index}"


@dataclass(frozen=True)
class Ordering:
    """A sort key whose expression is not a column yet."""

    expression: Expression
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class AggregateExpression(Expression):
    """A call of an aggregate function, its arguments over the rows that are aggregated."""

    function: str
    arguments: tuple[Expression, ...]
    distinct: bool = False
    filter: Expression | None = None
    user: UserFunction | None = None
    literals: tuple[Any, ...] = ()
    order: tuple[Ordering, ...] = ()
    position: Position | None = field(default=None, compare=False)

    @property
    def operands(self) -> tuple[Expression, ...]:
        filters = () if self.filter is None else (self.filter,)
        return (*self.arguments, *filters, *(one.expression for one in self.order))

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        count, ordered = len(self.arguments), len(operands) - len(self.order)
        return replace(
            self,
            arguments=operands[:count],
            filter=None if self.filter is None else operands[count],
            order=tuple(replace(o, expression=e) for o, e in zip(self.order, operands[ordered:], strict=True)),
        )

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class WindowProperty(Expression):
    """TUMBLE_START and its like: a bound of the group's window. ``window`` is the whole call that it repeats."""

    property: str  #: start, end, rowtime, proctime
    window: Any
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GroupingExpression(Expression):
    """GROUPING(a, b), GROUPING_ID(a, b) or GROUP_ID()."""

    function: str
    arguments: tuple[Expression, ...]
    position: Position | None = field(default=None, compare=False)

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=operands)


@dataclass(frozen=True)
class OverExpression(Expression):
    """A call with OVER."""

    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Ordering, ...]
    frame: logical.Frame
    distinct: bool = False
    filter: Expression | None = None
    user: UserFunction | None = None
    literals: tuple[Any, ...] = ()
    position: Position | None = field(default=None, compare=False)

    @property
    def operands(self) -> tuple[Expression, ...]:
        filters = () if self.filter is None else (self.filter,)
        return (*self.arguments, *self.partition, *(one.expression for one in self.order), *filters)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        a, p, o = len(self.arguments), len(self.partition), len(self.order)
        return replace(
            self,
            arguments=operands[:a],
            partition=operands[a : a + p],
            order=tuple(
                replace(one, expression=e) for one, e in zip(self.order, operands[a + p : a + p + o], strict=True)
            ),
            filter=None if self.filter is None else operands[-1],
        )

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))}) OVER"


@dataclass(frozen=True)
class SubqueryExpression(Expression):
    """EXISTS, IN, a quantified comparison, a scalar or collection query. ``operands_`` stand left of IN."""

    kind: str  #: EXISTS, IN, SCALAR, ARRAY, MULTISET
    plan: logical.Node = field(compare=False)
    level: int  #: nesting depth of the query in which it stands
    left: tuple[Expression, ...] = ()
    negated: bool = False
    operator: str = "="  #: of a quantified comparison
    position: Position | None = field(default=None, compare=False)
    number: int = 0  #: tells subqueries of one statement apart

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.left

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, left=operands)

    def __str__(self) -> str:
        return f"{self.kind}(query {self.number})"
