"""Projections: merged where two follow each other, dropped where they change nothing."""

from __future__ import annotations

from flott.table._expressions.expression import Call, Expression, InputRef, Literal, UserCall, replaced, walk
from flott.table._functions.registry import function_named
from flott.table._plan.logical import Filter, Node, Project, Schema, Values
from flott.table._types.logical import INT


def merge_projections(node: Node) -> Node:
    """Return Project(Project(x)) as one projection, and drop one that only repeats its input."""
    if not isinstance(node, Project):
        return node
    inner = node.input
    if isinstance(inner, Project) and can_merge(node.expressions, inner.expressions):
        merged = tuple(replaced(one, inner.expressions) for one in node.expressions)
        return merge_projections(Project(inner.input, merged, node.names))
    if is_identity(node):
        return inner
    return node


def is_identity(node: Project) -> bool:
    """Return whether a projection gives every column of its input in order, under its name and type."""
    inner = node.input.schema
    return node.schema == inner and all(
        isinstance(one, InputRef) and one.index == place for place, one in enumerate(node.expressions)
    )


def can_merge(outer: tuple[Expression, ...], inner: tuple[Expression, ...]) -> bool:
    """Return whether inner expressions may be computed where they are used: cheap, or used once, and repeatable."""
    uses: dict[int, int] = {}
    for expression in outer:
        for part in walk(expression):
            if isinstance(part, InputRef):
                uses[part.index] = uses.get(part.index, 0) + 1
    return all(
        is_repeatable(inner[index]) or (count == 1 and not has_python(inner[index])) for index, count in uses.items()
    )


def is_repeatable(expression: Expression) -> bool:
    """Return whether an expression may be computed twice: it gives the same value, and is no function in Python."""
    for part in walk(expression):
        if isinstance(part, UserCall):
            return False
        if isinstance(part, Call):
            function = function_named(part.function)
            if function is None or function.per_row:
                return False
    return True


def has_python(expression: Expression) -> bool:
    """Return whether an expression calls a function in Python."""
    return any(isinstance(part, UserCall) for part in walk(expression))


def compute_constants(node: Node) -> Node:
    """Return a projection of constant rows as other constant rows."""
    if not (isinstance(node, Project) and isinstance(node.input, Values)):
        return node
    if not all(is_repeatable(one) for one in node.expressions):
        return node if len(node.input.schema) else _with_a_column(node)
    rows = tuple(tuple(replaced(one, row) for one in node.expressions) for row in node.input.rows)
    return Values(node.schema, rows)


def _with_a_column(node: Project) -> Node:
    """Return a projection of a row without columns over one that has a column: columns say how many rows there are."""
    values = node.input
    assert isinstance(values, Values)
    columns = Schema(("$zero",), (INT.as_nullable(False),))
    rows = tuple((Literal(INT.as_nullable(False), 0),) for _ in values.rows)
    return Project(Values(columns, rows), node.expressions, node.names)


def merge_filters(node: Node) -> Node:
    """Return Filter(Filter(x)) as one filter."""
    from flott.table._expressions.expression import conjunction, conjuncts

    if isinstance(node, Filter) and isinstance(node.input, Filter):
        both = conjunction([*conjuncts(node.input.condition), *conjuncts(node.condition)])
        assert both is not None
        return Filter(node.input.input, both)
    return node


def drop_false(node: Node) -> Node:
    """Return no rows at all for a filter whose condition is never true."""
    if isinstance(node, Filter) and isinstance(node.condition, Literal) and not node.condition.value:
        return Values(node.schema, ())
    if isinstance(node, Filter) and isinstance(node.condition, Literal) and node.condition.value is True:
        return node.input
    return node
