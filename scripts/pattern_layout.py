"""How a story about a pattern is laid out: the events in a row, and a row below for each match, by kind of pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flott.cep import Pattern, explain
from scripts.layouts import LEFT, RIGHT, WIDTH, heading
from scripts.svg import Sheet

ROW = 30


@dataclass(frozen=True)
class Matches:
    """A story of one stream: what several patterns find in it."""

    title: str
    description: str
    program: str
    events: str  #: words; a pattern looks at their first letters
    patterns: Mapping[str, Pattern[Any]]

    def draw(self) -> Sheet:
        words = self.events.split()
        found = {name: explain(pattern, words).matches for name, pattern in self.patterns.items()}
        rows = sum(max(len(matches), 1) for matches in found.values())
        first = LEFT + 96
        step = (WIDTH - first - RIGHT - 20) / max(len(words) - 1, 1)
        places = {word: first + index * step for index, word in enumerate(words)}
        sheet = Sheet(WIDTH, 112 + rows * ROW + 14 * len(found), self.title, self.description)
        heading(sheet, self.title, self.program)
        sheet.text(20, 84, "events", "ink b")
        for word, x in places.items():
            sheet.dot(x, 80, word, "quiet")
        y = 122
        for number, (name, matches) in enumerate(found.items(), 1):
            look = f"e{number}"
            sheet.text(20, y + 4, name, f"{look} b")
            if not matches:
                sheet.text(first, y + 4, "no match", "quiet")
                y += ROW
            for match in matches:
                taken = [places[word] for events in match.values() for word in events]
                sheet.line(min(taken), y, max(taken), y, f"{look} thick")
                for events in match.values():
                    for word in events:
                        sheet.dot(places[word], y, word, look)
                y += ROW
            y += 14
        return sheet
