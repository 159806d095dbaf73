"""The part of a delta that concerns one key: what a look-up reads instead of a whole key group. Pure.

Files are read newest first. For most kinds of tables the newest file that mentions the key says everything about it, so
the others need not be read: the part is then *settled*.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.errors import StateError
from flott.runtime.managed_state.kinds.tables import Delta

#: Whether an entry of a table (a key, or a key and its namespace) is wanted.
Wanted = Callable[[Any], bool]
#: A part of a delta, and whether it is settled.
Part = tuple[Delta, bool]


def part_of(kind: str, delta: Delta, wanted: Wanted, *, single: bool) -> Part:
    """What a table's delta says about the wanted entries. ``single``: they are one entry, not a key's many."""
    if kind not in _PARTS:
        raise StateError(f"Flott cannot look up single keys in a table of kind {kind!r}.")
    part, settled = _PARTS[kind](delta, wanted)
    return part, settled and single


def _of_values(delta: Delta, wanted: Wanted) -> Part:
    entries, values, deleted = delta
    put = [(entry, value) for entry, value in zip(entries, values, strict=True) if wanted(entry)]
    gone = list(filter(wanted, deleted))
    return [[entry for entry, _ in put], [value for _, value in put], gone], bool(put or gone)


def _of_lists(delta: Delta, wanted: Wanted) -> Part:
    whole, appended, deleted = delta
    put = [change for change in whole if wanted(change[0])]
    gone = list(filter(wanted, deleted))
    return [put, [change for change in appended if wanted(change[0])], gone], bool(put or gone)


def _of_maps(delta: Delta, wanted: Wanted) -> Part:
    part = [change for change in delta if wanted(change[0])]
    return part, any(cleared for _, cleared, *_ in part)


def _of_timers(delta: Delta, wanted: Wanted) -> Part:
    return [[timer for timer in timers if wanted(timer[1])] for timers in delta], False


def _of_panes(delta: Delta, wanted: Wanted) -> Part:
    put, gone = delta
    held = [(pane, key, value) for pane, keys, values in put for key, value in zip(keys, values, strict=True)]
    kept = [(pane, [key], [value]) for pane, key, value in held if wanted(key)]
    return [kept, [(pane, [key]) for pane, keys in gone for key in keys if wanted(key)]], False


def _of_timelines(delta: Delta, wanted: Wanted) -> Part:
    group, additions, horizon, trimmed = delta
    parts = []
    for generation, keys, timestamps, values in additions:
        chosen = [position for position, key in enumerate(keys) if wanted(key)]
        columns = ([column[position] for position in chosen] for column in (keys, timestamps, values))
        parts.append((generation, *columns))
    return [group, parts, horizon, list(filter(wanted, trimmed))], False


_PARTS: dict[str, Callable[[Delta, Wanted], Part]] = {
    "value": _of_values,
    "list": _of_lists,
    "map": _of_maps,
    "timers": _of_timers,
    "panes": _of_panes,
    "list-panes": _of_panes,
    "timelines": _of_timelines,
}
