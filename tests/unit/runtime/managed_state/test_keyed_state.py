"""Keyed state as a whole: live, saved, compacted, restored, caught up, reverted and moved, always the same state."""

from __future__ import annotations

import copy
import threading
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.errors import ProgramError, StateError, StorageError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.storage import PosixStorage
from tests.unit.runtime.managed_state.keyed_workers import (
    KEYS,
    MAX_PARALLELISM,
    Folder,
    MemoryStorage,
    Model,
    Worker,
    compacted,
    fresh,
    group_of,
    operations,
    runs,
)

SAVED, LOST, CRASHED, BROKEN = "saved", "saved, but the epoch failed", "failed before saving", "storage failed"

epochs = st.tuples(
    st.integers(0, 2),  # the worker that runs the subtask
    st.lists(operations, max_size=8),
    st.sampled_from([SAVED, SAVED, SAVED, SAVED, LOST, CRASHED, BROKEN]),
    runs,  # what is compacted afterwards
)


def files_of(sequence: FileSequence) -> list[str]:
    return [file.name for file in sequence]


@settings(max_examples=150)
@given(st.lists(epochs, max_size=14))
def test_any_worker_at_any_time_holds_what_plain_dicts_would(history):
    storage, sequence, model = MemoryStorage(), (), Model()
    compact = Folder(storage)
    workers = [Worker() for _ in range(3)]
    for number, (index, steps, outcome, run_to_compact) in enumerate(history):
        worker = workers[index]
        worker.state.bring_to(sequence, storage)
        assert worker.view() == model.view()
        proposed = copy.deepcopy(model)
        for step in steps:
            worker.do(*step)
            proposed.do(*step)
        assert worker.view() == proposed.view()
        if outcome is CRASHED:
            continue
        storage.broken = outcome is BROKEN
        try:
            saved = worker.state.save(sequence, storage, f"state/{number}")
        except StorageError:
            saved = None
        storage.broken = False
        if outcome is SAVED:
            sequence, model = saved, proposed
            assert fresh(sequence, storage).view() == model.view()
        sequence = compact(sequence, run_to_compact)
        assert fresh(sequence, storage).view() == model.view()
    for worker in workers:
        worker.state.bring_to(sequence, storage)
        assert worker.view() == model.view()


@settings(max_examples=100)
@given(st.lists(st.tuples(st.lists(operations, min_size=1, max_size=6), runs), min_size=2, max_size=20), st.data())
def test_a_worker_that_was_away_catches_up_through_compacted_files(history, data):
    storage, sequence, live = MemoryStorage(), (), Worker()
    compact = Folder(storage)
    away_at = data.draw(st.integers(0, len(history) - 1))
    away = Worker()
    for number, (steps, run_to_compact) in enumerate(history):
        live.state.bring_to(sequence, storage)
        for step in steps:
            live.do(*step)
        sequence = live.state.save(sequence, storage, f"state/{number}")
        if number == away_at:
            away.state.bring_to(sequence, storage)
        sequence = compact(sequence, run_to_compact)
    away.state.bring_to(sequence, storage)
    assert away.view() == live.view() == fresh(sequence, storage).view()


def test_a_worker_at_any_remembered_version_catches_up_through_any_compaction():
    """Every version a worker can be at, every run that can be compacted, merged and whole: all end with one state."""
    storage, live, model = MemoryStorage(), Worker(), Model()
    versions: list[FileSequence] = [()]
    for number in range(6):
        steps = [("add", "a", number), ("put", "a", number % 3), ("remove", "a", (number + 1) % 3)]
        steps += [("clear", "b", 0)] if number % 2 else [("register", "b", number)]
        for step in steps:
            model.do(*step)
        versions.append(run(live, versions[-1], storage, f"f{number}", *steps))
    sequence = versions[-1]
    for start in range(len(sequence)):
        for stop in range(start + 1, len(sequence) + 1):
            shorter = compacted(sequence, storage, f"x{start}-{stop}", start, stop)
            for version in versions:
                away = fresh(version, storage)
                away.state.bring_to(shorter, storage)
                assert away.view() == model.view(), (start, stop, version)


parallelisms = st.one_of(st.none(), st.integers(1, 5))
changes = st.tuples(st.lists(operations, max_size=6), parallelisms, st.lists(runs, max_size=5))


