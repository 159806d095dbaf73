"""Making and changing savepoints, and jobs that start from them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flott.state
from flott.common import Row, Time, Types
from flott.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import CheckpointedFunction, MapFunction, ProcessJoinFunction
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flott.datastream.window import EventTimeSessionWindows, TimeWindow, TumblingEventTimeWindows
from flott.errors import StateError
from flott.snapshots.grouped_rows import GroupedRows
from flott.state import DROP, new_savepoint
from flott.testing import ScriptedSource, in_process
from tests.unit.snapshots.snapshots import ORDERS, ledger, orders, run, snapshot_of, stamped


class Totals(KeyedProcessFunction[Any, Any, Any]):
    """Adds amounts up, lists items, counts them; says all of it."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.STRING()))
        self.amounts = runtime_context.get_map_state(MapStateDescriptor("amounts", Types.STRING(), Types.LONG()))

    def process_element(self, order: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        user, item, amount = order
        self.total.update((self.total.value() or 0) + amount)
        self.items.add(item)
        self.amounts.put(item, (self.amounts.get(item) or 0) + amount)
        yield user, self.total.value(), list(self.items.get()), dict(self.amounts.items())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp


def continue_from(
    path: Path, script: list[Any], *, uid: str = "totals", parallelism: int = 2, function: Any = None
) -> list[Any]:
    """What a job that starts from a savepoint makes of some orders."""
    env = in_process(parallelism, execution__state_recovery__path=str(path))
    found: list[Any] = []
    source = env.from_source(ScriptedSource(script), stamped(lambda order: order[2] * 1000), "orders")
    stream = source.key_by(lambda order: order[0], Types.STRING()).process(function or Totals()).uid(uid)
    stream.sink_to(CallableSink(found.append)).set_parallelism(1)
    env.execute("continued")
    return found


# --- from nothing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_job_starts_from_state_that_was_made_of_rows(tmp_path: Path, parallelism: int) -> None:
    path = tmp_path / "first"
    made = (
        new_savepoint()
        .with_operator(
            "totals",
            keyed={
                "total": flott.state.value_state({"alice": 100, "bob": 7}, key_type=str, value_type=Types.LONG()),
                "items": flott.state.list_state([("alice", "old"), ("bob", "x"), ("alice", "older")], value_type=str),
                "amounts": flott.state.map_state([("alice", "old", 100)], map_key_type=str, value_type=Types.LONG()),
            },
        )
        .write(path)
    )
    assert made.is_savepoint
    assert dict(made.operator("totals").keyed("total").items()) == {"alice": 100, "bob": 7}
    assert made.operator("totals").keyed("total").value_type == "long"
    assert sorted(continue_from(path, [("alice", "new", 1), ("carol", "x", 5)], parallelism=parallelism)) == [
        ("alice", 101, ["old", "older", "new"], {"old": 100, "new": 1}),
        ("carol", 5, ["x"], {"x": 5}),
    ]


def test_state_without_types_becomes_what_the_program_declares(tmp_path: Path) -> None:
    new_savepoint().with_operator("totals", keyed={"total": flott.state.value_state([("alice", 1)])}).write(
        tmp_path / "first"
    )
    ((_, total, _, _),) = continue_from(tmp_path / "first", [("alice", "new", 1)])
    assert total == 2


def test_timers_that_were_made_fire(tmp_path: Path) -> None:
    timers = flott.state.timers([("alice", 5_000), ("bob", 9_000)])
    new_savepoint().with_operator("totals", event_time_timers=timers).write(tmp_path / "first")
    found = continue_from(tmp_path / "first", [("carol", "x", 1)])
    assert sorted(fired for fired in found if fired[0] == "timer") == [("timer", "alice", 5000), ("timer", "bob", 9000)]


def test_processing_time_timers_wake_the_job(tmp_path: Path) -> None:
    timers = flott.state.timers({"alice": [5_000, 3_000]})
    made = new_savepoint().with_operator("totals", processing_time_timers=timers).write(tmp_path / "first")
    assert made.manifest.wakeup_ms == 3_000


class Remembering(MapFunction[Any, Any], CheckpointedFunction):
    def map(self, value: Any) -> Any:
        return value, sorted(self.own), sorted(self.everywhere)

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.own = list(store.get_list_state(ListStateDescriptor("own", Types.STRING())).get())
        self.everywhere = list(store.get_union_list_state(ListStateDescriptor("all", Types.STRING())).get())

    def snapshot_state(self, context: Any) -> None:
        pass


def test_operator_state_that_was_made_is_dealt_out(tmp_path: Path) -> None:
    states = {"own": flott.state.split_state(["a", "b"], value_type=str), "all": flott.state.union_state(["u"])}
    made = new_savepoint().with_operator("memory", operator_state=states).write(tmp_path / "first")
    assert list(made.state("memory", "own").items()) == ["a", "b"]
    env = in_process(2, execution__state_recovery__path=str(tmp_path / "first"))
    found: list[Any] = []
    stream = env.from_collection([1, 2, 3, 4]).rebalance().map(Remembering()).uid("memory")
    stream.sink_to(CallableSink(found.append)).set_parallelism(1)
    env.execute("continued")
    assert {tuple(own) for _, own, _ in found} == {("a",), ("b",)}
    assert all(everywhere == ["u"] for _, _, everywhere in found)


def test_a_broadcast_state_that_was_made_is_read_back(tmp_path: Path) -> None:
    state = flott.state.broadcast_state({"limit": 3}, key_type=str, value_type=Types.LONG())
    made = new_savepoint().with_operator("rules", operator_state={"limits": state}).write(tmp_path / "first")
    assert made.state("rules", "limits").get("limit") == 3


@dataclass(frozen=True)
class Account:
    user: str
    total: int


def test_rows_come_from_dicts_arrow_and_functions(tmp_path: Path) -> None:
    table = pyarrow.table({"who": ["a", "b"], "total": [1, 2]})
    named = flott.state.value_state(table, key="who", value="total")
    record = flott.state.value_state(
        [{"key": "a", "user": "ann", "total": 5}], key_type=str, value_type=Account
    )
    computed = flott.state.value_state(["ann:3"], key=lambda row: row[:3], value=lambda row: int(row[4:]))
    several = flott.state.value_state(table, key=["who", "total"], value=["who"])
    made = (
        new_savepoint()
        .with_operator("x", keyed={"named": named, "record": record, "computed": computed, "several": several})
        .write(tmp_path / "first")
    )
    operator = made.operator("x")
    assert dict(operator.keyed("named").items()) == {"a": 1, "b": 2}
    assert operator.keyed("record").get("a") == Row(user="ann", total=5)
    assert dict(operator.keyed("computed").items()) == {"ann": 3}
    assert operator.keyed("several").get(("a", 1)) == {"who": "a"}


class Place(NamedTuple):
    country: str
    city: str


@pytest.mark.parametrize("kind", [Place, Account])
def test_keys_that_are_records_are_found_in_every_form(tmp_path: Path, kind: Any) -> None:
    keys = [kind("de", 1), kind("fr", 2)] if kind is Account else [kind("de", "bonn"), kind("fr", "lyon")]
    state = flott.state.value_state([(key, number) for number, key in enumerate(keys)], key_type=kind)
    made = new_savepoint().with_operator("x", keyed={"s": state}).write(tmp_path / "first").operator("x").keyed("s")
    fields = kind.__annotations__
    for number, key in enumerate(keys):
        by_name = {name: getattr(key, name) for name in fields}
        for form in (key, Row(**by_name), by_name, tuple(by_name.values())):
            assert made.get(form) == number
    with pytest.raises(StateError, match="is no record of"):
        made.get("de")


def test_state_with_a_time_to_live_is_made_with_its_stamps(tmp_path: Path) -> None:
    ttl = StateTtlConfig.new_builder(Time.hours(1)).build()
    state = flott.state.value_state(
        [{"key": "a", "value": 1, "at": 77}], value_type=Types.LONG(), ttl=ttl, last_access="at"
    )
    made = new_savepoint().with_operator("x", keyed={"s": state}).write(tmp_path / "first")
    assert made.state("x", "s").to_arrow().to_pylist() == [{"key": "a", "value": 1, "last_access": 77}]
    changed = flott.state.edit(made).transform("x", "s", lambda key, value: value + 1).write(tmp_path / "second")
    assert changed.state("x", "s").to_arrow().to_pylist() == [{"key": "a", "value": 2, "last_access": 77}]


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ({"s": flott.state.value_state([("a", "x")], value_type=Types.LONG())}, "'s' have a value of another type"),
        ({"s": flott.state.value_state([("a", 1, 2)])}, "has 2 parts"),
        ({"s": flott.state.value_state([{"k": 1}])}, "no column 'key'.*'k'"),
        ({"s": flott.state.value_state([([1], 1)])}, "'s' of operator 'x': The key .* mutable"),
        ({"s": flott.state.list_state({"a": "text"})}, "has a list for every key"),
        ({"s": flott.state.map_state({"a": [1]})}, "has a dict for every key"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_leave_nothing(tmp_path: Path, states: Any, reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        new_savepoint().with_operator("x", keyed=states).write(tmp_path / "first")
    assert not (tmp_path / "first").exists()


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "something").write_text("mine")
    with pytest.raises(StateError, match="exists already"):
        new_savepoint().write(tmp_path / "first")
    assert (tmp_path / "first" / "something").read_text() == "mine"


def test_states_that_are_not_made_by_the_functions_are_refused() -> None:
    with pytest.raises(StateError, match="made with value_state"):
        new_savepoint().with_operator("x", keyed={"s": {"a": 1}})  # type: ignore[dict-item]
    with pytest.raises(StateError, match="event_time_timers"):
        new_savepoint().with_operator("x", keyed={"s": flott.state.timers({})})
    with pytest.raises(StateError, match="from 1 to 32768"):
        new_savepoint(max_parallelism=0)


# --- from another ----------------------------------------------------------------------------------------------------


def totals_program(env: StreamExecutionEnvironment) -> None:
    stream = orders(env).key_by(lambda order: order[0], Types.STRING())
    stream.process(Totals()).uid("totals").print()


def test_a_transformed_state_is_what_the_next_job_starts_with(tmp_path: Path) -> None:
    before = snapshot_of(totals_program, tmp_path / "job")
    edited = (
        flott.state.edit(before)
        .transform("totals", "total", lambda key, total: DROP if key == "bob" else total * 100)
        .transform("totals", "items", lambda key, items: [*items, "edited"])
        .transform("totals", "amounts", lambda key, amounts: {item: n + 1 for item, n in amounts.items()})
    )
    after = edited.write(tmp_path / "edited")
    assert dict(after.operator("totals").keyed("total").items()) == {"alice": 900, "carol": 100}
    assert before.operator("totals").keyed("total").get("alice") == 9, "what was edited stays as it is"
    ((_, total, items, amounts),) = continue_from(tmp_path / "edited", [*ORDERS, ("alice", "new", 1)])
    assert total == 901
    assert items == ["apple", "cherry", "apple", "edited", "new"]
    assert amounts == {"apple": 6, "cherry": 5, "new": 1}


def test_an_edited_job_goes_on_where_its_source_stood(tmp_path: Path) -> None:
    run(totals_program, tmp_path / "job", epochs=1)
    editor = flott.state.edit(tmp_path / "job").transform("totals", "total", lambda key, total: total + 1000)
    editor.write(tmp_path / "e")
    found = continue_from(tmp_path / "e", ORDERS)
    assert sorted((user, total) for user, total, _, _ in found) == [("alice", 1007), ("alice", 1009), ("carol", 1)]


def test_a_uid_is_changed_and_the_program_follows(tmp_path: Path) -> None:
    made = new_savepoint().with_operator(
        "totals", keyed={"total": flott.state.value_state({"alice": 100}, value_type=Types.LONG())}
    )
    made.write(tmp_path / "first")
    flott.state.edit(tmp_path / "first").change_uid("totals", "sums").write(tmp_path / "second")
    found = continue_from(tmp_path / "second", [("alice", "new", 1)], uid="sums")
    assert [total for _, total, _, _ in found] == [101]


def test_an_operator_without_a_uid_is_given_one(tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        orders(env).key_by(lambda order: order[0], Types.STRING()).process(Totals()).name("Adding up").print()

    before = snapshot_of(program, tmp_path / "job")
    after = flott.state.edit(before).change_uid("Adding up", "totals").write(tmp_path / "edited")
    assert after.operator("totals").keyed("total").get("alice") == 9
    assert after.operator("totals").name == "Adding up"


def test_operators_and_states_are_left_out(tmp_path: Path) -> None:
    before = snapshot_of(totals_program, tmp_path / "job")
    without = flott.state.edit(before).remove_state("totals", "items").write(tmp_path / "one")
    assert {state.name for state in without.operator("totals").states} >= {"total", "amounts"}
    with pytest.raises(StateError, match="no state 'items'"):
        without.state("totals", "items")
    gone = flott.state.edit(before).remove_operator("totals").write(tmp_path / "two")
    with pytest.raises(StateError, match="no operator 'totals'"):
        gone.operator("totals")


def test_a_state_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    before = snapshot_of(totals_program, tmp_path / "job", parallelism=3)
    replaced = flott.state.value_state({"alice": 1, "zoe": 2}, value_type=Types.LONG())
    after = flott.state.edit(before).with_operator("totals", keyed={"total": replaced}).write(tmp_path / "edited")
    assert dict(after.operator("totals").keyed("total").items()) == {"alice": 1, "zoe": 2}
    assert after.operator("totals").keyed("items").get("alice") == ["apple", "cherry", "apple"]
    assert after.operator("totals").parallelism == 3


def test_what_was_read_can_be_written_again(tmp_path: Path) -> None:
    before = snapshot_of(totals_program, tmp_path / "job")
    operator = before.operator("totals")
    keyed = {
        "total": flott.state.value_state(operator.state("total").to_arrow(), value_type=Types.LONG()),
        "items": flott.state.list_state(operator.state("items").to_arrow(), value_type=str),
        "amounts": flott.state.map_state(operator.state("amounts").to_arrow(), value_type=Types.LONG()),
    }
    again = new_savepoint().with_operator("totals", keyed=keyed).write(tmp_path / "again").operator("totals")
    for name in keyed:
        assert dict(again.keyed(name).items()) == dict(operator.keyed(name).items())


def test_windows_and_timers_are_transformed(tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        stream = orders(env).key_by(lambda order: order[0], Types.STRING())
        windows = stream.window(TumblingEventTimeWindows.of(Time.seconds(4)))
        windows.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])).uid("windows").print()

    before = snapshot_of(program, tmp_path / "job")
    (panes,) = [state for state in before.operator("windows").states if state.kind == "panes"]
    after = (
        flott.state.edit(before)
        .transform("windows", panes.name, lambda key, window, order: (*order[:2], window.start))
        .write(tmp_path / "windows")
    )
    assert {held[2] for held in after.operator("windows").keyed(panes.name).get("alice").values()} == {0, 4000}
    run(ledger, tmp_path / "ledger")
    later = (
        flott.state.edit(tmp_path / "ledger")
        .transform("ledger", "_event-time-timers", lambda key, timers: [timer + 1 for timer in timers])
        .write(tmp_path / "timers")
    )
    assert later.operator("ledger").keyed("_event-time-timers").get("alice") == [2001, 3001, 4001]


@pytest.mark.parametrize("declared", [None, Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG()])])
@pytest.mark.parametrize("general", [False, True])
def test_open_windows_fire_with_what_they_were_transformed_to(tmp_path: Path, general: bool, declared: Any) -> None:
    def program(env: StreamExecutionEnvironment, script: list[Any], found: list[Any]) -> None:
        source = env.from_source(ScriptedSource(script), stamped(lambda order: order[2] * 1000), "orders")
        windows = source.map(lambda order: order, declared).key_by(lambda order: order[0], Types.STRING()).window(
            EventTimeSessionWindows.with_gap(Time.seconds(2))
        )
        if general:
            windows = windows.allowed_lateness(1)
        sums = windows.reduce(lambda a, b: (a[0], "", a[2] + b[2])).uid("windows")
        sums.sink_to(CallableSink(found.append)).set_parallelism(1)

    run(lambda env: program(env, ORDERS, []), tmp_path / "job", epochs=1)
    before = flott.state.open(tmp_path / "job")
    (held,) = [state for state in before.operator("windows").states if state.name in ("_sessions", "_window-contents")]

    def add(key: str, window: TimeWindow, order: Any) -> Any:
        assert window == TimeWindow(order[2] * 1000, order[2] * 1000 + 2000)
        return DROP if key == "bob" else (*order[:2], order[2] + 1000)

    if declared is not None:
        editor = flott.state.edit(before).transform("windows", held.name, lambda key, window, order: order[:2])
        with pytest.raises(StateError, match=r"expected the declared type tuple\(string, string, long\)"):
            editor.write(tmp_path / "refused")
    flott.state.edit(before).transform("windows", held.name, add).write(tmp_path / "edited")
    env, found = in_process(3, execution__state_recovery__path=str(tmp_path / "edited")), []
    program(env, ORDERS, found)
    env.execute("continued")
    assert sorted(found) == [("alice", "", 1009), ("carol", "apple", 1)]


