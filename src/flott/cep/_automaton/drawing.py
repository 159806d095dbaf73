"""An automaton as an SVG: a circle for each junction, an arrow for each option. Pure: text out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from flott.cep._automaton.automaton import Automaton, Ending, Option
from flott.cep._conditions import label_of
from flott.cep._pattern import Contiguity

_STEP, _RADIUS, _BASE = 210, 26, 90
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.name{font-weight:bold;text-anchor:middle}.small{font-size:10px;fill:#555;"
    "text-anchor:middle}.place{fill:#fff;stroke:#345;stroke-width:1.5}.match{stroke-width:4}.take{fill:none;stroke:"
    "#345;stroke-width:1.5}.strict{stroke-width:3}.any{stroke-dasharray:6 3}.bar{fill:#a33}.count{fill:#a33;"
    "font-weight:bold;text-anchor:middle}"
)
_CLASSES = {Contiguity.STRICT: "take strict", Contiguity.RELAXED: "take", Contiguity.ANY: "take any"}


def draw(automaton: Automaton, standing: Sequence[int] = ()) -> str:
    """Return the drawing. ``standing``: how many partial matches stand at each junction."""
    count = len(automaton.junctions)
    arrows = [
        (source, option)
        for source, junction in enumerate(automaton.junctions)
        for option in junction.options
    ]
    longest = max((_distance(source, option) for source, option in arrows), default=1)
    base = _BASE + 22 * longest
    width, height = 60 + _STEP * (count - 1) + 110, base + 130
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#345"/></marker></defs>',
    ]
    for source, option in arrows:
        parts.append(_arrow(automaton, source, option, base))
    for index, junction in enumerate(automaton.junctions):
        x = _x(index)
        kind = "place match" if junction.accepting else "place"
        name = "start" if index == 0 else automaton.positions[index - 1].label
        parts.append(f'<circle class="{kind}" cx="{x}" cy="{base}" r="{_RADIUS}"/>')
        parts.append(f'<text class="name" x="{x}" y="{base + _RADIUS + 18}">{escape(name)}</text>')
        if index:
            test = label_of(automaton.positions[index - 1].test)
            parts.append(f'<text class="small" x="{x}" y="{base + _RADIUS + 34}">{escape(_short(test))}</text>')
        if index < len(standing) and standing[index]:
            parts.append(f'<text class="count" x="{x}" y="{base + 4}">{standing[index]}</text>')
    if automaton.within_ms is not None:
        parts.append(f'<text x="20" y="{height - 14}">within {automaton.within_ms} ms</text>')
    return "\n".join([*parts, "</svg>"])


def _x(index: int) -> int:
    return 60 + _STEP * index


def _distance(source: int, option: Option) -> int:
    return 1 if option.position is None else abs(option.position + 1 - source)


def _arrow(automaton: Automaton, source: int, option: Option, base: int) -> str:
    x = _x(source)
    bars = [("not next: " if bar.first_only else "not: ") + label_of(bar.test) for bar in option.bars]
    if option.position is None:
        when = "at the end of time" if option.ending is Ending.AT_TIMEOUT else "behind the next event"
        place = base + _RADIUS + 52
        return f'<text class="small" x="{x}" y="{place}">match {when}</text>' + _lines(bars, x, place + 14)
    target = option.position + 1
    end, label_y = _x(target), base - 8
    if target == source:
        top = base - _RADIUS
        path = f"M{x - 14} {top + 4}C{x - 40} {top - 50} {x + 40} {top - 50} {x + 14} {top + 4}"
        label_x, label_y = x, top - 42
    elif target == source + 1:
        path = f"M{x + _RADIUS} {base}L{end - _RADIUS} {base}"
        label_x = (x + end) // 2
    else:
        rise = 40 + 22 * abs(target - source)
        path = f"M{x + 12} {base - _RADIUS + 4}Q{(x + end) // 2} {base - 2 * rise} {end - 12} {base - _RADIUS + 4}"
        label_x, label_y = (x + end) // 2, base - rise - 18
    drawn = f'<path class="{_CLASSES[option.contiguity]}" d="{path}" marker-end="url(#tip)"/>'
    words = {Contiguity.STRICT: "next", Contiguity.RELAXED: "followed by", Contiguity.ANY: "followed by any"}
    said = words[option.contiguity] if source else ""
    text = f'<text class="small" x="{label_x}" y="{label_y}">{said}</text>'
    return drawn + text + _lines(bars, label_x, label_y + 22)


def _lines(texts: list[str], x: int, y: int) -> str:
    return "".join(
        f'<text class="small bar" x="{x}" y="{y + 14 * number}">{escape(_short(text))}</text>'
        for number, text in enumerate(texts)
    )


def _short(text: str) -> str:
    return text if len(text) <= 28 else text[:27] + "…"
