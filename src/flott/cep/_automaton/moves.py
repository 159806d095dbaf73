"""What an event may be to a partial match: options with their conditions as callables, and the verdict on an event."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from flott.cep._automaton.automaton import Ending, Option
from flott.cep._conditions import IterativeCondition, Test, context_call, is_iterative, simple_call
from flott.cep._pattern import Contiguity
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.cep._automaton.matcher import WaitState

#: (number, timestamp, value)
Event: TypeAlias = tuple[int, int, Any]
#: (event, position, node before or None)
Node: TypeAlias = tuple[Event, int, Any]
#: Partial matches, by the number of the event they started with.
Group: TypeAlias = dict[int, list[Node]]
#: A time and the last node of a path.
Found: TypeAlias = tuple[int, Node]

#: A time that never comes.
FAR = 1 << 63


class PathContext(IterativeCondition.Context[Any]):
    """What an iterative condition sees. One object per matcher: its fields are set before each call."""

    __slots__ = ("_names", "node", "now_ms", "time")

    def __init__(self, names: tuple[str, ...]):
        self._names = names
        self.node: Node | None = None
        self.time = 0
        self.now_ms = 0

    def get_events_for_pattern(self, name: str) -> list[Any]:
        names, node, found = self._names, self.node, []
        while node is not None:
            if names[node[1]] == name:
                found.append(node[0][2])
            node = node[2]
        if not found and name not in names:
            raise ProgramError(
                f"A condition asks for the events of {name!r}, but the pattern has no such stage. It has"
                f" {', '.join(map(repr, dict.fromkeys(names)))}."
            )
        found.reverse()
        return found

    def timestamp(self) -> int:
        return self.time

    def current_processing_time(self) -> int:
        return self.now_ms


class Move:
    """An option with its conditions as callables."""

    __slots__ = (
        "accepting", "any", "bars", "bit", "ending", "first_bars", "guarded", "iterative", "option", "position",
        "strict", "take", "target", "tests", "window_ms",
    )  # fmt: skip

    def __init__(self, option: Option, bit: int, test: Test | None):
        self.option = option
        self.bit = bit
        self.position = -1 if option.position is None else option.position
        self.ending = option.ending
        self.strict = option.contiguity is Contiguity.STRICT
        self.any = option.contiguity is Contiguity.ANY
        self.window_ms = option.window_ms
        #: The tests that concern every event.
        self.tests = (
            *(() if option.position is None else (test,)),
            *(bar.test for bar in option.bars if not bar.first_only),
        )
        asked = [test, *(bar.test for bar in option.bars)]
        self.iterative = option.window_ms is not None or any(map(is_iterative, asked))
        call: Callable[[Any], Callable[..., Any]] = context_call if self.iterative else simple_call  # of one form
        self.take = call(test)
        self.bars = either([call(bar.test) for bar in option.bars if not bar.first_only])
        self.first_bars = either([call(bar.test) for bar in option.bars if bar.first_only])
        #: Whether there is more to it than a condition on the event.
        self.guarded = self.iterative or self.bars is not None or self.first_bars is not None
        self.target: WaitState | None = None  #: where a partial match stands after it; None: it can take no more
        self.accepting = False


def either(calls: list[Callable[..., Any]]) -> Callable[..., Any] | None:
    """Return a function that is true if one of them is; None if there are none."""
    if not calls:
        return None
    if len(calls) == 1:
        return calls[0]
    return lambda *arguments: any(call(*arguments) for call in calls)


class EventVerdict(Enum):
    """What an event is to an option."""

    TAKES = "takes"
    IGNORES = "ignores"
    ENDS = "ends"  #: the option is over


def verdict_of(move: Move, fresh: bool, value: Any, context: PathContext) -> EventVerdict:
    """Return what an event is to an option of the partial match that the context shows."""
    arguments = (value, context) if move.iterative else (value,)
    node = context.node
    if move.window_ms is not None and node is not None and context.time - node[0][1] >= move.window_ms:
        return EventVerdict.ENDS
    if (fresh and move.first_bars is not None and move.first_bars(*arguments)) or (
        move.bars is not None and move.bars(*arguments)
    ):
        return EventVerdict.ENDS
    if move.ending is not None:
        return EventVerdict.TAKES if move.ending is Ending.BEHIND_NEXT else EventVerdict.IGNORES
    if move.take(*arguments):
        return EventVerdict.TAKES
    return EventVerdict.ENDS if move.strict else EventVerdict.IGNORES


def nodes_of(node: Node | None) -> list[Node]:
    """Return the nodes of a path, the last one first."""
    path = []
    while node is not None:
        path.append(node)
        node = node[2]
    return path
