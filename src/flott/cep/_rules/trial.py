"""Tries a pattern on recorded events, before it goes live. Pure: nothing is emitted or committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flott.cep._automaton.automaton import compile_pattern
from flott.cep._automaton.matcher import Matcher, Matches
from flott.cep._automaton.moves import Found
from flott.cep._pattern import Pattern


@dataclass(frozen=True)
class TrialMatch:
    """A match of a trial."""

    key: Any
    timestamp: int
    match: dict[str, list[Any]]


@dataclass(frozen=True)
class Trial:
    """What a pattern would have found, and what it would have cost."""

    events: int
    keys: int
    matches: tuple[TrialMatch, ...]
    timed_out: int
    open: int  #: partial matches at the end
    nanoseconds: int

    @property
    def nanoseconds_per_event(self) -> float:
        """Return what an event costs on average."""
        return self.nanoseconds / self.events if self.events else 0.0


def run_trial(
    pattern: Pattern[Any], events: Iterable[tuple[Any, int, Any]], clock_ns: Callable[[], int]
) -> Trial:
    """Run a pattern over events: triples of key, timestamp and value. Each key starts without partial matches."""
    matcher = Matcher(compile_pattern(pattern))
    by_key: dict[Any, list[tuple[int, Any]]] = {}
    for key, timestamp, value in events:
        by_key.setdefault(key, []).append((timestamp, value))
    found: list[tuple[int, Any, Any]] = []
    timed_out, still_open = 0, 0
    began = clock_ns()
    for key, arrivals in by_key.items():
        arrivals.sort(key=lambda arrival: arrival[0])
        held = Matches()
        matches: list[Found] = []
        over: list[Found] = []
        matcher.feed(held, arrivals, matches, over)
        found += [(timestamp, key, node) for timestamp, node in matches]
        timed_out += len(over)
        still_open += sum(len(nodes) for group in held.groups.values() for nodes in group.values())
    spent = clock_ns() - began
    found.sort(key=lambda match: match[0])
    matches_of = tuple(TrialMatch(key, timestamp, matcher.match_of(node)) for timestamp, key, node in found)
    return Trial(sum(map(len, by_key.values())), len(by_key), matches_of, timed_out, still_open, spent)
