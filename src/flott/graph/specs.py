"""One frozen spec per kind of operator: what the program asked for, not how it runs.

The task builds an operator from a spec (``runtime.operators.build``). A spec holds the user's function objects and
nothing else that lives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flott.common.typeinfo import TypeInformation
    from flott.common.watermark_strategy import WatermarkStrategy
    from flott.datastream.connectors.base import Sink, Source


@dataclass(frozen=True)
class KeySpec:
    """How a keyed input finds its key."""

    selector: Callable[[Any], Any]  #: a KeySelector object or a plain callable
    key_type: TypeInformation | None = None


@dataclass(frozen=True)
class OperatorSpec:
    """Common root of all specs, for type annotations only."""


@dataclass(frozen=True)
class SourceSpec(OperatorSpec):
    """Reads a source and assigns timestamps and watermarks per split."""

    source: Source[Any]
    strategy: WatermarkStrategy


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
    """Keyed: folds each record into the key's accumulated value and emits it."""

    function: Any


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
class SinkSpec(OperatorSpec):
    """Writes to a sink."""

    sink: Sink[Any]
