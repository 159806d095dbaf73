"""Two operators -> the edge between them: how records get across, given both parallelisms. Pure.

If the program does not ask for a partitioning, records stay in their subtask when both sides have the same parallelism,
and are distributed round robin when they do not. A partitioning that the program asks for must be possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flott.errors import ProgramError
from flott.graph.partitioning import Forward, Hash, Partitioning, Rebalance
from flott.graph.stream_graph import NodeId, StreamEdge, StreamGraph, StreamNode


def connect(
    source: StreamNode, target: StreamNode, index: int, asked: Partitioning | None, side_tag: str | None
) -> StreamEdge:
    """Return the edge to an input of the target; ``asked``: the partitioning the program asks for, if any."""
    partitioning = asked
    if partitioning is None:
        partitioning = Forward() if source.parallelism == target.parallelism else Rebalance()
    if isinstance(partitioning, Forward) and source.parallelism != target.parallelism:
        raise ProgramError(
            f"{partitioning.asked_by} between {source.name!r} (parallelism {source.parallelism}) and {target.name!r}"
            f" (parallelism {target.parallelism}; {target.source_line}) needs equal parallelism. Set the same"
            f" parallelism on both, or use {'key_by()' if _in_place(target, index) else 'rebalance() or rescale()'}."
        )
    if _is_keyed(target, index) and not (isinstance(partitioning, Hash) or _in_place(target, index)):
        raise ProgramError(
            f"Operator {target.name!r} ({target.source_line}) is keyed, but its input was redistributed by"
            f" {partitioning.label} after key_by(). Call key_by() last."
        )
    return StreamEdge(source.id, target.id, index, partitioning, side_tag, asked is not None)


def with_parallelism(graph: StreamGraph, wanted: Mapping[NodeId, int]) -> StreamGraph:
    """Return the same program with another parallelism of some operators. Edges not asked for are chosen again."""
    nodes = {node.id: replace(node, parallelism=wanted.get(node.id, node.parallelism)) for node in graph.nodes}
    edges = tuple(
        connect(
            nodes[edge.source],
            nodes[edge.target],
            edge.input_index,
            edge.partitioning if edge.asked else None,
            edge.side_tag,
        )
        for edge in graph.edges
    )
    return replace(graph, nodes=tuple(nodes.values()), edges=edges)


def _is_keyed(target: StreamNode, index: int) -> bool:
    return bool(target.keys) and target.keys[index] is not None


def _in_place(target: StreamNode, index: int) -> bool:
    """Return whether an input is keyed without being moved."""
    key = target.keys[index] if target.keys else None
    return key is not None and key.in_place
