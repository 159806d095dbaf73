"""Functions of one input: the classes a user extends where a plain callable is not enough.

Wherever a :class:`MapFunction` is accepted, so is any callable of the same arguments. A class is worth its lines when
the function has something to prepare (``open``) or to release (``close``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from flott.datastream.functions._context import RuntimeContext

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
KEY = TypeVar("KEY")


class Function(ABC):  # noqa: B024 - each kind below brings its own abstract method
    """The root of all user functions: a life-cycle, and nothing else.

    A function is pickled when the job is submitted; each subtask works on its own copy. What cannot be pickled
    (connections, compiled models) belongs into ``open``.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once in each subtask before the first record. Does nothing by default."""

    def close(self) -> None:
        """Called once after the last record, also when processing failed. Does nothing by default."""


class MapFunction(Function, Generic[IN, OUT]):
    """Turns each record into exactly one.

    >>> class Double(MapFunction[int, int]):
    ...     def map(self, value: int) -> int:
    ...         return value * 2
    >>> Double().map(21)
    42
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """The record to emit for ``value``."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Turns each record into any number of records, none included.

    >>> class Words(FlatMapFunction[str, str]):
    ...     def flat_map(self, value: str) -> Iterable[str]:
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT]:
        """The records to emit for ``value``: usually written as a generator."""


class FilterFunction(Function, Generic[T]):
    """Keeps some records and drops the others.

    >>> class Even(FilterFunction[int]):
    ...     def filter(self, value: int) -> bool:
    ...         return value % 2 == 0
    >>> Even().filter(3)
    False
    """

    @abstractmethod
    def filter(self, value: T) -> bool:
        """Whether to keep ``value``."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values of a kind into one; applied again and again to all records of a key.

    >>> class Longest(ReduceFunction[str]):
    ...     def reduce(self, value1: str, value2: str) -> str:
    ...         return max(value1, value2, key=len)
    >>> Longest().reduce("Flink", "Spark!")
    'Spark!'
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """``value1`` is what was combined so far, ``value2`` the next one. Neither should be changed in place."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Collects values of one type in an accumulator of another, and makes a result of a third.

    The function itself remembers nothing: there is one accumulator per key (and per window), kept by the runtime.

    >>> class Mean(AggregateFunction[float, tuple[int, float], float]):
    ...     def create_accumulator(self) -> tuple[int, float]:
    ...         return 0, 0.0
    ...     def add(self, value: float, accumulator: tuple[int, float]) -> tuple[int, float]:
    ...         return accumulator[0] + 1, accumulator[1] + value
    ...     def get_result(self, accumulator: tuple[int, float]) -> float:
    ...         return accumulator[1] / accumulator[0]
    ...     def merge(self, acc_a: tuple[int, float], acc_b: tuple[int, float]) -> tuple[int, float]:
    ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    >>> mean = Mean()
    >>> mean.get_result(mean.add(4.0, mean.add(2.0, mean.create_accumulator())))
    3.0
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """An accumulator that has seen no value."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator after one more value; it may be the one given, changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """The result the accumulator stands for."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """One accumulator that has seen what both have seen. Neither argument is used afterwards."""


class KeySelector(Function, Generic[IN, KEY]):
    """Says which key a record belongs to.

    >>> class Country(KeySelector[dict[str, str], str]):
    ...     def get_key(self, value: dict[str, str]) -> str:
    ...         return value["country"]
    >>> Country().get_key({"country": "NL"})
    'NL'
    """

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """The key of ``value``: the same for the same record, in every process."""


class NullByteKeySelector(KeySelector[Any, int]):
    """Gives every record the key 0: a keyed stream with a single key."""

    def get_key(self, value: Any) -> int:
        return 0


class Partitioner(Function, Generic[KEY]):
    """Chooses the downstream subtask for a key, for ``partition_custom``.

    >>> class FirstLetter(Partitioner[str]):
    ...     def partition(self, key: str, num_partitions: int) -> int:
    ...         return ord(key[0]) % num_partitions
    >>> FirstLetter().partition("a", 4)
    1
    """

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """The index of the target subtask, from 0 to ``num_partitions - 1``."""
