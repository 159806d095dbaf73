"""Runs patterns over a few words, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.cep import Pattern
from flott.cep._automaton.automaton import compile_pattern
from flott.cep._automaton.encoding import from_plain, to_plain
from flott.cep._automaton.matcher import Matcher, Matches
from flott.cep._automaton.moves import Found

ALL_OVER = 1 << 40


def starts_with(letter: str) -> Callable[[str], bool]:
    """Return a condition on the first letter of a word."""

    def condition(word: str) -> bool:
        return word.startswith(letter)

    return condition


def begin(name: str, *arguments: Any) -> Pattern[str]:
    """Return a pattern that starts with a word of its name."""
    return Pattern[str].begin(name, *arguments).where(starts_with(name))


class Run:
    """A pattern over events; words come one millisecond after the other."""

    def __init__(self, pattern: Pattern[Any]):
        self.matcher = Matcher(compile_pattern(pattern))
        self.held = Matches()
        self.found: list[Found] = []
        self.timed_out: list[Found] = []

    def feed(self, *events: tuple[int, Any]) -> None:
        self.matcher.feed(self.held, events, self.found, self.timed_out)

    def expire(self, time: int) -> None:
        if self.held.deadline <= time:
            self.matcher.expire(self.held, time, self.found, self.timed_out)

    def save_and_restore(self) -> None:
        self.held = from_plain(self.matcher, to_plain(self.matcher, self.held))

    def text(self, found: list[Found]) -> list[str]:
        matches = (self.matcher.match_of(node) for _, node in found)
        return [" ".join(word for words in match.values() for word in words) for match in matches]


def matches(pattern: Pattern[Any], text: str) -> list[str]:
    """Return the matches in a text of words."""
    run = Run(pattern)
    run.feed(*enumerate(text.split()))
    return run.text(run.found)