class Pairs(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left[1], right[1]


def test_records_that_wait_for_a_partner_are_transformed(tmp_path: Path) -> None:
    def join(env: StreamExecutionEnvironment) -> None:
        left = orders(env).key_by(lambda order: order[0], Types.STRING())
        right = orders(env).key_by(lambda order: order[0], Types.STRING())
        left.interval_join(right).between(Time.seconds(-1), Time.seconds(1)).process(Pairs()).uid("join").print()

    before = snapshot_of(join, tmp_path / "job")

    def shift(key: str, waiting: list[Any]) -> Any:
        return [(timestamp + 1, ("moved", *order[1:])) for timestamp, order in reversed(waiting)]

    after = flott.state.edit(before).transform("join", "_interval-join-left", shift).write(tmp_path / "edited")
    waiting = after.operator("join").keyed("_interval-join-left").get("alice")
    assert [timestamp for timestamp, _ in waiting] == [2001, 3001, 4001]
    assert {order[0] for _, order in waiting} == {"moved"}
    editor = flott.state.edit(before).transform("join", "_interval-join-left", lambda key, waiting: [1])
    with pytest.raises(StateError, match="pairs of timestamp and record"):
        editor.write(tmp_path / "x")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda key, total: "many", "declared type long"),
        (lambda key, total: total / 0, "ZeroDivisionError"),
        (lambda key, total: 1 << 70, "declared type long"),
    ],
)
def test_a_function_that_spoils_the_state_is_refused(tmp_path: Path, function: Any, reason: str) -> None:
    before = snapshot_of(totals_program, tmp_path / "job")
    with pytest.raises(StateError, match=f"'total' of operator 'totals'.*{reason}"):
        flott.state.edit(before).transform("totals", "total", function).write(tmp_path / "edited")
    assert not (tmp_path / "edited").exists()


