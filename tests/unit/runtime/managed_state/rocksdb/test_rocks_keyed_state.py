"""State in RocksDB is the state that memory would hold: whatever is set aside, lost, taken over, compacted, missing."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from flott.errors import CorruptStateError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.handles import TableReducingState, TableValueState, list_state, map_state
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.storage import PosixStorage

pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")

GROUPS = 8
KEYS: list[Any] = ["a", "b", 3, (4, "d"), None, "e", 7.5, b"f"]
PANES = [(0, 10), (10, 20)]
OPERATIONS = (
    "set", "clear", "reduce", "append", "extend", "replace", "clear list", "put", "put", "remove", "clear map",
    "register", "delete", "fire", "open", "drop", "wait", "element", "unite",
)  # fmt: skip


class Copy:
    """A worker's copy of the state, and what a program does with it."""

    def __init__(self, state: KeyedState, cramped: bool = False):
        self.state = state
        self.cramped = cramped  #: room is made after every step
        current = state.current
        self.value = TableValueState(state.value_table("value"), current)
        self.sum = TableReducingState(state.value_table("sum"), current, lambda a, b: a + b)
        self.list = list_state(state.list_table("list"), current)
        self.map = map_state(state.map_table("map"), current)
        self.timers = state.timer_table("timers")
        self.panes = state.pane_table("panes")
        self.elements = state.list_pane_table("elements")
        self.waiting = state.timeline_table("waiting")
        self.named = state.list_table("named", namespaced=True)
        self.fired: list[Any] = []

    def do(self, operation: str, key: Any, n: int) -> None:
        self.state.current.key = key
        match operation:
            case "set":
                self.value.update(n)
            case "clear":
                self.value.clear()
            case "reduce":
                self.sum.add(n)
            case "append":
                self.list.add(n)
            case "extend":
                self.list.add_all(range(n * 60))
            case "replace":
                self.list.update([n] * (n % 3))
            case "clear list":
                self.list.clear()
            case "put":
                self.map.put(n % 5, n)
            case "remove":
                self.map.remove(n % 5)
            case "clear map":
                self.map.clear()
            case "register":
                self.timers.register(n, key, None)
            case "delete":
                self.timers.delete(n, key, None)
            case "fire":
                while (timer := self.timers.pop_due(n // 2)) is not None:
                    self.fired.append(timer)
            case "open":
                held, marks = self.panes.open(PANES[n % 2])
                held[key] = held[key] + n if key in held else n
                marks[key] = 0
            case "drop":
                released = [dict(part) for part in self.panes.release(PANES[n % 2])]
                pairs = [pair for part in released for pair in part.items()]
                self.fired.append(sorted(pairs, key=repr))
            case "element":
                held, marks = self.elements.open(PANES[n % 2])
                elements = held.setdefault(key, [])
                marks.setdefault(key, len(elements))
                elements.append(n)
            case "wait":
                self.waiting.add([key], [n], [str(n)])
            case "unite":
                self.named.append((key, n % 3), [n])
                self.named.unite((key, 0), [(key, 1)])
        if self.cramped:
            self.state._put_aside(self.state._paged)  # type: ignore[attr-defined]

    def view(self) -> dict[str, Any]:
        """Everything a program can see, with maps in any order."""
        seen: dict[str, Any] = {"fired": self.fired, "next": self.timers.next_timestamp()}
        for key in KEYS:
            self.state.current.key = key
            seen[repr(key)] = (
                self.value.value(), self.sum.get(), list(self.list.get()), sorted(self.map.items()),
                sorted(self.map.keys()), sorted(self.map.values()), self.map.is_empty(),
                [self.map.get(n) for n in range(5)], [self.map.contains(n) for n in range(5)],
                [list(self.named.entries.get((key, n), ())) for n in range(3)],
                self.waiting.entries.get(key),
            )  # fmt: skip
        seen["timers"] = sorted(self.timers.all_timers(), key=repr)
        seen["keys"] = [sorted(self.state.keys_with(name), key=repr) for name in ("value", "list", "map")]
        seen["panes"] = {
            pane: sorted(((k, v) for k, v in held.items()), key=repr)
            for pane, held in self.panes.panes.items()
            if any(True for _ in held.items())
        }
        seen["elements"] = {pane: held for pane, held in self.elements.panes.items() if held}
        return seen


def rocks(folder: Path, groups: range = range(GROUPS), budget: int = 4 << 20) -> RocksKeyedState:
    return RocksKeyedState("counter (uid c)", GROUPS, groups, folder, Budget(budget))


@pytest.mark.parametrize("seed", range(24))
def test_through_epochs_crashes_and_take_overs_the_database_holds_what_memory_would(tmp_path, seed):
    chance = random.Random(seed)
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    local = tmp_path / "local" / "state"
    workers = [Copy(rocks(local), cramped=chance.random() < 0.4) for _ in range(2)]
    sequence: FileSequence = ()
    for epoch in range(12):
        memory, disk = Copy(KeyedState("counter (uid c)", GROUPS, range(GROUPS))), chance.choice(workers)
        memory.state.bring_to(sequence, storage)
        if chance.random() < 0.1:
            shutil.rmtree(local, ignore_errors=True)  # another host, or a disk that was emptied
        disk.state.bring_to(sequence, storage)
        memory.fired, disk.fired = [], []
        assert disk.view() == memory.view()
        for _ in range(chance.randrange(25)):
            step = (chance.choice(OPERATIONS), chance.choice(KEYS), chance.randrange(8))
            memory.do(*step)
            disk.do(*step)
        assert disk.view() == memory.view()
        fate = chance.random()
        if fate < 0.15:
            disk.state.close()  # the task failed
            continue
        saved = disk.state.save(sequence, storage, f"state/{epoch}")
        if fate < 0.3:
            continue  # another task failed: nobody refers to what was saved
        sequence = _compacted(sequence, saved, storage, chance, epoch)
        whole = KeyedState("counter (uid c)", GROUPS, range(GROUPS))
        restored = Copy(whole)
        whole.bring_to(sequence, storage)
        memory.fired = []
        assert restored.view() == memory.view()


def _compacted(
    before: FileSequence, saved: FileSequence, storage: PosixStorage, chance: random.Random, epoch: int
) -> FileSequence:
    if len(saved) < 3 or chance.random() > 0.4:
        return saved
    whole = chance.random() < 0.5
    run = saved[: len(saved) - 1] if whole else saved[1:]
    order = CompactionOrder(run, (0, GROUPS), f"state/compacted-{epoch}", whole=whole)
    made = compact(order, storage)
    return (made, *saved[len(run) :]) if whole else (saved[0], made)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_a_change_of_parallelism_moves_every_key_to_the_database_of_its_new_subtask(tmp_path, parallelism):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    old = [rocks(tmp_path / "old" / str(i), groups_of(i, GROUPS, 3)) for i in range(3)]
    sequences = []
    for index, state in enumerate(old):
        state.bring_to((), storage)
        handle = TableValueState(state.value_table("value"), state.current)
        for key in range(100):
            state.current.key = key
            if state._group_index[key] in state.groups:
                handle.update(key * 10)
        sequences.append(state.save((), storage, f"state/{index}"))
    found = []
    for index in range(parallelism):
        groups = groups_of(index, GROUPS, parallelism)
        state = rocks(tmp_path / "new" / str(index), groups)
        state.bring_to(tuple(file.restricted(groups) for sequence in sequences for file in sequence), storage)
        found += [(key, state.value_table("value").entries[key]) for key in state.keys_with("value")]
        state.close()
    assert sorted(found) == [(key, key * 10) for key in range(100)]


def test_a_database_that_cannot_be_read_is_made_anew(tmp_path):
    storage, folder = PosixStorage(str(tmp_path / "job"), sync=False), tmp_path / "local"
    state = rocks(folder)
    state.bring_to((), storage)
    state.value_table("value").entries["a"] = 1
    state.value_table("value").changed["a"] = None
    sequence = state.save((), storage, "state/1")
    for file in folder.glob("MANIFEST*"):
        file.write_bytes(b"nonsense")
    state.bring_to(sequence, storage)
    assert state.value_table("value").entries["a"] == 1


def test_reading_one_item_of_a_large_map_reads_no_other(tmp_path):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    state = rocks(tmp_path / "local")
    state.bring_to((), storage)
    handle = map_state(state.map_table("map"), state.current)
    state.current.key = "k"
    handle.put_all((n, str(n)) for n in range(1000))
    sequence = state.save((), storage, "state/1")
    state.bring_to(sequence, storage)
    state.current.key = "k"
    assert handle.get(500) == "500"
    assert dict.__len__(state.map_table("map").entries["k"]) == 1
    first = iter(handle.items())
    assert next(first)[1].isdigit()
    assert dict.__len__(state.map_table("map").entries["k"]) == 1


@pytest.mark.parametrize("cramped", [False, True], ids=["in memory", "put aside"])
def test_a_map_whose_items_were_removed_one_by_one_leaves_no_entry(tmp_path, cramped):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    state = rocks(tmp_path / "local")
    table, sequence = state.map_table("map"), ()
    handle = map_state(table, state.current)
    for epoch, change in enumerate((lambda n: handle.put(n, n), handle.remove)):
        state.bring_to(sequence, storage)
        for key in ("emptied", "kept"):
            state.current.key = key
            for n in range(2 if key == "emptied" or epoch == 0 else 1):
                change(n)
                if cramped:
                    state._put_aside(state._paged)
        sequence = state.save(sequence, storage, f"state/{epoch}")
    state.bring_to(sequence, storage)
    assert list(table.entries) == ["kept"]
    assert list(table._places.entries()) == ["kept"], "a row of an entry that holds nothing takes room for ever"


def test_a_list_is_appended_to_without_being_read_and_iterated_without_being_loaded(tmp_path):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    state = rocks(tmp_path / "local")
    sequence: FileSequence = ()
    for epoch in range(3):
        state.bring_to(sequence, storage)
        handle = list_state(state.list_table("list"), state.current)
        state.current.key = "k"
        handle.add_all(range(epoch * 1000, epoch * 1000 + 1000))
        sequence = state.save(sequence, storage, f"state/{epoch}")
    state.bring_to(sequence, storage)
    state.current.key = "k"
    elements = iter(handle.get())
    assert [next(elements) for _ in range(3)] == [0, 1, 2]
    handle.add(-1)
    assert list(handle.get()) == [*range(3000), -1]
    assert sequence[-1].size < 2 * sequence[0].size  # an epoch saves what it appended


def test_a_list_with_a_hole_is_refused(tmp_path):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    state = rocks(tmp_path / "local")
    state.bring_to((), storage)
    state.list_table("list").apply([[], [("a", 5, [1])], []])
    state._store.flush()
    with pytest.raises(CorruptStateError, match="lacks elements of a list from position 0 to 6"):
        list(state.list_table("list").entries["a"])


@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_walk_in_steps_sees_every_committed_entry_once_as_it_is_now(tmp_path, step):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    copy = Copy(rocks(tmp_path / "local"))
    copy.state.bring_to((), storage)
    for n, key in enumerate(KEYS):
        for operation in ("set", "append", "put"):
            copy.do(operation, key, n + 1)
    sequence = copy.state.save((), storage, "state/1")
    copy.state.bring_to(sequence, storage)
    copy.do("set", KEYS[0], 77)
    copy.do("clear", KEYS[1], 0)
    copy.do("clear map", KEYS[2], 0)
    expected = {repr(key): n + 1 for n, key in enumerate(KEYS)} | {repr(KEYS[0]): 77}
    del expected[repr(KEYS[1])]
    assert {repr(entry): value for entry, value in walked(copy.state.value_table("value"), step)} == expected
    lists = walked(copy.state.list_table("list"), step)
    assert sorted((repr(entry), list(held)) for entry, held in lists) == sorted(
        (repr(key), [n + 1]) for n, key in enumerate(KEYS)
    )
    maps = walked(copy.state.map_table("map"), step)
    assert sorted(repr(entry) for entry, _ in maps) == sorted(repr(key) for key in KEYS if key != KEYS[2])


def walked(table: Any, step: int) -> list[tuple[Any, Any]]:
    found, cursor = table.walk(None, step)
    while cursor is not None:
        more, cursor = table.walk(cursor, step)
        found += more
    return found


def test_the_last_epoch_on_a_host_is_taken_in_without_reading_its_file_whoever_ran_it(tmp_path, monkeypatch):
    read: list[int] = []
    monkeypatch.setattr(RocksKeyedState, "_apply", lambda self, reader, group: read.append(group))
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    workers = [rocks(tmp_path / "local" / "state") for _ in range(2)]
    values = [TableValueState(worker.value_table("value"), worker.current) for worker in workers]
    sequence: FileSequence = ()
    for epoch, place in enumerate([0, 1, 0, 0]):
        worker, value = workers[place], values[place]
        worker.bring_to(sequence, storage)
        worker.current.key = "a"
        assert value.value() == (epoch or None)
        value.update(epoch + 1)
        sequence = worker.save(sequence, storage, f"state/{epoch}")
    assert read == []


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:40])])
def test_an_epoch_that_is_missing_or_torn_beside_the_database_is_read_from_its_file(tmp_path, damage):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    copy = Copy(rocks(tmp_path / "local" / "state"))
    copy.state.bring_to((), storage)
    copy.do("set", "a", 7)
    sequence = copy.state.save((), storage, "state/1")
    (staged,) = (tmp_path / "local").glob("*.sst")
    damage(staged)
    copy.state.bring_to(sequence, storage)
    copy.state.current.key = "a"
    assert copy.value.value() == 7


