"""A graph on a terminal: every vertex once, every edge a lane from its source to its target."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flott.cli.drawings.plan_drawing import DrawnInput, DrawnVertex, drawing, vertices_of
from flott.cli.drawings.plan_svg import plan_svg


def vertex(name: str, *sources: str, parallelism: int = 2, ship: str = "HASH") -> DrawnVertex:
    return DrawnVertex(name, parallelism, (name,), tuple(DrawnInput(source, ship) for source in sources))


def text(*vertices: DrawnVertex) -> list[str]:
    return [f"{line.lanes} {line.text}{line.note}".rstrip() for line in drawing(vertices)]


def test_a_line_of_vertices_is_a_line() -> None:
    assert text(vertex("a"), vertex("b", "a"), vertex("c", "b")) == ["● a×2", "│ HASH", "● b×2", "│ HASH", "● c×2"]


def test_a_diamond_parts_and_joins() -> None:
    assert text(vertex("a"), vertex("b", "a"), vertex("c", "a"), vertex("d", "b", "c")) == [
        "● a×2",
        "│ HASH to b",
        "├─╮ HASH to c",
        "● │ b×2",
        "│ │ HASH",
        "│ ● c×2",
        "│ │ HASH",
        "├─╯",
        "●   d×2",
    ]


def test_two_inputs_from_one_vertex_are_two_lanes() -> None:
    assert text(vertex("a"), vertex("b", "a", "a"))[-2:] == ["├─╯", "●   b×2"]


def test_programs_that_have_nothing_to_do_with_each_other_stand_apart() -> None:
    assert text(vertex("a"), vertex("b")) == ["● a×2", "", "● b×2"]


@given(st.data())
def test_whatever_the_graph_every_lane_ends_and_every_vertex_is_drawn_once(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    vertices = [
        vertex(str(i), *(str(s) for s in data.draw(st.lists(st.integers(0, i - 1), max_size=3)))) if i else vertex("0")
        for i in range(count)
    ]
    lines = list(drawing(vertices))
    assert [line.text for line in lines if line.is_vertex] == [v.name for v in vertices]
    edges = sum(len(v.inputs) for v in vertices)
    assert sum(bool(line.note) and not line.is_vertex for line in lines) == edges
    assert set(lines[-1].lanes) <= {"●", " ", "│"} | set("├─╯╮╭╰┤┼")
    assert not any(target in lines[-1].lanes.replace("●", "") for target in "│") or not lines[-1].is_vertex
    widths = [len(line.lanes) for line in lines]
    assert max(widths) <= 2 * (edges + 1)


def test_a_plan_is_read_in_the_order_of_its_edges_and_chains_are_taken_apart() -> None:
    plan: dict[str, Any] = {
        "nodes": [
            {"id": "s", "parallelism": 1, "description": "sum<br/>+- Sink: a &lt;b&gt;<br/>",
             "inputs": [{"id": "r", "ship_strategy": "HASH"}]},
            {"id": "r", "parallelism": 2, "description": "Source: x -> map<br/>"},
        ]
    }  # fmt: skip
    assert [v.operators for v in vertices_of(plan)] == [("Source: x", "map"), ("sum", "Sink: a <b>")]


def test_a_picture_is_well_formed_and_has_every_vertex_and_edge(tmp_path: Path) -> None:
    vertices = [vertex("a<&>"), vertex("b", "a<&>"), vertex("c", "a<&>"), vertex("d", "b", "c", "a<&>")]
    root = ElementTree.fromstring(plan_svg("title & more", vertices))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}rect")) == 1 + len(vertices)
    assert len(root.findall(f"{space}path")) == 5
    assert "a<&>" in [element.text for element in root.findall(f"{space}text")]