@settings(max_examples=120)
@given(st.lists(changes, max_size=10), st.integers(1, 5))
@example([([("put", "a", 1), ("add", "b", 2)], 3, []), ([], 2, [(0, 2)])], 1)
def test_after_any_changes_of_parallelism_every_entry_is_there_exactly_once(history, parallelism):
    storage, names, model = MemoryStorage(), map(str, count()), Model()
    compact = Folder(storage)
    workers = [Worker(groups_of(i, MAX_PARALLELISM, parallelism)) for i in range(parallelism)]
    sequences: list[FileSequence] = [() for _ in workers]
    for steps, changed, run_of in history:
        for operation, key, argument in steps:
            owner = next(worker for worker in workers if group_of(key) in worker.state.groups)
            if operation == "fire":  # which key that hits depends on the parallelism
                continue
            owner.do(operation, key, argument)
            model.do(operation, key, argument)
        sequences = [w.state.save(c, storage, next(names)) for w, c in zip(workers, sequences, strict=True)]
        if changed is not None:
            former = [worker.state.groups for worker in workers]
            workers = [Worker(groups_of(i, MAX_PARALLELISM, changed)) for i in range(changed)]
            sequences = [restricted(sequences, former, worker.state.groups) for worker in workers]
        for index, run_to_compact in enumerate(run_of[: len(sequences)]):
            sequences[index] = compact(sequences[index], run_to_compact, workers[index].state.groups)
        for worker, sequence in zip(workers, sequences, strict=True):
            worker.state.bring_to(sequence, storage)
        _same_in_pieces(workers, model)
        _same_in_pieces([fresh(c, storage, w.state.groups) for w, c in zip(workers, sequences, strict=True)], model)


def restricted(sequences: list[FileSequence], owned: list[range], groups: range) -> FileSequence:
    """The sequence of a subtask with these key groups, given those of the former subtasks, read off the contract."""
    return tuple(
        StateFile(file.name, file.size, file.is_base, file.covers, (shared[0], shared[-1] + 1))
        for sequence, former in zip(sequences, owned, strict=True)
        for file in sequence
        if (shared := [group for group in former if group in groups and group in range(*file.groups or (0, 99))])
    )


def _same_in_pieces(workers: list[Worker], model: Model) -> None:
    expected = model.view()
    for key in KEYS:
        holders = [worker for worker in workers if group_of(key) in worker.state.groups]
        assert len(holders) == 1
        assert holders[0].view()[repr(key)] == expected[repr(key)]
        for other in workers:
            if other is not holders[0]:
                assert other.view()[repr(key)] == Worker().view()[repr(key)]
    fired = [timer for worker in workers for timer in worker.fired()]
    assert sorted(fired, key=repr) == sorted(expected["timers"], key=repr)


# --- the cases behind the properties ----------------------------------------------------------------------------------


def run(worker: Worker, sequence: FileSequence, storage: Any, name: str, *steps: tuple[str, Any, int]) -> FileSequence:
    worker.state.bring_to(sequence, storage)
    for step in steps:
        worker.do(*step)
    return worker.state.save(sequence, storage, name)


def test_catching_up_reads_only_the_files_that_were_missed():
    storage, live, away = MemoryStorage(), Worker(), Worker()
    sequence: FileSequence = ()
    for number in range(5):
        sequence = run(live, sequence, storage, f"f{number}", ("set", "a", number + 1))
        if number == 2:
            away.state.bring_to(sequence, storage)
    storage.reads.clear()
    away.state.bring_to(sequence, storage)
    assert storage.reads == ["f3", "f4"]
    away.state.bring_to(sequence, storage)
    assert storage.reads == ["f3", "f4"]
    assert away.view() == live.view()


def test_a_merged_file_is_read_by_those_it_covers_and_skipped_by_those_that_have_it():
    storage, live = MemoryStorage(), Worker()
    sequences: list[FileSequence] = [()]
    for number in range(6):
        sequences.append(run(live, sequences[-1], storage, f"f{number}", ("add", "a", number), ("put", "a", number)))
    sequence = compacted(sequences[6], storage, "m", 1, 5)
    assert files_of(sequence) == ["f0", "m", "f5"]
    assert (sequence[1].covers, sequence[1].is_base) == (("f1", "f2", "f3", "f4"), False)
    for version, reads in [(0, ["f0", "m", "f5"]), (1, ["m", "f5"]), (2, ["m", "f5"]), (4, ["m", "f5"]), (5, ["f5"])]:
        worker = fresh(sequences[version], storage)
        storage.reads.clear()
        worker.state.bring_to(sequence, storage)
        assert storage.reads == reads
        assert worker.view() == live.view()
    again = compacted(sequence, storage, "n", 0, 2)
    assert (again[0].covers, again[0].is_base) == (("f0", "f1", "f2", "f3", "f4", "m"), True)


