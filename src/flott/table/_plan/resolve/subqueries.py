"""Subqueries as joins: semi and anti joins in WHERE, left joins that bring a value elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flott.table._expressions.expression import (
    TRUE,
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    replaced,
    walk,
)
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind
from flott.table._plan.resolve.calls import call, case
from flott.table._plan.resolve.decorrelation import (
    Decorrelated,
    above_join,
    decorrelate,
    equal_pairs,
    or_zero,
    reads_outer,
)
from flott.table._plan.resolve.internal import SubqueryExpression
from flott.table._plan.resolve.scope import references
from flott.table._sql.errors import SqlError
from flott.table._types.logical import BIGINT, BOOLEAN, NullType


def filtered(plan: logical.Node, condition: Expression, level: int) -> logical.Node:
    """Return the rows for which a condition is true. IN and EXISTS that AND combines become semi and anti joins."""
    width, names = len(plan.schema), plan.schema.names
    found = [(one, _subquery(one)) for one in conjuncts(condition)]
    rest = [one for one, subquery in found if subquery is None]
    plain = conjunction([one for one in rest if not _has_subquery(one)])
    if plain is not None:  # below the joins: they see fewer rows
        plan = logical.Filter(plan, plain)
    whole = conjunction([one for one in rest if _has_subquery(one)])
    if whole is not None:
        plan, (whole,) = with_subquery_columns(plan, [whole], level)
        plan = _narrowed(logical.Filter(plan, whole), width, names)
    for _, subquery in found:
        if subquery is not None:
            plan, left = with_subquery_columns(plan, subquery.left, level)
            plan = _narrowed(_semi_join(plan, replace(subquery, left=tuple(left))), width, names)
    return plan


def _has_subquery(expression: Expression) -> bool:
    return any(isinstance(one, SubqueryExpression) for one in walk(expression))


def _narrowed(plan: logical.Node, width: int, names: tuple[str, ...]) -> logical.Node:
    """Return a plan without the columns that were appended for subqueries."""
    return plan if len(plan.schema) == width else logical.Project(plan, references(plan.schema)[:width], names)


def _subquery(condition: Expression) -> SubqueryExpression | None:
    """Return the EXISTS or IN that a condition is, possibly behind NOT."""
    if isinstance(condition, Call) and condition.function == "NOT":
        inner = _subquery(condition.arguments[0])
        return None if inner is None else replace(inner, negated=not inner.negated)
    if isinstance(condition, SubqueryExpression) and condition.kind in ("EXISTS", "IN"):
        return condition
    return None


def _semi_join(plan: logical.Node, found: SubqueryExpression) -> logical.Node:
    inner = decorrelate(found.plan, found.level, found.position)
    width = len(plan.schema)
    conditions = [above_join(one, width, found.level) for one in inner.conditions]
    negated, null_aware = found.negated, False
    if found.kind == "IN":
        compared = [
            _comparison(found, value, above_join(column, width, found.level))
            for value, column in zip(found.left, inner.columns, strict=True)
        ]
        # NOT IN is unknown if a null takes part; without nulls it is a plain anti join.
        null_aware = negated and found.operator == "=" and found.type.nullable
        if null_aware:  # a row is kept only if every comparison is false
            whole = conjunction(compared)
            assert whole is not None
            compared = [call("IS NOT FALSE", (whole,), found.position)]
        conditions += compared
    kind = JoinKind.ANTI if negated else JoinKind.SEMI
    return logical.Join(plan, inner.plan, kind, conjunction(conditions), null_aware=null_aware)


def _comparison(found: SubqueryExpression, value: Expression, column: Expression) -> Expression:
    if found.operator.startswith("NOT "):  # x > ALL (query): no row for which x > row is not true
        compared = call(found.operator[4:], (value, column), found.position)
        return call("IS NOT TRUE", (compared,), found.position)
    return call(found.operator, (value, column), found.position)


# --- values ----------------------------------------------------------------------------------------------------------


def with_subquery_columns(
    plan: logical.Node, outputs: Sequence[Expression], level: int
) -> tuple[logical.Node, list[Expression]]:
    """Return the plan with columns appended for the subqueries in expressions, and the expressions that read them."""
    found: dict[SubqueryExpression, None] = {}
    for output in outputs:
        for one in walk(output):
            if isinstance(one, SubqueryExpression) and one.level == level:
                found.setdefault(one)
    places: dict[SubqueryExpression, Expression] = {}

    def changed(expression: Expression) -> Expression:
        if isinstance(expression, SubqueryExpression):
            return places.get(expression, expression)
        operands = expression.operands
        return expression.with_operands(tuple(map(changed, operands))) if operands else expression

    for one in reversed(found):  # what stands inside another one comes first
        inner = one.with_operands(tuple(map(changed, one.left)))
        assert isinstance(inner, SubqueryExpression)
        plan, places[one] = _VALUES[one.kind](plan, inner)
    return plan, [changed(output) for output in outputs]


def _left_join(plan: logical.Node, inner: logical.Node, conditions: Sequence[Expression]) -> logical.Node:
    return logical.Join(plan, inner, JoinKind.LEFT, conjunction(list(conditions)))


def _scalar(plan: logical.Node, found: SubqueryExpression) -> tuple[logical.Node, Expression]:
    inner = decorrelate(found.plan, found.level, found.position)
    inner = _counting(inner, found) if not inner.conditions else _single(inner, found)
    width = len(plan.schema)
    joined = _left_join(plan, inner.plan, [above_join(one, width, found.level) for one in inner.conditions])
    value = above_join(_nullable_columns(inner.columns[0]), width, found.level)
    return joined, value


def _nullable_columns(expression: Expression) -> Expression:
    """Return an expression whose columns may be null, as they are right of a left join."""
    from flott.table._expressions.expression import rewritten

    return rewritten(
        expression, lambda one: InputRef(one.type.as_nullable(), one.index) if isinstance(one, InputRef) else one
    )


def _single(inner: Decorrelated, found: SubqueryExpression) -> Decorrelated:
    """Return a plan of at most one row (for each outer row)."""
    if _one_row(inner.plan, inner, found):
        return inner
    pairs = equal_pairs(inner.conditions, found.level, found.position)
    keys = tuple(key for _, key in pairs)
    value = _inner_only(inner, found).columns[0]
    below = logical.Project(inner.plan, (*keys, value), (*(f"$k{i}" for i in range(len(keys))), "$value"))
    one = logical.AggregateCall("SINGLE_VALUE", (len(keys),), value.type.as_nullable(), "$value")
    above = logical.Aggregate(below, tuple(range(len(keys))), (one,))
    own = references(above.schema)
    conditions = tuple(call("=", (outer, own[i])) for i, (outer, _) in enumerate(pairs))
    return Decorrelated(above, conditions, (own[-1],))


def _counting(inner: Decorrelated, found: SubqueryExpression) -> Decorrelated:
    """Return a plan of one row; a stream without rows has no count yet, which is shown as zero."""
    plan, columns = inner.plan, inner.columns
    while isinstance(plan, logical.Project):
        columns = tuple(replaced(one, plan.expressions) for one in columns)
        plan = plan.input
    if not isinstance(plan, logical.Aggregate) or plan.keys:
        return _single(inner, found)
    results = or_zero(references(plan.schema), plan.calls, found.position)
    return Decorrelated(plan, (), tuple(replaced(one, results) for one in columns))


def _inner_only(inner: Decorrelated, found: SubqueryExpression) -> Decorrelated:
    """Return the subquery's plan; raise ``SqlError`` if its columns are computed from those of the outer query."""
    if any(reads_outer(one, found.level) for one in inner.columns):
        raise SqlError(
            "The columns of this subquery must not be computed from those of the query around", found.position
        )
    return inner


