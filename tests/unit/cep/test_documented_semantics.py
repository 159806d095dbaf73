"""The tables of Flink's documentation: contiguity, loops, greediness, skip strategies, time."""

from __future__ import annotations

import pytest

from flott.cep import AfterMatchSkipStrategy, Pattern, WithinType
from flott.common import Duration
from tests.unit.cep.running import Run, begin, matches, starts_with

A, B, C, D = map(starts_with, "abcd")


@pytest.mark.parametrize(
    ("contiguity", "expected"),
    [("next", []), ("followed_by", ["a b1"]), ("followed_by_any", ["a b1", "a b2"])],
)
def test_contiguity_decides_which_events_may_be_skipped(contiguity: str, expected: list[str]) -> None:
    pattern = getattr(begin("a"), contiguity)("b").where(B)
    assert matches(pattern, "a c b1 b2") == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("consecutive", ["c a1 b", "c a1 a2 b", "c a1 a2 a3 b"]),
        ("", ["c a1 b", "c a1 a2 b", "c a1 a2 a3 b", "c a1 a2 a3 a4 b"]),
        (
            "allow_combinations",
            ["c a1 b", "c a1 a2 b", "c a1 a3 b", "c a1 a4 b", "c a1 a2 a3 b", "c a1 a2 a4 b", "c a1 a3 a4 b",
             "c a1 a2 a3 a4 b"],
        ),
    ],
)  # fmt: skip
def test_contiguity_inside_of_loops(inside: str, expected: list[str]) -> None:
    loop = begin("c").followed_by("middle").where(A).one_or_more()
    loop = getattr(loop, inside)() if inside else loop
    assert sorted(matches(loop.followed_by("end").where(B), "c d a1 a2 a3 d a4 b")) == sorted(expected)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("consecutive", ["a b1 c", "a b2 c", "a b3 c"]),
        ("", ["a b1 c", "a b1 b2 c", "a b1 b2 b3 c", "a b2 c", "a b2 b3 c", "a b3 c"]),
        ("allow_combinations", ["a b1 c", "a b1 b2 c", "a b1 b3 c", "a b1 b2 b3 c", "a b2 c", "a b2 b3 c", "a b3 c"]),
    ],
)
def test_loops_behind_followed_by_any(inside: str, expected: list[str]) -> None:
    loop = begin("a").followed_by_any("b").where(B).one_or_more()
    loop = getattr(loop, inside)() if inside else loop
    assert sorted(matches(loop.followed_by("c").where(C), "a b1 d1 b2 d2 b3 c")) == sorted(expected)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AfterMatchSkipStrategy.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_past_last_event(), ["b1 b2 b3 c"]),
        (AfterMatchSkipStrategy.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
        (AfterMatchSkipStrategy.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
    ],
    ids=repr,
)
def test_skip_strategies_on_one_or_more_b_then_c(strategy: AfterMatchSkipStrategy, expected: list[str]) -> None:
    pattern = begin("b", strategy).one_or_more().consecutive().next("c").where(C)
    assert matches(pattern, "b1 b2 b3 c") == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AfterMatchSkipStrategy.no_skip(), ["a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"]),
        (AfterMatchSkipStrategy.skip_to_first("c"), ["a b c1 c2 c3 d", "c1 c2 c3 d"]),
    ],
    ids=repr,
)
def test_skip_to_first_of_a_greedy_loop(strategy: AfterMatchSkipStrategy, expected: list[str]) -> None:
    pattern = (
        Pattern[str].begin("x", strategy).where(lambda word: word[0] in "abc")
        .followed_by("y").where(lambda word: word[0] in "bc")
        .followed_by("c").where(C).one_or_more().greedy()
        .followed_by("d").where(D)
    )  # fmt: skip
    assert matches(pattern, "a b c1 c2 c3 d") == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AfterMatchSkipStrategy.no_skip(), ["a b1", "a b1 b2", "a b1 b2 b3"]),
        (AfterMatchSkipStrategy.skip_to_next(), ["a b1"]),
    ],
    ids=repr,
)
def test_skip_to_next_ends_what_started_with_the_same_event(
    strategy: AfterMatchSkipStrategy, expected: list[str]
) -> None:
    assert matches(begin("a", strategy).followed_by("b").where(B).one_or_more(), "a b1 b2 b3") == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (begin("b").times(2), ["b1 b2", "b2 b3"]),
        (begin("b").times(2, 3), ["b1 b2", "b1 b2 b3", "b2 b3"]),
        (begin("b").times_or_more(2), ["b1 b2", "b1 b2 b3", "b2 b3"]),
        (begin("b").times(2).allow_combinations(), ["b1 b2", "b1 b3", "b2 b3"]),
        (begin("a").followed_by("b").where(B).optional().followed_by("c").where(C), ["a b1 c", "a c"]),
        (begin("a").followed_by("b").where(B).times(2).optional().followed_by("c").where(C), ["a b1 b2 c", "a c"]),
        (begin("a").followed_by("b").where(B).times(2, 3).greedy().followed_by("c").where(C), ["a b1 b2 b3 c"]),
        (begin("a").followed_by("b").where(B).one_or_more().optional().greedy().followed_by("c").where(C),
         ["a b1 b2 b3 c"]),
        (begin("a").followed_by("b").where(B).one_or_more().until(lambda word: word == "b3").followed_by("c").where(C),
         ["a b1 b2 c", "a b1 c"]),
    ],
    ids=str,
)  # fmt: skip
def test_quantifiers(pattern: Pattern[str], expected: list[str]) -> None:
    assert sorted(matches(pattern, "a b1 b2 x b3 c")) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (begin("a").not_next("b").where(B).followed_by("c").where(C), "a b c", []),
        (begin("a").not_next("b").where(B).followed_by("c").where(C), "a x b c", ["a c"]),
        (begin("a").not_followed_by("b").where(B).followed_by("c").where(C), "a x b c", []),
        (begin("a").not_followed_by("b").where(B).followed_by("c").where(C), "a x c b", ["a c"]),
        (begin("a").not_next("b").where(B), "a x", ["a"]),
        (begin("a").not_next("b").where(B), "a b", []),
    ],
    ids=str,
)
def test_events_that_must_not_come(pattern: Pattern[str], text: str, expected: list[str]) -> None:
    assert matches(pattern, text) == expected