def test_a_base_is_skipped_by_those_that_have_it_and_starts_the_others_over():
    """A base names nothing that is gone, so it cannot be applied over a copy that still has it."""
    storage, live = MemoryStorage(), Worker()
    early = run(live, (), storage, "f0", ("set", "a", 1), ("set", "b", 1))
    late = run(live, early, storage, "f1", ("clear", "a", 0))
    base = compacted(late, storage, "base")
    assert [(file.is_base, file.covers) for file in base] == [(True, ("f0", "f1"))]
    last = run(live, base, storage, "f2", ("set", "b", 2))
    for version, reads in [(early, ["base", "f2"]), (late, ["f2"]), (base, ["f2"])]:
        worker = fresh(version, storage)
        storage.reads.clear()
        worker.state.bring_to(last, storage)
        assert storage.reads == reads
        assert worker.view() == live.view()


def test_a_version_that_is_both_covered_and_present_counts_from_where_it_stands():
    """Not something that happens; but if a later file is the version itself, nothing before it is applied again."""
    file, earlier = StateFile("v", 1, False), StateFile("m", 1, False, covers=("u",))
    assert missing_files((earlier, file), "v") == ()
    later = StateFile("w", 1, False, covers=("x", "v"))
    assert missing_files((earlier, later), "v") == ()
    assert missing_files((earlier, later), "x") == (later,)
    assert missing_files((earlier, later), "unheard of") is None
    assert missing_files((earlier, later), None) == (earlier, later)
    assert missing_files((), "v") is None


def test_a_file_counts_for_the_key_groups_it_is_restricted_to():
    file = StateFile("f", 1, False)
    assert file.within(range(3, 9)) == range(3, 9)
    part = file.restricted(range(4, 7))
    assert part.groups == (4, 7)
    assert (part.within(range(5)), part.within(range(6, 20))) == (range(4, 5), range(6, 7))
    assert not part.within(range(7, 20))
    assert part.restricted(range(6, 9)).groups == (6, 7)
    assert not part.restricted(range(9, 12)).within(range(128))


def test_a_compaction_leaves_out_the_key_groups_that_do_not_count():
    storage, live = MemoryStorage(), Worker()
    sequence = run(live, (), storage, "f0", *[("set", key, 1) for key in KEYS])
    middle = sorted(map(group_of, KEYS))[2]
    sequence = tuple(file.restricted(range(middle, MAX_PARALLELISM)) for file in sequence)
    for groups in (range(MAX_PARALLELISM), range(middle, middle + 1)):
        whole = compacted(sequence, storage, f"x{groups}", groups=groups)
        held = [key for key in KEYS if middle <= group_of(key) and group_of(key) in groups]
        assert sorted(map(group_of, fresh(whole, storage).value_keys())) == sorted(map(group_of, held))


def test_a_version_forgotten_by_its_merged_file_is_restored_from_the_start():
    storage, live = MemoryStorage(), Worker()
    early = sequence = run(live, (), storage, "f0", ("add", "a", 1))
    for number in range(1, 120):
        sequence = run(live, sequence, storage, f"f{number}", ("add", "a", 1))
        if len(sequence) > 5:
            sequence = compacted(sequence, storage, f"m{number}", 1)
    assert len(sequence[1].covers) == 32
    away = fresh((*early, StateFile("f1", 0, False)), storage)
    assert missing_files(sequence, away.state.version) is None
    away.state.bring_to(sequence, storage)
    assert away.view() == live.view()


def test_the_order_of_a_map_survives_a_merge_applied_over_a_part_of_itself():
    storage, live = MemoryStorage(), Worker()
    sequence = run(live, (), storage, "f0", ("put", "a", 1), ("put", "a", 2))
    sequence = run(live, sequence, storage, "f1", ("remove", "a", 1), ("put", "a", 1))  # 2, 1
    sequence = run(live, sequence, storage, "f2", ("put", "a", 3))  # 2, 1, 3
    away = fresh(sequence, storage)
    sequence = run(live, sequence, storage, "f3", ("put", "a", 4), ("put", "a", 2))
    sequence = compacted(sequence, storage, "m", 1)
    storage.reads.clear()
    away.state.bring_to(sequence, storage)
    assert storage.reads == ["m"]
    assert [key for key, _ in away.view()["'a'"][2]] == [2, 1, 3, 4]
    assert away.view() == live.view()


