"""``Pattern``: what to look for in a stream, as a frozen value. Every method returns a new pattern.

A pattern is a sequence of stages. A stage takes one event, a number of events, or the events of a group of stages; or
it says which event must not come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, TypeVar, overload

from flott.cep._conditions import EventCondition, MatchCondition, OfType, Test, as_test, both, either
from flott.cep._skip import AfterMatchSkipStrategy
from flott.common.time import Duration, Time
from flott.datastream.window._lengths import positive_ms
from flott.errors import ProgramError

T = TypeVar("T")
U = TypeVar("U")


class Contiguity(Enum):
    """Which events may come between two events of a match."""

    STRICT = "strict"  #: none
    RELAXED = "relaxed"  #: events that the next stage does not accept
    ANY = "non-deterministic relaxed"  #: all events


class Absence(Enum):
    """Where an event must not come."""

    NEXT = "not next"  #: directly behind the event before
    FOLLOWED_BY = "not followed by"  #: anywhere before the next event of the match


class WithinType(Enum):
    """Between which events of a match the time is limited."""

    FIRST_AND_LAST = "FIRST_AND_LAST"
    PREVIOUS_AND_CURRENT = "PREVIOUS_AND_CURRENT"


@dataclass(frozen=True)
class PatternStage:
    """One step of a pattern."""

    name: str
    contiguity: Contiguity = Contiguity.RELAXED
    absence: Absence | None = None
    test: Test | None = None  #: what an event must pass; None: every event does
    until: Test | None = None  #: what ends a loop
    minimum: int = 1
    maximum: int | None = 1  #: None: as often as events come
    quantified: bool = False  #: a number of times was asked for
    optional: bool = False
    greedy: bool = False
    inner: Contiguity | None = None  #: between the events of a loop; None: not said, which means relaxed
    window_ms: int | None = None  #: since the event before
    group: tuple[PatternStage, ...] | None = None

    @property
    def may_be_empty(self) -> bool:
        """Return whether the stage can be passed without an event."""
        if self.optional or self.absence is not None:
            return True
        return self.group is not None and all(stage.may_be_empty for stage in self.group)

    def __repr__(self) -> str:
        return f"PatternStage({self.name!r})"


@dataclass(frozen=True)
class Pattern(Generic[T]):
    """A sequence of stages that a match goes through.

    >>> fraud = (
    ...     Pattern.begin("small").where(lambda payment: payment < 10)
    ...     .followed_by("large").where(lambda payment: payment > 500)
    ...     .within(Duration.of_minutes(1))
    ... )
    >>> print(fraud)
    small, followed by large, within 1 min

    A type checker follows the type of the events from ``Pattern[Payment].begin("small")`` on.
    """

    stages: tuple[PatternStage, ...]
    skip_strategy: AfterMatchSkipStrategy = field(default_factory=AfterMatchSkipStrategy.no_skip)
    within_ms: int | None = None  #: between the first and the last event

    # ------------------------------------------------------------------------------------------------------ the stages

    @classmethod
    def begin(
        cls, name: str | Pattern[T], skip_strategy: AfterMatchSkipStrategy | None = None
    ) -> Pattern[T]:
        """Start a pattern with a stage, or with a group of stages."""
        if skip_strategy is not None and not isinstance(skip_strategy, AfterMatchSkipStrategy):
            raise ProgramError(
                "begin() takes an AfterMatchSkipStrategy, such as AfterMatchSkipStrategy.skip_past_last_event(), found"
                f" {skip_strategy!r}."
            )
        strategy = skip_strategy or AfterMatchSkipStrategy.no_skip()
        empty: Pattern[T] = Pattern((), strategy)
        return empty._append("begin", name, Contiguity.RELAXED)

    def next(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage whose event comes directly behind the event before."""
        return self._append("next", name, Contiguity.STRICT)

    def followed_by(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage that takes the first event it accepts; events in between that it does not accept are skipped."""
        return self._append("followed_by", name, Contiguity.RELAXED)

    def followed_by_any(self, name: str | Pattern[T]) -> Pattern[T]:
        """Add a stage that takes any event it accepts: also events it accepts may be skipped, for further matches."""
        return self._append("followed_by_any", name, Contiguity.ANY)

    def not_next(self, name: str) -> Pattern[T]:
        """Add a stage whose event must not come directly behind the event before."""
        return self._append("not_next", name, Contiguity.RELAXED, Absence.NEXT)

    def not_followed_by(self, name: str) -> Pattern[T]:
        """Add a stage whose event must not come before the next event of the match.

        At the end of a pattern it needs ``within``: the match is complete when the time is over.
        """
        return self._append("not_followed_by", name, Contiguity.RELAXED, Absence.FOLLOWED_BY)

    # -------------------------------------------------------------------------------------------------- the conditions

    @overload
    def where(self, condition: EventCondition[T]) -> Pattern[T]: ...

    @overload
    def where(self, condition: MatchCondition[T]) -> Pattern[T]: ...

    def where(self, condition: EventCondition[T] | MatchCondition[T]) -> Pattern[T]:
        """Accept only events for which the condition is true, in addition to the conditions before."""
        test = as_test(condition, "where")
        return self._refine(test=both(self._single("where").test, test))

    @overload
    def or_(self, condition: EventCondition[T]) -> Pattern[T]: ...

    @overload
    def or_(self, condition: MatchCondition[T]) -> Pattern[T]: ...

    def or_(self, condition: EventCondition[T] | MatchCondition[T]) -> Pattern[T]:
        """Accept also events for which the condition is true."""
        stage, test = self._single("or_"), as_test(condition, "or_")
        if stage.test is None:
            raise ProgramError(
                f"or_() adds an alternative to a condition, but stage {stage.name!r} has none and accepts every event."
                " Call where() first."
            )
        return self._refine(test=either(stage.test, test))

    def subtype(self, subtype_class: type[U]) -> Pattern[T]:
        """Accept only events of a class."""
        if not isinstance(subtype_class, type):
            raise ProgramError(f"subtype() takes a class, found {subtype_class!r}.")
        return self._refine(test=both(self._single("subtype").test, OfType(subtype_class)))

    @overload
    def until(self, condition: EventCondition[T]) -> Pattern[T]: ...

    @overload
    def until(self, condition: MatchCondition[T]) -> Pattern[T]: ...

    def until(self, condition: EventCondition[T] | MatchCondition[T]) -> Pattern[T]:
        """End a loop when an event comes for which the condition is true. That event is not part of the loop."""
        stage, test = self._single("until"), as_test(condition, "until")
        if stage.maximum is not None:
            raise ProgramError(
                f"until() ends a loop, but stage {stage.name!r} is none. Call one_or_more() or times_or_more() first."
            )
        if stage.until is not None:
            raise ProgramError(f"Stage {stage.name!r} has an until() condition already. Combine both into one.")
        return self._refine(until=test)

    # -------------------------------------------------------------------------------------------------- the quantifiers

    def one_or_more(self) -> Pattern[T]:
        """Take one event or more. Events in between that are not accepted are skipped, see ``consecutive``."""
        return self._quantify("one_or_more", 1, None)

    @overload
    def times(self, from_times: int) -> Pattern[T]: ...

    @overload
    def times(self, from_times: int, to_times: int) -> Pattern[T]: ...

    def times(self, from_times: int, to_times: int | None = None) -> Pattern[T]:
        """Take so many events; with two numbers, at least the first and at most the second number of them."""
        last = from_times if to_times is None else to_times
        if not (_is_count(from_times) and _is_count(last)) or last < 1 or from_times > last:
            given = f"{from_times!r}" if to_times is None else f"{from_times!r}, {to_times!r}"
            raise ProgramError(f"times() takes a number of at least 1, or a range such as (2, 4), found ({given}).")
        return self._quantify("times", from_times, last)

    def times_or_more(self, times: int) -> Pattern[T]:
        """Take at least so many events."""
        if not _is_count(times):
            raise ProgramError(f"times_or_more() takes a whole number of at least 0, found {times!r}.")
        return self._quantify("times_or_more", times, None)

    def optional(self) -> Pattern[T]:
        """Allow a match without this stage."""
        stage = self._positive("optional")
        if stage.optional:
            raise ProgramError(f"Stage {stage.name!r} is optional already.")
        return self._refine(optional=True)

    def greedy(self) -> Pattern[T]:
        """Take as many events as possible before the next stage begins. At the end of a pattern it has no effect."""
        stage = self._looping("greedy")
        if stage.group is not None:
            raise ProgramError(f"greedy() does not apply to a group of stages, found {stage.name!r}.")
        if stage.inner is Contiguity.ANY:
            raise ProgramError(
                f"Stage {stage.name!r} cannot be greedy and allow combinations: one takes every event that it accepts,"
                " the other also leaves some out. Remove one of them."
            )
        return self._refine(greedy=True)

    def consecutive(self) -> Pattern[T]:
        """Allow no other event between the events of a loop."""
        return self._inside("consecutive", Contiguity.STRICT)

    def allow_combinations(self) -> Pattern[T]:
        """Let the events of a loop be any of those it accepts, not only the first ones."""
        if self._looping("allow_combinations").greedy:
            raise ProgramError(
                f"Stage {self.stages[-1].name!r} cannot be greedy and allow combinations: one takes every event that it"
                " accepts, the other also leaves some out. Remove one of them."
            )
        return self._inside("allow_combinations", Contiguity.ANY)

    # ----------------------------------------------------------------------------------------------------------- time

    def within(
        self,
        window_time: Duration | Time | timedelta,
        within_type: WithinType = WithinType.FIRST_AND_LAST,
    ) -> Pattern[T]:
        """Limit the time between the first and the last event, or between the event before and that of this stage.

        Of several limits for the whole match, the shortest counts.
        """
        length: Duration | Time
        if isinstance(window_time, timedelta):
            length = Duration.of_millis(round(window_time.total_seconds() * 1000))
        else:
            length = window_time
        window_ms = positive_ms(length, "The time of within()")
        if within_type is WithinType.PREVIOUS_AND_CURRENT:
            if len(self.stages) == 1 and not self._last("within").quantified:
                raise ProgramError("within() since the event before needs an event before, found the first stage only.")
            return self._refine(window_ms=window_ms)
        shortest = window_ms if self.within_ms is None else min(window_ms, self.within_ms)
        return replace(self, within_ms=shortest)

    # --------------------------------------------------------------------------------------------------------- reading

    def names(self) -> list[str]:
        """Return the names of all stages that take events, in order."""
        return [stage.name for stage in all_stages(self.stages) if stage.absence is None and stage.group is None]

    def __str__(self) -> str:
        text = described(self.stages)
        if self.within_ms is not None:
            text += f", within {Duration.of_millis(self.within_ms)}"
        return text + (f" ({self.skip_strategy!r})" if self.skip_strategy.skips else "")

    # ---------------------------------------------------------------------------------------------------------- inside

    def _append(
        self, method: str, name: str | Pattern[T], contiguity: Contiguity, absence: Absence | None = None
    ) -> Pattern[T]:
        if isinstance(name, Pattern):
            if absence is not None:
                raise ProgramError(f"{method}() takes the name of a single stage, found a group of stages.")
            return self._append_group(method, name, contiguity)
        if not name or type(name) is not str:
            raise ProgramError(f"{method}() takes a name, a text that is not empty, found {name!r}.")
        self._check_new(method, [name])
        return replace(self, stages=(*self.stages, PatternStage(name, contiguity, absence)))

    def _append_group(self, method: str, group: Pattern[T], contiguity: Contiguity) -> Pattern[T]:
        if group.skip_strategy.skips:
            raise ProgramError(
                f"{method}() found a group with the skip strategy {group.skip_strategy!r}, but matches are those of the"
                " whole pattern. Pass the strategy to the begin() of the whole pattern."
            )
        self._check_new(method, [stage.name for stage in all_stages(group.stages)])
        limits = [limit for limit in (self.within_ms, group.within_ms) if limit is not None]
        number = sum(stage.group is not None for stage in self.stages) + 1
        stage = PatternStage(f"group {number}", contiguity, group=group.stages)
        return replace(self, stages=(*self.stages, stage), within_ms=min(limits, default=None))

    def _check_new(self, method: str, names: list[str]) -> None:
        known = {stage.name for stage in all_stages(self.stages) if stage.group is None}
        for name in names:
            if name in known:
                raise ProgramError(
                    f"{method}() found the name {name!r} a second time in the pattern. Matches list their events by"
                    " name: give each stage its own."
                )

    def _last(self, method: str) -> PatternStage:
        if not self.stages:
            raise ProgramError(f"{method}() needs a stage. Start the pattern with Pattern.begin(name).")
        return self.stages[-1]

    def _single(self, method: str) -> PatternStage:
        stage = self._last(method)
        if stage.group is not None:
            raise ProgramError(f"{method}() applies to a single stage, found a group. Use it inside of the group.")
        return stage

    def _positive(self, method: str) -> PatternStage:
        stage = self._last(method)
        if stage.absence is not None:
            raise ProgramError(
                f"{method}() does not apply to stage {stage.name!r}, whose event must not come: it takes no events."
            )
        return stage

    def _looping(self, method: str) -> PatternStage:
        stage = self._positive(method)
        if not stage.quantified:
            raise ProgramError(
                f"{method}() applies to a stage that takes several events, but {stage.name!r} takes one. Call"
                " one_or_more(), times() or times_or_more() first."
            )
        return stage

    def _inside(self, method: str, inner: Contiguity) -> Pattern[T]:
        stage = self._looping(method)
        if stage.inner is not None:
            raise ProgramError(
                f"{method}() found that the contiguity inside of stage {stage.name!r} is {stage.inner.value} already."
                " Call consecutive() or allow_combinations() once."
            )
        return self._refine(inner=inner)

    def _quantify(self, method: str, minimum: int, maximum: int | None) -> Pattern[T]:
        stage = self._positive(method)
        if stage.quantified:
            raise ProgramError(
                f"{method}() found that stage {stage.name!r} has a quantifier already. Put it into a group to repeat it"
                " as a whole: Pattern.begin(Pattern.begin(...)).times(...)."
            )
        if stage.optional:
            raise ProgramError(f"{method}() comes before optional(), found it behind, for stage {stage.name!r}.")
        if stage.group is not None and all(inner.may_be_empty for inner in stage.group) and maximum != 1:
            raise ProgramError(
                f"{method}() found a group in which every stage is optional: repeating nothing has no end. Make a stage"
                " of the group mandatory."
            )
        return self._refine(
            minimum=max(minimum, 1), maximum=maximum, quantified=True, optional=minimum == 0
        )

    def _refine(self, **changes: Any) -> Pattern[T]:
        last = self._last("within")
        return replace(self, stages=(*self.stages[:-1], replace(last, **changes)))


def all_stages(stages: tuple[PatternStage, ...]) -> Iterator[PatternStage]:
    """Yield the stages and those of their groups, in order."""
    for stage in stages:
        yield stage
        if stage.group is not None:
            yield from all_stages(stage.group)


def check_pattern(pattern: object) -> None:
    """Refuse what is no pattern, and a skip strategy that does not belong to it."""
    if not isinstance(pattern, Pattern) or not pattern.stages:
        raise ProgramError(f"A pattern starts with Pattern.begin(name), found {pattern!r}.")
    name = pattern.skip_strategy.pattern_name
    if name is not None and name not in pattern.names():
        raise ProgramError(
            f"The skip strategy {pattern.skip_strategy!r} names a stage that the pattern does not have. It has"
            f" {', '.join(map(repr, pattern.names()))}."
        )


_WORDS = {Contiguity.STRICT: "next", Contiguity.RELAXED: "followed by", Contiguity.ANY: "followed by any"}
_INSIDE = {Contiguity.STRICT: "consecutive", Contiguity.ANY: "combinations", Contiguity.RELAXED: "", None: ""}


def described(stages: tuple[PatternStage, ...]) -> str:
    """Return stages in words."""
    parts = []
    for index, stage in enumerate(stages):
        link = stage.absence.value if stage.absence is not None else _WORDS[stage.contiguity]
        parts.append((f"{link} " if index else "") + _described_stage(stage))
    return ", ".join(parts)


def _described_stage(stage: PatternStage) -> str:
    text = stage.name if stage.group is None else f"({described(stage.group)})"
    if stage.quantified:
        if stage.maximum is None:
            text += f" {{{stage.minimum}+}}"
        elif stage.maximum == stage.minimum:
            text += f" {{{stage.minimum}}}"
        else:
            text += f" {{{stage.minimum},{stage.maximum}}}"
    words = [
        "optional" * stage.optional,
        "greedy" * stage.greedy,
        _INSIDE[stage.inner],
        "until" * (stage.until is not None),
        f"since the event before {Duration.of_millis(stage.window_ms)}" if stage.window_ms is not None else "",
    ]
    said = " ".join(word for word in words if word)
    return f"{text} [{said}]" if said else text


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0
