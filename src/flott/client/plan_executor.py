"""Runs nothing: writes the plan of the first job a program would run, and ends the program. Client side.

``FLOTT_PLAN_FILE`` asks for it. The file has Flink's two plans: ``plan``, of the fused vertices, as REST shows it of a
running job, and ``execution-plan``, of the program's operators, as ``get_execution_plan()`` gives it.
"""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any, NoReturn

from flott import execution
from flott.common.configuration import Configuration
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph, JobVertex
from flott.graph.plan_json import plan_json
from flott.graph.stream_graph import StreamGraph


def make_executor(target: str) -> PlanExecutor:
    """Return the executor for programs that are asked for their plan."""
    return PlanExecutor(Path(os.environ[execution.PLAN_VARIABLE]))


class PlanExecutor:
    """Writes the plan of a job to a file."""

    def __init__(self, file: Path):
        self._file = file

    def execute(self, graph: StreamGraph, configuration: Configuration) -> NoReturn:
        self._file.write_text(json.dumps(plan_of(graph)))
        raise SystemExit(0)

    def submit(self, graph: StreamGraph, configuration: Configuration) -> NoReturn:
        self.execute(graph, configuration)


def plan_of(graph: StreamGraph) -> dict[str, Any]:
    """Return both plans of a job."""
    job = chain(graph)
    plan = {
        "jid": "0" * 32,  # it has not been submitted
        "name": job.name,
        "type": "BATCH" if job.batch else "STREAMING",
        "nodes": [_node(job, vertex) for vertex in job.vertices],
    }
    return {"plan": plan, "execution-plan": json.loads(plan_json(graph))}


def _node(job: JobGraph, vertex: JobVertex) -> dict[str, Any]:
    node: dict[str, Any] = {
        "id": str(vertex.id),
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": f"{html.escape(vertex.name)}<br/>",
        "optimizer_properties": {},
    }
    edges = job.edges_into(vertex.id)
    if edges:
        exchange = "blocking" if job.batch else "pipelined_bounded"
        node["inputs"] = [
            {"num": number, "id": str(edge.source), "ship_strategy": edge.partitioning.label, "exchange": exchange}
            for number, edge in enumerate(edges)
        ]
    return node
