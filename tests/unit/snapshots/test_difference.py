"""What is different between two snapshots, held against plain dicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flott.state
from flott.common import Time, Types
from flott.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.datastream.window import TimeWindow, TumblingEventTimeWindows
from flott.errors import StateError
from flott.state import Change, ChangeKind, Counts, StateSnapshot, new_savepoint
from flott.testing import EndOfEpoch, ScriptedSource
from tests.unit.snapshots.snapshots import CountingStorage, ledger, orders, run, snapshot_of, stamped


class Obedient(KeyedProcessFunction[Any, Any, Any]):
    """Does to its state what the records say."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))

    def process_element(self, command: Any, ctx: Any) -> Iterator[Any]:
        _, verb, number = command
        match verb:
            case "set":
                self.value.update(number)
            case "append":
                self.items.add(number)
            case "put":
                self.map.put(number % 3, number)
            case "remove":
                self.map.remove(number % 3)
            case "clear":
                for state in (self.value, self.items, self.map):
                    state.clear()
        yield from ()


Model = dict[str, dict[str, Any]]
COMMANDS = st.lists(
    st.tuples(
        st.sampled_from("abcdef"), st.sampled_from(["set", "append", "put", "remove", "clear"]), st.integers(0, 9)
    ),
    max_size=20,
)


def obey(model: Model, commands: list[Any]) -> Model:
    """What the states hold after some commands."""
    held: Model = {
        "value": dict(model["value"]),
        "list": {key: list(items) for key, items in model["list"].items()},
        "map": {key: dict(items) for key, items in model["map"].items()},
    }
    for key, verb, number in commands:
        match verb:
            case "set":
                held["value"][key] = number
            case "append":
                held["list"].setdefault(key, []).append(number)
            case "put":
                held["map"].setdefault(key, {})[number % 3] = number
            case "remove":
                held["map"].get(key, {}).pop(number % 3, None)
                if not held["map"].get(key, True):
                    del held["map"][key]
            case "clear":
                for state in held.values():
                    state.pop(key, None)
    return held


def expected(before: dict[Any, Any], after: dict[Any, Any]) -> set[tuple[Any, ...]]:
    return {
        *(("added", key, None, repr(after[key])) for key in after.keys() - before.keys()),
        *(("removed", key, repr(before[key]), None) for key in before.keys() - after.keys()),
        *(
            ("changed", key, repr(before[key]), repr(after[key]))
            for key in before.keys() & after.keys()
            if before[key] != after[key]
        ),
    }


def found(changes: Any) -> set[tuple[Any, ...]]:
    shown: set[tuple[Any, ...]] = set()
    for change in changes:
        before = None if change.kind is ChangeKind.ADDED else repr(change.before)
        after = None if change.kind is ChangeKind.REMOVED else repr(change.after)
        shown.add((change.kind.value, change.key, before, after))
    return shown


@settings(max_examples=40)
@given(COMMANDS, COMMANDS, st.integers(1, 3), st.integers(1, 3))
def test_two_checkpoints_differ_as_their_models_do(first: list[Any], second: list[Any], one: int, two: int) -> None:
    script = [("a", "none", 0), *first, EndOfEpoch(), ("a", "none", 0), *second, EndOfEpoch()]

    def program(env: StreamExecutionEnvironment) -> None:
        source = env.from_source(ScriptedSource(script, endless=True), stamped(lambda command: 0), "commands")
        source.key_by(lambda command: command[0], Types.STRING()).process(Obedient()).uid("obedient").print()

    with TemporaryDirectory() as folder:
        run(program, Path(folder), epochs=1, parallelism=one, execution__checkpointing__num_retained="9")
        run(program, Path(folder), epochs=2, parallelism=two, execution__checkpointing__num_retained="9")
        difference = flott.state.diff(f"{folder}/chk-1", f"{folder}/chk-2")
        empty: Model = {"value": {}, "list": {}, "map": {}}
        before = obey(empty, first)
        after = obey(before, second)
        for state in difference.states:
            if state.name in before:
                assert found(state) == expected(before[state.name], after[state.name])
        named = {state.name for state in difference.states}
        assert all(name in named for name in before if before[name] or after[name])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[StateSnapshot, StateSnapshot]:
    run(ledger, tmp_path, execution__checkpointing__num_retained="9")
    return flott.state.open(tmp_path / "chk-1"), flott.state.open(tmp_path / "chk-2")


