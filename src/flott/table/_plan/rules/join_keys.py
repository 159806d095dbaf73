"""Keys of joins that are computed, or of different types: they become columns, so that rows can be found by them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flott.table._expressions.expression import (
    Call,
    Cast,
    Expression,
    InputRef,
    columns_of,
    conjunction,
    conjuncts,
    remapped,
    shifted,
)
from flott.table._plan.logical import Join, JoinKind, Node, Project
from flott.table._plan.rules.projections import is_repeatable
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import comparable_type, needs_cast
from flott.table._types.logical import LogicalType, is_time_attribute, plain


@dataclass
class _Side:
    """One input of a join and the columns to compute for it."""

    plan: Node
    more: list[Expression] = field(default_factory=list)

    def place(self, key: Expression) -> InputRef:
        """Return where the side has a key."""
        if isinstance(key, InputRef):
            return key
        if key not in self.more:
            self.more.append(key)
        return InputRef(key.type, len(self.plan.schema) + self.more.index(key))

    def widened(self) -> Node:
        if not self.more:
            return self.plan
        schema = self.plan.schema
        own = tuple(InputRef(of, i) for i, of in enumerate(schema.types))
        names = (*schema.names, *(f"$key{len(schema) + i}" for i in range(len(self.more))))
        return Project(self.plan, (*own, *self.more), names)


def compute_join_keys(node: Node) -> Node:
    """Return a join that compares columns of one type: what is computed for a comparison is computed below it."""
    if not isinstance(node, Join) or node.null_aware:
        return node
    left, right, width = _Side(node.left), _Side(node.right), len(node.left.schema)
    kept: list[Expression] = []
    pairs: list[tuple[Call, InputRef, InputRef]] = []
    for one in conjuncts(node.condition):
        sides = _sides(one, width)
        if sides is None:
            kept.append(one)
        else:
            assert isinstance(one, Call)
            pairs.append((one, left.place(sides[0]), right.place(sides[1])))
    if not (left.more or right.more):
        return node
    wide = width + len(left.more)
    moved = {i: i if i < width else i + len(left.more) for i in range(width + len(node.right.schema))}
    conditions: list[Expression] = []
    for one, a, b in pairs:
        conditions.append(replace(one, arguments=(a, InputRef(b.type, b.index + wide))))
    conditions += [remapped(condition, moved) for condition in kept]
    joined = replace(node, left=left.widened(), right=right.widened(), condition=conjunction(conditions))
    count = width if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else width + len(node.right.schema)
    schema = joined.schema
    outputs = tuple(InputRef(schema.types[moved[i]], moved[i]) for i in range(count))
    return Project(joined, outputs, node.schema.names)


def _sides(condition: Expression, width: int) -> tuple[Expression, Expression] | None:
    """Return the left and the right key of a comparison for equality, of one type; the right one over its own input."""
    if not isinstance(condition, Call) or condition.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    one, other = condition.arguments
    of_one, of_other = columns_of(one), columns_of(other)
    if not of_one or not of_other or not is_repeatable(one) or not is_repeatable(other):
        return None
    if min(of_one) >= width > max(of_other):
        one, other, of_one, of_other = other, one, of_other, of_one
    if not max(of_one) < width <= min(of_other):
        return None
    if is_time_attribute(one.type) or is_time_attribute(other.type):
        return None  # an interval join looks for them
    left, right = one.type, other.type
    if isinstance(one, InputRef) and isinstance(other, InputRef) and _held_alike(left, right):
        return one, shifted(other, -width)
    common = comparable_type(left, right)
    if common is None:
        return None
    return _cast(one, common), _cast(shifted(other, -width), common)


def _held_alike(one: LogicalType, other: LogicalType) -> bool:
    return bool(arrow_type(plain(one)).equals(arrow_type(plain(other))))


def _cast(expression: Expression, to: LogicalType) -> Expression:
    if not needs_cast(expression.type, to) or _held_alike(expression.type, to):
        return expression
    return Cast(to.as_nullable(expression.type.nullable), expression)
