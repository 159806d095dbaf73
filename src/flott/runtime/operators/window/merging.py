"""Windows that grow together (sessions): which are open for a key, and where each keeps its contents. Task side.

Contents never move when a window merely grows: the merged window goes on using the place of one of its parts (its
*state namespace*). Only when two windows that both hold something become one are the contents of the second moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.common.typeinfo import Types
from flott.datastream.window._assigners import MergingWindowAssigner
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.operators.window.holdings import OPEN_WINDOWS
from flott.runtime.operators.window.namespaces import namespace_of, window_of

#: A window of time as it stands in state. Windows of the user's own classes are pickled.
_WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])

#: Called when windows become one: (the merged window, the windows that are gone, state namespace that stays, state
#: namespaces whose contents must be moved there).
OnMerge = Callable[[Any, list[Any], Any, list[Any]], None]


class MergingWindows:
    """The open windows of each key."""

    def __init__(self, state: KeyedState, assigner: MergingWindowAssigner[Any, Any]):
        self._table = state.map_table(OPEN_WINDOWS)  # key -> {namespace of the window: its state namespace}
        state.schemas.declare((OPEN_WINDOWS,), StateTypes(_WINDOW, _WINDOW, own="the windows that are open"))
        self._assigner = assigner

    def state_namespace(self, key: Any, namespace: Any) -> tuple[bool, Any]:
        """Return whether a window is open, and where its contents are."""
        held = self._table.entries.get(key)
        return (True, held[namespace]) if held is not None and namespace in held else (False, None)

    def open(self, key: Any, namespace: Any) -> None:
        """Take in a window that is open, with its contents in a place of its own."""
        self._table.put_item(key, namespace, namespace)

    def retire(self, key: Any, namespace: Any) -> None:
        """Forget a window that is over."""
        self._table.remove_item(key, namespace)

    def add(self, key: Any, window: Any, on_merge: OnMerge) -> Any:
        """Let a window join those of its key; returns the window it has become part of."""
        held = self._table.entries.get(key, {})
        namespace = namespace_of(window)
        if namespace in held:
            return window
        result = window
        for merged, parts in self._merges([*map(window_of, held), window]):
            if window in parts:
                result = merged
            self._merge(key, merged, [part for part in parts if part != window], on_merge)
        if self._table.entries.get(key, {}).get(namespace_of(result), _NOWHERE) is _NOWHERE:
            self._table.put_item(key, namespace_of(result), namespace_of(result))
        return result

    def _merges(self, windows: list[Any]) -> list[tuple[Any, list[Any]]]:
        """Return the merged window and its parts, for every group of windows that become one."""
        callback = _Collected()
        self._assigner.merge_windows(windows, callback)
        return [(merged, parts) for merged, parts in callback.merges if any(part != merged for part in parts)]

    def _merge(self, key: Any, merged: Any, parts: list[Any], on_merge: OnMerge) -> None:
        """Put several open windows (all but the one that has just come) under one name."""
        if not parts or parts == [merged]:
            return  # it stands alone, or it lies inside an open one: nothing changes
        held = self._table.entries[key]
        places = [held[namespace_of(part)] for part in parts]
        for part in parts:
            self._table.remove_item(key, namespace_of(part))
        self._table.put_item(key, namespace_of(merged), places[0])
        on_merge(merged, [part for part in parts if part != merged], places[0], places[1:])


class _Collected(MergingWindowAssigner.MergeCallback[Any]):
    """Takes note of what an assigner wants merged."""

    def __init__(self) -> None:
        self.merges: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        parts = list(dict.fromkeys(to_be_merged))
        self.merges.append((merge_result, parts))


_NOWHERE = object()