def test_what_an_epoch_that_failed_left_beside_the_database_is_never_taken_in(tmp_path):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    copy = Copy(rocks(tmp_path / "local" / "state"))
    copy.state.bring_to((), storage)
    copy.do("set", "a", 7)
    sequence = copy.state.save((), storage, "state/1")
    copy.state.bring_to(sequence, storage)
    copy.do("set", "a", 8)
    copy.state.save(sequence, storage, "state/failed")
    copy.state.bring_to(sequence, storage)
    copy.do("set", "b", 9)
    sequence = copy.state.save(sequence, storage, "state/2")
    copy.state.bring_to(sequence, storage)
    copy.state.current.key = "a"
    assert copy.value.value() == 7
    assert not list((tmp_path / "local").glob("*.sst")), "what does not count is deleted"


def test_panes_that_have_ended_leave_no_row(tmp_path):
    storage = PosixStorage(str(tmp_path / "job"), sync=False)
    copy = Copy(rocks(tmp_path / "local" / "state"))
    sequence: FileSequence = ()
    for epoch in range(6):
        copy.state.bring_to(sequence, storage)
        held, marks = copy.panes.open((epoch, epoch + 1))
        held["a"], marks["a"] = epoch, 0
        if epoch:
            assert list(copy.panes.release((epoch - 1, epoch))) == [{"a": epoch - 1}]
        sequence = copy.state.save(sequence, storage, f"state/{epoch}")
    copy.state.bring_to(sequence, storage)
    assert list(copy.panes.panes) == [(5, 6)]
    named = copy.state._store.scan(b"C" + copy.panes._prefix + b"n")
    assert len(list(named)) == 1
