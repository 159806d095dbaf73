"""Explains what became of partial matches: how far each came, what turned the next event away, when it times out.

The explanation runs the same matcher as a job, event by event. Between two events it asks each condition of each open
partial match on its own, so that a job does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flott.cep._automaton.automaton import Automaton, Ending, compile_pattern
from flott.cep._automaton.drawing import draw
from flott.cep._automaton.matcher import Matcher, Matches, WaitState
from flott.cep._automaton.moves import FAR, Found, Move, Node, PathContext, nodes_of
from flott.cep._conditions import AllOf, AnyOf, Test, context_call, label_of
from flott.cep._pattern import Pattern

#: So many events that were turned away are listed of a partial match, the last ones.
SHOWN = 5


@dataclass(frozen=True)
class RefusedEvent:
    """An event that did not continue a partial match."""

    event: int  #: its place in the input, from 1
    value: Any
    stage: str  #: the stage that it was tried for
    reason: str


@dataclass(frozen=True)
class Attempt:
    """A partial match and what became of it."""

    match: dict[str, list[Any]]  #: the events that it took
    started: int  #: the time of its first event
    waits_for: tuple[str, ...]  #: what would continue it
    fate: str  #: "open", "timed out", "ended", "went on", "discarded"
    because: str  #: why, in words
    times_out: int | None  #: the time until which it can go on; None: without end
    refusals: tuple[RefusedEvent, ...]

    @property
    def length(self) -> int:
        """Return how many events it took."""
        return sum(map(len, self.match.values()))


@dataclass(frozen=True)
class Explanation:
    """What a pattern found in events, and what it did not find. ``str`` gives it as text."""

    pattern: Pattern[Any]
    automaton: Automaton
    events: int
    matches: tuple[dict[str, list[Any]], ...]
    attempts: tuple[Attempt, ...]
    unstarted: tuple[RefusedEvent, ...]  #: events that started no partial match
    standing: tuple[int, ...] = field(default=())  #: how many partial matches stand at each junction

    def nearest(self) -> Attempt | None:
        """Return the attempt that came furthest without becoming a match."""
        failed = [attempt for attempt in self.attempts if attempt.fate != "went on"]
        return max(failed, key=lambda attempt: attempt.length, default=None)

    def svg(self) -> str:
        """Return a drawing of the automaton, with the number of partial matches that stand at each place."""
        return draw(self.automaton, self.standing)

    def __str__(self) -> str:
        lines = [f"Pattern: {self.pattern}", f"{self.events} events, {len(self.matches)} matches"]
        lines += [f"  match: {_listed(match)}" for match in self.matches]
        for number, attempt in enumerate(self.attempts, 1):
            lines += ["", f"Partial match {number}: {_listed(attempt.match)}"]
            lines += [f"  waits for {waited}" for waited in attempt.waits_for]
            left_out = len(attempt.refusals) - SHOWN
            if left_out > 0:
                lines.append(f"  {left_out} earlier events were turned away")
            for refusal in attempt.refusals[-SHOWN:]:
                lines.append(f"  event {refusal.event}, {refusal.value!r}, is not {refusal.stage}: {refusal.reason}")
            lines.append(f"  {attempt.fate}: {attempt.because}")
        if not self.attempts and self.unstarted:
            lines += ["", "No event started a partial match."]
            for refusal in self.unstarted[-SHOWN:]:
                lines.append(f"  event {refusal.event}, {refusal.value!r}, is not {refusal.stage}: {refusal.reason}")
        return "\n".join(lines)


def explain(
    pattern: Pattern[Any],
    events: Iterable[Any],
    timestamps: Iterable[int] | None = None,
    until: int | None = None,
) -> Explanation:
    """Explain what a pattern does with the events of one key, in the order of time.

    Without timestamps, events come one millisecond after the other. ``until`` is the time that has come at the end.

    >>> small_then_large = Pattern.begin("small").where(lambda n: n < 10).next("large").where(lambda n: n > 500)
    >>> explain(small_then_large, [3, 700, 4, 50]).nearest().because
    'event 4, 50, is not large, and no event may come between'
    """
    values = list(events)
    stamps = list(range(len(values))) if timestamps is None else list(timestamps)
    arrivals = sorted(zip(stamps, values, strict=True), key=lambda arrival: arrival[0])
    witness = Witness(Matcher(compile_pattern(pattern)))
    for timestamp, value in arrivals:
        witness.see(timestamp, value)
    if until is not None:
        witness.advance(until)
    return witness.explanation(pattern)


@dataclass
class _Trail:
    """What is known of a partial match so far."""

    node: Node
    state: WaitState
    order: int
    refusals: list[RefusedEvent] = field(default_factory=list)
    fate: str = "open"
    because: str = ""
    went_on: bool = False


class Witness:
    """Runs a matcher and writes down what happens to each partial match."""

    def __init__(self, matcher: Matcher, held: Matches | None = None):
        self._matcher = matcher
        self._held = Matches() if held is None else held
        self._trails: dict[int, _Trail] = {}
        self._found: list[Found] = []
        self._unstarted: list[RefusedEvent] = []
        self._number = 0
        self._note_open()

    def see(self, timestamp: int, value: Any) -> None:
        """Process an event."""
        self.advance(timestamp)
        self._number += 1
        judged = {ident: self._judge(trail, timestamp, value) for ident, trail in self._open()}
        self._judge_start(timestamp, value)
        before, numbers = dict(self._open()), len(self._found)
        self._matcher.feed(self._held, [(timestamp, value)], self._found, [])
        self._note_open()
        standing = {id(node) for _, _, node in _standing(self._held)}
        grown = {id(node[2]) for _, _, node in _standing(self._held)}
        for _, node in [*self._found[numbers:], *((0, node) for _, node in self._held.waiting)]:
            grown |= {id(node), id(node[2])}
        for ident, trail in before.items():
            taken, refusals = judged[ident]
            trail.refusals += refusals
            trail.went_on = trail.went_on or ident in grown
            if ident not in standing:
                self._settle(trail, taken, refusals)

    def _settle(self, trail: _Trail, taken: bool, refusals: list[RefusedEvent]) -> None:
        if trail.went_on:
            trail.fate, trail.because = "went on", f"it took event {self._number}" if taken else "it is a match"
        elif taken:
            trail.fate, trail.because = "discarded", f"by the skip strategy {self._matcher.automaton.skip_strategy!r}"
        elif refusals:
            last = refusals[-1]
            trail.fate = "ended"
            trail.because = f"event {last.event}, {last.value!r}, is not {last.stage}, {last.reason}"
            if last.reason.startswith("no event may"):
                trail.because = trail.because.replace(f"{last.stage}, ", f"{last.stage}, and ")
            trail.refusals.remove(last)
        else:
            trail.fate, trail.because = "discarded", f"by the skip strategy {self._matcher.automaton.skip_strategy!r}"

    def advance(self, time: int) -> None:
        """Let time pass."""
        if self._held.deadline > time:
            return
        before = dict(self._open())
        over: list[Found] = []
        self._matcher.expire(self._held, time, self._found, over)
        for deadline, node in over:
            trail = self._trails[id(node)]
            trail.fate, trail.because = "timed out", f"at {deadline} ms"
        standing = {id(node) for _, _, node in _standing(self._held)}
        for ident, trail in before.items():
            if ident not in standing and trail.fate == "open":
                trail.fate, trail.because, trail.went_on = "went on", "it is a match", True
        self._note_open()

    def _open(self) -> list[tuple[int, _Trail]]:
        return [(ident, trail) for ident, trail in self._trails.items() if trail.fate == "open"]

    def _note_open(self) -> None:
        for state, _, node in _standing(self._held):
            trail = self._trails.get(id(node))
            if trail is None:
                self._trails[id(node)] = _Trail(node, state, len(self._trails))
            else:
                trail.state = state

    def _judge(self, trail: _Trail, timestamp: int, value: Any) -> tuple[bool, list[RefusedEvent]]:
        """Return whether an option takes an event, and why the others do not."""
        context = self._matcher.context
        context.node, context.time = trail.node, timestamp
        taken, refusals = False, []
        for move in trail.state.moves:
            reason = refusal_of(self._matcher, move, trail.state.fresh, value, context)
            taken = taken or reason is None
            if reason is not None:
                refusals.append(RefusedEvent(self._number, value, _stage(self._matcher, move), reason))
        return taken, refusals

    def _judge_start(self, timestamp: int, value: Any) -> None:
        context = self._matcher.context
        context.node, context.time = None, timestamp
        for move in self._matcher.moves[0]:
            reason = refusal_of(self._matcher, move, True, value, context, first=True)
            if reason is not None:
                self._unstarted.append(RefusedEvent(self._number, value, _stage(self._matcher, move), reason))

    def explanation(self, pattern: Pattern[Any]) -> Explanation:
        """Return what was seen."""
        matcher = self._matcher
        attempts = [self._attempt(trail) for trail in sorted(self._trails.values(), key=lambda trail: trail.order)]
        standing = [0] * len(matcher.automaton.junctions)
        for state, _, _ in _standing(self._held):
            standing[state.junction] += 1
        return Explanation(
            pattern,
            matcher.automaton,
            self._number,
            tuple(matcher.match_of(node) for _, node in self._found),
            tuple(attempts),
            tuple(self._unstarted),
            tuple(standing),
        )

    def _attempt(self, trail: _Trail) -> Attempt:
        matcher, state = self._matcher, trail.state
        first = nodes_of(trail.node)[-1][0][1]
        limits = [first + matcher.within_ms] if matcher.within_ms is not None else []
        if state.patience_ms is not None and all(move.window_ms is not None for move in state.moves):
            limits.append(trail.node[0][1] + max(move.window_ms or 0 for move in state.moves))
        times_out = min(limits, default=FAR)
        because = trail.because
        if trail.fate == "open":
            because = "without a limit of time" if times_out == FAR else f"until {times_out} ms"
        return Attempt(
            matcher.match_of(trail.node),
            first,
            tuple(_waited(matcher, move) for move in state.moves),
            trail.fate,
            because,
            None if times_out == FAR else times_out,
            tuple(trail.refusals),
        )


def _standing(held: Matches) -> Iterable[tuple[WaitState, int, Node]]:
    for state, group in held.groups.items():
        for start, nodes in group.items():
            for node in nodes:
                yield state, start, node


def _stage(matcher: Matcher, move: Move) -> str:
    return "the end" if move.position < 0 else matcher.automaton.positions[move.position].label


def _waited(matcher: Matcher, move: Move) -> str:
    if move.ending is Ending.AT_TIMEOUT:
        return "the end of its time, without the event that must not come"
    if move.ending is Ending.BEHIND_NEXT:
        return "the next event, which must not be the one that must not come"
    position = matcher.automaton.positions[move.position]
    return f"{position.label}, {move.option.contiguity.value}: {label_of(position.test)}"


def refusal_of(
    matcher: Matcher, move: Move, fresh: bool, value: Any, context: PathContext, first: bool = False
) -> str | None:
    """Return why an option does not take an event; None if it does."""
    node = context.node
    if move.window_ms is not None and node is not None and context.time - node[0][1] >= move.window_ms:
        return f"it comes {context.time - node[0][1]} ms after the event before, and {move.window_ms} ms are the limit"
    for bar in move.option.bars:
        if (fresh or not bar.first_only) and _holds(bar.test, value, context):
            return f"it {bar.reason}: {label_of(bar.test)}"
    if move.ending is Ending.AT_TIMEOUT:
        return "time is not over"
    if move.ending is Ending.BEHIND_NEXT:
        return None
    test = matcher.automaton.positions[move.position].test
    failing = _failing(test, value, context)
    if failing is None:
        return None
    if move.strict and not first:
        return "no event may come between"
    return f"{label_of(failing)} is false"


def _holds(test: Test | None, value: Any, context: PathContext) -> bool:
    call: Callable[[Any, Any], Any] = context_call(test)
    return bool(call(value, context))


def _failing(test: Test | None, value: Any, context: PathContext) -> Test | None:
    """Return the part of a test that is false; None if the test is true."""
    if _holds(test, value, context):
        return None
    if isinstance(test, AllOf):
        parts: Sequence[Test] = test.tests
        return next(part for part in (_failing(part, value, context) for part in parts) if part is not None)
    if isinstance(test, AnyOf):
        return test
    return test


def _listed(match: dict[str, list[Any]]) -> str:
    return ", ".join(f"{name} = {', '.join(map(repr, events))}" for name, events in match.items())