def test_what_is_not_there_cannot_be_edited(tmp_path: Path) -> None:
    editor = flott.state.edit(snapshot_of(totals_program, tmp_path / "job"))
    with pytest.raises(StateError, match="no operator 'sums'"):
        editor.transform("sums", "total", lambda key, value: value)
    with pytest.raises(StateError, match="no state 'totl'"):
        editor.transform("totals", "totl", lambda key, value: value)
    with pytest.raises(StateError, match="already"):
        editor.change_uid("totals", "totals")
    with pytest.raises(StateError, match="128 key groups"):
        editor.with_operator("totals", max_parallelism=64)


def test_records_are_transformed_without_their_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "account_of_the_test.py"
    module.write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Account:\n    user: str\n    total: float\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    account = importlib.import_module("account_of_the_test").Account
    state = flott.state.value_state({"a": account("ann", 1.5)}, value_type=account)
    first = new_savepoint().with_operator("x", keyed={"s": state}).write(tmp_path / "first")
    monkeypatch.delitem(sys.modules, "account_of_the_test")
    module.unlink()
    importlib.invalidate_caches()

    def double(key: str, held: Row) -> dict[str, Any]:
        return {"user": held.user, "total": int(held.total * 2)}

    second = flott.state.edit(first).transform("x", "s", double).write(tmp_path / "second")
    assert second.operator("x").keyed("s").get("a") == Row(user="ann", total=3.0)
    with pytest.raises(StateError, match="is no record of Account"):
        flott.state.edit(first).transform("x", "s", lambda key, held: {"user": "x"}).write(tmp_path / "third")


