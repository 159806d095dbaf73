"""An explanation says how far partial matches came, what turned events away, and when they time out."""

from __future__ import annotations

from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from flott.cep import AfterMatchSkipStrategy, Pattern, explain
from flott.cep._automaton.automaton import compile_pattern
from flott.cep._automaton.drawing import draw
from flott.common import Duration
from tests.unit.cep.random_patterns import stream_of, timed_pattern_of
from tests.unit.cep.running import Run, begin, starts_with


def is_b(word: str) -> bool:
    return word.startswith("b")


def short(word: str) -> bool:
    return len(word) == 1


def where(condition: Any) -> str:
    """Return what an explanation calls a condition."""
    return f"{condition.__name__} (test_explanation.py:{condition.__code__.co_firstlineno})"


def test_it_names_the_condition_that_turned_an_event_away() -> None:
    pattern = begin("a").followed_by("b").where(is_b).where(short).within(Duration.of_millis(10))
    found = explain(pattern, ["a", "x", "b1"])
    (attempt,) = found.attempts
    assert attempt.match == {"a": ["a"]}
    assert attempt.waits_for == (f"b, relaxed: {where(is_b)} and {where(short)}",)
    assert [(refusal.event, refusal.reason) for refusal in attempt.refusals] == [
        (2, f"{where(is_b)} is false"),
        (3, f"{where(short)} is false"),
    ]
    assert (attempt.fate, attempt.because, attempt.times_out) == ("open", "until 10 ms", 10)


def test_it_tells_time_outs_endings_and_discarded_partial_matches_apart() -> None:
    timed = begin("a").followed_by("b").where(is_b).within(Duration.of_millis(10))
    (attempt,) = explain(timed, ["a", "x"], [0, 3], until=50).attempts
    assert (attempt.fate, attempt.because) == ("timed out", "at 10 ms")

    (attempt,) = explain(begin("a").next("b").where(is_b), ["a", "x"]).attempts
    assert (attempt.fate, attempt.because) == ("ended", "event 2, 'x', is not b, and no event may come between")

    absent = begin("a").not_followed_by("n").where(starts_with("n")).followed_by("b").where(is_b)
    (attempt,) = explain(absent, ["a", "n"]).attempts
    assert attempt.fate == "ended"
    assert "must not come (n)" in attempt.because

    past = AfterMatchSkipStrategy.skip_past_last_event()
    found = explain(begin("a", past).followed_by("b").where(is_b), ["a1", "a2", "b"])
    assert [attempt.fate for attempt in found.attempts] == ["went on", "discarded"]


def test_it_says_so_if_nothing_started() -> None:
    found = explain(begin("a").next("b"), ["x"])
    assert found.attempts == ()
    assert str(found).splitlines()[-1].startswith("  event 1, 'x', is not a: condition (running.py:")


def test_the_nearest_attempt_is_the_longest_that_failed() -> None:
    pattern = begin("a").followed_by("b").where(is_b).followed_by("c").where(starts_with("c"))
    nearest = explain(pattern, ["a1", "b1", "a2"]).nearest()
    assert nearest is not None
    assert nearest.match == {"a": ["a1"], "b": ["b1"]}


@pytest.mark.parametrize("seed", range(60))
def test_the_explanation_has_the_matches_and_open_partial_matches_of_the_matcher(seed: int) -> None:
    random = Random(seed)
    pattern, events = timed_pattern_of(random), stream_of(random)
    found = explain(pattern, [word for _, word in events], [time for time, _ in events])
    run = Run(pattern)
    run.feed(*events)
    assert list(found.matches) == [run.matcher.match_of(node) for _, node in run.found]
    still = [run.matcher.match_of(n) for group in run.held.groups.values() for nodes in group.values() for n in nodes]
    explained = [attempt.match for attempt in found.attempts if attempt.fate == "open"]
    assert sorted(map(repr, explained)) == sorted(map(repr, still))
    assert sum(found.standing) == len(still)


@pytest.mark.parametrize("seed", range(10))
def test_the_drawing_is_an_svg_with_a_circle_for_each_junction(seed: int) -> None:
    automaton = compile_pattern(timed_pattern_of(Random(seed)))
    tree = ElementTree.fromstring(draw(automaton, [1] * len(automaton.junctions)))
    assert len(tree.findall("{http://www.w3.org/2000/svg}circle")) == len(automaton.junctions)


def test_the_drawing_shows_how_many_partial_matches_stand_where() -> None:
    found = explain(Pattern[str].begin("a").next("b").where(is_b), ["x"])
    assert '<text class="count"' in found.svg()