def test_nothing_is_appended_twice_by_a_merge_applied_over_a_part_of_itself():
    storage, live = MemoryStorage(), Worker()
    sequence = compacted(run(live, (), storage, "f0", ("add", "a", 0)), storage, "base")
    versions = [sequence]
    for number in range(1, 5):
        sequence = run(live, sequence, storage, f"f{number}", ("add", "a", number), ("register", "a", number))
        versions.append(sequence)
    sequence = compacted(sequence, storage, "m", 1)
    assert files_of(sequence) == ["base", "m"]
    for version in versions:
        away = fresh(version, storage)
        away.state.bring_to(sequence, storage)
        assert away.view()["'a'"][1] == [0, 1, 2, 3, 4]
        assert away.view() == live.view()


def test_an_epoch_that_changed_nothing_writes_no_file():
    storage, worker = MemoryStorage(), Worker()
    sequence = run(worker, (), storage, "f0", ("set", "a", 1), ("add", "a", 1), ("put", "a", 1), ("register", "a", 1))
    untouched: list[tuple[str, Any, int]] = [
        ("clear", "b", 0), ("clear_list", "b", 0), ("replace", "b", 0), ("add_all", "a", 0), ("clear_map", "b", 0),
        ("remove", "a", 2), ("put_all", "b", 0), ("clear_sum", "b", 0), ("clear_average", "b", 0), ("delete", "b", 1),
        ("register", "a", 1), ("fire", "a", 0),
    ]  # fmt: skip
    assert run(worker, sequence, storage, "f1", *untouched) == sequence
    assert list(storage.files) == ["f0"]
    assert worker.state.version == "f0"


def test_the_bytes_of_an_epoch_follow_what_it_changed_not_what_is_held():
    storage, state = MemoryStorage(), KeyedState("o", 1, range(1))
    values, lists, maps = state.value_table("v"), state.list_table("l"), state.map_table("m")
    for key in range(5000):
        values.entries[key] = "x" * 20
        values.changed[key] = None
    lists.append("long", ["y" * 20] * 5000)
    for map_key in range(5000):
        maps.put_item("large", map_key, "z" * 20)
    sequence = state.save((), storage, "first")

    def change(number: int) -> int:
        nonlocal sequence
        for key in range(number):
            values.entries[key] = "x" * 21
            values.changed[key] = None
            maps.put_item("large", 10_000 + key, "w" * 20)
            maps.remove_item("large", key)
        lists.append("long", ["t" * 20] * number)
        name = f"f{len(storage.files)}"
        sequence = state.save(sequence, storage, name)
        return len(storage.files[name])

    one, ten, hundred = change(1), change(10), change(100)
    assert one < 700
    assert ten < one + 10 * 150
    assert hundred < one + 100 * 150
    assert sequence[0].size > 50_000


def test_merging_appends_to_a_long_list_does_not_write_the_list():
    storage, state = MemoryStorage(), KeyedState("o", 1, range(1))
    table = state.list_table("l")
    table.append("k", list(range(50_000)))
    sequence = state.save((), storage, "base")
    for number in range(40):
        table.append("k", [number])
        sequence = state.save(sequence, storage, f"f{number}")
        if len(sequence) > 8:
            sequence = compacted(sequence, storage, f"m{number}", 1)
    assert sum(len(data) for name, data in storage.files.items() if name != "base") < 50 * 2000
    other = KeyedState("o", 1, range(1))
    other.bring_to(sequence, storage)
    assert other.list_table("l").entries["k"][-40:] == list(range(40))


def test_a_failed_first_epoch_leaves_nothing():
    storage, worker = MemoryStorage(), Worker()
    for step in [("set", "a", 1), ("add", "a", 1), ("put", "a", 1), ("register", "a", 1), ("sum", "a", 1)]:
        worker.do(*step)
    worker.state.bring_to((), storage)
    assert worker.view() == Worker().view()


def test_handles_see_a_restored_state_because_tables_stay_the_same_objects():
    storage, live, other = MemoryStorage(), Worker(), Worker()
    sequence = run(live, (), storage, "f0", ("set", "a", 1), ("add", "a", 1), ("put", "a", 1), ("sum", "a", 2))
    run(other, (), storage, "elsewhere", ("set", "b", 5), ("put", "b", 5), ("average", "b", 1))
    other.state.bring_to(sequence, storage)  # resets, then loads
    assert other.view() == live.view()


