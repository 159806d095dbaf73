"""Windows as they stand in state and timers: plain values, so that state files hold no class of Flott's. Task side."""

from __future__ import annotations

from typing import Any

from flott.datastream.window._windows import CountWindow, GlobalWindow, TimeWindow

_GLOBAL = GlobalWindow.get()


def namespace_of(window: Any) -> Any:
    """Return a window as a plain value; windows of the user's own classes stay as they are."""
    kind = window.__class__
    if kind is TimeWindow:
        return (window.start, window.end)
    if kind is GlobalWindow:
        return None
    if kind is CountWindow:
        return window.id
    return window


def window_of(namespace: Any) -> Any:
    """Return the window that a plain value stands for."""
    kind = namespace.__class__
    if kind is tuple:
        return TimeWindow(*namespace)
    if namespace is None:
        return _GLOBAL
    if kind is int:
        return CountWindow(namespace)
    return namespace


def end_of(namespace: Any) -> Any:
    """Return the end of a window as a plain value: the name of a timer that is no trigger's."""
    return (namespace,)


def is_end(namespace: Any) -> bool:
    """Return whether a plain value stands for the end of a window and not for the window."""
    return namespace.__class__ is tuple and len(namespace) == 1
