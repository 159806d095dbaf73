"""A model of patterns: all words of a pattern, tried on all places of a stream. It shares no code with the automaton.

A word lists the events that a match takes and what lies between them. All words of a pattern with at most as many
events as the stream has are tried on every choice of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flott.cep._conditions import AllOf, AnyOf, Leaf, OfType
from flott.cep._pattern import Absence, Contiguity, Pattern, PatternStage
from flott.cep._skip import SkipKind

#: (timestamp, value)
Event = tuple[int, Any]
#: (name of the stage, index of the event)
Path = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Take:
    stage: PatternStage
    contiguity: Contiguity
    first: bool = False  #: the first event of its group or stage, whose contiguity an outer one replaces


@dataclass(frozen=True)
class Never:
    """Between the takes around it, no event fulfils the test: with ``next``, the first event does not."""

    stage: PatternStage
    next: bool = False
    greedy: bool = False


Word = tuple[Take | Never, ...]


def words(stages: tuple[PatternStage, ...], most: int) -> Iterator[Word]:
    """Yield all words of stages with at most so many events."""
    if not stages:
        yield ()
        return
    for first in _words_of_stage(stages[0], most):
        used = sum(isinstance(item, Take) for item in first)
        for rest in words(stages[1:], most - used):
            yield first + rest


def _words_of_stage(stage: PatternStage, most: int) -> Iterator[Word]:
    if stage.absence is not None:
        yield (Never(stage, next=stage.absence is Absence.NEXT),)
        return
    behind: Word = (Never(stage, greedy=True),) if stage.greedy else ()
    if stage.optional:
        yield behind
    highest = most if stage.maximum is None else stage.maximum  # a group may be empty
    for count in range(stage.minimum, highest + 1):
        for repeated in _repeated(stage, count, most):
            yield repeated + (behind if count != stage.maximum else ())


def _repeated(stage: PatternStage, count: int, most: int) -> Iterator[Word]:
    inner = stage.inner or Contiguity.RELAXED
    if stage.group is None:
        if count <= most:
            yield (Take(stage, stage.contiguity, True), *(Take(stage, inner, True) for _ in range(count - 1)))
        return
    yield from _products(stage, [stage.contiguity] + [inner] * (count - 1), most)


def _products(stage: PatternStage, contiguities: list[Contiguity], most: int) -> Iterator[Word]:
    if not contiguities:
        yield ()
        return
    assert stage.group is not None
    for word in words(stage.group, most):
        used = sum(isinstance(item, Take) for item in word)
        changed = word
        if word and isinstance(word[0], Take):
            took_first_stage = _belongs(stage.group[0], word[0].stage)
            if took_first_stage:
                changed = (Take(word[0].stage, contiguities[0], True), *word[1:])
        for rest in _products(stage, contiguities[1:], most - used):
            yield changed + rest


def _belongs(stage: PatternStage, member: PatternStage) -> bool:
    if stage.group is not None:
        return _belongs(stage.group[0], member)
    return stage is member or stage == member


@dataclass(frozen=True)
class Found:
    path: Path
    complete: int  #: the time at which the match is complete
    moment: tuple[int, int]  #: the event which completes it, and 1; or before which time completes it, and 0


def all_matches(pattern: Pattern[Any], events: list[Event], end_of_time: bool = True) -> list[Found]:
    """Return all matches of a pattern, without a skip strategy, in the order in which they are found."""
    found: dict[Path, Found] = {}
    for word in dict.fromkeys(words(pattern.stages, len(events))):
        for match in _matches_of_word(word, pattern, events, end_of_time):
            known = found.get(match.path)
            if known is None or match.moment < known.moment:  # the same events are one match
                found[match.path] = match
    names = {name: index for index, name in enumerate(pattern.names())}

    def order(match: Found) -> Any:
        return match.moment, match.complete, [(index, names[name]) for name, index in match.path]

    return sorted(found.values(), key=order)


def _matches_of_word(word: Word, pattern: Pattern[Any], events: list[Event], end_of_time: bool) -> Iterator[Found]:
    takes = [index for index, item in enumerate(word) if isinstance(item, Take)]
    if not takes:
        return

    def extend(number: int, path: Path) -> Iterator[Found]:
        if number == len(takes):
            yield from _ended(word[takes[-1] + 1 :], path, pattern, events, end_of_time)
            return
        take = word[takes[number]]
        assert isinstance(take, Take)
        between = word[takes[number - 1] + 1 if number else 0 : takes[number]]
        last = path[-1][1] if path else -1
        for index in range(last + 1, len(events)):
            if _fits(take, between, path, index, pattern, events):
                yield from extend(number + 1, (*path, (take.stage.name, index)))

    yield from extend(0, ())


def _fits(
    take: Take, between: Word, path: Path, index: int, pattern: Pattern[Any], events: list[Event]
) -> bool:
    stage, last = take.stage, path[-1][1] if path else index - 1
    if not _holds(stage.test, path, index, events):
        return False
    for passed in range(last + 1, index + 1):
        if stage.until is not None and _holds(stage.until, path, passed, events):
            return False
        for item in between:
            assert isinstance(item, Never)
            if (not item.next or passed == last + 1) and _holds(item.stage.test, path, passed, events):
                return False
    if path:
        if take.contiguity is Contiguity.STRICT and index != last + 1:
            return False
        if take.contiguity is Contiguity.RELAXED and any(
            _holds(stage.test, path, passed, events) for passed in range(last + 1, index)
        ):
            return False
        if stage.window_ms is not None and events[index][0] - events[last][0] >= stage.window_ms:
            return False
        if pattern.within_ms is not None and events[index][0] - events[path[0][1]][0] >= pattern.within_ms:
            return False
    return True


def _ended(
    behind: Word, path: Path, pattern: Pattern[Any], events: list[Event], end_of_time: bool
) -> Iterator[Found]:
    last = path[-1][1]
    nots = [item for item in behind if isinstance(item, Never) and not item.greedy]
    if not nots:
        yield Found(path, events[last][0], (last, 1))
        return
    deadline = None if pattern.within_ms is None else events[path[0][1]][0] + pattern.within_ms
    if any(not item.next for item in nots):
        windows = [item.stage.window_ms for item in nots if not item.next and item.stage.window_ms is not None]
        if windows:
            own = events[last][0] + windows[-1]
            deadline = own if deadline is None else min(own, deadline)
        assert deadline is not None
        coming = [index for index in range(last + 1, len(events)) if events[index][0] < deadline]
        for index in coming:
            for item in nots:
                if (not item.next or index == last + 1) and _holds(item.stage.test, path, index, events):
                    return
        if end_of_time or any(time >= deadline for time, _ in events):
            before = next((index for index, (time, _) in enumerate(events) if time >= deadline), len(events))
            yield Found(path, deadline, (before, 0))
        return
    follower = last + 1
    if follower < len(events) and (deadline is None or events[follower][0] < deadline):  # noqa: SIM102
        if not any(_holds(item.stage.test, path, follower, events) for item in nots):
            yield Found(path, events[follower][0], (follower, 1))


class _Context:
    def __init__(self, path: Path, index: int, events: list[Event]):
        self._path, self._index, self._events = path, index, events

    def get_events_for_pattern(self, name: str) -> list[Any]:
        return [self._events[index][1] for known, index in self._path if known == name]

    def timestamp(self) -> int:
        return self._events[self._index][0]


def _holds(test: Any, path: Path, index: int, events: list[Event]) -> bool:
    value = events[index][1]
    match test:
        case None:
            return True
        case Leaf(function=function, iterative=iterative):
            call: Callable[..., Any] = function
            return bool(call(value, _Context(path, index, events)) if iterative else call(value))
        case OfType(record_class=record_class):
            return isinstance(value, record_class)
        case AllOf(tests):
            return all(_holds(part, path, index, events) for part in tests)
        case AnyOf(tests):
            return any(_holds(part, path, index, events) for part in tests)
    raise AssertionError(test)


def skipped(pattern: Pattern[Any], matches: list[Found]) -> list[Path]:
    """Return what a skip strategy leaves of all matches, if all partial matches have come to an end."""
    strategy, kept = pattern.skip_strategy, []
    limit = -1
    for match in sorted(matches, key=lambda match: match.path[0][1]):  # stable: those complete first come first
        start = match.path[0][1]
        if start <= limit:
            continue
        kept.append(match.path)
        named = [index for name, index in match.path if name == strategy.pattern_name]
        match strategy.kind:
            case SkipKind.TO_NEXT:
                limit = max(limit, start)
            case SkipKind.PAST_LAST_EVENT:
                limit = max(limit, match.path[-1][1])
            case SkipKind.TO_FIRST if named:
                limit = max(limit, named[0] - 1)
            case SkipKind.TO_LAST if named:
                limit = max(limit, named[-1] - 1)
    return kept