# --- rows by key group -----------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers())), st.integers(1, 7))
def test_rows_come_back_by_group_in_the_order_they_came(rows: list[tuple[int, int]], collected: int) -> None:
    with GroupedRows(collected) as grouped:
        for group, row in rows:
            grouped.add(group, row)
        assert grouped.groups == {group for group, _ in rows}
        for group in range(6):
            assert list(grouped.rows(group)) == [row for known, row in rows if known == group]


def test_operator_state_is_replaced_and_removed_but_not_transformed(tmp_path: Path) -> None:
    states = {"own": flott.state.split_state(["a"]), "all": flott.state.union_state(["u"])}
    made = new_savepoint().with_operator("memory", operator_state=states).write(tmp_path / "first")
    with pytest.raises(StateError, match="does not belong to keys"):
        flott.state.edit(made).transform("memory", "own", lambda key, value: value)
    replaced = {"own": flott.state.split_state(["b", "c"])}
    second = flott.state.edit(made).with_operator("memory", operator_state=replaced).write(tmp_path / "second")
    assert list(second.state("memory", "own").items()) == ["b", "c"]
    assert list(second.state("memory", "all").items()) == ["u"]
    third = flott.state.edit(second).remove_state("memory", "all").write(tmp_path / "third")
    assert [state.name for state in third.operator("memory").states] == ["own"]
    (operator,) = third.manifest.operators.values()
    assert not operator.has_keyed_state


def test_a_value_of_none_is_no_value(tmp_path: Path) -> None:
    table = pyarrow.table({"key": ["a", "b"], "value": [1, None]})
    made = new_savepoint().with_operator("x", keyed={"s": flott.state.value_state(table)}).write(tmp_path / "first")
    assert dict(made.operator("x").keyed("s").items()) == {"a": 1}


def test_all_keyed_state_of_an_operator_is_removed(tmp_path: Path) -> None:
    made = new_savepoint().with_operator("x", keyed={"s": flott.state.value_state({"a": 1})}).write(tmp_path / "first")
    empty = flott.state.edit(made).remove_state("x", "s").write(tmp_path / "second")
    assert empty.operator("x").states == ()
    assert not any(operator.has_state for operator in empty.manifest.operators.values())
