"""Sinks of a program that is replayed: they take records, and nothing becomes of them."""

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
    """Stands for a sink whose writers would reach out of the replay."""

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return MutedWriter()


class MutedWriter(SinkWriter[Any]):
    """Forgets what it is given: the records were seen on their way to it."""

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        pass


def with_staged_sinks(
    graph: StreamGraph, folder: str, *, run_writers: bool = False
) -> tuple[StreamGraph, Mapping[OperatorId, bool]]:
    """The program with sinks that write below a folder, or nowhere; by operator, whether a sink's own writers run.

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
