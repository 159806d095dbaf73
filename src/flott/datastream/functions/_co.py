"""Functions of two connected inputs. One instance processes both, so both access the same state.

The method ending in 1 receives the stream ``connect`` was called on, the one ending in 2 the stream passed to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from flott.datastream.functions._basic import KEY, OUT, Function
from flott.datastream.functions._process import CTX_KEY, KeyedProcessFunction, ProcessFunction

if TYPE_CHECKING:
    from flott.datastream.functions._process import Emitted

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")


class CoMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Converts each record of either input to exactly one record.

    >>> class AsText(CoMapFunction[int, bytes, str]):
    ...     def map1(self, value: int) -> str:
    ...         return str(value)
    ...     def map2(self, value: bytes) -> str:
    ...         return value.decode()
    >>> AsText().map1(7) + AsText().map2(b"up")
    '7up'
    """

    @abstractmethod
    def map1(self, value: IN1) -> OUT:
        """Return the record to emit for a record of the first input."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """Return the record to emit for a record of the second input."""


class CoFlatMapFunction(Function, Generic[IN1, IN2, OUT]):
    """Converts each record of either input to any number of records.

    >>> class Allowed(CoFlatMapFunction[str, str, str]):
    ...     def __init__(self) -> None:
    ...         self.names: set[str] = set()
    ...     def flat_map1(self, value: str) -> Iterable[str]:
    ...         if value in self.names:
    ...             yield value
    ...     def flat_map2(self, value: str) -> None:
    ...         self.names.add(value)
    >>> allowed = Allowed()
    >>> allowed.flat_map2("ada")
    >>> list(allowed.flat_map1("ada"))
    ['ada']
    """

    @abstractmethod
    def flat_map1(self, value: IN1) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the first input, or ``None``."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the second input, or ``None``."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Processes the records of two inputs with their timestamps. It may emit to side outputs."""

    class Context(ProcessFunction.Context):
        """The context of the current record."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Emitted[OUT]:
        """Process one record of the first input."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Emitted[OUT]:
        """Process one record of the second input."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """Processes the records of two keyed inputs, with state and timers of the record's key::

    class Enrich(KeyedCoProcessFunction[str, Order, Customer, tuple[Order, Customer]]):
        def open(self, runtime_context):
            self.customer = runtime_context.get_state(ValueStateDescriptor("customer"))

        def process_element1(self, value, ctx):
            if (customer := self.customer.value()) is not None:
                yield value, customer

        def process_element2(self, value, ctx):
            self.customer.update(value)
    """

    class Context(KeyedProcessFunction.Context[CTX_KEY]):
        """The context of the current record."""

    class OnTimerContext(KeyedProcessFunction.OnTimerContext[CTX_KEY], Context[CTX_KEY]):
        """The context of a firing timer."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context[KEY]) -> Emitted[OUT]:
        """Process one record of the first input."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context[KEY]) -> Emitted[OUT]:
        """Process one record of the second input."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[KEY]) -> Emitted[OUT]:
        """Process a timer that was registered for ``timestamp``. Does nothing by default."""
        return None
