"""Draws a job's graph: vertices from top to bottom, edges as lanes beside them. Pure.

● Source: orders  ×2
│ HASH
● totals  ×4
│ ╰ Sink: print
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DrawnInput:
    """An edge into a vertex."""

    source: str
    ship_strategy: str


@dataclass(frozen=True)
class DrawnVertex:
    """A vertex of the drawing."""

    id: str
    parallelism: int
    operators: tuple[str, ...]  #: the chain, head first; an operator with another input than the one before is indented
    inputs: tuple[DrawnInput, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of its head."""
        return self.operators[0]


@dataclass(frozen=True)
class DrawnLine:
    """A line of the drawing: lanes, then the text beside them."""

    lanes: str
    text: str = ""
    note: str = ""
    is_vertex: bool = False


def vertices_of(plan: Mapping[str, Any]) -> list[DrawnVertex]:
    """Return the vertices of a plan in Flink's form, inputs before consumers."""
    found = {
        node["id"]: DrawnVertex(
            node["id"],
            node["parallelism"],
            _operators(node.get("description") or node["id"]),
            tuple(DrawnInput(edge["id"], edge["ship_strategy"]) for edge in node.get("inputs", ())),
        )
        for node in plan["nodes"]
    }
    return _sorted(found)


def _operators(description: str) -> tuple[str, ...]:
    lines = [html.unescape(line) for line in re.split(r"<br\s*/?>", description) if line.strip()]
    if len(lines) == 1 and "(" not in lines[0]:
        return tuple(lines[0].split(" -> "))
    return tuple(re.sub(r"^([ :|]*)\+- ", r"\1", line) for line in lines)


def _sorted(found: Mapping[str, DrawnVertex]) -> list[DrawnVertex]:
    done: dict[str, DrawnVertex] = {}

    def place(ident: str) -> None:
        if ident not in done and ident in found:
            for edge in found[ident].inputs:
                place(edge.source)
            done[ident] = found[ident]

    for ident in found:
        place(ident)
    return list(done.values())


def drawing(vertices: Sequence[DrawnVertex]) -> Iterator[DrawnLine]:
    """Return the lines of the drawing."""
    outgoing: dict[str, list[tuple[str, str]]] = {}
    names = {vertex.id: vertex.name for vertex in vertices}
    for vertex in vertices:
        for edge in vertex.inputs:
            outgoing.setdefault(edge.source, []).append((vertex.id, edge.ship_strategy))
    lanes: list[str | None] = []  #: the target vertex of each lane
    for vertex in vertices:
        arriving = [index for index, target in enumerate(lanes) if target == vertex.id]
        at = arriving[0] if arriving else _free(lanes)
        for index in reversed(arriving[1:]):
            yield DrawnLine(_joint(lanes, at, index, "├", "╯"))
            lanes[index] = None
        lanes[at] = vertex.id
        yield DrawnLine(_row(lanes, at, "●"), vertex.name, f"×{vertex.parallelism}", is_vertex=True)
        going = outgoing.get(vertex.id, [])
        lanes[at] = going[0][0] if going else None
        for operator in vertex.operators[1:]:
            yield DrawnLine(_row(lanes), f"  {operator}")
        for number, (target, ship) in enumerate(going):
            note = ship if len(going) == 1 else f"{ship} to {names[target]}"
            if number == 0:
                yield DrawnLine(_row(lanes), "", note)
            else:
                index = _free(lanes)
                lanes[index] = target
                yield DrawnLine(_joint(lanes, at, index, "├", "╮"), "", note)
        while lanes and lanes[-1] is None:
            lanes.pop()
        if not going and vertex is not vertices[-1]:
            yield DrawnLine(_row(lanes))


def _free(lanes: list[str | None]) -> int:
    for index, target in enumerate(lanes):
        if target is None:
            return index
    lanes.append(None)
    return len(lanes) - 1


def _row(lanes: Sequence[str | None], at: int | None = None, sign: str = "●") -> str:
    return " ".join(sign if index == at else "│" if target else " " for index, target in enumerate(lanes))


def _joint(lanes: Sequence[str | None], left: int, right: int, begin: str, end: str) -> str:
    """Return a line from one lane to another, across those between."""
    left, right, begin, end = (left, right, begin, end) if left < right else (right, left, _MIRROR[end], "┤")
    cells = []
    for index, target in enumerate(lanes):
        if index == left:
            cells.append(f"{begin}─")
        elif index == right:
            cells.append(f"{end} ")
        elif left < index < right:
            cells.append("┼─" if target else "──")
        else:
            cells.append("│ " if target else "  ")
    return "".join(cells).rstrip()


_MIRROR = {"╮": "╭", "╯": "╰"}