def _one_row(plan: logical.Node, inner: Decorrelated, found: SubqueryExpression) -> bool:
    """Return whether a plan has one row at most for given values of the columns that the conditions compare."""
    while isinstance(plan, logical.Project):
        if inner.conditions:
            return False
        plan = plan.input
    if isinstance(plan, logical.Sort):
        return plan.fetch == 1 and not inner.conditions
    if isinstance(plan, logical.Rank):
        return plan.start == plan.end
    if isinstance(plan, logical.Values):
        return len(plan.rows) == 1
    if not isinstance(plan, logical.Aggregate):
        return False
    compared = {
        operand.index
        for one in inner.conditions
        if isinstance(one, Call) and one.function == "="
        for operand in one.arguments
        if isinstance(operand, InputRef)
    }
    return compared >= set(range(len(plan.keys)))


def _collection(plan: logical.Node, found: SubqueryExpression) -> tuple[logical.Node, Expression]:
    name = "ARRAY_AGG" if found.kind == "ARRAY" else "COLLECT"
    one = logical.AggregateCall(name, (0,), found.type, "$value")
    return _scalar(plan, replace(found, kind="SCALAR", plan=logical.Aggregate(found.plan, (), (one,))))


def _marked(inner: Decorrelated, keys: Sequence[Expression]) -> logical.Node:
    """Return the different values of keys, with a column that is TRUE."""
    names = (*(f"$k{i}" for i in range(len(keys))), "$found")
    below = logical.Project(inner.plan, (*keys, TRUE), names)
    return logical.Aggregate(below, tuple(range(len(names))), ())


