"""Draws a job's graph as SVG: vertices in layers from left to right, edges between the boxes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from flott.cli.drawings.plan_drawing import DrawnVertex

_WIDTH, _GAP_X, _GAP_Y, _MARGIN, _TITLE, _LINE = 260, 120, 26, 24, 34, 18
_PASSAGE = 14  #: the height of an edge that passes boxes
_CHARACTERS = 32
_LABEL = 13  #: the height of a label

Point = tuple[int, int]


@dataclass
class _Layout:
    """The positions of all boxes, edges and labels."""

    layers: dict[str, int]
    boxes: dict[str, tuple[int, int, int]] = field(default_factory=dict)  #: x, y, height
    #: the position of an edge in a layer that it passes
    passages: dict[tuple[str, str, int], Point] = field(default_factory=dict)
    bottoms: list[int] = field(default_factory=list)  #: the bottom of each layer
    labels: list[Point] = field(default_factory=list)

    @property
    def size(self) -> Point:
        """Return the size of the picture."""
        width = 2 * _MARGIN + len(self.bottoms) * (_WIDTH + _GAP_X) - _GAP_X
        return width, max(self.bottoms, default=0) + _MARGIN - _GAP_Y

    def label_at(self, x: int, y: int) -> Point:
        """Return a free position for a label, at or below the given one."""
        while any(abs(x - other) < 80 and abs(y - above) < _LABEL for other, above in self.labels):
            y += _LABEL
        self.labels.append((x, y))
        return x, y


def plan_svg(title: str, vertices: Sequence[DrawnVertex]) -> str:
    """Return the picture."""
    layout = _lay_out(vertices)
    width, height = layout.size
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{_MARGIN}" y="{_MARGIN + 6}" font-size="16" font-weight="bold" fill="#223">{escape(title)}</text>',
        *(_edge(layout, edge.source, vertex.id, edge.ship_strategy) for vertex in vertices for edge in vertex.inputs),
        *(_box(layout.boxes[vertex.id], vertex) for vertex in vertices),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _lay_out(vertices: Sequence[DrawnVertex]) -> _Layout:
    layout = _Layout(_layers(vertices))
    layout.bottoms = [_MARGIN + _TITLE] * (max(layout.layers.values(), default=0) + 1)
    for vertex in vertices:
        layer = layout.layers[vertex.id]
        for edge in vertex.inputs:
            for passed in range(layout.layers[edge.source] + 1, layer):
                place = (_x(passed), layout.bottoms[passed])
                layout.passages.setdefault((edge.source, vertex.id, passed), place)
                layout.bottoms[passed] += _PASSAGE + _GAP_Y // 2
        height = 16 + _LINE * len(vertex.operators)
        layout.boxes[vertex.id] = (_x(layer), layout.bottoms[layer], height)
        layout.bottoms[layer] += height + _GAP_Y
    return layout


def _x(layer: int) -> int:
    return _MARGIN + layer * (_WIDTH + _GAP_X)


def _layers(vertices: Sequence[DrawnVertex]) -> dict[str, int]:
    found: dict[str, int] = {}
    for vertex in vertices:
        found[vertex.id] = max((found[edge.source] + 1 for edge in vertex.inputs), default=0)
    return found


def _edge(layout: _Layout, source: str, target: str, label: str) -> str:
    x, y, height = layout.boxes[source]
    points = [(x + _WIDTH, y + height // 2)]
    for passed in range(layout.layers[source] + 1, layout.layers[target]):
        left, top = layout.passages[source, target, passed]
        points += [(left, top + _PASSAGE // 2), (left + _WIDTH, top + _PASSAGE // 2)]
    x, y, height = layout.boxes[target]
    points.append((x, y + height // 2))
    path = f"M{points[0][0]},{points[0][1]}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (x1 + x2) // 2
        path += f" C{middle},{y1} {middle},{y2} {x2},{y2}"
    (x1, y1), (x2, y2) = points[0], points[1]
    at_x, at_y = layout.label_at((x1 + x2) // 2, (y1 + y2) // 2 - 5)
    return (
        f'<path d="{path}" fill="none" stroke="#99a" stroke-width="1.6" marker-end="url(#tip)"/>'
        f'<text x="{at_x}" y="{at_y}" font-size="11" text-anchor="middle" fill="#445" stroke="#fff" stroke-width="3"'
        f' paint-order="stroke">{escape(label)}</text>'
    )


def _box(box: tuple[int, int, int], vertex: DrawnVertex) -> str:
    x, y, height = box
    lines = [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6" fill="#eef4ff" stroke="#4a74c9"/>',
        f'<text x="{x + _WIDTH - 10}" y="{y + 21}" text-anchor="end" fill="#4a74c9">×{vertex.parallelism}</text>',
    ]
    for index, operator in enumerate(vertex.operators):
        text = operator if len(operator) <= _CHARACTERS else f"{operator[: _CHARACTERS - 1]}…"
        weight = ' font-weight="bold"' if index == 0 else ""
        indent = 12 if index == 0 else 24
        lines.append(
            f'<text x="{x + indent}" y="{y + 21 + _LINE * index}" fill="#223"{weight}>{escape(text.strip())}</text>'
        )
    return "".join(lines)
