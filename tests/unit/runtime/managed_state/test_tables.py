"""Tables one by one: what they drain, dump and merge rebuilds them exactly."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.errors import CorruptStateError, StateError
from flott.runtime.managed_state.kinds.lists import ListDelta, ListTable
from flott.runtime.managed_state.kinds.maps import MapTable
from flott.runtime.managed_state.kinds.panes import ListPaneTable, PaneTable
from flott.runtime.managed_state.kinds.registry import make_table
from flott.runtime.managed_state.kinds.table_kind import Table
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.kinds.values import ValueTable


def one_group(entry: Any) -> int:
    return 0


def set_value(table: ValueTable, entry: str, argument: int) -> None:
    if argument == 0:
        table.entries.pop(entry, None)
    else:
        table.entries[entry] = argument
    table.changed[entry] = None


def change_list(table: ListTable, entry: str, argument: int) -> None:
    if argument == 0:
        table.replace(entry, None)
    elif argument == 1:
        table.replace(entry, [7, 8])
    else:
        table.append(entry, range(argument))


def change_map(table: MapTable, entry: str, argument: int) -> None:
    if argument == 0:
        table.clear_entry(entry)
    elif argument % 2:
        table.remove_item(entry, argument // 2)
    else:
        table.put_item(entry, argument // 2, (argument, len(table.entries.get(entry, ()))))


def change_timers(table: TimerTable, entry: str, argument: int) -> None:
    if argument % 3 == 0:
        table.pop_due(argument)
    elif argument % 3 == 1:
        table.delete(argument // 3, entry)
    else:
        table.register(argument // 3, entry)


def change_panes(table: PaneTable, entry: str, argument: int) -> None:
    pane = argument % 3
    if argument % 5 == 0:
        table.drop(pane)
    else:
        held, marks = table.open(pane)
        held[entry] = argument
        marks[entry] = 0


def change_list_panes(table: ListPaneTable, entry: str, argument: int) -> None:
    pane = argument % 3
    if argument % 5 == 0:
        table.drop(pane)
    else:
        held, marks = table.open(pane)
        items = held.setdefault(entry, [])
        marks.setdefault(entry, len(items))
        items.append(argument)


KINDS: dict[str, tuple[Callable[[], Table], Callable[[Any, str, int], None]]] = {
    "value": (ValueTable, set_value),
    "list": (ListTable, change_list),
    "map": (MapTable, change_map),
    "timers": (TimerTable, change_timers),
    "panes": (PaneTable, change_panes),
    "list-panes": (ListPaneTable, change_list_panes),
}


def view(table: Any) -> Any:
    if isinstance(table, TimerTable):
        timers, fired = copy.deepcopy(table), []
        while (timer := timers.pop_due(10**9)) is not None:
            fired.append(timer)
        return fired
    if isinstance(table, PaneTable):
        return {pane: copy.deepcopy(list(held.items())) for pane, held in table.panes.items() if held}
    if isinstance(table, MapTable):
        return {entry: list(held.items()) for entry, held in table.entries.items()}
    return copy.deepcopy(table.entries)


def travelled(delta: Any) -> Any:
    """As it comes out of a file: nothing is shared with the table it came from."""
    return pickle.loads(pickle.dumps(delta))


steps = st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 13)), max_size=6), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200)
@given(steps, st.data())
def test_merged_deltas_bring_any_copy_within_them_to_the_end(kind, epochs, data):
    make, change = KINDS[kind]
    live, deltas, views = make(), [], [view(make())]
    for epoch in epochs:
        for entry, argument in epoch:
            change(live, entry, argument)
        deltas.append(live.drain(one_group).get(0))
        views.append(view(live))
    first = data.draw(st.integers(0, len(deltas) - 1))
    split = data.draw(st.integers(first, len(deltas) - 1))
    merge = type(live).merge
    older = [travelled(delta) for delta in deltas[first:split] if delta]
    newer = [travelled(delta) for delta in deltas[split:] if delta]
    merged = travelled(merge([*([merge(older)] if older else []), *newer]))  # in two steps: merged files merge again
    for start in range(first, len(deltas) + 1):
        copied = make()
        for delta in deltas[:start]:
            if delta:
                copied.apply(travelled(delta))
        assert view(copied) == views[start]
        copied.apply(travelled(merged))
        assert view(copied) == views[-1]
    assert not live.has_changes()


@pytest.mark.parametrize("kind", KINDS)
@given(steps)
def test_a_dump_rebuilds_the_table_and_empty_forgets_it(kind, epochs):
    make, change = KINDS[kind]
    live = make()
    for epoch in epochs:
        for entry, argument in epoch:
            change(live, entry, argument)
    copied = make()
    for delta in live.dump(one_group).values():
        copied.apply(travelled(delta))
    assert view(copied) == view(live)
    assert not copied.has_changes()
    assert copied.size() == live.size()
    containers = {name: getattr(live, name) for name in live.__slots__ if name != "namespaced"}
    live.empty()
    assert (live.size(), live.has_changes(), view(live)) == (0, False, view(make()))
    for name, container in containers.items():
        assert getattr(live, name) is container
        assert len(container) == 0


def test_changes_are_sorted_by_key_group():
    for kind, (make, change) in KINDS.items():
        table = make()
        change(table, "a", 2)
        change(table, "b", 2)
        assert set(table.drain(lambda entry: ord(entry) - ord("a"))) == {0, 1}, kind
        assert table.drain(one_group) == {}


def test_an_append_saves_only_the_tail():
    table = ListTable()
    table.append("k", range(1000))
    table.drain(one_group)
    table.append("k", [1])
    table.append("k", [2, 3])
    assert table.drain(one_group) == {0: ListDelta([], [("k", 1000, [1, 2, 3])], [])}


def test_appends_to_a_list_replaced_in_the_same_epoch_are_saved_with_it():
    table = ListTable()
    table.append("k", [1])
    table.drain(one_group)
    table.append("k", [2])
    table.replace("k", [3])
    table.append("k", [4])
    assert table.drain(one_group) == {0: ListDelta([("k", [3, 4])], [], [])}


def test_a_drained_list_does_not_change_afterwards():
    table = ListTable()
    table.append("k", [1])
    drained = table.drain(one_group)
    table.append("k", [2])
    assert drained == {0: ListDelta([("k", [1])], [], [])}


def test_a_tail_without_its_list_is_refused():
    with pytest.raises(CorruptStateError, match=r"'k' at position 5, but those before it hold 0 items"):
        ListTable().apply(ListDelta([], [("k", 5, [1])], []))


def test_a_put_saves_only_that_item():
    table = MapTable()
    for number in range(1000):
        table.put_item("k", number, number)
    table.drain(one_group)
    table.put_item("k", 500, "new")
    table.put_item("k", 1000, "last")
    table.remove_item("k", 7)
    assert table.drain(one_group) == {0: [("k", False, [7], [(500, "new")], [(1000, "last")])]}


def test_an_emptied_map_is_no_entry_any_more():
    table = MapTable()
    table.put_item("k", 1, 1)
    table.drain(one_group)
    table.remove_item("k", 1)
    assert table.size() == 0
    copied = MapTable()
    copied.put_item("k", 1, 1)
    copied.apply(table.drain(one_group)[0])
    assert copied.entries == {}


def test_an_unknown_kind_of_table_is_refused():
    with pytest.raises(StateError, match="kind 'graph', which this version of Flott does not know"):
        make_table("graph", False)
    assert make_table("map", True).namespaced
