"""EXPLAIN: the logical plan, the optimized plan and the physical plan as text, in the layout of Flink's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flott.table._plan import logical, operations
from flott.table._plan.estimates import estimated_rows
from flott.table._plan.optimize import optimize
from flott.table._plan.physical import PlannerSettings, Step, plan_physically, walk_steps

CHANGELOG_MODE = "CHANGELOG_MODE"
#: Records in and out.
Counts = tuple[int, int]


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


def rows_of_job(steps: Sequence[Step], title: str, counts: Mapping[Step, Counts]) -> str:
    """Return the steps of a job that runs, with the rows that each took in and sent in completed epochs."""
    parts = [_physical_text(step, changelog=False, costs=False, counts=counts) for step in steps]
    return "\n\n".join([f"== {title} ==", *parts]) + "\n"


def advice(steps: Sequence[Step], settings: PlannerSettings) -> str:
    """Return what could make a query faster: the answer to PLAN_ADVICE."""
    found: list[str] = []
    for step in {id(one): one for root in steps for one in walk_steps(root)}.values():
        match step.operation:
            case operations.GroupAggregate(keys=()):
                found.append(f"{step.label} runs in one subtask: it has no keys.")
            case operations.GroupAggregate() if not settings.mini_batch:
                found.append(
                    f"{step.label} sends a change for every record. Set 'table.exec.mini-batch.enabled' to 'true' for"
                    " one of each key and epoch, and an aggregation in two phases where the functions allow it."
                )
            case operations.RegularJoin(ttl_ms=0):
                found.append(
                    f"{step.label} keeps all rows of both sides. Bound the times of both, or set"
                    " 'table.exec.state.ttl' or the hint STATE_TTL."
                )
    lines = [f"advice[{number}]: {text}" for number, text in enumerate(found, 1)] or ["No available advice."]
    return "\n\n".join(["== Plan Advice ==", *lines]) + "\n"


def _physical_text(
    step: Step,
    *,
    changelog: bool,
    costs: bool,
    exchanges: bool = True,
    depth: int = 0,
    counts: Mapping[Step, Counts] | None = None,
) -> str:
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    text = step.label
    if changelog:
        text = text[:-1] + f", changelogMode=[{step.changes.text(step.update_before)}])"
    if costs and step.node is not None and (rows := estimated_rows(step.node)) is not None:
        text += f": rowcount = {rows:g}"
    if counts is not None and step in counts:
        text += ": rows in = {}, out = {}".format(*counts[step])
    lines = [prefix + text]
    for one, distribution in zip(step.inputs, step.distributions, strict=True):
        deeper = depth + 1
        if distribution is not None and exchanges:
            names = ", ".join(one.schema.names[i] for i in distribution)
            how = f"hash[{names}]" if distribution else "single"
            lines.append("   " * depth + f"+- Exchange(distribution=[{how}])")
            deeper += 1
        lines.append(
            _physical_text(one, changelog=changelog, costs=costs, exchanges=exchanges, depth=deeper, counts=counts)
        )
    return "\n".join(lines)
