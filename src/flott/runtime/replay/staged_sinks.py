"""The sinks of a replayed program: they accept records and do not publish them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flott.datastream.connectors.base import Sink, SinkWriter, WriterContext
from flott.graph.operator_ids import OperatorId, operator_ids
from flott.graph.specs import SinkSpec
from flott.graph.stream_graph import StreamGraph


class MutedSink(Sink[Any]):
    """Replaces a sink whose writers would have effects outside the replay."""

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return MutedWriter()


class MutedWriter(SinkWriter[Any]):
    """Drops its records: they were observed on their way to it."""

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        pass


def with_staged_sinks(
    graph: StreamGraph, folder: str, *, run_writers: bool = False
) -> tuple[StreamGraph, Mapping[OperatorId, bool]]:
    """Return the program with sinks that write below a folder or nowhere, and by operator whether its writers run.

    ``run_writers``: those that cannot be told to write below a folder run as they are.
    """
    ids = operator_ids(graph)
    nodes, writing = [], {}
    for node in graph.nodes:
        if isinstance(node.spec, SinkSpec):
            own = node.spec.sink
            rehearsal = own.rehearsal(os.path.join(folder, ids[node.id])) or (own if run_writers else None)
            writing[ids[node.id]] = rehearsal is not None
            node = replace(node, spec=replace(node.spec, sink=rehearsal or MutedSink()))
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)), writing