def _exists(plan: logical.Node, found: SubqueryExpression) -> tuple[logical.Node, Expression]:
    inner = decorrelate(found.plan, found.level, found.position)
    pairs = equal_pairs(inner.conditions, found.level, found.position)
    marked = _marked(inner, [key for _, key in pairs])
    width = len(plan.schema)
    conditions = [
        above_join(call("=", (outer, InputRef(key.type, i))), width, found.level)
        for i, (outer, key) in enumerate(pairs)
    ]
    joined = _left_join(plan, marked, conditions)
    here = InputRef(BOOLEAN, width + len(pairs))
    return joined, call("IS NULL" if found.negated else "IS NOT NULL", (here,), found.position)


def _in(plan: logical.Node, found: SubqueryExpression) -> tuple[logical.Node, Expression]:
    if found.operator != "=":
        raise SqlError("A comparison with ANY or ALL is supported in WHERE only, combined by AND", found.position)
    inner = decorrelate(found.plan, found.level, found.position)
    pairs = equal_pairs(inner.conditions, found.level, found.position)
    _inner_only(inner, found)
    if pairs and found.type.nullable:
        raise SqlError(
            "IN with a subquery that uses columns of the query around it is supported only in WHERE, combined by AND",
            found.position,
        )
    counted = None
    if found.type.nullable:
        counted, plan = len(plan.schema), _with_counts(plan, inner)
    width = len(plan.schema)
    marked = _marked(inner, [*(key for _, key in pairs), *inner.columns])
    conditions = [
        above_join(call("=", (outer, InputRef(key.type, i))), width, found.level)
        for i, (outer, key) in enumerate(pairs)
    ]
    for i, value in enumerate(found.left):
        column = InputRef(inner.columns[i].type, width + len(pairs) + i)
        conditions.append(call("=", (value, column), found.position))
    joined = _left_join(plan, marked, conditions)
    here = call("IS NOT NULL", (InputRef(BOOLEAN, len(joined.schema) - 1),), found.position)
    if counted is not None:
        here = _three_valued(found, here, counted)
    return joined, call("NOT", (here,), found.position) if found.negated else here


def _with_counts(plan: logical.Node, inner: Decorrelated) -> logical.Node:
    """Return the plan with the number of the query's rows, and of those without a null."""
    count = BIGINT.as_nullable(False)
    below = logical.Project(inner.plan, inner.columns, tuple(f"$v{i}" for i in range(len(inner.columns))))
    calls = (
        logical.AggregateCall("COUNT", (), count, "$rows"),
        logical.AggregateCall("COUNT", tuple(range(len(inner.columns))), count, "$known"),
    )
    # A stream without rows has no count either, until a row comes: the join keeps the left rows.
    return _left_join(plan, logical.Aggregate(below, (), calls), ())


def _three_valued(found: SubqueryExpression, here: Expression, counted: int) -> Expression:
    at = found.position
    rows, known = InputRef(BIGINT, counted), InputRef(BIGINT, counted + 1)
    no, yes = Literal(BOOLEAN.as_nullable(False), False), Literal(BOOLEAN.as_nullable(False), True)
    unknown: Expression = call("<", (known, rows), at)
    for value in found.left:
        if value.type.nullable:
            unknown = call("OR", (unknown, call("IS NULL", (value,), at)), at)
    empty = call("OR", (call("IS NULL", (rows,), at), call("=", (rows, Literal(BIGINT.as_nullable(False), 0)), at)), at)
    branches = [(empty, no), (here, yes), (unknown, Literal(NullType(), None))]
    return case(branches, no, at)


_VALUES = {"SCALAR": _scalar, "ARRAY": _collection, "MULTISET": _collection, "EXISTS": _exists, "IN": _in}
