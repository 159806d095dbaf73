"""Types of keyed state in files: on both backends, in sequences with files of several subtasks, after compaction."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common.typeinfo import Types
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flott.errors import StateMigrationError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.key_groups import key_group_of
from flott.runtime.managed_state.operator.operator_handles import TaskOperatorStateStore
from flott.runtime.managed_state.operator.operator_shares import OperatorStart, StateShare
from flott.runtime.managed_state.operator.operator_state import OperatorState
from flott.runtime.operators.context import TableStateStore, state_handle
from flott.runtime.storage import PosixStorage

GROUPS = 16
KEYS = [f"key {number}" for number in range(40)]
Make = Callable[[range, str], KeyedState]


def in_memory(folder: Path) -> Make:
    return lambda groups, name: KeyedState("keeper", GROUPS, groups)


def in_rocksdb(folder: Path) -> Make:
    from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
    from flott.runtime.managed_state.backends.rocksdb.store import Budget

    return lambda groups, name: RocksKeyedState("keeper", GROUPS, groups, folder / name, Budget(1 << 20))


needs_rocksdb = pytest.mark.skipif(importlib.util.find_spec("rocksdict") is None, reason="needs rocksdict")


@pytest.fixture(params=[in_memory, pytest.param(in_rocksdb, marks=needs_rocksdb)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return request.param(tmp_path / "databases")  # type: ignore[no-any-return]


class Job:
    """Subtasks of one operator with one state, epoch by epoch."""

    def __init__(self, make: Make, folder: Path):
        self.make = make
        self.storage = PosixStorage(str(folder), sync=False)
        self.files = 0

    def epoch(
        self,
        descriptor: StateDescriptor | None,
        sequence: FileSequence,
        act: Callable[[Any, str], Any] | None = None,
        *,
        groups: range = range(GROUPS),
        keys: list[str] = KEYS,
        state: KeyedState | None = None,
        saves: bool = True,
    ) -> tuple[FileSequence, dict[str, Any], KeyedState]:
        """Restores the sequence, asks for the state if there is a descriptor, acts on each key, saves."""
        self.files += 1
        state = state or self.make(groups, f"{groups.start}-{groups.stop}")
        try:
            return self._epoch(state, descriptor, sequence, act, groups, keys, saves)
        except Exception:
            state.close()
            raise

    def _epoch(
        self,
        state: KeyedState,
        descriptor: StateDescriptor | None,
        sequence: FileSequence,
        act: Callable[[Any, str], Any] | None,
        groups: range,
        keys: list[str],
        saves: bool,
    ) -> tuple[FileSequence, dict[str, Any], KeyedState]:
        state.bring_to(sequence, self.storage)
        results = {}
        if descriptor is not None:
            handle = state_handle(TableStateStore(state, state.current), descriptor)
            for key in keys:
                if key_group_of(key, GROUPS) in groups and act is not None:
                    state.current.key = key
                    results[key] = act(handle, key)
        if saves:
            sequence = state.save(sequence, self.storage, f"{self.files}")
        return sequence, results, state

    def compact(self, sequence: FileSequence, groups: range = range(GROUPS), whole: bool = True) -> FileSequence:
        self.files += 1
        return (
            compact(
                CompactionOrder(sequence, (groups.start, groups.stop), f"compacted-{self.files}", whole), self.storage
            ),
        )

    def types(self, sequence: FileSequence) -> list[tuple[str | None, Any]]:
        """What the files of a sequence say about the types of values, and for which key groups."""
        found = []
        for file in sequence:
            with open_state_file(self.storage, file.name) as reader:
                found += [(t.value_type and t.value_type["type"], t.groups) for t in reader.tables]
        return found


@pytest.fixture
def job(make: Make, tmp_path: Path) -> Job:
    return Job(make, tmp_path / "state")


def put_number(handle: Any, key: str) -> None:
    handle.update(int(key.split()[1]))


def show(handle: Any, key: str) -> Any:
    return repr(handle.value())


INTS = ValueStateDescriptor("n", Types.INT())
DOUBLES = ValueStateDescriptor("n", Types.DOUBLE())


def twice() -> ValueStateDescriptor[Any]:
    """A migration that must not be done twice."""
    descriptor = ValueStateDescriptor("n", Types.STRING())
    descriptor.set_migration(lambda number: f"<{number}>")
    return descriptor


def test_values_are_converted_once_and_stay_so(job: Job) -> None:
    sequence, _, _ = job.epoch(INTS, (), put_number)
    sequence, seen, _ = job.epoch(twice(), sequence, show)
    assert seen["key 7"] == "'<7>'"
    for _ in range(2):
        sequence, seen, _ = job.epoch(twice(), sequence, show)
        assert seen == {f"key {n}": f"'<{n}>'" for n in range(40)}
    compacted = job.compact(sequence)
    assert job.types(compacted) == [("string", None)]
    assert job.epoch(twice(), compacted, show)[1] == seen


def test_an_epoch_that_is_given_up_converts_again_in_the_same_process(job: Job) -> None:
    sequence, _, _ = job.epoch(INTS, (), put_number)
    descriptor = twice()
    _, seen, state = job.epoch(descriptor, sequence, show, saves=False)
    assert seen["key 7"] == "'<7>'"
    state.close()
    sequence, seen, state = job.epoch(descriptor, sequence, show, state=state)
    assert seen["key 7"] == "'<7>'"
    _, seen, _ = job.epoch(descriptor, sequence, show, state=state)
    assert seen["key 7"] == "'<7>'"


def test_a_table_may_be_of_two_types_in_two_parts_of_a_sequence(job: Job) -> None:
    lower, upper = range(8), range(8, GROUPS)
    old_lower, _, _ = job.epoch(INTS, (), put_number, groups=lower)
    old_upper, _, _ = job.epoch(INTS, (), put_number, groups=upper)
    # One subtask asks for the state and so converts it, the other does not, as one that asks only when a record comes.
    new_lower, _, _ = job.epoch(twice(), old_lower, show, groups=lower)
    for united in ((*new_lower, *old_upper), (*old_upper, *new_lower)):
        sequence = tuple(file.restricted(lower if file in new_lower else upper) for file in united)
        for whole in (True, False):
            compacted = job.compact(sequence, whole=whole)
            assert sorted(job.types(compacted)) == [("int", ((8, 16),)), ("string", ((0, 8),))]
            for one in (sequence, compacted):
                _, seen, state = job.epoch(twice(), one, show, saves=False)
                assert seen == {f"key {n}": f"'<{n}>'" for n in range(40)}
                state.close()


def test_a_subtask_without_entries_does_not_spoil_the_type_of_the_others(job: Job) -> None:
    lower, upper = range(8), range(8, GROUPS)
    filled, _, _ = job.epoch(INTS, (), put_number, groups=lower)
    emptied, _, _ = job.epoch(INTS, (), put_number, groups=upper)
    emptied, _, _ = job.epoch(INTS, emptied, lambda handle, key: handle.clear(), groups=upper)
    filled, _, _ = job.epoch(twice(), filled, show, groups=lower)
    emptied, _, _ = job.epoch(twice(), emptied, show, groups=upper)  # nothing to write
    sequence = (*(file.restricted(lower) for file in filled), *(file.restricted(upper) for file in emptied))

    sequence = job.compact(job.compact(sequence), whole=False)

    _, seen, _ = job.epoch(twice(), sequence, show)
    assert {value for value in seen.values() if value != "None"} == {
        f"'<{n}>'" for n in range(40) if key_group_of(f"key {n}", GROUPS) in lower
    }


def test_lists_maps_and_reducing_state_are_converted(job: Job) -> None:
    lists = ListStateDescriptor("l", Types.INT()), ListStateDescriptor("l", Types.BIG_DEC())
    sequence, _, _ = job.epoch(lists[0], (), lambda handle, key: handle.add_all([1, 2]), keys=["a"])
    sequence, _, _ = job.epoch(lists[0], sequence, lambda handle, key: handle.add(3), keys=["a"])
    sequence, _, _ = job.epoch(lists[1], sequence, lambda handle, key: handle.add(4), keys=["a"])
    _, seen, _ = job.epoch(
        lists[1], job.compact(sequence), lambda handle, key: list(map(str, handle.get())), keys=["a"]
    )
    assert seen == {"a": ["1", "2", "3", "4"]}
    assert job.types(sequence)[-1] == ("big-decimal", None)

    maps = MapStateDescriptor("m", Types.INT(), Types.INT()), MapStateDescriptor("m", Types.LONG(), Types.DOUBLE())
    sequence, _, _ = job.epoch(maps[0], (), lambda handle, key: handle.put_all({2: 1, 1: 2}), keys=["a"])
    sequence, _, _ = job.epoch(maps[1], sequence, lambda handle, key: handle.remove(2), keys=["a"])
    _, seen, _ = job.epoch(maps[1], sequence, lambda handle, key: repr(list(handle.items())), keys=["a"])
    assert seen == {"a": "[(1, 2.0)]"}

    sums = [ReducingStateDescriptor("r", lambda a, b: a + b, t) for t in (Types.INT(), Types.DOUBLE())]
    sequence, _, _ = job.epoch(sums[0], (), lambda handle, key: handle.add(3), keys=["a"])
    _, seen, _ = job.epoch(sums[1], sequence, lambda handle, key: repr(handle.get()), keys=["a"])
    assert seen == {"a": "3.0"}


def test_a_state_nobody_asks_for_keeps_its_type(job: Job) -> None:
    sequence, _, _ = job.epoch(INTS, (), put_number)
    other = ValueStateDescriptor("other", Types.STRING())
    sequence, _, _ = job.epoch(other, sequence, lambda handle, key: handle.update("x"))
    compacted = job.compact(sequence)
    assert sorted(job.types(compacted)) == [("int", None), ("string", None)]
    assert job.epoch(DOUBLES, compacted, show)[1]["key 7"] == "7.0"


def test_an_empty_state_may_become_anything(job: Job) -> None:
    sequence, _, _ = job.epoch(INTS, (), put_number)
    sequence, _, _ = job.epoch(INTS, sequence, lambda handle, key: handle.clear())
    strings = ValueStateDescriptor("n", Types.STRING())
    sequence, _, _ = job.epoch(strings, sequence, lambda handle, key: handle.update("x"))
    assert job.epoch(strings, sequence, show)[1]["key 7"] == "'x'"


def test_what_does_not_fit_is_refused_when_the_state_is_asked_for(job: Job) -> None:
    sequence, _, _ = job.epoch(INTS, (), put_number)
    with pytest.raises(StateMigrationError, match="State 'n' of operator keeper cannot be restored: it was saved as"):
        job.epoch(ValueStateDescriptor("n", Types.STRING()), sequence, show)


def test_elements_and_map_values_are_held_against_their_types_when_they_are_saved(job: Job) -> None:
    wrong = lambda handle, key: handle.add("x")  # noqa: E731
    with pytest.raises(TypeMismatchError, match=r"State 'l' of operator keeper, key 'a': .* found 'x'"):
        job.epoch(ListStateDescriptor("l", Types.INT()), (), wrong, keys=["a"])
    with pytest.raises(TypeMismatchError, match=r"State 'm' of operator keeper, key 'b': .* found 'x'"):
        job.epoch(
            MapStateDescriptor("m", Types.INT(), Types.INT()), (), lambda handle, key: handle.put(1, "x"), keys=["b"]
        )
    with pytest.raises(TypeMismatchError, match=r"State 'k' of operator keeper, key 'b': .* found 'x'"):
        job.epoch(MapStateDescriptor("k", Types.INT(), None), (), lambda handle, key: handle.put("x", 1), keys=["b"])


def test_what_is_converted_when_it_is_saved_is_what_the_worker_goes_on_with(job: Job) -> None:
    def change(handle: Any, key: str) -> None:
        handle.add(1) if hasattr(handle, "add") else handle.put(1, 1)

    def seen(handle: Any, key: str) -> str:
        return repr(list(handle.get()) if hasattr(handle, "add") else list(handle.items()))

    doubles = Types.DOUBLE()
    for descriptor in (ListStateDescriptor("l", doubles), MapStateDescriptor("m", doubles, doubles)):
        sequence, _, state = job.epoch(descriptor, (), change, keys=["a"])
        _, here, _ = job.epoch(descriptor, sequence, seen, keys=["a"], state=state)
        _, elsewhere, _ = job.epoch(descriptor, sequence, seen, keys=["a"])
        assert here == elsewhere
        assert here["a"] in ("[1.0]", "[(1.0, 1.0)]")


# --- operator state ---------------------------------------------------------------------------------------------------


def operator_epoch(
    storage: PosixStorage, start: OperatorStart, name: str, descriptor: StateDescriptor | None, act: Any = None
) -> tuple[OperatorStart, Any]:
    state = OperatorState("keeper")
    state.bring_to(start, storage)
    result = None
    if descriptor is not None:
        store = TaskOperatorStateStore(state)
        is_map = isinstance(descriptor, MapStateDescriptor)
        result = act(store.get_broadcast_state(descriptor) if is_map else store.get_list_state(descriptor))
    return OperatorStart(True, state.save(storage, name)), result


def test_operator_state_is_converted_too(tmp_path: Path) -> None:
    storage = PosixStorage(str(tmp_path), sync=False)
    old, new = ListStateDescriptor("l", Types.INT()), ListStateDescriptor("l", Types.STRING())
    new.set_migration(lambda number: f"<{number}>")
    first, _ = operator_epoch(storage, OperatorStart(), "1", old, lambda state: state.add_all([1, 2]))
    second, _ = operator_epoch(storage, first, "2", None)  # nobody asks for it: it stays what it is
    assert second == first
    third, seen = operator_epoch(storage, second, "3", new, lambda state: state.get())
    assert seen == ["<1>", "<2>"]
    # The saved forms of two subtasks, of which one has converted its part and the other has not.
    shares = (StateShare("3", "l", 0, 2), StateShare("1", "l", 1, 2))
    state = OperatorState("keeper")
    handle = TaskOperatorStateStore(state).get_list_state(new)
    state.bring_to(OperatorStart(True, None, shares), storage)
    assert handle.get() == ["<1>", "<2>", "<2>"]
    with pytest.raises(StateMigrationError, match="State 'l' of operator keeper cannot be restored: it was saved as"):
        operator_epoch(storage, third, "4", ListStateDescriptor("l", Types.INT()), lambda state: state.get())


def test_broadcast_state_is_converted_too(tmp_path: Path) -> None:
    storage = PosixStorage(str(tmp_path), sync=False)
    old = MapStateDescriptor("m", Types.INT(), Types.INT())
    new = MapStateDescriptor("m", Types.BIG_DEC(), Types.DOUBLE())
    start, _ = operator_epoch(storage, OperatorStart(), "1", old, lambda state: state.put_all({1: 2}))
    start, seen = operator_epoch(storage, start, "2", new, lambda state: repr(state.items()))
    assert seen == "[(Decimal('1'), 2.0)]"
    assert start.file is not None
    assert start.file.name == "2"
    _, seen = operator_epoch(storage, start, "3", new, lambda state: repr(state.items()))
    assert seen == "[(Decimal('1'), 2.0)]"