def test_a_pattern_that_ends_with_an_absence_matches_when_time_is_over() -> None:
    run = Run(begin("a").not_followed_by("b").where(B).within(Duration.of_millis(10)))
    run.feed((0, "a1"), (2, "a2"), (11, "b"))
    assert [(time, word) for time, _ in run.found for word in run.text(run.found)] == [(10, "a1")]
    run.expire(100)
    assert run.text(run.found) == ["a1"]
    assert not run.held


def test_groups_are_repeated_as_a_whole() -> None:
    group = begin("a").next("b").where(B)
    assert matches(Pattern[str].begin(group).times(2).followed_by("c").where(C), "a1 b1 a2 b2 c") == ["a1 a2 b1 b2 c"]
    assert matches(Pattern[str].begin(group).times(2).consecutive().next("c").where(C), "a1 b1 x a2 b2 c") == []
    optional = begin("x").followed_by(group).optional().followed_by("c").where(C)
    assert matches(optional, "x a1 b1 c") == ["x a1 b1 c", "x c"]


def test_time_between_first_and_last_event_is_less_than_within() -> None:
    run = Run(begin("a").followed_by("b").where(B).within(Duration.of_millis(10)))
    run.feed((0, "a1"), (5, "a2"), (10, "b"))
    assert run.text(run.found) == ["a2 b"]
    assert [(time, run.text([(time, node)])[0]) for time, node in run.timed_out] == [(10, "a1")]


def test_time_since_the_event_before_is_less_than_within() -> None:
    pattern = begin("a").followed_by("b").where(B).within(Duration.of_millis(10), WithinType.PREVIOUS_AND_CURRENT)
    run = Run(pattern.followed_by("c").where(C))
    run.feed((0, "a1"), (5, "a2"), (10, "b"), (1000, "c"))
    assert run.text(run.found) == ["a2 b c"]
    assert run.text(run.timed_out) == ["a1"]
