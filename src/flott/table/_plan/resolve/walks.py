"""Walks over syntax trees and plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from flott.table._expressions.expression import Expression, rewritten
from flott.table._plan import logical
from flott.table._sql.nodes.base import SqlNode


def walk_nodes(node: Any) -> Iterator[SqlNode]:
    """Return a node of a syntax tree and all nodes inside it."""
    if isinstance(node, SqlNode):
        yield node
        for field in fields(node):
            yield from walk_nodes(getattr(node, field.name))
    elif isinstance(node, tuple):
        for one in node:
            yield from walk_nodes(one)


def expressions_of(node: logical.Node) -> list[Expression]:
    """Return the expressions of one node of a plan."""
    match node:
        case logical.Project():
            return list(node.expressions)
        case logical.Filter() | logical.Join():
            return [] if node.condition is None else [node.condition]
        case logical.Values():
            return [value for row in node.rows for value in row]
        case logical.Correlate():
            return [node.call] if node.condition is None else [node.call, node.condition]
    return []


def with_expressions(node: logical.Node, change: Callable[[Expression], Expression]) -> logical.Node:
    """Return one node of a plan with each of its expressions changed."""

    def mended(expression: Expression) -> Expression:
        return rewritten(expression, change)

    match node:
        case logical.Project():
            return replace(node, expressions=tuple(map(mended, node.expressions)))
        case logical.Filter():
            return replace(node, condition=mended(node.condition))
        case logical.Join():
            return node if node.condition is None else replace(node, condition=mended(node.condition))
        case logical.Values():
            return replace(node, rows=tuple(tuple(map(mended, row)) for row in node.rows))
        case logical.Correlate():
            condition = None if node.condition is None else mended(node.condition)
            return replace(node, call=mended(node.call), condition=condition)
    return node
