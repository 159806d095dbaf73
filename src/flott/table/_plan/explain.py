"""EXPLAIN: the logical plan, the optimized plan and the physical plan as text, in the layout of Flink's."""

from __future__ import annotations

from collections.abc import Sequence

from flott.table._plan import logical
from flott.table._plan.optimize import optimize
from flott.table._plan.physical import PlannerSettings, Step, plan_physically

CHANGELOG_MODE = "CHANGELOG_MODE"


def explain(plans: Sequence[logical.Node], settings: PlannerSettings, details: Sequence[str] = ()) -> str:
    """Return the plans of a statement as text."""
    wanted = {detail.upper() for detail in details}
    steps = [plan_physically(optimize(plan), settings) for plan in plans]
    parts = ["== Abstract Syntax Tree =="]
    parts += [_logical_text(plan) for plan in plans]
    parts.append("== Optimized Physical Plan ==")
    parts += [
        _physical_text(step, changelog=CHANGELOG_MODE in wanted, costs="ESTIMATED_COST" in wanted) for step in steps
    ]
    parts.append("== Optimized Execution Plan ==")
    parts += [_physical_text(step, changelog=False, costs=False, exchanges=True) for step in steps]
    return "\n\n".join(parts) + "\n"


def _logical_text(node: logical.Node, depth: int = 0) -> str:
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    lines = [f"{prefix}{_describe(node)}"]
    lines += [_logical_text(one, depth + 1) for one in node.inputs]
    return "\n".join(lines)


def _describe(node: logical.Node) -> str:
    name = "Logical" + type(node).__name__
    match node:
        case logical.Scan():
            return f"{name}(table=[[{node.identifier.summary}]])"
        case logical.Project():
            pairs = zip(node.names, node.expressions, strict=True)
            return f"{name}({', '.join(f'{name}=[{one}]' for name, one in pairs)})"
        case logical.Filter():
            return f"{name}(condition=[{node.condition}])"
        case logical.Join():
            return f"{name}(condition=[{node.condition}], joinType=[{node.kind.name.lower()}])"
        case logical.Aggregate():
            calls = ", ".join(f"{c.name}=[{c.function}({', '.join(f'${i}' for i in c.arguments)})]" for c in node.calls)
            return f"{name}(group=[{{{', '.join(map(str, node.keys))}}}], {calls})"
        case logical.SinkNode():
            table = "collect" if node.identifier is None else node.identifier.summary
            return f"LogicalSink(table=[{table}], fields=[{', '.join(node.schema.names)}])"
    return f"{name}(fields=[{', '.join(node.schema.names)}])"


def _physical_text(step: Step, *, changelog: bool, costs: bool, exchanges: bool = True, depth: int = 0) -> str:
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    text = step.label
    if changelog:
        text = text[:-1] + f", changelogMode=[{step.changes.text(step.update_before)}])"
    if costs and isinstance(step.node, logical.Scan) and step.node.source.estimated_rows is not None:
        text += f": rowcount = {step.node.source.estimated_rows}"
    lines = [prefix + text]
    for one, distribution in zip(step.inputs, step.distributions, strict=True):
        deeper = depth + 1
        if distribution is not None and exchanges:
            names = ", ".join(one.schema.names[i] for i in distribution)
            how = f"hash[{names}]" if distribution else "single"
            lines.append("   " * depth + f"+- Exchange(distribution=[{how}])")
            deeper += 1
        lines.append(_physical_text(one, changelog=changelog, costs=costs, exchanges=exchanges, depth=deeper))
    return "\n".join(lines)
