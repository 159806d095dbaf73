"""Programs for the tests of the graph package: small ones by hand, and random ones of every kind of step."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.discard import DiscardSink
from flott.graph.partitioning import Broadcast, Global, Hash, Partitioning, Rebalance, Rescale, Shuffle
from flott.graph.specs import CoMapSpec, FilterSpec, KeySpec, MapSpec, OperatorSpec, ReduceSpec, SinkSpec, SourceSpec
from flott.graph.stream_graph import StreamGraph
from flott.graph.transformations import (
    Chaining,
    Operation,
    Partition,
    Program,
    SideOutput,
    Transformation,
    TransformationId,
    Union,
)
from flott.graph.translate import Defaults, translate

KEY = KeySpec(str)


def source(program: Program, name: str = "Source: s", **settings: Any) -> Transformation:
    spec = SourceSpec(CollectionSource(()), WatermarkStrategy.no_watermarks())
    return program.add(name, Operation(spec), (), **settings)


def operator(program: Program, above: Transformation, name: str = "Map", **settings: Any) -> Transformation:
    return program.add(name, Operation(MapSpec(str)), (above.id,), **settings)


def sink(program: Program, above: Transformation, name: str = "Sink: d", **settings: Any) -> Transformation:
    return program.add(name, Operation(SinkSpec(DiscardSink())), (above.id,), **settings)


def partition(program: Program, above: Transformation, how: Partitioning) -> Transformation:
    return program.add("partition", Partition(how), (above.id,))


def graph_of(program: Program, parallelism: int = 1, **settings: Any) -> StreamGraph:
    return translate(program, Defaults("job", parallelism, settings.pop("max_parallelism", 128), **settings))


# ---- random programs -------------------------------------------------------------------------------------------------

_REDISTRIBUTIONS = [Rebalance(), Rescale(), Shuffle(), Broadcast(), Global(), Hash(KEY)]
_SPECS: list[OperatorSpec] = [MapSpec(str), FilterSpec(bool), MapSpec(repr)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any directed acyclic program with at least one sink; forward() is left out, for it asks for equal parallelism."""
    program = Program()
    streams = [source(program, parallelism=draw(st.sampled_from([None, 1, 2])))]
    for number in range(draw(st.integers(1, 14))):
        streams.append(_step(draw, program, streams, number))
    ends = draw(st.lists(st.sampled_from(streams), min_size=1, max_size=3))
    for end in ends:
        sink(program, end, **_settings(draw))
    return program


def _step(draw: st.DrawFn, program: Program, streams: list[Transformation], number: int) -> Transformation:
    above = draw(st.sampled_from(streams))
    kind = draw(st.sampled_from(["source", "map", "map", "map", "partition", "union", "keyed", "connect", "side"]))
    if kind == "source":
        return source(program, f"Source: {number}")
    if kind == "partition":
        return partition(program, above, draw(st.sampled_from(_REDISTRIBUTIONS)))
    if kind == "union":
        others = draw(st.lists(st.sampled_from(streams), max_size=3))
        return program.add("union", Union(), (above.id, *(other.id for other in others)))
    if kind == "side" and isinstance(above.step, Operation):
        return program.add("get_side_output", SideOutput("late"), (above.id,))
    if kind == "keyed":
        keyed = partition(program, above, Hash(KEY))
        return program.add(f"Reduce {number}", Operation(ReduceSpec(max), (KEY,)), (keyed.id,), **_settings(draw))
    if kind == "connect":
        inputs = (above.id, draw(st.sampled_from(streams)).id)
        return program.add(f"Co-Map {number}", Operation(CoMapSpec(str)), inputs, **_settings(draw))
    return program.add(f"Map {number}", Operation(draw(st.sampled_from(_SPECS))), (above.id,), **_settings(draw))


def _settings(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "parallelism": draw(st.sampled_from([None, None, 1, 2, 3])),
        "max_parallelism": draw(st.sampled_from([None, None, None, 64])),
        "slot_sharing_group": draw(st.sampled_from([None, None, None, "heavy"])),
        "chaining": draw(st.sampled_from([Chaining.ALWAYS, Chaining.ALWAYS, Chaining.HEAD, Chaining.NEVER])),
    }


def inputs_of(program: Program, ident: TransformationId) -> set[TransformationId]:
    """The operators a step reads, found by walking up: a second opinion on what translate computes."""
    found: set[TransformationId] = set()
    for source_id in program[ident].inputs:
        if isinstance(program[source_id].step, Operation):
            found.add(source_id)
        else:
            found |= inputs_of(program, source_id)
    return found
