"""State that is saved in steps, while it changes: a file holds exactly what the state was when saving began."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common._stepwise import Stepwise
from flott.common.typeinfo import Types
from flott.errors import StateError, TypeMismatchError
from flott.runtime.managed_state.backends import hashmap
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile, missing_files
from flott.runtime.managed_state.handles import TableListState, TableMapState, TableValueState
from tests.unit.runtime.managed_state.keyed_workers import (
    ALL_GROUPS,
    KEYS,
    MAX_PARALLELISM,
    MemoryStorage,
    Model,
    Worker,
    fresh,
    operations,
)


@pytest.fixture(autouse=True)
def small_steps() -> Iterator[None]:
    """Steps of one entry or one key group."""
    with patch.object(hashmap, "STEP_ENTRIES", 1), patch.object(hashmap, "STEP_BYTES", 1):
        yield


class RocksWorker(Worker):
    """A worker whose state is in a database."""

    def __init__(self, folder: str, budget: int = 1 << 20) -> None:
        self.state: Any = RocksKeyedState(
            "counter (uid c)", MAX_PARALLELISM, ALL_GROUPS, Path(folder, "local"), Budget(budget)
        )
        self.state.bring_to((), MemoryStorage())
        self.open()


rounds = st.lists(st.tuples(st.lists(operations, max_size=12), st.lists(operations, max_size=12)), max_size=5)


@settings(max_examples=60)
@given(rounds)
def test_a_file_holds_the_state_of_the_moment_in_which_saving_began(history: Any) -> None:
    worker, model, storage, sequence = Worker(), Model(), MemoryStorage(), FileSequence()
    for number, (before, between) in enumerate(history):
        for operation in before:
            worker.do(*operation)
            model.do(*operation)
        at_barrier, steps = copy.deepcopy(model), Stepwise(worker.state.saving(storage, f"state/{number}"))
        for operation in between:
            worker.do(*operation)
            model.do(*operation)
            steps.step()
        sequence = with_file(sequence, steps.finish())
        assert fresh(sequence, storage).view() == at_barrier.view()
        assert worker.view() == model.view()


@settings(max_examples=25)
@given(rounds, st.booleans())
def test_a_database_stays_open_and_a_file_holds_the_state_of_its_moment(history: Any, is_small: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        worker, model, storage, sequence = RocksWorker(folder), Model(), MemoryStorage(), FileSequence()
        try:
            for number, (before, between) in enumerate(history):
                for operation in before:
                    worker.do(*operation)
                    model.do(*operation)
                if is_small:
                    worker.state._put_aside(worker.state._paged)  # as if there was no room for it in memory
                at_barrier, steps = copy.deepcopy(model), Stepwise(worker.state.saving(storage, f"state/{number}"))
                for operation in between:
                    worker.do(*operation)
                    model.do(*operation)
                    steps.step()
                sequence = with_file(sequence, steps.finish())
                assert unordered(fresh(sequence, storage).view()) == unordered(at_barrier.view())
                assert worker.state._store.is_open
                for key in KEYS:
                    worker.state.current.key = key
                    assert worker.value.value() == model.values.get(key)
                    assert worker.list.get() == model.lists.get(key, [])
            # The database is a copy of the last version: another process that opens it reads no file.
            worker.state.close()
            again = RocksWorker.__new__(RocksWorker)
            again.state = RocksKeyedState(
                "counter (uid c)", MAX_PARALLELISM, ALL_GROUPS, Path(folder, "local"), Budget(1 << 20)
            )
            again.state._store.open()
            assert missing_files(sequence, again.state._store.version) == ()
            again.state.close()
        finally:
            worker.state.close()


def unordered(view: dict[str, Any]) -> dict[str, Any]:
    """Items of maps stand in the order of their rows in a database."""
    return {key: (*seen[:2], sorted(seen[2]), *seen[3:]) if key[:1] in "'3(N" else seen for key, seen in view.items()}


def with_file(sequence: FileSequence, file: StateFile | None) -> FileSequence:
    return sequence if file is None else (*sequence, file)


class Point(tuple[int, int]):
    """A tuple that has fields of its own."""


@pytest.mark.parametrize("value", [[1], {"a": 1}, (1, [2]), Point((1, 2))], ids=repr)
def test_objects_that_can_change_are_saved_as_they_were(value: Any) -> None:
    """They are encoded at once: a program may change them before it updates the state again."""
    storage, state = MemoryStorage(), KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    values = TableValueState(state.value_table("value"), state.current)
    lists = TableListState(state.list_table("list"), state.current)
    maps = TableMapState(state.map_table("map"), state.current)
    state.current.key = "k"
    original = copy.deepcopy(value)
    values.update(value)
    lists.update([value])
    maps.put("m", value)
    steps = Stepwise(state.saving(storage, "state/0"))
    for held in (values.value(), lists.get()[0], maps.get("m")):
        change(held)
    file = steps.finish()
    assert file is not None
    again = KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    again.bring_to((file,), storage)
    again.current.key = "k"
    assert TableValueState(again.value_table("value"), again.current).value() == original
    assert TableListState(again.list_table("list"), again.current).get() == [original]
    assert TableMapState(again.map_table("map"), again.current).get("m") == original


def change(held: Any) -> None:
    if isinstance(held, list):
        held.append(99)
    elif isinstance(held, dict):
        held["changed"] = 99
    elif isinstance(held, Point):
        held.changed = 99  # type: ignore[attr-defined]
    else:
        held[1].append(99)


def test_values_that_cannot_change_take_many_steps() -> None:
    state = KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    values = TableValueState(state.value_table("value"), state.current)
    for key in range(50):
        state.current.key = key
        values.update((key, "text", None))
    steps = Stepwise(state.saving(MemoryStorage(), "state/0"))
    taken = 0
    while not steps.step():
        taken += 1
    assert taken > 50


def test_a_converted_value_does_not_replace_a_later_one() -> None:
    """An int where a float is declared: it is converted in the file, and in the table if it is still there."""
    storage, state = MemoryStorage(), KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    values = TableValueState(state.value_table("value", Types.DOUBLE()), state.current)
    for key in ("kept", "changed"):
        state.current.key = key
        values.update(1)
    steps = Stepwise(state.saving(storage, "state/0"))
    values.update(2.5)
    file = steps.finish()
    assert values.value() == 2.5
    state.current.key = "kept"
    assert type(values.value()) is float
    again = KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    restored = TableValueState(again.value_table("value", Types.DOUBLE()), again.current)
    assert file is not None
    again.bring_to((file,), storage)
    again.current.key = "changed"
    assert restored.value() == 1.0


def test_errors_come_from_the_step_that_finds_them() -> None:
    state = KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    values = TableValueState(state.value_table("value", Types.LONG()), state.current)
    for key in range(5):
        state.current.key = key
        values.update("text" if key == 4 else key)
    with pytest.raises(TypeMismatchError, match=r"State 'value' of operator op, key 4"):
        Stepwise(state.saving(MemoryStorage(), "state/0")).finish()
    other = KeyedState("op", MAX_PARALLELISM, range(0))
    other.current.key = "foreign"
    TableValueState(other.value_table("value"), other.current).update(1)
    with pytest.raises(StateError, match="which is not one of its own"):
        Stepwise(other.saving(MemoryStorage(), "state/0")).finish()
    unsavable = KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    unsavable.current.key = 1
    TableValueState(unsavable.value_table("value"), unsavable.current).update(lambda: 1)
    with pytest.raises(StateError, match="State 'value' of operator op holds an object that cannot be saved"):
        Stepwise(unsavable.saving(MemoryStorage(), "state/0"))


def test_nothing_is_written_where_nothing_has_changed() -> None:
    storage, state = MemoryStorage(), KeyedState("op", MAX_PARALLELISM, ALL_GROUPS)
    assert Stepwise(state.saving(storage, "state/0")).finish() is None
    assert storage.files == {}
