"""StreamGraph -> JobGraph: fuse operators by Flink's rules."""

from __future__ import annotations

from flott.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex, VertexId
from flott.graph.operator_ids import operator_ids
from flott.graph.stream_graph import NodeId, StreamEdge, StreamGraph, StreamNode
from flott.graph.transformations import Chaining


def chain(graph: StreamGraph) -> JobGraph:
    """Fuse what may be fused; the rest becomes edges between vertices.

    Vertices stand in the order of their heads. That is topological: only a head has inputs from outside, and the chain
    such an input comes from has its own head before the operator that feeds it.
    """
    ids = operator_ids(graph)
    fused = {node.id: edge for node in graph.nodes if (edge := _edge_to_fuse(graph, node)) is not None}
    chains: list[list[ChainedOperator]] = []
    place: dict[NodeId, tuple[int, int]] = {}  # node -> (chain, index in it)
    for node in graph.nodes:
        if node.id in fused:
            edge = fused[node.id]
            index, feeder = place[edge.source]
            place[node.id] = (index, len(chains[index]))
            chains[index].append(ChainedOperator(ids[node.id], node, feeder, edge.side_tag))
        else:
            place[node.id] = (len(chains), 0)
            chains.append([ChainedOperator(ids[node.id], node)])
    vertices = tuple(JobVertex(VertexId(operators[0].id), tuple(operators)) for operators in chains)
    between = [edge for node in graph.nodes if node.id not in fused for edge in graph.edges_into(node.id)]
    edges = tuple(_job_edge(index, edge, place, vertices) for index, edge in enumerate(between))
    return JobGraph(graph.job_name, vertices, edges, graph.batch)


def may_fuse(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Flink's conditions: one input, forward, same parallelism, same group, and neither side objects."""
    up, down = graph.node(edge.source), graph.node(edge.target)
    return (
        graph.chaining_enabled
        and len(graph.edges_into(down.id)) == 1
        and edge.partitioning.pointwise
        and up.parallelism == down.parallelism
        and up.max_parallelism == down.max_parallelism
        and up.slot_sharing_group == down.slot_sharing_group
        and down.chaining is Chaining.ALWAYS
        and up.chaining is not Chaining.NEVER
    )


def _edge_to_fuse(graph: StreamGraph, node: StreamNode) -> StreamEdge | None:
    edges = graph.edges_into(node.id)
    return edges[0] if len(edges) == 1 and may_fuse(graph, edges[0]) else None


def _job_edge(
    index: int, edge: StreamEdge, place: dict[NodeId, tuple[int, int]], vertices: tuple[JobVertex, ...]
) -> JobEdge:
    source, source_operator = place[edge.source]
    target, _ = place[edge.target]
    return JobEdge(
        index,
        vertices[source].id,
        source_operator,
        vertices[target].id,
        edge.input_index,
        edge.partitioning,
        edge.side_tag,
    )
