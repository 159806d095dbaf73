"""JobGraph -> Topology: which vertex runs in which stage, and which edges stay inside a task. Pure.

A vertex's stage is one more than the highest stage among its redistributing inputs; forward edges keep the stage. So
any graph becomes a *linear* sequence of stages, each fed by the one before: ``stage 0 -> exchange -> stage 1 -> ...``.
Rows for a later stage pass through the stages between. All vertices of a stage share its tasks: task p runs subtask p
of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.graph.job_graph import JobEdge, JobGraph, JobVertex, VertexId


@dataclass(frozen=True)
class Stage:
    """Vertices that run in the same tasks, in topological order."""

    index: int
    vertices: tuple[VertexId, ...]
    width: int  #: number of tasks


@dataclass(frozen=True)
class Topology:
    """The placement of a job graph."""

    stages: tuple[Stage, ...]
    stage_of: dict[VertexId, int]
    local_edges: frozenset[int]  #: indexes of edges that stay inside a task

    @property
    def driver(self) -> int:
        """Return the stage number in addresses of rows that the driver collects."""
        return len(self.stages)

    def __str__(self) -> str:
        lines = [f"{len(self.stages)} stages"]
        lines.extend(f"  stage {s.index}: {s.width} tasks, {', '.join(v[:8] for v in s.vertices)}" for s in self.stages)
        return "\n".join(lines)


def lay_out(graph: JobGraph) -> Topology:
    """Assign a stage to every vertex."""
    stage_of: dict[VertexId, int] = {}
    for vertex in graph.vertices:
        stage_of[vertex.id] = max((_stage_after(edge, stage_of) for edge in graph.edges_into(vertex.id)), default=0)
    count = max(stage_of.values(), default=0) + 1
    stages = tuple(_stage(index, graph, stage_of) for index in range(count))
    local = frozenset(
        edge.index
        for edge in graph.edges
        if edge.partitioning.pointwise and stage_of[edge.source] == stage_of[edge.target]
    )
    return Topology(stages, stage_of, local)


def _stage_after(edge: JobEdge, stage_of: dict[VertexId, int]) -> int:
    return stage_of[edge.source] + (0 if edge.partitioning.pointwise else 1)


def _stage(index: int, graph: JobGraph, stage_of: dict[VertexId, int]) -> Stage:
    members: list[JobVertex] = [vertex for vertex in graph.vertices if stage_of[vertex.id] == index]
    return Stage(index, tuple(vertex.id for vertex in members), max(vertex.parallelism for vertex in members))
