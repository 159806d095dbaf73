"""Functions of one input: the classes that a user extends if a plain callable is not sufficient.

Wherever a :class:`MapFunction` is accepted, any callable with the same arguments is accepted. Use a class if the
function has resources to open (``open``) or to close (``close``).
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
    """The base class of all user functions, which defines their life-cycle.

    A function is pickled when the job is submitted, and each subtask has its own copy. Create objects that cannot be
    pickled (connections, compiled models) in ``open``.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare the function. Called once in each subtask before the first record. Does nothing by default."""

    def close(self) -> None:
        """Release resources. Called once after the last record, also after a failure. Does nothing by default."""


class MapFunction(Function, Generic[IN, OUT]):
    """Converts each record to exactly one record.

    >>> class Double(MapFunction[int, int]):
    ...     def map(self, value: int) -> int:
    ...         return value * 2
    >>> Double().map(21)
    42
    """

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Return the record to emit for ``value``."""


class FlatMapFunction(Function, Generic[IN, OUT]):
    """Converts each record to any number of records.

    >>> class Words(FlatMapFunction[str, str]):
    ...     def flat_map(self, value: str) -> Iterable[str]:
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT]:
        """Return the records to emit for ``value``, usually as a generator."""


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
        """Return whether to keep ``value``."""


class ReduceFunction(Function, Generic[T]):
    """Combines two values of the same type into one. It is applied repeatedly to all records of a key.

    >>> class Longest(ReduceFunction[str]):
    ...     def reduce(self, value1: str, value2: str) -> str:
    ...         return max(value1, value2, key=len)
    >>> Longest().reduce("Flink", "Spark!")
    'Spark!'
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> T:
        """Combine ``value1``, the result so far, and ``value2``, the next value. Neither may be changed in place."""


class AggregateFunction(Function, Generic[IN, ACC, OUT]):
    """Aggregates values of one type in an accumulator of another, and computes a result of a third type.

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
        """Return an empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Return the accumulator after one more value. It may be the given one, changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Return the result of the accumulator."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Return an accumulator with the values of both. Neither argument is used afterwards."""


class KeySelector(Function, Generic[IN, KEY]):
    """Determines the key of a record.

    >>> class Country(KeySelector[dict[str, str], str]):
    ...     def get_key(self, value: dict[str, str]) -> str:
    ...         return value["country"]
    >>> Country().get_key({"country": "NL"})
    'NL'
    """

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """Return the key of ``value``, which must be the same for the same record in every process."""


class NullByteKeySelector(KeySelector[Any, int]):
    """Returns the key 0 for every record: a keyed stream with a single key."""

    def get_key(self, value: Any) -> int:
        return 0


class Partitioner(Function, Generic[KEY]):
    """Determines the downstream subtask for a key, for ``partition_custom``.

    >>> class FirstLetter(Partitioner[str]):
    ...     def partition(self, key: str, num_partitions: int) -> int:
    ...         return ord(key[0]) % num_partitions
    >>> FirstLetter().partition("a", 4)
    1
    """

    @abstractmethod
    def partition(self, key: KEY, num_partitions: int) -> int:
        """Return the index of the target subtask, from 0 to ``num_partitions - 1``."""
