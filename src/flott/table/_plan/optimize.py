"""The order in which rules are applied to a logical plan."""

from __future__ import annotations

from collections.abc import Callable

from flott.table._plan.logical import Node, rewritten
from flott.table._plan.rules.columns import prune_columns
from flott.table._plan.rules.filters import (
    push_filters,
    push_filters_into_sources,
    push_join_conditions,
    simplify_conditions,
)
from flott.table._plan.rules.join_keys import compute_join_keys
from flott.table._plan.rules.joins import find_interval_joins, find_window_joins
from flott.table._plan.rules.nested_fields import prune_nested_fields
from flott.table._plan.rules.projections import compute_constants, drop_false, merge_filters, merge_projections
from flott.table._plan.rules.ranks import constant_ranks, find_deduplications, find_ranks
from flott.table._plan.rules.windows import find_window_aggregates, lift_windows

Rule = Callable[[Node], Node]

#: What makes a plan smaller. Applied until nothing changes.
_SIMPLIFY: tuple[Rule, ...] = (
    merge_projections,
    compute_constants,
    merge_filters,
    simplify_conditions,
    drop_false,
    push_filters,
    push_join_conditions,
)
#: What recognises special forms, each applied once from the inputs to the root.
_RECOGNISE: tuple[Rule, ...] = (find_ranks, find_window_aggregates, find_window_joins, find_interval_joins)

#: A plan that still changes after so many rounds is left as it is: every round keeps its meaning.
_ROUNDS = 10


def optimize(root: Node, *, streaming: bool = True) -> Node:
    """Return a plan that gives the same rows with less work."""
    plan = _until_stable(root, _SIMPLIFY)
    plan = prune_columns(plan)
    plan = _until_stable(plan, _SIMPLIFY)
    if streaming:
        plan = _until_stable(plan, (lift_windows, merge_projections))
        plan = prune_columns(_until_stable(rewritten(plan, compute_join_keys), (merge_projections,)))
        plan = rewritten(plan, _each(_RECOGNISE))
        plan = _until_stable(plan, (find_deduplications, constant_ranks, *_SIMPLIFY))
        plan = _until_stable(prune_columns(plan), (find_deduplications, constant_ranks, merge_projections))
    return prune_nested_fields(rewritten(plan, push_filters_into_sources))


def _until_stable(plan: Node, rules: tuple[Rule, ...]) -> Node:
    step = _each(rules)
    for _ in range(_ROUNDS):
        changed = rewritten(plan, step)
        if changed is plan or changed == plan:
            return changed
        plan = changed
    return plan


def _each(rules: tuple[Rule, ...]) -> Rule:
    def apply(node: Node) -> Node:
        for rule in rules:
            node = rule(node)
        return node

    return apply