def test_a_restore_that_broke_off_is_not_taken_for_a_version():
    storage, live = MemoryStorage(), Worker()
    early = sequence = run(live, (), storage, "f0", ("add", "a", 0))
    for number in range(1, 4):
        sequence = run(live, sequence, storage, f"f{number}", ("add", "a", number))
    worker = fresh(early, storage)
    missing = storage.files.pop("f2")
    with pytest.raises(StorageError, match="f2"):
        worker.state.bring_to(sequence, storage)
    storage.files["f2"] = missing
    worker.state.bring_to(early, storage)
    assert worker.view() == fresh(early, storage).view()
    worker.state.bring_to(sequence, storage)
    assert worker.view() == live.view()


def test_a_value_is_converted_to_its_declared_type_here_as_well_as_in_the_file():
    storage = MemoryStorage()

    def worker() -> tuple[KeyedState, dict[Any, Any]]:
        state = KeyedState("o", 1, range(1))
        return state, state.value_table("v", Types.DOUBLE()).entries

    state, entries = worker()
    sequence: FileSequence = ()
    for number in range(12):  # through changes, merged files and bases
        entries["k"] = number
        state.value_table("v").changed["k"] = None
        sequence = state.save(sequence, storage, f"f{number}")
        if number % 3 == 2:
            sequence = compacted(sequence, storage, f"x{number}", number % 2, groups=range(1))
        assert (entries["k"], type(entries["k"])) == (float(number), float)
        other, held = worker()
        other.bring_to(sequence, storage)
        assert (held["k"], type(held["k"])) == (float(number), float)


def test_a_value_of_the_wrong_type_is_refused_with_its_state_operator_and_key():
    state = KeyedState("totals (uid t)", 1, range(1))
    table = state.value_table("sum", Types.LONG())
    table.entries["alice"] = "many"
    table.changed["alice"] = None
    with pytest.raises(TypeMismatchError, match=r"State 'sum' of operator totals \(uid t\), key 'alice'"):
        state.save((), MemoryStorage(), "f0")


def test_a_key_of_another_subtask_is_refused():
    other = next(key for key in range(100) if group_of(key) >= 8)
    worker = Worker(range(8))
    worker.do("set", other, 1)
    with pytest.raises(StateError, match=r"'value'.*key group \d+.*\(0 to 7\).*depend on the record alone"):
        worker.state.save((), MemoryStorage(), "f")


def test_an_object_that_cannot_be_pickled_is_refused_with_the_state_that_holds_it():
    worker = Worker()
    worker.do("set", "a", 1)
    worker.state.current.key = "b"
    worker.map.put("lock", threading.Lock())
    with pytest.raises(StateError, match=r"State 'map' of operator counter \(uid c\).*lock.*open\(\)"):
        worker.state.save((), MemoryStorage(), "f0")


def test_two_states_of_one_name_and_different_kinds_are_refused():
    state = KeyedState("counter (uid c)", 1, range(1))
    state.value_table("x")
    assert state.value_table("x") is state.value_table("x")
    with pytest.raises(ProgramError, match=r"counter \(uid c\) asks for the list state 'x', but holds a value state"):
        state.list_table("x")


def test_a_checkpoint_with_another_kind_of_state_under_a_name_is_refused():
    storage, old, new = MemoryStorage(), KeyedState("o", 1, range(1)), KeyedState("o", 1, range(1))
    old.map_table("x").put_item("k", 1, 1)
    sequence = old.save((), storage, "f0")
    new.list_table("x")
    with pytest.raises(StateError, match="has a list state 'x', but its checkpoint holds a map state"):
        new.bring_to(sequence, storage)


def test_it_works_on_real_files(tmp_path):
    storage, live = PosixStorage(str(tmp_path), sync=False), Worker()
    sequence: FileSequence = ()
    for number in range(20):
        sequence = run(live, sequence, storage, f"state/f{number}", ("add", "a", number % 6), ("put", "b", number % 6))
        if number % 4 == 3:
            sequence = compacted(sequence, storage, f"state/x{number}", number % 3)
    assert fresh(sequence, storage).view() == live.view()
    assert live.state.sizes() == {"value": 0, "list": 1, "map": 1, "sum": 0, "average": 0, "timers": 0}
    for file in sequence:
        assert (tmp_path / file.name).stat().st_size == file.size
