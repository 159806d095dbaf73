"""Timelines: records per key by timestamp, trimmed for all keys at once; deltas rebuild them exactly."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.kinds.timelines import TimelineDelta, TimelineTable
from tests.unit.runtime.managed_state.keyed_workers import MAX_PARALLELISM, Folder, MemoryStorage, group_of, runs

KEYS = ["a", "b", 3, None]
RENEWAL = (object(), 0)  #: as the first step of an epoch: all records are converted


class Model:
    """The same records as a plain list, and the horizon before which nothing is added any more."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, int, int]] = []
        self.horizon = 0
        self.number = 0

    def steps(self, epoch: list[tuple[Any, int]]) -> list[Callable[[TimelineTable], None]]:
        """What to do with a table in one epoch: additions of numbered records, and trims (``...`` for the key)."""
        todo: list[Callable[[TimelineTable], None]] = []
        for key, offset in epoch:
            if key is RENEWAL[0]:
                self.records = [(key, timestamp, value + 1000) for key, timestamp, value in self.records]
                todo.append(renew)
            elif key is ...:
                self.horizon += offset
                self.records = [record for record in self.records if record[1] >= self.horizon]
                todo.append(lambda table, horizon=self.horizon: table.trim(horizon))  # type: ignore[misc]
            else:
                self.number += 1
                record = (key, self.horizon + offset, self.number)
                self.records.append(record)
                todo.append(lambda table, record=record: table.add(*([part] for part in record)))  # type: ignore[misc]
        return todo

    def view(self) -> dict[Any, list[tuple[int, int]]]:
        found: dict[Any, list[tuple[int, int]]] = {}
        for key, timestamp, value in sorted(self.records, key=lambda record: record[1]):
            found.setdefault(key, []).append((timestamp, value))
        return found


def renew(table: TimelineTable) -> None:
    for _, values in table.entries.values():
        values[:] = [value + 1000 for value in values]
    table.renew()


def view(table: TimelineTable) -> dict[Any, list[tuple[int, int]]]:
    return {key: list(zip(*held, strict=True)) for key, held in table.entries.items()}


def travelled(delta: Any) -> Any:
    return pickle.loads(pickle.dumps(delta))


def trims_well(table: TimelineTable, model: Model) -> bool:
    """Whether a copy knows which of its records are old: it loses the right ones, whatever the horizon."""
    for beyond in (1, 4, 100):
        later, expected = copy.deepcopy(table), copy.deepcopy(model)
        expected.steps([(..., beyond)])
        later.trim(expected.horizon)
        if view(later) != expected.view():
            return False
    return True


steps = st.tuples(st.sampled_from([*KEYS, ...]), st.integers(0, 6))
epoch_steps = st.builds(
    lambda renews, others: [*([RENEWAL] if renews else []), *others], st.booleans(), st.lists(steps, max_size=8)
)
epochs_of_steps = st.lists(epoch_steps, min_size=1, max_size=6)


@settings(max_examples=300)
@given(epochs_of_steps)
def test_a_timeline_holds_what_a_sorted_list_would(epochs: list[list[tuple[Any, int]]]) -> None:
    table, model = TimelineTable(), Model()
    for epoch in epochs:
        for step in model.steps(epoch):
            step(table)
        assert view(table) == model.view()
        assert trims_well(table, model)
        assert table.size() == len(model.view())


@settings(max_examples=300)
@given(epochs_of_steps, st.data())
def test_merged_deltas_bring_any_copy_within_them_to_the_end(epochs: list[list[Any]], data: st.DataObject) -> None:
    live, model, views = TimelineTable(), Model(), [{}]
    deltas: list[dict[int, Any]] = []
    for epoch in epochs:
        for step in model.steps(epoch):
            step(live)
        deltas.append(travelled(live.drain(group_of)))
        views.append(model.view())
    first = data.draw(st.integers(0, len(deltas) - 1))
    split = data.draw(st.integers(first, len(deltas)))
    for start in range(first, len(deltas) + 1):
        copied = TimelineTable()
        for delta in deltas[:start]:
            apply_all(copied, delta)
        assert view(copied) == views[start]
        for group in {group for delta in deltas for group in delta}:
            older = [travelled(delta[group]) for delta in deltas[first:split] if group in delta]
            newer = [travelled(delta[group]) for delta in deltas[split:] if group in delta]
            parts = [*([TimelineTable.merge(older)] if older else []), *newer]  # merged files merge again
            if parts:
                copied.apply(travelled(TimelineTable.merge(parts)))
        assert view(copied) == views[-1]
        assert trims_well(copied, model)
        assert not copied.has_changes()


def apply_all(table: TimelineTable, deltas: dict[int, Any]) -> None:
    for delta in deltas.values():
        table.apply(travelled(delta))


@settings(max_examples=200)
@given(epochs_of_steps, epochs_of_steps)
def test_a_dump_rebuilds_the_table_and_later_deltas_fit_both(before: list[list[Any]], after: list[list[Any]]) -> None:
    live, model = TimelineTable(), Model()
    for epoch in before:
        for step in model.steps(epoch):
            step(live)
        live.drain(group_of)
    dumped = travelled(live.dump(group_of))
    restored, follower = TimelineTable(), copy.deepcopy(live)
    apply_all(restored, dumped)
    assert view(restored) == model.view()
    for epoch in after:  # the restored copy goes on, and the one that was there all the time catches up
        for step in model.steps(epoch):
            step(restored)
        apply_all(follower, restored.drain(group_of))
        assert view(follower) == view(restored) == model.view()


