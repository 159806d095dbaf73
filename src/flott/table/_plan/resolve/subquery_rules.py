"""Queries inside expressions: IN, EXISTS, comparisons with ANY and ALL, and queries that are a value."""

from __future__ import annotations

from flott.table._expressions.expression import Call, Expression
from flott.table._plan import logical
from flott.table._plan.resolve.expressions import ExpressionResolver, Rule, add_rules
from flott.table._plan.resolve.internal import SubqueryExpression
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.base import SqlNode
from flott.table._types.coercion import comparable_type
from flott.table._types.logical import BOOLEAN, ArrayType, MultisetType, plain


def _plan(self: ExpressionResolver, query: sql.SqlQuery) -> logical.Node:
    return self.queries.query(query, self.scope)


def _exists(self: ExpressionResolver, node: sql.SqlExists) -> Expression:
    return SubqueryExpression(
        BOOLEAN.as_nullable(False), "EXISTS", _plan(self, node.query), self.scope.level,
        position=node.position, number=self.queries.next_number(),
    )  # fmt: skip


def _in_query(self: ExpressionResolver, node: sql.SqlInQuery) -> Expression:
    return _compared(self, node, node.operand, node.query, "=", node.negated)


def _quantified(self: ExpressionResolver, node: sql.SqlQuantified) -> Expression:
    if node.quantifier.upper() == "ALL":
        if node.operator in ("<>", "!="):
            return _compared(self, node, node.operand, node.query, "=", True)
        return _compared(self, node, node.operand, node.query, f"NOT {node.operator}", True)
    return _compared(self, node, node.operand, node.query, node.operator, False)


def _compared(
    self: ExpressionResolver,
    node: SqlNode,
    operand: sql.SqlExpression,
    query: sql.SqlQuery,
    operator: str,
    negated: bool,
) -> Expression:
    resolved, plan = self.resolve(operand), _plan(self, query)
    left = resolved.arguments if isinstance(resolved, Call) and resolved.function == "ROW" else (resolved,)
    if len(left) != len(plan.schema):
        raise SqlError(f"{len(left)} values are compared with a query of {len(plan.schema)} columns", node.position)
    for value, of in zip(left, plan.schema.types, strict=True):
        if comparable_type(plain(value.type), plain(of)) is None:
            raise SqlError(f"{value.type} cannot be compared with {of} of the query", node.position)
    nullable = any(one.type.nullable for one in left) or any(of.nullable for of in plan.schema.types)
    return SubqueryExpression(
        BOOLEAN.as_nullable(nullable), "IN", plan, self.scope.level, left, negated, operator, node.position,
        self.queries.next_number(),
    )  # fmt: skip


def _scalar(self: ExpressionResolver, node: sql.SqlScalarQuery) -> Expression:
    plan = _plan(self, node.query)
    if len(plan.schema) != 1:
        raise SqlError(f"A query that is a value must have one column, found {len(plan.schema)}", node.position)
    return SubqueryExpression(
        plain(plan.schema.types[0]).as_nullable(), "SCALAR", plan, self.scope.level,
        position=node.position, number=self.queries.next_number(),
    )  # fmt: skip


def _collection(self: ExpressionResolver, node: sql.SqlCollectionQuery) -> Expression:
    plan = _plan(self, node.query)
    kind = node.kind.upper()
    if kind not in ("ARRAY", "MULTISET") or len(plan.schema) != 1:
        raise SqlError(f"{kind}(query) of {len(plan.schema)} columns is not supported", node.position)
    element = plain(plan.schema.types[0])
    of = ArrayType(element) if kind == "ARRAY" else MultisetType(element)
    return SubqueryExpression(
        of, kind, plan, self.scope.level, position=node.position, number=self.queries.next_number()
    )


_RULES: dict[type[SqlNode], Rule] = {
    sql.SqlExists: _exists,
    sql.SqlInQuery: _in_query,
    sql.SqlQuantified: _quantified,
    sql.SqlScalarQuery: _scalar,
    sql.SqlCollectionQuery: _collection,
}
add_rules(_RULES)
