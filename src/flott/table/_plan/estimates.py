"""Estimates of how many rows the nodes of a plan give, for EXPLAIN. Factors are those that Calcite assumes by default.

No rule of the planner reads them: joins run in the order in which they are written.
"""

from __future__ import annotations

from flott.table._expressions.expression import Call, Expression, conjuncts
from flott.table._plan import logical

_EQUALITY, _OTHER = 0.15, 0.5


def estimated_rows(node: logical.Node) -> float | None:
    """Return how many rows a node is expected to give; None if the size of a source is not known."""
    inputs: list[float] = []
    for one in node.inputs:
        known = estimated_rows(one)
        if known is None:
            return None
        inputs.append(known)
    match node:
        case logical.Scan():
            return None if node.source.estimated_rows is None else float(node.source.estimated_rows)
        case logical.StreamScan():
            return None
        case logical.Values():
            return float(len(node.rows))
        case logical.Filter():
            return inputs[0] * _selectivity(node.condition)
        case logical.Aggregate() | logical.WindowAggregate() | logical.TableAggregate():
            return inputs[0] * (1 - 0.5 ** len(node.keys)) if node.keys else min(inputs[0], 1.0)
        case logical.Join(kind=logical.JoinKind.SEMI | logical.JoinKind.ANTI):
            return inputs[0] * _OTHER
        case logical.Join():
            return inputs[0] * inputs[1] * _selectivity(node.condition)
        case logical.Sort() if node.fetch is not None:
            return min(inputs[0], float(node.fetch))
    return sum(inputs)


def _selectivity(condition: Expression | None) -> float:
    share = 1.0
    for one in conjuncts(condition):
        share *= _EQUALITY if isinstance(one, Call) and one.function == "=" else _OTHER
    return share
