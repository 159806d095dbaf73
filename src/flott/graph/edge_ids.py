"""Edge identity: what ties buffers that were on their way between two tasks to an edge of another version of a program.

An edge has no name of its own. It is identified by the operators at its ends, the input it leads to and its side tag;
edges that agree in all of these are numbered.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from flott.graph.job_graph import JobEdge, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.partitioning import Broadcast, Custom, Rescale


class EdgeId(NamedTuple):
    """The identity of an edge."""

    source: OperatorId
    target: OperatorId
    input_index: int
    side_tag: str = ""
    number: int = 0  #: among edges that agree in everything else


def edge_ids(graph: JobGraph) -> dict[int, EdgeId]:
    """Return the identity of every edge, by its index."""
    found: dict[int, EdgeId] = {}
    twins: Counter[EdgeId] = Counter()
    for edge in graph.edges:
        source = graph.vertex(edge.source).operators[edge.source_operator].id
        ident = EdgeId(source, graph.vertex(edge.target).head.id, edge.input_index, edge.side_tag or "")
        found[edge.index] = ident._replace(number=twins[ident])
        twins[ident] += 1
    return found


def may_be_overtaken(edge: JobEdge) -> bool:
    """Return whether barriers may overtake the buffers of an edge.

    As in Flink, not those of pointwise and broadcast edges: what was overtaken could not be distributed over another
    number of subtasks. Nor those of a user's partitioner, which need not choose the same target a second time.
    """
    return not (edge.partitioning.pointwise or isinstance(edge.partitioning, Broadcast | Custom | Rescale))
