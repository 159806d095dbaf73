"""Functions that join the records of two streams: in pairs, or all records of a key and window at once.

PyFlink has none of them; the names are those of Flink's Java API. The first argument is always a record of the stream
that ``join``, ``co_group`` or ``interval_join`` was called on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic

from flott.datastream.functions._basic import OUT, Function
from flott.datastream.functions._co import IN1, IN2

if TYPE_CHECKING:
    from flott.datastream.functions._process import Emitted


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Converts each pair of matching records to exactly one record.

    >>> class Priced(JoinFunction[tuple[str, int], tuple[str, float], float]):
    ...     def join(self, first: tuple[str, int], second: tuple[str, float]) -> float:
    ...         return first[1] * second[1]
    >>> Priced().join(("tea", 3), ("tea", 2.5))
    7.5
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the record to emit for a pair."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Converts each pair of matching records to any number of records.

    >>> class Larger(FlatJoinFunction[int, int, int]):
    ...     def join(self, first: int, second: int) -> Iterable[int]:
    ...         if first > second:
    ...             yield first
    >>> list(Larger().join(3, 2)), list(Larger().join(2, 3))
    ([3], [])
    """

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Return the records to emit for a pair, usually as a generator, or ``None``."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Receives all records of a key and window together, separated by stream. One side may be empty.

    >>> class Unanswered(CoGroupFunction[str, str, str]):
    ...     def co_group(self, first: Iterable[str], second: Iterable[str]) -> Iterable[str]:
    ...         if not list(second):
    ...             yield from first
    >>> list(Unanswered().co_group(["anyone?"], []))
    ['anyone?']
    """

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Return the records to emit for a key and window, or ``None``."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Processes each pair of an interval join with the timestamps of both. It may emit to side outputs::

        slow = OutputTag("slow")

        class Answered(ProcessJoinFunction[Question, Answer, str]):
            def process_element(self, left, right, ctx):
                yield left.text
                if ctx.get_right_timestamp() - ctx.get_left_timestamp() > 60_000:
                    yield slow, right.author

    Results have the later of both timestamps.
    """

    class Context(ABC):
        """The context of the current pair."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the event time of the left record, in milliseconds."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the event time of the right record, in milliseconds."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the event time of the results, which is the later of the two."""

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context) -> Emitted[OUT]:
        """Process one pair."""
