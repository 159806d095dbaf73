"""Another parallelism: which graph a job becomes, and where its subtasks begin."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.errors import ProgramError
from flott.graph.chain import chain
from flott.graph.operator_ids import operator_ids
from flott.graph.partitioning import Forward, Hash, Rebalance
from flott.graph.specs import ReduceSpec
from flott.graph.stream_graph import StreamGraph
from flott.graph.transformations import Operation, Program
from flott.runtime.checkpoint.manifest import OperatorSnapshot, SubtaskSnapshot
from flott.runtime.epoch.plan import SubtaskState
from flott.runtime.epoch.redistribute import level
from flott.runtime.jobmaster.rescaling import (
    ParallelismChange,
    changes,
    deal_splits,
    find_operator,
    parallelism_of,
    rescale,
)
from flott.runtime.operators.watermarks import TimeProgress
from flott.runtime.orders import RescaleJob
from tests.unit.graph.programs import KEY, graph_of, operator, partition, programs, sink, source


def to(parallelism: Any, operator: str | None = None) -> RescaleJob:
    return RescaleJob(parallelism, operator)


def parallelisms(graph: StreamGraph) -> dict[str, int]:
    return {node.name: node.parallelism for node in graph.nodes}


def pipeline(parallelism: int = 2, **settings: Any) -> StreamGraph:
    """A collection, a map, a keyed reduction and a sink."""
    program = Program()
    mapped = operator(program, source(program), "Map", uid="m")
    keyed = partition(program, mapped, Hash(KEY))
    reduced = program.add("Reduce", Operation(ReduceSpec(max), (KEY,)), (keyed.id,), uid="r", **settings)
    sink(program, reduced)
    return graph_of(program, parallelism)


# --- the whole job ---------------------------------------------------------------------------------------------------


@given(programs(), st.integers(1, 5), st.integers(1, 5))
def test_a_job_is_rescaled_to_what_the_program_is_with_that_parallelism(
    program: Program, before: int, after: int
) -> None:
    graph = graph_of(program, before)
    if all(node.fixed_parallelism for node in graph.nodes):
        with pytest.raises(ProgramError, match="has a parallelism of its own"):
            rescale(graph, to(after))
        return
    assert rescale(graph, to(after)) == graph_of(program, after)


@given(programs(), st.integers(1, 5), st.integers(1, 5))
def test_operators_keep_their_identity(program: Program, before: int, after: int) -> None:
    graph = graph_of(program, before)
    if not all(node.fixed_parallelism for node in graph.nodes):
        assert operator_ids(rescale(graph, to(after))) == operator_ids(graph)
    first = graph.nodes[0]
    assert operator_ids(rescale(graph, to(after, operator_ids(graph)[first.id]))) == operator_ids(graph)


def test_what_has_a_parallelism_of_its_own_keeps_it() -> None:
    program = Program()
    single = operator(program, source(program), "Single", parallelism=1, max_parallelism=1)
    three = operator(program, single, "Three", parallelism=3)
    sink(program, operator(program, three, "Follows"))
    assert parallelisms(rescale(graph_of(program, 2), to(4))) == {
        "Source: s": 1, "Single": 1, "Three": 3, "Follows": 4, "Sink: d": 4,
    }  # fmt: skip


def test_chains_are_made_anew() -> None:
    program = Program()
    top = source(program, parallelism=2)
    sink(program, operator(program, top))
    graph = graph_of(program, 2)
    assert [vertex.name for vertex in chain(graph).vertices] == ["Source: s -> Map -> Sink: d"]
    split = chain(rescale(graph, to(4)))
    assert [vertex.name for vertex in split.vertices] == ["Source: s", "Map -> Sink: d"]
    assert chain(rescale(rescale(graph, to(4)), to(2))) == chain(graph)


def test_an_operator_goes_no_further_than_its_own_maximum() -> None:
    assert parallelisms(rescale(pipeline(max_parallelism=3), to(8)))["Reduce"] == 3


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, "2", True, None])
def test_what_is_no_parallelism_is_refused(parallelism: Any) -> None:
    with pytest.raises(ProgramError, match="takes a whole number of at least 1, found"):
        rescale(pipeline(), to(parallelism))


def test_more_than_the_maximum_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"cannot have parallelism 129: .* in 128 key groups.* Ask for 128"):
        rescale(pipeline(), to(129))


def test_a_batch_job_is_refused() -> None:
    program = Program()
    sink(program, source(program))
    with pytest.raises(ProgramError, match="BATCH mode, which is one epoch"):
        rescale(graph_of(program, 2, runtime_mode="BATCH"), to(3))


def test_a_forward_that_was_asked_for_between_what_changes_and_what_does_not_is_refused() -> None:
    program = Program()
    single = operator(program, source(program), "Single", parallelism=2)
    sink(program, partition(program, single, Forward()))
    with pytest.raises(ProgramError, match=r"forward\(\) between 'Single' \(parallelism 2\).*needs equal parallelism"):
        rescale(graph_of(program, 2), to(3))


def test_an_earlier_graph_is_left_alone() -> None:
    graph = pipeline()
    rescale(graph, to(5))
    assert graph == pipeline()


# --- one operator ----------------------------------------------------------------------------------------------------


def test_one_operator_is_rescaled_and_its_neighbours_are_not() -> None:
    graph = rescale(pipeline(2), to(5, "m"))
    assert parallelisms(graph) == {"Source: s": 1, "Map": 5, "Reduce": 2, "Sink: d": 2}


def test_records_are_dealt_out_where_they_were_forwarded_and_stay_where_parallelism_is_equal_again() -> None:
    program = Program()
    sink(program, operator(program, source(program, parallelism=2), uid="m"))
    graph = graph_of(program, 2)
    apart = rescale(graph, to(3, "m"))
    assert [edge.partitioning for edge in apart.edges] == [Rebalance(), Rebalance()]
    together = rescale(apart, to(2, "m"))
    assert [edge.partitioning for edge in together.edges] == [Forward(), Forward()]
    assert chain(together).vertices[0].name == chain(graph).vertices[0].name


def test_an_operator_that_was_rescaled_alone_no_longer_follows_the_job() -> None:
    graph = rescale(rescale(pipeline(2), to(3, "m")), to(4))
    assert parallelisms(graph) == {"Source: s": 1, "Map": 3, "Reduce": 4, "Sink: d": 4}


def test_an_operator_is_found_by_uid_by_id_and_by_name() -> None:
    graph = pipeline()
    mapped = graph.nodes[1]
    for name in ("m", "Map", operator_ids(graph)[mapped.id]):
        assert find_operator(graph, name) is mapped
    assert find_operator(graph, "d") is find_operator(graph, "Sink: d") is graph.nodes[-1]


def test_an_unknown_operator_is_refused_with_what_was_perhaps_meant() -> None:
    with pytest.raises(ProgramError, match=r"no operator with the uid, id or name 'Reduse'\. Did you mean 'Reduce'\?"):
        rescale(pipeline(), to(2, "Reduse"))
    with pytest.raises(ProgramError, match=r"It has 'Source: s', 'm', 'r', 'Sink: d'\."):
        rescale(pipeline(), to(2, "???"))


def test_a_name_of_several_operators_is_refused() -> None:
    program = Program()
    sink(program, operator(program, operator(program, source(program))))
    with pytest.raises(ProgramError, match=r"2 operators of job 'job' are called 'Map'\. Give each a uid\(\)"):
        rescale(graph_of(program), to(2, "Map"))


def test_one_operator_goes_no_further_than_its_maximum() -> None:
    with pytest.raises(ProgramError, match=r"'Reduce' .* cannot have parallelism 8: its state is in 4 key groups"):
        rescale(pipeline(max_parallelism=4), to(8, "r"))
    with pytest.raises(ProgramError, match="cannot have parallelism 2: it is not parallel"):
        rescale(_single(), to(2, "one"))


def _single() -> StreamGraph:
    program = Program()
    sink(program, operator(program, source(program), uid="one", parallelism=1, max_parallelism=1))
    return graph_of(program, 2)


# --- facts about a change --------------------------------------------------------------------------------------------


def test_changes_name_the_operators_and_both_parallelisms() -> None:
    graph = pipeline(2)
    assert changes(graph, rescale(graph, to(3))) == (
        ParallelismChange("m", 2, 3), ParallelismChange("r", 2, 3), ParallelismChange("Sink: d", 2, 3),
    )  # fmt: skip
    assert changes(graph, rescale(graph, to(2))) == ()
    assert str(ParallelismChange("m", 2, 3)) == "m: 2 -> 3"


def test_the_parallelism_of_a_job_is_that_of_the_operators_that_follow_it() -> None:
    program = Program()
    sink(program, operator(program, source(program), parallelism=7))
    graph = graph_of(program, 3)
    assert parallelism_of(graph) == 3
    assert parallelism_of(rescale(graph, to(2))) == 2


# --- where subtasks begin --------------------------------------------------------------------------------------------


def test_all_subtasks_begin_where_the_slowest_stood() -> None:
    snapshot = OperatorSnapshot("o", None, 3, 128, tuple(SubtaskSnapshot(watermark=at) for at in (30, 10, 20)))
    assert [state.watermark for state in level(snapshot, (SubtaskState(30), SubtaskState(20)))] == [10, 10]


def test_a_watermark_generator_goes_on_from_the_slowest_that_was_waited_for() -> None:
    ahead, slow = TimeProgress(50, False, 7, b"ahead"), TimeProgress(20, False, 5, b"slow")
    idle = TimeProgress(1, True, 3, b"idle")
    snapshot = OperatorSnapshot("o", None, 3, 128, tuple(SubtaskSnapshot(9, None, p) for p in (ahead, slow, idle)))
    assert {state.progress for state in level(snapshot, (SubtaskState(),) * 2)} == {TimeProgress(20, False, 7, b"slow")}


def test_if_all_generators_were_idle_the_one_that_got_furthest_goes_on() -> None:
    found = (TimeProgress(5, True, 1, b"a"), TimeProgress(8, True, 2, b"b"))
    snapshot = OperatorSnapshot("o", None, 2, 128, tuple(SubtaskSnapshot(5, None, progress) for progress in found))
    assert level(snapshot, (SubtaskState(),))[0].progress == found[1]


def test_an_operator_without_a_past_begins_at_the_beginning() -> None:
    assert level(None, (SubtaskState(),)) == (SubtaskState(),)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9)), st.integers(1, 12))
def test_splits_are_dealt_out_evenly_and_stay_where_they_can(readers: dict[str, int], parallelism: int) -> None:
    dealt = deal_splits(readers, parallelism)
    assert dealt.keys() == readers.keys()
    share = -(-len(readers) // parallelism)
    loads = Counter(dealt.values())
    assert all(0 <= subtask < parallelism and load <= share for subtask, load in loads.items())
    moved = [split for split in readers if dealt[split] != readers[split]]
    # Whoever had to give a split away has as many as anybody.
    assert all(readers[split] >= parallelism or loads[readers[split]] == share for split in moved)
