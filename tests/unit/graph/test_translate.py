"""Transformations -> StreamGraph."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given

from flott.errors import ProgramError
from flott.graph.partitioning import Broadcast, Forward, Hash, Rebalance, Shuffle
from flott.graph.specs import MapSpec, ReduceSpec
from flott.graph.transformations import Operation, Program, SideOutput, Union
from tests.unit.graph.programs import KEY, graph_of, inputs_of, operator, partition, programs, sink, source


def labels(graph_edges: object) -> list[str]:
    return [str(edge) for edge in graph_edges]  # type: ignore[attr-defined]


def test_equal_parallelism_forwards_and_different_parallelism_rebalances() -> None:
    program = Program()
    top = source(program, parallelism=2)
    sink(program, operator(program, top, parallelism=2), parallelism=3)
    assert [edge.partitioning for edge in graph_of(program).edges] == [Forward(), Rebalance()]


def test_a_virtual_step_becomes_the_partitioning_of_an_edge_and_no_node() -> None:
    program = Program()
    sink(program, partition(program, source(program), Shuffle()))
    graph = graph_of(program)
    assert [node.name for node in graph.nodes] == ["Source: s", "Sink: d"]
    assert labels(graph.edges) == ["1 --SHUFFLE--> 3.0"]


def test_of_two_partitionings_the_nearer_to_the_consumer_counts() -> None:
    program = Program()
    sink(program, partition(program, partition(program, source(program), Shuffle()), Broadcast()))
    assert graph_of(program).edges[0].partitioning == Broadcast()


def test_a_union_gives_one_edge_per_input_each_with_its_own_partitioning() -> None:
    program = Program()
    one, two = source(program), source(program)
    merged = program.add("union", Union(), (one.id, partition(program, two, Shuffle()).id))
    sink(program, merged)
    assert labels(graph_of(program).edges) == ["1 --FORWARD--> 5.0", "2 --SHUFFLE--> 5.0"]


def test_a_stream_united_with_itself_arrives_twice() -> None:
    program = Program()
    top = source(program)
    sink(program, program.add("union", Union(), (top.id, top.id)))
    assert labels(graph_of(program).edges) == ["1 --FORWARD--> 3.0"] * 2


def test_a_side_output_is_a_tag_on_the_edge_whatever_redistributes_it() -> None:
    program = Program()
    late = program.add("get_side_output", SideOutput("late"), (source(program).id,))
    sink(program, partition(program, late, Shuffle()))
    (edge,) = graph_of(program).edges
    assert (edge.side_tag, edge.partitioning) == ("late", Shuffle())


def test_steps_that_lead_to_no_sink_are_left_out() -> None:
    program = Program()
    top = source(program)
    operator(program, top, "unread")
    sink(program, top)
    assert [node.name for node in graph_of(program).nodes] == ["Source: s", "Sink: d"]


def test_a_program_without_a_sink_is_refused() -> None:
    program = Program()
    source(program)
    with pytest.raises(ProgramError, match="no sink"):
        graph_of(program)


def test_after_its_sinks_are_removed_a_program_can_go_on_from_its_streams() -> None:
    program = Program()
    top = source(program)
    first = sink(program, top)
    program.remove_sinks()
    with pytest.raises(ProgramError, match="no sink"):
        graph_of(program)
    second = sink(program, top, "Sink: again")
    assert second.id != first.id
    assert [node.name for node in graph_of(program).nodes] == ["Source: s", "Sink: again"]


def test_an_operator_s_own_parallelism_beats_the_source_s_wish_which_beats_the_default() -> None:
    program = Program()
    wish = source(program)  # a collection is read by one subtask
    own = source(program, parallelism=3)
    sink(program, operator(program, program.add("union", Union(), (wish.id, own.id))))
    assert [node.parallelism for node in graph_of(program, parallelism=4).nodes] == [1, 3, 4, 4]


def test_the_default_parallelism_gives_way_to_an_operator_s_maximum() -> None:
    program = Program()
    sink(program, operator(program, source(program), max_parallelism=2))
    assert [node.parallelism for node in graph_of(program, parallelism=4).nodes] == [1, 2, 4]


def test_parallelism_above_the_maximum_is_refused_with_the_operator_s_name_and_line() -> None:
    program = Program()
    sink(program, operator(program, source(program), "wide", parallelism=200))
    with pytest.raises(ProgramError, match=r"'wide' \(.*programs.py:\d+\) has parallelism 200, above its maximum"):
        graph_of(program)


def test_forward_between_different_parallelism_is_refused() -> None:
    program = Program()
    sink(program, partition(program, source(program), Forward()), parallelism=2)
    with pytest.raises(ProgramError, match="needs equal parallelism"):
        graph_of(program)


def test_a_keyed_operator_whose_input_was_redistributed_after_key_by_is_refused() -> None:
    program = Program()
    keyed = partition(program, source(program), Hash(KEY))
    torn = partition(program, keyed, Rebalance())
    sink(program, program.add("Reduce", Operation(ReduceSpec(max), (KEY,)), (torn.id,)))
    with pytest.raises(ProgramError, match="redistributed by REBALANCE after key_by"):
        graph_of(program)


def test_a_uid_used_twice_is_refused_naming_both_operators() -> None:
    program = Program()
    sink(program, operator(program, operator(program, source(program), "one", uid="u"), "two", uid="u"))
    with pytest.raises(ProgramError, match=r"'u' is used by 'one' .* and 'two'"):
        graph_of(program)


def test_without_generated_uids_every_operator_must_have_one() -> None:
    program = Program()
    sink(program, operator(program, source(program, uid="s"), "bare"), uid_hash="0" * 32)
    with pytest.raises(ProgramError, match=r"have no uid: 'bare' \(") as refusal:
        graph_of(program, auto_generated_uids=False)
    assert "Sink" not in str(refusal.value)
    assert graph_of(program).nodes


def test_a_slot_sharing_group_is_inherited_while_all_inputs_agree() -> None:
    program = Program()
    heavy = operator(program, source(program), slot_sharing_group="heavy")
    below = operator(program, heavy)
    light = source(program)
    sink(program, program.add("union", Union(), (below.id, light.id)))
    groups = [node.slot_sharing_group for node in graph_of(program).nodes]
    assert groups == ["default", "heavy", "heavy", "default", "default"]


def test_a_very_long_program_is_translated() -> None:
    program = Program()
    top = source(program)
    for _ in range(3000):
        top = operator(program, top)
    sink(program, top)
    assert len(graph_of(program).nodes) == 3002


def test_a_very_long_row_of_unions_is_translated() -> None:
    program = Program()
    top = source(program)
    for _ in range(1500):
        top = program.add("union", Union(), (top.id,))
    sink(program, top)
    assert labels(graph_of(program).edges) == ["1 --FORWARD--> 1502.0"]


def test_a_tower_of_diamonds_is_translated_in_no_time() -> None:
    program = Program()
    top = source(program)
    for _ in range(60):
        inputs = (operator(program, top).id, operator(program, top).id)
        top = program.add("Co-Map", Operation(MapSpec(str)), inputs)
    sink(program, top)
    assert len(graph_of(program).nodes) == 182


@given(programs())
def test_nodes_stand_behind_their_inputs_and_every_node_leads_to_a_sink(program: Program) -> None:
    graph = graph_of(program, parallelism=2)
    position = {node.id: index for index, node in enumerate(graph.nodes)}
    assert all(position[edge.source] < position[edge.target] for edge in graph.edges)
    assert all(graph.edges_out_of(node.id) or node.kind == "Data Sink" for node in graph.nodes)


@given(programs())
def test_the_edges_are_those_one_finds_by_walking_up_the_program(program: Program) -> None:
    graph = graph_of(program, parallelism=2)
    for node in graph.nodes:
        assert {edge.source for edge in graph.edges_into(node.id)} == inputs_of(program, node.id)  # type: ignore[arg-type]


@given(programs())
def test_a_keyed_input_always_arrives_by_key(program: Program) -> None:
    graph = graph_of(program, parallelism=2)
    for node in graph.nodes:
        if node.is_keyed:
            assert all(isinstance(edge.partitioning, Hash) for edge in graph.edges_into(node.id))


@given(programs())
def test_a_stream_graph_can_be_printed_compared_and_pickled(program: Program) -> None:
    graph = graph_of(program, parallelism=2)
    assert pickle.loads(pickle.dumps(graph)) == graph == graph_of(program, parallelism=2)
    assert all(node.name in str(graph) for node in graph.nodes)
