"""Random patterns and streams, drawn from any source of random choices."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from flott.cep import AfterMatchSkipStrategy, Pattern, WithinType
from flott.common import Duration
from tests.unit.cep.running import starts_with

LETTERS = "abc"


def rising(name: str) -> Any:
    """Return a condition that compares with what the partial match has under a name."""

    def condition(word: str, ctx: Any) -> bool:
        return all(before[1] <= word[1] for before in ctx.get_events_for_pattern(name))

    return condition


def letter(random: Random) -> Any:
    """Return a condition on the first letter of a word."""
    return starts_with(random.choice(LETTERS))


def pattern_of(random: Random, names: list[str] | None = None, most: int = 3, depth: int = 1) -> Pattern[str]:
    """Return a pattern without a limit of time."""
    names = names if names is not None else [f"s{index}" for index in range(30)]
    made: Pattern[str] | None = None
    for _ in range(random.randint(1, most)):
        made = _with_stage(random, made, names, depth)
    assert made is not None
    return made


def timed_pattern_of(random: Random) -> Pattern[str]:
    """Return a pattern with a limit of time."""
    made = pattern_of(random)
    if len(made.stages) > 1 and made.stages[-1].group is None and random.randint(0, 4) == 0:
        made = made.within(Duration.of_millis(random.randint(1, 4)), WithinType.PREVIOUS_AND_CURRENT)
    return made.within(Duration.of_millis(random.randint(1, 14)))


def skipping(random: Random, pattern: Pattern[str]) -> Pattern[str]:
    """Return a pattern with a skip strategy."""
    name = random.choice(pattern.names())
    strategy = random.choice(
        [
            AfterMatchSkipStrategy.skip_to_next(),
            AfterMatchSkipStrategy.skip_past_last_event(),
            AfterMatchSkipStrategy.skip_to_first(name),
            AfterMatchSkipStrategy.skip_to_last(name),
        ]
    )
    return replace(pattern, skip_strategy=strategy)


def stream_of(random: Random, most: int = 8) -> list[tuple[int, str]]:
    """Return events in the order of time: a letter, a digit, and what tells words apart."""
    time, events = 0, []
    for index in range(random.randint(0, most)):
        time += random.randint(0, 2)
        events.append((time, f"{random.choice('aabbccx')}{random.randint(0, 2)}#{index}"))
    return events


def _with_stage(random: Random, pattern: Pattern[str] | None, names: list[str], depth: int) -> Pattern[str]:
    kinds = ["single"] * 4 + ["group"] * (depth > 0) + ["absent", "absent"] * (pattern is not None)
    kind, name = random.choice(kinds), names.pop(0)
    if kind == "absent":
        assert pattern is not None
        absent: Pattern[str] = getattr(pattern, random.choice(["not_next", "not_followed_by"]))(name)
        return absent.where(letter(random))
    if kind == "group":
        made = _appended(random, pattern, pattern_of(random, names, 2, depth - 1))
    else:
        made = _appended(random, pattern, name).where(letter(random))
        if random.randint(0, 2) == 0:
            made = made.or_(letter(random))
        if random.randint(0, 4) == 0:
            made = made.where(rising(name))
    return _quantified(random, made, kind == "group")


def _appended(random: Random, pattern: Pattern[str] | None, what: Any) -> Pattern[str]:
    if pattern is None:
        return Pattern[str].begin(what)
    made: Pattern[str] = getattr(pattern, random.choice(["next", "followed_by", "followed_by_any"]))(what)
    return made


def _quantified(random: Random, made: Pattern[str], is_group: bool) -> Pattern[str]:
    may_repeat = not is_group or not all(stage.may_be_empty for stage in made.stages[-1].group or ())
    match random.choice(["once"] * 3 + ["loop", "times", "range", "more"] * may_repeat):
        case "loop":
            made = made.one_or_more()
        case "times":
            made = made.times(2)
        case "range":
            made = made.times(random.randint(0, 1), 2)
        case "more":
            made = made.times_or_more(2)
    if made.stages[-1].quantified:
        inside = random.choice(["", "consecutive", "allow_combinations", "greedy", "greedy"])
        if inside and not (is_group and inside == "greedy"):
            made = getattr(made, inside)()
        if made.stages[-1].maximum is None and not is_group and random.randint(0, 1):
            made = made.until(letter(random))
    if not made.stages[-1].optional and random.randint(0, 3) == 0:
        made = made.optional()
    return made
