"""One frozen spec per kind of operator: what the program asked for, not how it runs.

The task builds an operator from a spec (``runtime.operators.build``). A spec holds the user's function objects and
nothing else that lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flott.cep._pattern import Pattern
    from flott.common.typeinfo import TypeInformation
    from flott.common.watermark_strategy import WatermarkStrategy
    from flott.datastream.connectors.base import Sink, Source
    from flott.datastream.functions._async import AsyncRetryStrategy
    from flott.datastream.state._descriptors import MapStateDescriptor
    from flott.datastream.window._assigners import WindowAssigner
    from flott.datastream.window._evictors import Evictor
    from flott.datastream.window._triggers import Trigger


@dataclass(frozen=True)
class KeySpec:
    """How a keyed input finds its key."""

    selector: Callable[[Any], Any]  #: a KeySelector object or a plain callable
    key_type: TypeInformation | None = None
    #: reinterpret_as_keyed_stream(): records are said to be in the subtask of their key already, and are not moved.
    in_place: bool = False
    #: Gives the same keys as the selector, but faster, because of what is declared about the records.
    getter: Callable[[Any], Any] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OperatorSpec:
    """Common root of all specs, for type annotations only."""


#: The tag of a source's side output for records that cannot be decoded.
DEAD_LETTERS = "flott-dead-letters"


@dataclass(frozen=True)
class SourceSpec(OperatorSpec):
    """Reads a source and assigns timestamps and watermarks per split."""

    source: Source[Any]
    strategy: WatermarkStrategy
    acknowledges: bool = True  #: whether the source tells the outside world how far it has come


@dataclass(frozen=True)
class TimestampsSpec(OperatorSpec):
    """Assigns timestamps and watermarks in the middle of a stream."""

    strategy: WatermarkStrategy


@dataclass(frozen=True)
class MapSpec(OperatorSpec):
    """One record in, one record out."""

    function: Any


@dataclass(frozen=True)
class FlatMapSpec(OperatorSpec):
    """One record in, any number out."""

    function: Any


@dataclass(frozen=True)
class FilterSpec(OperatorSpec):
    """Keeps the records for which the function is true."""

    function: Any


@dataclass(frozen=True)
class ReduceSpec(OperatorSpec):
    """Keyed: merges each record into the key's accumulated value and emits it."""

    function: Any
    record_type: TypeInformation | None = None  #: what the program declares its records, and so the value, to be


@dataclass(frozen=True)
class ProcessSpec(OperatorSpec):
    """A ProcessFunction or KeyedProcessFunction."""

    function: Any


@dataclass(frozen=True)
class CoMapSpec(OperatorSpec):
    """A CoMapFunction over two connected inputs."""

    function: Any


@dataclass(frozen=True)
class CoFlatMapSpec(OperatorSpec):
    """A CoFlatMapFunction over two connected inputs."""

    function: Any


@dataclass(frozen=True)
class CoProcessSpec(OperatorSpec):
    """A CoProcessFunction or KeyedCoProcessFunction over two connected inputs."""

    function: Any


@dataclass(frozen=True)
class BroadcastProcessSpec(OperatorSpec):
    """A (Keyed)BroadcastProcessFunction; the second input is the broadcast one."""

    function: Any
    descriptors: tuple[MapStateDescriptor, ...]  #: of the broadcast states it may ask for


@dataclass(frozen=True)
class AsyncSpec(OperatorSpec):
    """An AsyncFunction: many calls wait at the same time, within one epoch."""

    function: Any
    timeout_ms: int  #: 0: none
    capacity: int
    retry: AsyncRetryStrategy[Any]
    ordered: bool


@dataclass(frozen=True)
class ReduceFold:
    """A window keeps one value, into which a ReduceFunction (or callable) folds each record."""

    function: Any


@dataclass(frozen=True)
class AggregateFold:
    """A window keeps one accumulator of an AggregateFunction."""

    function: Any
    accumulator_type: TypeInformation | None = None


@dataclass(frozen=True)
class WindowSpec(OperatorSpec):
    """Keyed: collects records in windows until a trigger says what to do with them."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    #: How records are folded as they arrive; None: the window keeps them all.
    fold: ReduceFold | AggregateFold | None
    #: A WindowFunction, AllWindowFunction, ProcessWindowFunction or ProcessAllWindowFunction; None: what was folded is
    #: the result.
    function: Any | None
    evictor: Evictor[Any, Any] | None = None
    allowed_lateness_ms: int = 0
    late_tag_id: str | None = None  #: the side output of late records; None: they are counted and dropped
    record_type: TypeInformation | None = None  #: what the program declares its records to be

    @property
    def folded_type(self) -> TypeInformation | None:
        """Return the declared type of accumulated values. For accumulators it is a declaration only, not enforced."""
        return self.fold.accumulator_type if isinstance(self.fold, AggregateFold) else self.record_type


@dataclass(frozen=True)
class IntervalJoinSpec(OperatorSpec):
    """Keyed, two inputs: joins records whose timestamps differ by ``lower_ms`` to ``upper_ms``, both inclusive."""

    function: Any  #: a ProcessJoinFunction
    lower_ms: int
    upper_ms: int
    left_late_tag_id: str | None = None
    right_late_tag_id: str | None = None
    left_type: TypeInformation | None = None  #: what the program declares its left records to be
    right_type: TypeInformation | None = None


@dataclass(frozen=True)
class PatternSpec(OperatorSpec):
    """Keyed: looks for a pattern in the events of each key."""

    pattern: Pattern[Any]
    function: Any  #: a PatternProcessFunction
    event_time: bool = True
    comparator: Callable[[Any, Any], int] | None = None  #: orders events of the same timestamp
    late_tag_id: str | None = None  #: the side output of late events; None: they are counted and dropped
    record_type: TypeInformation | None = None  #: what the program declares its events to be


@dataclass(frozen=True)
class RulesSpec(OperatorSpec):
    """Keyed, two inputs: looks for the patterns of rules, which come as the second input, a broadcast one."""

    function: Any | None  #: makes a record of a RuleMatch; None: the match is the record
    event_time: bool = True
    comparator: Callable[[Any, Any], int] | None = None
    late_tag_id: str | None = None
    timeout_tag_id: str | None = None  #: the side output of partial matches whose time is over
    record_type: TypeInformation | None = None


@dataclass(frozen=True)
class SinkSpec(OperatorSpec):
    """Writes to a sink."""

    sink: Sink[Any]
    record_type: TypeInformation | None = None  #: what the program declares its records to be


@dataclass(frozen=True)
class ColumnarSpec(OperatorSpec):
    """A step of a query over tables, on columns."""

    operation: Any  #: a ``ColumnarOperation`` of ``flott.table._plan.operations``
