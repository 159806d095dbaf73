"""JobGraph -> ExecutionGraph: every vertex times its parallelism, with the attempt each subtask is at. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from flott.graph.job_graph import JobGraph, JobVertex, VertexId


@dataclass(frozen=True)
class ExecutionVertex:
    """One subtask of a vertex, at one attempt."""

    vertex: JobVertex
    subtask: int  #: from 0 to the vertex's parallelism - 1
    attempt: int = 0  #: how often the subtask was started before

    @property
    def name(self) -> str:
        """Flink's name of a task, which counts subtasks from 1: ``Map -> Filter (2/4)#0``."""
        return f"{self.vertex.name} ({self.subtask + 1}/{self.vertex.parallelism})#{self.attempt}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ExecutionGraph:
    """The subtasks of a job: vertices in topological order, the subtasks of each in order."""

    job_graph: JobGraph
    vertices: tuple[ExecutionVertex, ...]

    @cached_property
    def _by_vertex(self) -> dict[VertexId, tuple[ExecutionVertex, ...]]:
        grouped: dict[VertexId, list[ExecutionVertex]] = {}
        for subtask in self.vertices:
            grouped.setdefault(subtask.vertex.id, []).append(subtask)
        return {ident: tuple(subtasks) for ident, subtasks in grouped.items()}

    def subtasks_of(self, ident: VertexId) -> tuple[ExecutionVertex, ...]:
        """The subtasks of one vertex."""
        return self._by_vertex[ident]

    def __len__(self) -> int:
        return len(self.vertices)

    def __iter__(self) -> Iterator[ExecutionVertex]:
        return iter(self.vertices)

    def __str__(self) -> str:
        lines = [f"ExecutionGraph {self.job_graph.name!r}: {len(self)} subtasks"]
        lines.extend(f"  {subtask}" for subtask in self.vertices)
        return "\n".join(lines)


def expand(graph: JobGraph, attempt: int = 0) -> ExecutionGraph:
    """All subtasks of a job graph, each at the same attempt: an epoch is tried as a whole."""
    return ExecutionGraph(
        graph,
        tuple(
            ExecutionVertex(vertex, subtask, attempt)
            for vertex in graph.vertices
            for subtask in range(vertex.parallelism)
        ),
    )
