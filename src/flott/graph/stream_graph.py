"""The logical topology: one node per physical operation, edges with their partitioning. No optimisation yet."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NewType

from flott.graph.partitioning import Partitioning
from flott.graph.specs import KeySpec, OperatorSpec, SinkSpec, SourceSpec
from flott.graph.transformations import DEFAULT_SLOT_SHARING_GROUP, Chaining

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation

NodeId = NewType("NodeId", int)


@dataclass(frozen=True)
class StreamNode:
    """One operator of the program with everything decided but its fusion."""

    id: NodeId
    name: str
    spec: OperatorSpec
    parallelism: int
    max_parallelism: int
    fixed_parallelism: bool = False  #: set for this operator or by its source: it does not follow the job
    keys: tuple[KeySpec | None, ...] = ()
    output_type: TypeInformation | None = None
    side_types: tuple[tuple[str, TypeInformation], ...] = ()  #: of the side outputs, by tag, where one is declared
    uid: str | None = None
    uid_hash: str | None = None
    description: str | None = None
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    chaining: Chaining = Chaining.ALWAYS
    source_line: str = ""

    @property
    def is_keyed(self) -> bool:
        """Return whether the operator has a current key, and with it keyed state and timers."""
        return any(key is not None for key in self.keys)

    @property
    def kind(self) -> str:
        """Return Flink's coarse name for it in plans."""
        if isinstance(self.spec, SourceSpec):
            return "Data Source"
        return "Data Sink" if isinstance(self.spec, SinkSpec) else "Operator"


@dataclass(frozen=True)
class StreamEdge:
    """Records flow from one node to one input of another."""

    source: NodeId
    target: NodeId
    input_index: int  #: which input of the target (0, or 1 for the second of two)
    partitioning: Partitioning
    side_tag: str | None = None  #: carries the side output with this tag instead of the main output
    asked: bool = True  #: whether the program asked for the partitioning; if not, it follows from the parallelism

    def __str__(self) -> str:
        tag = f" [{self.side_tag}]" if self.side_tag else ""
        return f"{self.source} --{self.partitioning.label}{tag}--> {self.target}.{self.input_index}"


@dataclass(frozen=True)
class StreamGraph:
    """Nodes in topological order (inputs before consumers) and edges in the order the program made them."""

    job_name: str
    nodes: tuple[StreamNode, ...]
    edges: tuple[StreamEdge, ...]
    chaining_enabled: bool = True
    batch: bool = False  #: all input is read in one go and only final results are given

    @cached_property
    def _by_id(self) -> dict[NodeId, StreamNode]:
        return {node.id: node for node in self.nodes}

    def node(self, ident: NodeId) -> StreamNode:
        """Return the node with this id."""
        return self._by_id[ident]

    @cached_property
    def _into(self) -> dict[NodeId, tuple[StreamEdge, ...]]:
        into: dict[NodeId, list[StreamEdge]] = {}
        for edge in self.edges:
            into.setdefault(edge.target, []).append(edge)
        return {target: tuple(sorted(edges, key=lambda e: e.input_index)) for target, edges in into.items()}

    def edges_into(self, ident: NodeId) -> tuple[StreamEdge, ...]:
        """Return incoming edges, by input and then in program order."""
        return self._into.get(ident, ())

    def edges_out_of(self, ident: NodeId) -> tuple[StreamEdge, ...]:
        """Return outgoing edges in program order."""
        return tuple(e for e in self.edges if e.source == ident)

    def __str__(self) -> str:
        lines = [f"StreamGraph {self.job_name!r}"]
        for node in self.nodes:
            lines.append(f"  {node.id}: {node.name} (parallelism {node.parallelism})")
            lines.extend(f"      <- {edge}" for edge in self.edges_into(node.id))
        return "\n".join(lines)
