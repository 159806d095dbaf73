"""Resolved expressions: frozen trees over the columns of an input, each node with its type.

Every name has been looked up and every implicit cast is a :class:`Cast`: what follows the resolver never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from flott.table._types.logical import BOOLEAN, LogicalType


@dataclass(frozen=True)
class Expression:
    """Common root."""

    type: LogicalType

    @property
    def operands(self) -> tuple[Expression, ...]:
        """Return the expressions that this one is made of."""
        return ()

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        """Return the expression over other operands."""
        return self


@dataclass(frozen=True)
class InputRef(Expression):
    """A column of the input, by position. A join counts the columns of its left input first."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True)
class Literal(Expression):
    """A constant: the plain Python object of its type, or None.

    INT 1, DECIMAL ``Decimal``, strings ``str``, BYTES ``bytes``, DATE ``date``, TIME ``time``, TIMESTAMP a naive
    ``datetime``, TIMESTAMP_LTZ an aware one in UTC; intervals the number of months or of milliseconds; arrays lists,
    maps dicts, rows tuples; symbols and descriptors their text.
    """

    value: Any

    def __str__(self) -> str:
        return "NULL" if self.value is None else f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Call(Expression):
    """A function of the library (an operator is one: ``+``, ``AND``, ``CASE``), by its name there."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=operands)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Cast(Expression):
    """A conversion to ``type``. A safe one (TRY_CAST) gives NULL where the other one fails."""

    operand: Expression
    safe: bool = False

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=operands[0])

    def __str__(self) -> str:
        return f"{'TRY_CAST' if self.safe else 'CAST'}({self.operand} AS {self.type})"


@dataclass(frozen=True)
class FieldAccess(Expression):
    """A field of a row, by position."""

    operand: Expression
    index: int
    name: str

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=operands[0])

    def __str__(self) -> str:
        return f"{self.operand}.{self.name}"


@dataclass(frozen=True)
class UserFunction:
    """A function in Python, as registered: what is called, how, and how plans name it."""

    name: str
    #: The function object of the API, with eval/accumulate/... Two functions of one name (two lambdas) are not equal.
    function: Any = field(hash=False)
    kind: str = "scalar"  #: scalar, table, aggregate, table_aggregate
    style: str = "general"  #: general (row by row), pandas, arrow, async
    deterministic: bool = True
    argument_types: tuple[LogicalType, ...] | None = None  #: as declared; None: any
    result_type: LogicalType | None = None
    accumulator_type: LogicalType | None = None
    takes_rows: bool = False  #: gets a whole row as its only argument


@dataclass(frozen=True)
class UserCall(Expression):
    """A call of a function in Python."""

    function: UserFunction
    arguments: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.arguments

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, arguments=operands)

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


# --- walks -----------------------------------------------------------------------------------------------------------


def walk(expression: Expression) -> Iterator[Expression]:
    """Return an expression and everything that it is made of."""
    yield expression
    for operand in expression.operands:
        yield from walk(operand)


def rewritten(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with each node changed, operands first."""
    operands = expression.operands
    changed = tuple(rewritten(operand, change) for operand in operands)
    return change(expression if changed == operands else expression.with_operands(changed))


def columns_of(*expressions: Expression | None) -> frozenset[int]:
    """Return the positions of the columns that expressions read."""
    return frozenset(
        node.index for one in expressions if one is not None for node in walk(one) if isinstance(node, InputRef)
    )


def shifted(expression: Expression, by: int) -> Expression:
    """Return an expression whose columns stand ``by`` positions further to the right."""
    return rewritten(expression, lambda e: replace(e, index=e.index + by) if isinstance(e, InputRef) else e)


def remapped(expression: Expression, positions: dict[int, int]) -> Expression:
    """Return an expression whose columns stand at other positions."""
    return rewritten(expression, lambda e: replace(e, index=positions[e.index]) if isinstance(e, InputRef) else e)


def replaced(expression: Expression, columns: tuple[Expression, ...]) -> Expression:
    """Return an expression with each column replaced by what computes it."""
    return rewritten(expression, lambda e: columns[e.index] if isinstance(e, InputRef) else e)


def conjuncts(condition: Expression | None) -> list[Expression]:
    """Return the conditions that AND combines."""
    if condition is None or condition == TRUE:
        return []
    if isinstance(condition, Call) and condition.function == "AND":
        return [part for operand in condition.arguments for part in conjuncts(operand)]
    return [condition]


def conjunction(conditions: list[Expression]) -> Expression | None:
    """Return conditions combined by AND; None if there is none."""
    if not conditions:
        return None
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = Call(BOOLEAN.as_nullable(whole.type.nullable or condition.type.nullable), "AND", (whole, condition))
    return whole


TRUE = Literal(BOOLEAN.as_nullable(False), True)
