"""Executes an automaton over the events of one key.

A partial match is a *node*: ``(event, position, node before)``, where an event is ``(number, timestamp, value)``. Nodes
share the nodes before them, so many partial matches of the same beginning cost that beginning once, and what no partial
match refers to is freed by Python's own reference counts. A node has one node before it, so a path is told apart by its
last node and needs no version numbers.

Partial matches that stand at the same junction with the same options are held together, by the event they started with.
An event is tested once for all of them unless a condition asks for the partial match itself. So an event costs the
number of such groups and of the partial matches that it extends, not of those that it leaves alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from flott.cep._automaton.automaton import Automaton, Ending, Junction
from flott.cep._automaton.moves import (
    FAR,
    Event,
    EventVerdict,
    Found,
    Group,
    Move,
    Node,
    PathContext,
    either,
    nodes_of,
    verdict_of,
)
from flott.cep._conditions import simple_call
from flott.cep._skip import SkipKind
from flott.errors import ProgramError


class WaitState:
    """A junction with some of its options: what all partial matches of a group have in common."""

    __slots__ = (
        "_after", "_matcher", "endings", "fresh", "iterative", "junction", "mask", "moves", "patience_ms", "plain",
        "waits_for_time", "watch",
    )  # fmt: skip

    def __init__(self, matcher: Matcher, junction: int, mask: int, fresh: bool):
        self._matcher = matcher
        self.junction = junction
        self.mask = mask
        self.fresh = fresh  #: no event came since the last one that was taken
        self.moves = tuple(move for move in matcher.moves[junction] if move.bit & mask)
        self.iterative = any(move.iterative for move in self.moves)
        self._after: dict[int, WaitState | None] = {}
        only = self.moves[0]
        #: It waits for one thing, whatever else comes: then what it watches for is what it takes.
        self.plain = (
            len(self.moves) == 1
            and not (fresh or self.iterative or only.strict or only.any)
            and only.bars is None
            and only.ending is None
        )
        self.watch = None if fresh or self.iterative else self._watch()
        #: The options that end a match without an event: when one does, the others would give the same match again.
        self.endings = sum(move.bit for move in self.moves if move.ending is not None)
        self.waits_for_time = any(move.ending is Ending.AT_TIMEOUT for move in self.moves)
        #: So long after its last event something may run out; None: nothing does.
        self.patience_ms = min((move.window_ms for move in self.moves if move.window_ms is not None), default=None)

    def _watch(self) -> Callable[[Any], Any]:
        """Return a function that is false for events which leave the partial matches as they are."""
        distinct = {id(test): test for move in self.moves for test in move.tests}
        calls = [simple_call(test) for test in distinct.values()]
        if len(calls) == 2:
            first, second = calls
            return lambda value: first(value) or second(value)
        watch = either(calls)
        assert watch is not None, "a state waits for something, or for the time in which something must not come"
        return watch

    def after(self, mask: int) -> WaitState | None:
        """Return the state behind an event that was not taken, with the options that are left."""
        if mask not in self._after:
            self._after[mask] = self._matcher.state(self.junction, mask, False) if mask else None
        return self._after[mask]

    def after_time(self, mask: int) -> WaitState | None:
        """Return the state with the options that are left when time has passed without an event."""
        return self._matcher.state(self.junction, mask, self.fresh) if mask else None


class Matches:
    """The partial matches of one key."""

    __slots__ = ("changed", "deadline", "groups", "next_number", "starts", "waiting")

    def __init__(self) -> None:
        self.groups: dict[WaitState, Group] = {}
        self.starts: deque[tuple[int, int]] = deque()  #: number and time of the events they started with
        self.waiting: list[tuple[int, Node]] = []  #: complete, but an earlier partial match may discard them
        self.next_number = 0
        self.deadline = FAR  #: before this time nothing runs out
        self.changed = False  #: since it was read from state

    def __bool__(self) -> bool:
        return bool(self.groups or self.waiting)


class Matcher:
    """An automaton that is ready to run. It holds nothing of a key."""

    def __init__(self, automaton: Automaton):
        self.automaton = automaton
        self.names = tuple(position.name for position in automaton.positions)
        #: By position: its stage, as a number.
        self._ranks = tuple(automaton.stage_names.index(name) for name in self.names)
        self.context = PathContext(self.names)
        self.within_ms = automaton.within_ms
        self._states: dict[tuple[int, int, bool], WaitState] = {}
        self.moves: list[tuple[Move, ...]] = [self._make_moves(junction) for junction in automaton.junctions]
        self._firsts = [self._first_state(index) for index in range(len(automaton.junctions))]
        for move in (move for moves in self.moves for move in moves):
            move.accepting = move.ending is Ending.BEHIND_NEXT
            if move.position >= 0:
                move.target = self._firsts[move.position + 1]
                move.accepting = automaton.junctions[move.position + 1].accepting
        self._timed = any(move.window_ms is not None for moves in self.moves for move in moves)
        self._begin = tuple(move for move in self.moves[0] if move.ending is None)
        self._skips = automaton.skip_strategy.skips
        #: Whether several options lead to one position, so that an event may be taken twice for the same.
        self._ambiguous = any(len({m.position for m in moves}) < len(moves) for moves in self.moves)

    def _make_moves(self, junction: Junction) -> tuple[Move, ...]:
        positions = self.automaton.positions
        return tuple(
            Move(option, 1 << index, None if option.position is None else positions[option.position].test)
            for index, option in enumerate(junction.options)
        )

    def _first_state(self, junction: int) -> WaitState | None:
        """Return the state directly behind an event that was taken."""
        moves = self.moves[junction]
        if not moves:
            return None
        fresh = any(move.strict or move.first_bars or move.ending is Ending.BEHIND_NEXT for move in moves)
        return self.state(junction, (1 << len(moves)) - 1, fresh)

    def state(self, junction: int, mask: int, fresh: bool) -> WaitState:
        """Return a state; equal ones are the same object."""
        key = (junction, mask, fresh)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = WaitState(self, junction, mask, fresh)
        return found

    # --- events -------------------------------------------------------------------------------------------------------

    def feed(
        self, held: Matches, events: Iterable[tuple[int, Any]], found: list[Found], timed_out: list[Found]
    ) -> None:
        """Process events, pairs of timestamp and value in order. Append matches, and partial matches that timed out."""
        groups, begin, skips = held.groups, self._begin, self._skips
        for timestamp, value in events:
            if timestamp >= held.deadline:
                self.expire(held, timestamp, found, timed_out)
            event: Event | None = None
            complete: list[tuple[int, Node]] | None = None
            touched: _Touched | None = None
            for state, group in groups.items():
                watch = state.watch
                if watch is not None and not watch(value):
                    continue
                if touched is None:
                    touched = _Touched()
                if state.plain:
                    touched.left.append(state)
                    touched.taken.append((state.moves[0], group))
                elif state.iterative:
                    self._judge_each(state, group, value, timestamp, touched)
                else:
                    _judge(state, group, value, touched)
            if touched is not None:
                complete = []
                if touched.taken:
                    event = (held.next_number, timestamp, value)
                    held.next_number += 1
                self._apply(held, touched, event, complete)
            for move in begin:
                if self._begins(move, value, timestamp) if move.guarded else move.take(value):
                    if event is None:
                        event = (held.next_number, timestamp, value)
                        held.next_number += 1
                    if complete is None:
                        complete = []
                    self._start(held, move, event, complete)
            if complete:
                self._complete(held, complete, timestamp, found)
            elif skips and held.waiting:
                self._release(held, timestamp, found)
        if not groups:
            held.starts.clear()
            held.deadline = FAR

    def _judge_each(self, state: WaitState, group: Group, value: Any, timestamp: int, touched: _Touched) -> None:
        """Decide about partial matches one by one, because a condition asks for their events or their time."""
        context = self.context
        context.time = timestamp
        parted: dict[int, Group] = {}
        taken: dict[Move, Group] = {}
        for start, nodes in group.items():
            for node in nodes:
                context.node = node
                mask = state.mask
                for move in state.moves:
                    verdict = verdict_of(move, state.fresh, value, context)
                    if verdict is EventVerdict.TAKES:
                        taken.setdefault(move, {}).setdefault(start, []).append(node)
                        if move.ending is not None:
                            mask &= ~state.endings
                    if verdict is not EventVerdict.IGNORES and not (move.any and verdict is EventVerdict.TAKES):
                        mask &= ~move.bit
                parted.setdefault(mask, {}).setdefault(start, []).append(node)
        touched.taken.extend(taken.items())
        if len(parted) > 1 or state.after(*parted) is not state:
            touched.left.append(state)
            touched.kept.extend((new, part) for mask, part in parted.items() if (new := state.after(mask)) is not None)

    def _begins(self, move: Move, value: Any, timestamp: int) -> bool:
        """Return whether an event starts a partial match, for options with more than a simple condition."""
        context = self.context
        context.node, context.time = None, timestamp
        return verdict_of(move, True, value, context) is EventVerdict.TAKES

    def _apply(self, held: Matches, touched: _Touched, event: Event | None, complete: list[tuple[int, Node]]) -> None:
        groups = held.groups
        if touched.left or event is not None:
            held.changed = True
        born: list[tuple[WaitState, int, Node]] = []
        if event is not None:
            for move, group in _unambiguous(touched.taken) if self._ambiguous else touched.taken:
                position, target, accepting = move.position, move.target, move.accepting
                for start, nodes in group.items():
                    for node in nodes:
                        grown: Node = node if position < 0 else (event, position, node)
                        if target is not None:
                            born.append((target, start, grown))
                        if accepting:
                            complete.append((start, grown))
        for state in touched.left:
            del groups[state]
        for state, group in touched.kept:
            _merge(groups, state, group)
        for state, start, node in born:
            self._put(held, state, start, node)

    def _put(self, held: Matches, state: WaitState, start: int, node: Node) -> None:
        group = held.groups.get(state)
        if group is None:
            held.groups[state] = {start: [node]}
        elif start in group:
            group[start].append(node)
        else:
            group[start] = [node]
        if state.patience_ms is not None:
            held.deadline = min(held.deadline, node[0][1] + state.patience_ms)

    def _start(self, held: Matches, move: Move, event: Event, complete: list[tuple[int, Node]]) -> None:
        number, timestamp, _ = event
        node: Node = (event, move.position, None)
        held.changed = True
        if move.target is not None:
            self._put(held, move.target, number, node)
            if self.within_ms is not None and (not held.starts or held.starts[-1][0] != number):
                held.starts.append((number, timestamp))
                held.deadline = min(held.deadline, timestamp + self.within_ms)
        if move.accepting:
            complete.append((number, node))

    # --- time ---------------------------------------------------------------------------------------------------------

    def expire(self, held: Matches, time: int, found: list[Found], timed_out: list[Found]) -> None:
        """End the partial matches whose time is over at a time."""
        held.changed = True
        starts, within_ms = held.starts, self.within_ms
        if within_ms is not None:
            while starts and starts[0][1] + within_ms <= time:
                number, started = starts.popleft()
                if self._timed:
                    self._end_windows(held, started + within_ms, found, timed_out)
                self._end_start(held, number, started + within_ms, found, timed_out)
        if self._timed:
            self._end_windows(held, time, found, timed_out)
        if not held.groups:
            starts.clear()
        held.deadline = self.earliest(held)

    def _end_start(
        self, held: Matches, number: int, deadline: int, found: list[Found], timed_out: list[Found]
    ) -> None:
        """End all partial matches that started with one event."""
        complete: list[tuple[int, Node]] = []
        over: list[Node] = []
        for state in list(held.groups):
            group = held.groups[state]
            nodes = group.pop(number, None)
            if nodes is None:
                continue
            if not group:
                del held.groups[state]
            if state.waits_for_time:
                complete += [(number, node) for node in nodes]
            else:
                over += nodes
        timed_out += [(deadline, node) for _, node in self._distinct([(number, node) for node in over])]
        if complete:
            self._complete(held, complete, deadline, found)
        elif held.waiting:
            self._release(held, deadline, found)

    def _end_windows(self, held: Matches, time: int, found: list[Found], timed_out: list[Found]) -> None:
        """End what has waited too long since its last event."""
        due: dict[int, list[tuple[WaitState, int, Node]]] = {}
        for state, group in held.groups.items():
            if state.patience_ms is not None:
                for start, nodes in group.items():
                    for node in nodes:
                        if (deadline := node[0][1] + state.patience_ms) <= time:
                            due.setdefault(deadline, []).append((state, start, node))
        for deadline in sorted(due):
            complete: list[tuple[int, Node]] = []
            for state, start, node in due[deadline]:
                if not any(other is node for other in held.groups.get(state, {}).get(start, ())):
                    continue  # a match has discarded it
                self._discard(held, state, start, node)
                mask = state.mask
                for move in state.moves:
                    if move.window_ms is not None and node[0][1] + move.window_ms <= deadline:
                        mask &= ~move.bit
                        if move.ending is Ending.AT_TIMEOUT:
                            complete.append((start, node))
                            mask &= ~state.endings
                left = state.after_time(mask)
                if left is not None:
                    self._put(held, left, start, node)
                elif not complete or complete[-1][1] is not node:
                    timed_out.append((deadline, node))
            if complete:
                self._complete(held, complete, deadline, found)
            elif held.waiting:
                self._release(held, deadline, found)

    @staticmethod
    def _discard(held: Matches, state: WaitState, start: int, node: Node) -> None:
        group = held.groups[state]
        group[start] = [other for other in group[start] if other is not node]
        if not group[start]:
            del group[start]
            if not group:
                del held.groups[state]

    def earliest(self, held: Matches) -> int:
        """Return the time before which nothing runs out."""
        earliest = FAR
        if held.starts and self.within_ms is not None:
            earliest = held.starts[0][1] + self.within_ms
        if self._timed:
            for state, group in held.groups.items():
                if state.patience_ms is not None:
                    times = (node[0][1] for nodes in group.values() for node in nodes)
                    earliest = min(earliest, min(times) + state.patience_ms)
        return earliest

    # --- matches ------------------------------------------------------------------------------------------------------

    def _complete(
        self, held: Matches, complete: list[tuple[int, Node]], timestamp: int, found: list[Found]
    ) -> None:
        """Take note of matches; those of one event come in the order of their events."""
        if len(complete) > 1:
            complete = self._distinct(complete)
        if not self._skips:
            found += [(timestamp, node) for _, node in complete]
            return
        held.waiting += complete
        held.waiting.sort(key=lambda match: match[0])  # stable: of one start, those that were complete first
        self._release(held, timestamp, found)

    def _distinct(self, paths: list[tuple[int, Node]]) -> list[tuple[int, Node]]:
        """Return paths in the order of their events; one of those with the same events under the same names.

        The repetitions of a group may be counted in several ways over the same events.
        """
        if len(paths) < 2:
            return paths
        ranks = self._ranks
        found: dict[tuple[tuple[int, int], ...], tuple[int, Node]] = {}
        for path in paths:
            key = tuple((event[0], ranks[position]) for event, position, _ in reversed(nodes_of(path[1])))
            found.setdefault(key, path)
        return [found[key] for key in sorted(found)]

    def _release(self, held: Matches, timestamp: int, found: list[Found]) -> None:
        """Emit the matches that no partial match with an earlier start can discard any more."""
        waiting = held.waiting
        while waiting:
            start, node = waiting[0]
            if any(min(group) < start for group in held.groups.values()):
                return
            del waiting[0]
            held.changed = True
            found.append((timestamp, node))
            self._skip(held, start, node)

    def _skip(self, held: Matches, start: int, node: Node) -> None:
        """Discard what a match leaves no room for, by the skip strategy."""
        match self.automaton.skip_strategy.kind:
            case SkipKind.TO_NEXT:
                limit: int | None = start
            case SkipKind.PAST_LAST_EVENT:
                limit = node[0][0]
            case _:
                named = self._skip_target(start, node)
                limit = None if named is None else named - 1  # what starts with that event stays
        if limit is None:
            return
        for state in list(held.groups):
            group = held.groups[state]
            for number in [number for number in group if number <= limit]:
                del group[number]
            if not group:
                del held.groups[state]
        held.waiting[:] = [match for match in held.waiting if match[0] > limit]

    def _skip_target(self, start: int, node: Node) -> int | None:
        strategy = self.automaton.skip_strategy
        numbers = [event[0] for event, position, _ in reversed(nodes_of(node))
                   if self.names[position] == strategy.pattern_name]  # fmt: skip
        target = (numbers[0] if strategy.kind is SkipKind.TO_FIRST else numbers[-1]) if numbers else None
        if strategy.throws_on_miss:
            if target is None:
                raise ProgramError(
                    f"The skip strategy {strategy!r} found no event of that name in the match"
                    f" {self.match_of(node)!r}. Leave out throw_exception_on_miss() to skip nothing then."
                )
            if target == start:
                raise ProgramError(
                    f"The skip strategy {strategy!r} would skip to the event that the match {self.match_of(node)!r}"
                    " starts with. Skip to another stage."
                )
        return target

    def match_of(self, node: Node) -> dict[str, list[Any]]:
        """Return the events of a path by the names of their stages."""
        names = self.names
        found: dict[str, list[Any]] = {}
        for event, position, _ in reversed(nodes_of(node)):
            name = names[position]
            if name in found:
                found[name].append(event[2])
            else:
                found[name] = [event[2]]
        return found


class _Touched:
    """What an event does to the groups."""

    __slots__ = ("kept", "left", "taken")

    def __init__(self) -> None:
        self.taken: list[tuple[Move, Group]] = []  #: these partial matches take the event
        self.left: list[WaitState] = []  #: these groups are no longer what they were
        self.kept: list[tuple[WaitState, Group]] = []  #: what becomes of them


def _judge(state: WaitState, group: Group, value: Any, touched: _Touched) -> None:
    """Decide about all partial matches of a group at once."""
    mask, fresh = state.mask, state.fresh
    for move in state.moves:
        if (move.bars is not None and move.bars(value)) or (
            fresh and move.first_bars is not None and move.first_bars(value)
        ):
            mask &= ~move.bit
        elif move.ending is not None:
            if move.ending is Ending.BEHIND_NEXT:
                touched.taken.append((move, group))
                mask &= ~state.endings
        elif move.take(value):
            touched.taken.append((move, group))
            if not move.any:
                mask &= ~move.bit
        elif move.strict:
            mask &= ~move.bit
    left = state.after(mask)
    if left is not state:
        touched.left.append(state)
        if left is not None:
            touched.kept.append((left, group))


def _unambiguous(taken: list[tuple[Move, Group]]) -> list[tuple[Move, Group]]:
    """Return who takes an event, without those that take it for the same position twice."""
    seen: set[tuple[int, int]] = set()
    found = []
    for move, group in taken:
        rest: Group = {}
        for start, nodes in group.items():
            for node in nodes:
                if (id(node), move.position) not in seen:
                    seen.add((id(node), move.position))
                    rest.setdefault(start, []).append(node)
        found.append((move, rest))
    return found


def _merge(groups: dict[WaitState, Group], state: WaitState, group: Group) -> None:
    there = groups.get(state)
    if there is None:
        groups[state] = group
        return
    for start, nodes in group.items():
        there[start] = there[start] + nodes if start in there else nodes
