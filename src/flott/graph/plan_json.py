"""StreamGraph -> the JSON of ``get_execution_plan()``, in the shape Flink's plan visualizers read."""

from __future__ import annotations

import json

from flott.graph.guarantees import guarantee_of, weakest_link
from flott.graph.stream_graph import StreamGraph, StreamNode


def plan_json(graph: StreamGraph) -> str:
    """Return Flink's streaming plan: a list of nodes, each with its predecessors and how they ship records.

    Beside the nodes stands the weakest link: what the job promises about its records, and the node that decides it.
    """
    plan: dict[str, object] = {"nodes": [_node(graph, node) for node in graph.nodes]}
    if (link := weakest_link(graph.nodes)) is not None:
        plan["weakest-link"] = {"guarantee": link.guarantee.value, "operator": link.name}
    return json.dumps(plan, indent=2)


def _node(graph: StreamGraph, node: StreamNode) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": int(node.id),
        "type": node.name,
        "pact": node.kind,
        "contents": node.description or node.name,
        "parallelism": node.parallelism,
    }
    if (guarantee := guarantee_of(node)) is not None:
        entry["guarantee"] = guarantee.value
    if edges := graph.edges_into(node.id):
        entry["predecessors"] = [
            {"id": int(edge.source), "ship_strategy": edge.partitioning.label, "side": "second"} for edge in edges
        ]
    return entry
