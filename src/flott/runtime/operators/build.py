"""Spec -> operator: the one table that knows them all. Task side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.graph import specs
from flott.runtime.operators.async_io import AsyncOperator
from flott.runtime.operators.broadcast import BroadcastOperator
from flott.runtime.operators.connected import ConnectedOperator
from flott.runtime.operators.interval_join import IntervalJoinOperator
from flott.runtime.operators.operator import Operator, OperatorContext
from flott.runtime.operators.process import ProcessOperator
from flott.runtime.operators.reduce import FinalReduceOperator, ReduceOperator
from flott.runtime.operators.sink import SinkOperator
from flott.runtime.operators.source import SourceOperator
from flott.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from flott.runtime.operators.watermarks import TimestampsOperator
from flott.runtime.operators.window.aligned import AlignedWindowOperator, is_aligned
from flott.runtime.operators.window.operator import WindowedOperator, WindowOperator
from flott.runtime.operators.window.sessions import SessionWindowOperator, is_sessions

_BUILDERS: dict[type[specs.OperatorSpec], Callable[[OperatorContext, Any], Operator]] = {
    specs.SourceSpec: lambda context, spec: SourceOperator(context, spec.source, spec.strategy),
    specs.TimestampsSpec: lambda context, spec: TimestampsOperator(context, spec.strategy),
    specs.MapSpec: lambda context, spec: MapOperator(context, spec.function),
    specs.FlatMapSpec: lambda context, spec: FlatMapOperator(context, spec.function),
    specs.FilterSpec: lambda context, spec: FilterOperator(context, spec.function),
    specs.ReduceSpec: lambda context, spec: _reduce_of(context)(context, spec.function, spec.record_type),
    specs.ProcessSpec: lambda context, spec: ProcessOperator(context, spec.function),
    specs.CoProcessSpec: lambda context, spec: ProcessOperator(context, spec.function),
    specs.BroadcastProcessSpec: BroadcastOperator,
    specs.CoMapSpec: lambda context, spec: ConnectedOperator(context, spec.function, "map", flat=False),
    specs.CoFlatMapSpec: lambda context, spec: ConnectedOperator(context, spec.function, "flat_map", flat=True),
    specs.WindowSpec: lambda context, spec: _window_of(context, spec),
    specs.IntervalJoinSpec: IntervalJoinOperator,
    specs.PatternSpec: lambda context, spec: _pattern(context, spec),
    specs.RulesSpec: lambda context, spec: _rules(context, spec),
    specs.AsyncSpec: lambda context, spec: AsyncOperator(context, spec),
    specs.ColumnarSpec: lambda context, spec: _columnar(context, spec),
    specs.SinkSpec: lambda context, spec: SinkOperator(context, spec.sink, spec.record_type),
}


def _reduce_of(context: OperatorContext) -> type[ReduceOperator]:
    return FinalReduceOperator if context.batch else ReduceOperator


def _window_of(context: OperatorContext, spec: specs.WindowSpec) -> WindowedOperator:
    """Return the fastest window operator that can run a spec."""
    if is_aligned(spec):
        return AlignedWindowOperator(context, spec)
    if is_sessions(spec):
        return SessionWindowOperator(context, spec)
    return WindowOperator(context, spec)


def _columnar(context: OperatorContext, spec: specs.ColumnarSpec) -> Operator:
    """Return an operator on columns. Only programs with tables import pyarrow and numpy."""
    from flott.runtime.operators.columnar.build import build_columnar

    return build_columnar(context, spec.operation)


def _pattern(context: OperatorContext, spec: specs.PatternSpec) -> Operator:
    """Return the operator of a pattern. Only programs with patterns import them."""
    from flott.runtime.operators.cep.operator import PatternOperator

    return PatternOperator(context, spec)


def _rules(context: OperatorContext, spec: specs.RulesSpec) -> Operator:
    from flott.runtime.operators.cep.rules import RulesOperator

    return RulesOperator(context, spec)


def build_operator(context: OperatorContext) -> Operator:
    """Return the operator that a spec describes."""
    spec = context.operator.node.spec
    return _BUILDERS[type(spec)](context, spec)