def test_keys_that_came_went_and_changed_are_told_apart(pair: tuple[StateSnapshot, StateSnapshot]) -> None:
    total = flott.state.diff(*pair).state("ledger", "total")
    assert set(total) == {
        Change(ChangeKind.ADDED, "carol", None, 1),
        Change(ChangeKind.CHANGED, "alice", 3, 9),
    }
    assert total.counts == Counts(added=1, removed=0, changed=1)
    assert (list(total.added()), list(total.removed()), list(total.changed())) == (["carol"], [], ["alice"])
    back = flott.state.diff(*reversed(pair)).state("ledger", "total")
    assert back.counts == Counts(added=0, removed=1, changed=1)


def test_a_difference_is_a_readable_table(pair: tuple[StateSnapshot, StateSnapshot]) -> None:
    text = str(flott.state.diff(*pair))
    (line,) = [line.split() for line in text.splitlines() if " total " in line]
    assert line == ["ledger", "total", "value", "1", "0", "1"]
    assert "no difference" in str(flott.state.diff(pair[0], pair[0]))


def test_key_groups_of_the_same_files_are_not_read(tmp_path: Path) -> None:
    run(ledger, tmp_path)
    snapshot = flott.state.open(tmp_path)
    storage = CountingStorage(str(tmp_path), sync=False)
    counted = StateSnapshot(storage, snapshot.manifest, snapshot.path)
    difference = flott.state.diff(counted, counted)
    assert difference.states
    storage.read_bytes.clear()
    assert not any(state.counts for state in difference.states)
    assert storage.read_bytes == {}


def test_states_of_one_side_only_are_all_added_or_removed(tmp_path: Path) -> None:
    state = flott.state.value_state({"a": 1, "b": 2})
    one = new_savepoint().with_operator("x", keyed={"s": state}).write(tmp_path / "one")
    two = new_savepoint().with_operator("y", keyed={"s": state}).write(tmp_path / "two")
    difference = flott.state.diff(one, two)
    assert difference.state("x", "s").counts == Counts(removed=2)
    assert difference.state("y", "s").counts == Counts(added=2)


def test_operator_state_is_compared_item_by_item(tmp_path: Path) -> None:
    def made(name: str, items: list[str], limits: dict[str, int]) -> StateSnapshot:
        states = {"items": flott.state.split_state(items), "limits": flott.state.broadcast_state(limits)}
        return new_savepoint().with_operator("x", operator_state=states).write(tmp_path / name)

    difference = flott.state.diff(made("one", ["a", "b", "b"], {"p": 1, "q": 2}), made("two", ["b", "c"], {"q": 3}))
    assert difference.state("x", "items").counts == Counts(added=1, removed=2)
    assert set(difference.state("x", "limits")) == {
        Change(ChangeKind.REMOVED, "p", 1, None),
        Change(ChangeKind.CHANGED, "q", 2, 3),
    }


def test_windows_and_timers_are_compared_by_key_and_window(tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        stream = orders(env).key_by(lambda order: order[0], Types.STRING())
        windows = stream.window(TumblingEventTimeWindows.of(Time.seconds(4)))
        windows.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])).uid("windows").print()

    run(program, tmp_path, execution__checkpointing__num_retained="9")
    (panes,) = flott.state.diff(tmp_path / "chk-1", tmp_path / "chk-2").states
    assert set(panes.added()) == {("alice", TimeWindow(4000, 8000)), ("carol", TimeWindow(0, 4000))}
    assert set(panes.changed()) == {("alice", TimeWindow(0, 4000))}


def test_states_of_different_kinds_or_key_groups_are_refused(tmp_path: Path) -> None:
    value = new_savepoint().with_operator("x", keyed={"s": flott.state.value_state({"a": 1})}).write(tmp_path / "1")
    items = new_savepoint().with_operator("x", keyed={"s": flott.state.list_state({"a": [1]})}).write(tmp_path / "2")
    with pytest.raises(StateError, match="a value in one snapshot and a list"):
        _ = flott.state.diff(value, items).states
    other = new_savepoint(64).with_operator("x", keyed={"s": flott.state.value_state({"a": 1})}).write(tmp_path / "3")
    with pytest.raises(StateError, match="128 key groups in one snapshot and 64"):
        list(flott.state.diff(value, other).state("x", "s"))


def test_a_snapshot_does_not_differ_from_its_copy_in_another_place(tmp_path: Path) -> None:
    before = snapshot_of(ledger, tmp_path / "job")
    copied = flott.state.edit(before).write(tmp_path / "copy")
    assert not any(state.counts for state in flott.state.diff(before, copied).states)
    rewritten = flott.state.edit(before).transform("ledger", "total", lambda key, value: value).write(tmp_path / "re")
    assert not any(state.counts for state in flott.state.diff(before, rewritten).states)
