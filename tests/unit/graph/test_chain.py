"""StreamGraph -> JobGraph."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from flott.graph.chain import chain, may_fuse
from flott.graph.job_graph import JobGraph
from flott.graph.partitioning import Forward, Rebalance
from flott.graph.transformations import Chaining, Program, SideOutput, Union
from tests.unit.graph.programs import graph_of, operator, partition, programs, sink, source


def names(graph: JobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


def straight(**settings: Any) -> Program:
    """source -> map (with these settings) -> sink"""
    program = Program()
    sink(program, operator(program, source(program), **settings))
    return program


def test_forward_neighbours_become_one_vertex() -> None:
    graph = chain(graph_of(straight()))
    assert names(graph) == ["Source: s -> Map -> Sink: d"]
    assert graph.edges == ()


def test_branches_of_a_chain_are_named_in_parentheses() -> None:
    program = Program()
    top = source(program)
    sink(program, operator(program, top, "one"))
    sink(program, top, "Sink: raw")
    assert names(chain(graph_of(program))) == ["Source: s -> (one -> Sink: d, Sink: raw)"]


def test_a_side_output_is_fused_under_its_tag() -> None:
    program = Program()
    top = source(program)
    sink(program, top)
    sink(program, program.add("get_side_output", SideOutput("late"), (top.id,)), "Sink: late")
    (vertex,) = chain(graph_of(program)).vertices
    assert [(op.node.name, op.fed_by, op.side_tag) for op in vertex.operators] == [
        ("Source: s", None, None),
        ("Sink: d", 0, None),
        ("Sink: late", 0, "late"),
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"chaining": Chaining.HEAD}, ["Source: s", "Map -> Sink: d"]),
        ({"chaining": Chaining.NEVER}, ["Source: s", "Map", "Sink: d"]),
        ({"parallelism": 2}, ["Source: s", "Map", "Sink: d"]),
        ({"max_parallelism": 64}, ["Source: s", "Map", "Sink: d"]),
        ({"slot_sharing_group": "heavy"}, ["Source: s", "Map -> Sink: d"]),
    ],
)
def test_an_operator_that_differs_or_objects_is_not_fused(settings: dict[str, Any], expected: list[str]) -> None:
    assert names(chain(graph_of(straight(**settings)))) == expected


def test_nothing_is_fused_where_chaining_is_off() -> None:
    assert names(chain(graph_of(straight(), chaining_enabled=False))) == ["Source: s", "Map", "Sink: d"]


def test_an_operator_with_two_inputs_starts_a_chain_and_takes_them_in_order() -> None:
    program = Program()
    one, two = source(program, "Source: one"), source(program, "Source: two")
    sink(program, operator(program, program.add("union", Union(), (two.id, one.id))))
    graph = chain(graph_of(program))
    assert names(graph) == ["Source: one", "Source: two", "Map -> Sink: d"]
    assert [(edge.index, graph.vertex(edge.source).name) for edge in graph.edges] == [
        (0, "Source: two"),
        (1, "Source: one"),
    ]


def test_an_edge_says_which_operator_of_a_chain_it_leaves() -> None:
    program = Program()
    mapped = operator(program, source(program))
    sink(program, partition(program, mapped, Rebalance()))
    (edge,) = chain(graph_of(program)).edges
    assert (edge.source_operator, edge.partitioning) == (1, Rebalance())


@given(programs())
def test_every_edge_of_the_stream_graph_is_either_fused_or_a_job_edge(program: Program) -> None:
    stream = graph_of(program, parallelism=2)
    job = chain(stream)
    fused = [
        (vertex.operators[op.fed_by].node.id, op.node.id, 0, op.side_tag)
        for vertex in job.vertices
        for op in vertex.operators
        if op.fed_by is not None
    ]
    between = [
        (
            job.vertex(edge.source).operators[edge.source_operator].node.id,
            job.vertex(edge.target).head.node.id,
            edge.input_index,
            edge.side_tag,
        )
        for edge in job.edges
    ]
    wanted = [(edge.source, edge.target, edge.input_index, edge.side_tag) for edge in stream.edges]
    assert sorted([*fused, *between], key=str) == sorted(wanted, key=str)


@given(programs())
def test_an_edge_is_fused_exactly_if_the_rules_allow_it(program: Program) -> None:
    stream = graph_of(program, parallelism=2)
    job = chain(stream)
    vertex_of = {op.node.id: vertex.id for vertex in job.vertices for op in vertex.operators}
    heads = {vertex.head.node.id for vertex in job.vertices}
    for edge in stream.edges:
        inside = edge.target not in heads
        assert inside == may_fuse(stream, edge)
        if inside:
            up, down = stream.node(edge.source), stream.node(edge.target)
            assert vertex_of[up.id] == vertex_of[down.id]
            assert isinstance(edge.partitioning, Forward)
            assert len(stream.edges_into(down.id)) == 1
            assert (up.parallelism, up.max_parallelism) == (down.parallelism, down.max_parallelism)
            assert up.slot_sharing_group == down.slot_sharing_group
            assert (down.chaining, up.chaining is Chaining.NEVER) == (Chaining.ALWAYS, False)


@given(programs())
def test_vertices_stand_behind_their_inputs_and_operators_behind_those_that_feed_them(program: Program) -> None:
    job = chain(graph_of(program, parallelism=2))
    position = {vertex.id: index for index, vertex in enumerate(job.vertices)}
    assert all(position[edge.source] < position[edge.target] for edge in job.edges)
    for vertex in job.vertices:
        assert vertex.head.fed_by is None
        for index, op in enumerate(vertex.operators[1:], start=1):
            assert op.fed_by is not None
            assert op.fed_by < index


@given(programs())
def test_every_operator_stands_in_exactly_one_vertex_and_edges_are_numbered(program: Program) -> None:
    stream = graph_of(program, parallelism=2)
    job = chain(stream)
    assert sorted(op.node.id for vertex in job.vertices for op in vertex.operators) == [n.id for n in stream.nodes]
    assert len(job.operators) == len(stream.nodes)
    assert [edge.index for edge in job.edges] == list(range(len(job.edges)))
