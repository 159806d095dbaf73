"""Patterns that cannot mean anything are refused when they are built, with a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from flott.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction, WithinType
from flott.cep._automaton.automaton import compile_pattern
from flott.common import Duration, Time
from flott.datastream import OutputTag
from flott.errors import ProgramError
from flott.testing import in_process

begin = Pattern[Any].begin


def any_event(value: Any) -> bool:
    return True


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: begin("a").next("a"), "the name 'a' a second time"),
        (lambda: begin("a").next(begin("b").next("a")), "the name 'a' a second time"),
        (lambda: begin(""), "takes a name"),
        (lambda: begin("a").or_(any_event), "Call where\\(\\) first"),
        (lambda: begin("a").where(42), "takes a condition"),
        (lambda: begin("a").where(lambda one, two, three: True), "found lambda .* with 3 required"),
        (lambda: begin("a").until(any_event), "is none. Call one_or_more"),
        (lambda: begin("a").one_or_more().until(any_event).until(any_event), "has an until"),
        (lambda: begin("a").times(2).until(any_event), "is none"),
        (lambda: begin("a").one_or_more().times(2), "has a quantifier already"),
        (lambda: begin("a").optional().one_or_more(), "comes before optional"),
        (lambda: begin("a").optional().optional(), "is optional already"),
        (lambda: begin("a").times(0), "found \\(0\\)"),
        (lambda: begin("a").times(3, 2), "found \\(3, 2\\)"),
        (lambda: begin("a").times_or_more(-1), "found -1"),
        (lambda: begin("a").greedy(), "takes one"),
        (lambda: begin("a").consecutive(), "takes one"),
        (lambda: begin("a").one_or_more().consecutive().allow_combinations(), "strict already"),
        (lambda: begin("a").one_or_more().greedy().allow_combinations(), "cannot be greedy and allow"),
        (lambda: begin("a").one_or_more().allow_combinations().greedy(), "cannot be greedy and allow"),
        (lambda: begin("a").not_next("b").optional(), "must not come"),
        (lambda: begin("a").not_followed_by("b").one_or_more(), "must not come"),
        (lambda: begin("a").not_next(begin("b")), "found a group"),
        (lambda: begin(begin("a")).where(any_event), "applies to a single stage"),
        (lambda: begin(begin("a")).times(2).greedy(), "does not apply to a group"),
        (lambda: begin(begin("a").optional()).one_or_more(), "repeating nothing has no end"),
        (lambda: begin(begin("a", AfterMatchSkipStrategy.skip_to_next())), "found a group with the skip strategy"),
        (lambda: begin("a", "past"), "takes an AfterMatchSkipStrategy"),
        (lambda: begin("a").within(Duration.of_millis(0)), "at least 1, found 0"),
        (lambda: begin("a").within(5), "found 5 of type int"),
        (lambda: begin("a").within(Time.seconds(1), WithinType.PREVIOUS_AND_CURRENT), "needs an event before"),
        (lambda: begin("a").subtype("str"), "takes a class"),
        (lambda: compile_pattern(begin("a").not_followed_by("b")), "never be complete"),
        (lambda: compile_pattern(begin("a").not_followed_by("b").next("c").optional()), "never be complete"),
        (lambda: compile_pattern(begin("a", AfterMatchSkipStrategy.skip_to_first("z"))), "does not have. It has 'a'"),
        (lambda: compile_pattern(begin("a").times(20_000)), "more than 10000 events"),
    ],
)
def test_it_is_refused_with_a_sentence(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ProgramError, match=sentence):
        build()


def test_streams_of_patterns_check_what_they_are_given() -> None:
    stream = in_process().from_collection([1])
    with pytest.raises(ProgramError, match="takes a stream first"):
        CEP.pattern([1], begin("a"))  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"starts with Pattern\.begin"):
        CEP.pattern(stream, "a")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="never be complete"):
        CEP.pattern(stream, begin("a").not_followed_by("b"))
    with pytest.raises(ProgramError, match="comparator"):
        CEP.pattern(stream, begin("a"), 1)  # type: ignore[arg-type]
    found = CEP.pattern(stream, begin("a"))
    with pytest.raises(ProgramError, match="needs a PatternProcessFunction"):
        found.process(print)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="only the tag"):
        found.select(len, timeout_tag=OutputTag("over"))  # type: ignore[call-overload]
    with pytest.raises(ProgramError, match="only if the pattern has within"):
        found.select(len, timeout_tag=OutputTag("over"), timeout_function=lambda match, time: match)
    with pytest.raises(ProgramError, match="takes an OutputTag"):
        found.side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="or a callable"):
        found.select(PatternProcessFunction)  # type: ignore[call-overload]


def test_the_shortest_limit_of_time_counts() -> None:
    pattern = begin("a").within(Duration.of_seconds(9)).next(begin("b").within(timedelta(seconds=3))).next("c")
    assert pattern.within_ms == 3000
    assert pattern.within(Time.seconds(2)).within_ms == 2000


def test_a_pattern_and_its_automaton_are_printed() -> None:
    pattern = begin("a").not_next("n").followed_by("b").times(2).within(Duration.of_seconds(1))
    assert str(pattern) == "a, not next n, followed by b {2}, within 1 s"
    assert str(compile_pattern(pattern)) == "\n".join(
        [
            "start:",
            "  take a [any event], relaxed",
            "after a:",
            "  take b 1 [any event], relaxed; not next [any event]",
            "after b 1:",
            "  take b 2 [any event], relaxed",
            "after b 2 (match):",
            "within 1000 ms",
        ]
    )
