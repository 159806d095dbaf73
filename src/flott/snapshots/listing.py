"""A snapshot as text: its operators and states, with their types and sizes. Driver side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flott.snapshots.operators import OperatorView
from flott.snapshots.views import KeyedStateView, OperatorStateView, StateView

_TITLES = ("state", "kind", "type", "keys", "groups", "bytes")
_RIGHT = {"keys", "groups", "bytes", "added", "removed", "changed"}


def listing(title: str, operators: Iterable[OperatorView], *, count_keys: bool) -> str:
    """Return the text. ``count_keys``: read everything to say how many there are."""
    return "\n".join([title, *(line for operator in operators for line in _operator(operator, count_keys))])


def _operator(operator: OperatorView, count_keys: bool) -> Iterator[str]:
    named = f"uid {operator.uid!r}, " if operator.uid else ""
    yield ""
    yield (
        f"{operator.name} ({named}id {operator.id}), parallelism {operator.parallelism} of at most"
        f" {operator.max_parallelism}"
    )
    if not operator.states:
        yield "  no state"
        return
    rows = [_TITLES, *(_state(state, count_keys) for state in operator.states)]
    yield from text_table(rows)


def _state(state: StateView, count_keys: bool) -> tuple[str, ...]:
    keys = groups = ""
    if isinstance(state, KeyedStateView) and count_keys:
        keys, groups = f"{state.key_count:,}", f"{len(state.keys_by_group)}"
    elif isinstance(state, OperatorStateView) and count_keys:
        keys = f"{state.item_count:,}"
    return state.name, state.kind, _type(state), keys, groups, f"{state.size_bytes:,}"


def _type(state: StateView) -> str:
    key, value = state.key_type or "pickled", state.value_type or "pickled"
    match state.kind:
        case "timers":
            return key
        case "list" | "list-panes" | "split-list" | "union-list":
            value = f"list<{value}>"
        case "map":
            value = f"map<{state.map_key_type or 'pickled'}, {value}>"
        case "broadcast":
            return f"{state.map_key_type or key} -> {value}"
    return f"{key} -> {value}" if isinstance(state, KeyedStateView) else value


def text_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table whose first row is its titles; a column that is empty throughout is left out."""
    shown = [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])]
    widths = {index: max(len(row[index]) for row in rows) for index in shown}
    for row in rows:
        cells = (
            row[index].rjust(widths[index]) if rows[0][index] in _RIGHT else row[index].ljust(widths[index])
            for index in shown
        )
        yield ("  " + "  ".join(cells)).rstrip()
