"""What a program does with matches: the functions that users extend. The runtime implements the contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from flott.datastream.functions._basic import IN, OUT, Function

if TYPE_CHECKING:
    from flott.datastream.functions._process import Emitted

T = TypeVar("T")

#: The events of a match by the names of their stages, in order. A stage that took none has no entry.
Match: TypeAlias = dict[str, list[T]]


class PatternProcessFunction(Function, Generic[IN, OUT]):
    """Emits any number of records for each match::

        class Alert(PatternProcessFunction[Payment, str]):
            def process_match(self, match, ctx):
                yield f"{match['large'][0].account} at {ctx.timestamp()}"

    A pair of an ``OutputTag`` and a value goes to that side output. To also see partial matches whose time is over,
    extend :class:`TimedOutPartialMatchHandler`, too.
    """

    class Context(ABC):
        """What a function may know about time."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time at which the match was complete, or the partial match timed out, in milliseconds."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds, which is constant during an epoch."""

    @abstractmethod
    def process_match(self, match: Match[IN], ctx: PatternProcessFunction.Context) -> Emitted[OUT]:
        """Process a match."""


class TimedOutPartialMatchHandler(ABC, Generic[IN]):
    """Added to a :class:`PatternProcessFunction` that is told of partial matches whose time is over.

    A partial match that is a match already and could have gone on is among them.
    """

    @abstractmethod
    def process_timed_out_match(self, match: Match[IN], ctx: PatternProcessFunction.Context) -> Emitted[Any]:
        """Process a partial match whose time is over. Usually it yields pairs of an ``OutputTag`` and a value."""


class PatternSelectFunction(Function, Generic[IN, OUT]):
    """Makes one record of each match. A callable of (match) does the same."""

    @abstractmethod
    def select(self, match: Match[IN]) -> OUT:
        """Return the record of a match."""


class PatternFlatSelectFunction(Function, Generic[IN, OUT]):
    """Makes any number of records of each match. A callable of (match) does the same."""

    @abstractmethod
    def flat_select(self, match: Match[IN]) -> Iterable[OUT]:
        """Return the records of a match."""


class PatternTimeoutFunction(Function, Generic[IN, OUT]):
    """Makes one record of each partial match whose time is over. A callable of (match, timestamp) does the same."""

    @abstractmethod
    def timeout(self, match: Match[IN], timeout_timestamp: int) -> OUT:
        """Return the record of a partial match and the time at which it was over."""


class PatternFlatTimeoutFunction(Function, Generic[IN, OUT]):
    """Makes any number of records of each partial match whose time is over."""

    @abstractmethod
    def timeout(self, match: Match[IN], timeout_timestamp: int) -> Iterable[OUT]:
        """Return the records of a partial match and the time at which it was over."""
