"""The graph of a job for the dashboard. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from flott.rest.shapes.job.jobs import JobType, job_type
from flott.runtime.jobmanager.views.job_view import ChainedOperatorView, JobView, VertexView


class PlanInput(TypedDict):
    num: int
    id: str
    ship_strategy: str
    exchange: str


class PlanNode(TypedDict):
    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    optimizer_properties: dict[str, Any]
    inputs: NotRequired[list[PlanInput]]


class JobPlan(TypedDict):
    jid: str
    name: str
    type: JobType
    nodes: list[PlanNode]


class JobPlanReply(TypedDict):
    plan: JobPlan


def job_plan_reply(job: JobView) -> JobPlanReply:
    """Return only the plan."""
    return {"plan": job_plan(job)}


def job_plan(job: JobView) -> JobPlan:
    """Return one node for each vertex, with the same id."""
    exchange = "blocking" if job.batch else "pipelined_bounded"
    return {
        "jid": job.job_id,
        "name": job.name,
        "type": job_type(job),
        "nodes": [_node(vertex, exchange) for vertex in job.vertices],
    }


def description(operators: Sequence[ChainedOperatorView]) -> str:
    """Return a chain as HTML, with one operator per line, as Flink draws it."""
    lines = []
    for depth, operator in enumerate(operators):
        branch = f"{'   ' * (depth - 1)}+- " if depth else ""
        lines.append(f"{branch}{html.escape(operator.description or operator.name)}<br/>")
    return "".join(lines)


def _node(vertex: VertexView, exchange: str) -> PlanNode:
    node: PlanNode = {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": description(vertex.operators) or f"{html.escape(vertex.name)}<br/>",
        "optimizer_properties": {},
    }
    if vertex.inputs:
        node["inputs"] = [
            {"num": one.number, "id": one.source, "ship_strategy": one.ship_strategy, "exchange": exchange}
            for one in vertex.inputs
        ]
    return node
