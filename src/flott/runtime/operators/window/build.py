"""Spec -> window operator: the fastest that can run it. Task side."""

from __future__ import annotations

from flott.graph.specs import WindowSpec
from flott.runtime.operators.operator import OperatorContext
from flott.runtime.operators.window.aligned import AlignedWindowOperator, is_aligned
from flott.runtime.operators.window.operator import WindowedOperator, WindowOperator
from flott.runtime.operators.window.sessions import SessionWindowOperator, is_sessions


def build_window_operator(context: OperatorContext, spec: WindowSpec) -> WindowedOperator:
    """The operator that runs a spec."""
    if is_aligned(spec):
        return AlignedWindowOperator(context, spec)
    if is_sessions(spec):
        return SessionWindowOperator(context, spec)
    return WindowOperator(context, spec)
