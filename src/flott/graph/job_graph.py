"""The compiled program: operators fused into chains (vertices), edges between them.

A vertex is a small tree: its head takes the input, every other operator of the chain has exactly one input, which comes
from inside the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NewType

from flott.graph.operator_ids import OperatorId
from flott.graph.partitioning import Partitioning
from flott.graph.specs import SourceSpec
from flott.graph.stream_graph import StreamNode

VertexId = NewType("VertexId", str)  #: the operator id of the chain's head


@dataclass(frozen=True)
class ChainedOperator:
    """An operator in its chain."""

    id: OperatorId
    node: StreamNode
    #: Index in the vertex of the operator that feeds it, and the side tag it listens to; the head has None.
    fed_by: int | None = None
    side_tag: str | None = None

    @property
    def label(self) -> str:
        """Return name and uid as errors and failure cards show them."""
        return f"{self.node.name!r} (uid {self.node.uid!r})" if self.node.uid else f"{self.node.name!r}"


@dataclass(frozen=True)
class JobVertex:
    """A chain of operators that runs as one fused loop in each of its subtasks."""

    id: VertexId
    operators: tuple[ChainedOperator, ...]  #: head first, every operator after the one that feeds it

    @property
    def head(self) -> ChainedOperator:
        """Return the operator that takes the vertex's input."""
        return self.operators[0]

    @property
    def parallelism(self) -> int:
        """Return the number of subtasks, which is equal for all operators of a chain."""
        return self.head.node.parallelism

    @property
    def max_parallelism(self) -> int:
        """Return the number of key groups."""
        return self.head.node.max_parallelism

    @property
    def is_source(self) -> bool:
        """Return whether the chain starts with a source."""
        return isinstance(self.head.node.spec, SourceSpec)

    @property
    def name(self) -> str:
        """Return Flink's name of the chain: ``Source: numbers -> (Map, Filter -> Sink: Print)``."""
        return _chain_name(self, 0)


@dataclass(frozen=True)
class JobEdge:
    """Records flow from one operator of a vertex to one input of another vertex's head."""

    index: int  #: position in the job graph: the order in which a subtask takes its inputs
    source: VertexId
    source_operator: int  #: index in the source vertex
    target: VertexId
    input_index: int
    partitioning: Partitioning
    side_tag: str | None = None


@dataclass(frozen=True)
class JobGraph:
    """Vertices in topological order and edges numbered in a fixed order."""

    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    batch: bool = False  #: one epoch reads all input; keyed operators see one key after the other

    @cached_property
    def _by_id(self) -> dict[VertexId, JobVertex]:
        return {vertex.id: vertex for vertex in self.vertices}

    def vertex(self, ident: VertexId) -> JobVertex:
        """Return the vertex with this id."""
        return self._by_id[ident]

    def edges_into(self, ident: VertexId) -> tuple[JobEdge, ...]:
        """Return incoming edges in the order a subtask reads them."""
        return tuple(edge for edge in self.edges if edge.target == ident)

    def edges_out_of(self, ident: VertexId) -> tuple[JobEdge, ...]:
        """Return outgoing edges."""
        return tuple(edge for edge in self.edges if edge.source == ident)

    @cached_property
    def operators(self) -> dict[OperatorId, ChainedOperator]:
        """Return all operators by id."""
        return {op.id: op for vertex in self.vertices for op in vertex.operators}

    @cached_property
    def sources(self) -> tuple[JobVertex, ...]:
        """Return the vertices that read a source."""
        return tuple(vertex for vertex in self.vertices if vertex.is_source)

    def __str__(self) -> str:
        lines = [f"JobGraph {self.name!r}"]
        for vertex in self.vertices:
            lines.append(f"  [{vertex.id[:8]}] {vertex.name} x{vertex.parallelism}")
            lines.extend(
                f"      <- [{edge.source[:8]}] {edge.partitioning.label}" for edge in self.edges_into(vertex.id)
            )
        return "\n".join(lines)


def _chain_name(vertex: JobVertex, index: int) -> str:
    own = vertex.operators[index].node.name
    fed = [_chain_name(vertex, i) for i, op in enumerate(vertex.operators) if op.fed_by == index]
    if not fed:
        return own
    return f"{own} -> {fed[0]}" if len(fed) == 1 else f"{own} -> ({', '.join(fed)})"