@settings(max_examples=100)
@given(st.lists(st.tuples(epoch_steps, runs), min_size=1, max_size=8), st.data())
def test_state_files_restore_it_in_any_worker_however_they_were_compacted(
    history: list[Any], data: st.DataObject
) -> None:
    storage, model = MemoryStorage(), Model()
    sequence: FileSequence = ()
    compact = Folder(storage)
    workers = [KeyedState("join", MAX_PARALLELISM, range(MAX_PARALLELISM)) for _ in range(3)]
    for number, (epoch, run_to_compact) in enumerate(history):
        worker = workers[data.draw(st.integers(0, 2))]
        table = worker.timeline_table("left")
        worker.bring_to(sequence, storage)  # type: ignore[arg-type]
        for step in model.steps(epoch):
            step(table)
        sequence = compact(worker.save(sequence, storage, f"file-{number}"), run_to_compact)  # type: ignore[arg-type]
        assert view(table) == model.view()
    for worker in [*workers, KeyedState("join", MAX_PARALLELISM, range(MAX_PARALLELISM))]:
        worker.bring_to(sequence, storage)  # type: ignore[arg-type]
        assert view(worker.timeline_table("left")) == model.view()


def test_converting_an_empty_timeline_deletes_nothing_that_others_add_later() -> None:
    storage, sequence = MemoryStorage(), ()
    first, second = (KeyedState("join", MAX_PARALLELISM, range(MAX_PARALLELISM)) for _ in range(2))
    for number, (worker, step) in enumerate(
        [
            (first, lambda table: table.renew()),
            (second, lambda table: table.add(["a"], [0], [1])),
            (first, lambda table: table.add(["a"], [0], [2])),
        ]
    ):
        table = worker.timeline_table("left")
        worker.bring_to(sequence, storage)  # type: ignore[arg-type]
        step(table)
        sequence = worker.save(sequence, storage, f"file-{number}")  # type: ignore[arg-type, assignment]
    second.bring_to(sequence, storage)  # type: ignore[arg-type]
    assert view(second.timeline_table("left")) == {"a": [(0, 1), (0, 2)]}


def test_empty_forgets_everything() -> None:
    table = TimelineTable()
    table.add(["k"], [1], ["v"])
    table.drain(group_of)
    table.add(["k", "l"], [5, 2], ["v", "w"])
    table.trim(4)
    assert table.has_changes()
    entries = table.entries
    table.empty()
    assert (table.size(), table.has_changes(), table.drain(group_of), table.dump(group_of)) == (0, False, {}, {})
    assert table.entries is entries


def test_a_delta_holds_what_changed_and_nothing_else() -> None:
    table = TimelineTable()
    table.add(["k"] * 1000, range(1000), range(1000))
    table.drain(one_group)
    table.add(["k", "l"], [998, 2000], ["new", "other"])
    assert table.drain(one_group) == {0: TimelineDelta(0, [(2, ["k", "l"], [998, 2000], ["new", "other"])], NEVER, [])}
    table.trim(500)
    assert table.drain(one_group) == {0: TimelineDelta(0, [], 500, ["k"])}
    assert table.drain(one_group) == {}


def test_a_trimmed_key_is_named_once_however_its_records_came() -> None:
    table = TimelineTable()
    table.add(["k", "k", "k"], [10, 5, 30], ["x", "y", "z"])
    table.drain(one_group)
    table.trim(20)
    assert table.drain(one_group) == {0: TimelineDelta(0, [], 20, ["k"])}


def test_a_record_that_comes_and_goes_within_an_epoch_is_never_written() -> None:
    table = TimelineTable()
    table.add(["brief", "long", "brief"], [1, 20, 2], ["x", "y", "z"])
    table.trim(10)
    assert table.drain(one_group) == {0: TimelineDelta(0, [(1, ["long"], [20], ["y"])], 10, [])}
    table.add(["brief"], [11], ["x"])
    table.trim(15)
    assert table.has_changes()
    assert table.drain(one_group) == {}
    assert list(table.entries) == ["long"]


def test_merging_drops_records_that_were_trimmed_later() -> None:
    table = TimelineTable()
    deltas = []
    for number in range(10):
        table.add(["k"], [number * 10], [number])
        table.trim(number * 10 - 15)
        deltas.append(table.drain(one_group)[0])
    assert TimelineTable.merge(deltas) == TimelineDelta(
        0, [(9, ["k"], [80], [8]), (10, ["k"], [90], [9])], 75, ["k"]
    )


def test_what_is_renewed_replaces_what_was_saved_before() -> None:
    table = TimelineTable()
    table.add(["k", "gone", "k"], [1, 2, 3], ["old", "old", "old"])
    before = table.drain(one_group)[0]
    for _, values in table.entries.values():
        values[:] = ["new"] * len(values)
    table.renew()
    table.trim(3)
    renewed = table.drain(one_group)[0]
    assert renewed == TimelineDelta(0, [(-2, ["k"], [3], ["new"])], 3, ["k", "gone"])
    assert TimelineTable.merge([before, renewed]) == renewed  # of what was there before nothing is left


class Watched(dict[Any, Any]):
    """Remembers which keys were looked up."""

    def get(self, key: Any, default: Any = None) -> Any:
        self.seen = [*getattr(self, "seen", []), key]
        return super().get(key, default)


def test_trimming_costs_what_is_forgotten_and_not_what_is_held() -> None:
    table = TimelineTable()
    count = 10_000
    table.add([f"key{n}" for n in range(count)], [1_000_000 + n for n in range(count)], [None] * count)
    table.add(["old", "old"], [5, 2_000_000], [None, None])
    table.entries = watched = Watched(table.entries)
    table.trim(10)
    table.trim(1_000_002)
    assert watched.seen == ["old", "key0", "key1"]
    assert table.size() == count - 1


def one_group(key: Any) -> int:
    return 0


NEVER = -(1 << 63)
