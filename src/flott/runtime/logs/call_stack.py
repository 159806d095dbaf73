"""Whose function is it that prints? Found on the call stack, and only when something is printed. Task side."""

from __future__ import annotations

import logging
from types import FrameType

from flott.runtime.operators.operator import OperatorContext

_OPERATORS = "flott.runtime.operators."

_HANDLES_RECORD = logging.Logger.callHandlers.__code__


def operator_above(frame: FrameType | None) -> OperatorContext | None:
    """Return the operator at work in a frame or above it: the nearest, because operators push records into others."""
    while frame is not None:
        if _is_of_an_operator(frame):
            names = frame.f_code.co_varnames
            if names and names[0] == "self":
                context = getattr(frame.f_locals.get("self"), "context", None)
                if isinstance(context, OperatorContext):
                    return context
        frame = frame.f_back
    return None


def is_logging(frame: FrameType | None) -> bool:
    """Return whether a handler of the logging module writes: then the record was taken in before."""
    while frame is not None:
        if frame.f_code is _HANDLES_RECORD:
            return True
        if _is_of_an_operator(frame):
            return False  # whatever is above pushes records; the user's function is below
        frame = frame.f_back
    return False


def _is_of_an_operator(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__")
    return isinstance(module, str) and module.startswith(_OPERATORS)
