"""Reading snapshots: every kind of state, its columns, one key, and what is refused."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import flott.state
from flott.common import JobStatus, Row, SavepointFormatType, Time, Types
from flott.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flott.datastream.functions import BroadcastProcessFunction, CheckpointedFunction, MapFunction, ProcessJoinFunction
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flott.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from flott.errors import CorruptStateError, StateError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.state import StateSnapshot
from flott.testing import Cancel, EndOfEpoch, ScriptedSource, in_process, live
from tests.unit.snapshots.snapshots import CountingStorage, ledger, orders, run, snapshot_of, stamped

# --- process functions -----------------------------------------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path: Path) -> StateSnapshot:
    return snapshot_of(ledger, tmp_path)


def items(snapshot: StateSnapshot, operator: str, state: str) -> dict[Any, Any]:
    return dict(snapshot.operator(operator).keyed(state).items())


def rows(snapshot: StateSnapshot, operator: str, state: str, **options: Any) -> list[dict[str, Any]]:
    found = snapshot.state(operator, state).to_arrow(**options).to_pylist()
    return sorted(found, key=repr)


def test_a_value_state_is_read_as_a_table_and_as_items(snapshot: StateSnapshot) -> None:
    assert items(snapshot, "ledger", "total") == {"alice": 9, "bob": 5, "carol": 1}
    assert rows(snapshot, "ledger", "total") == [
        {"key": "alice", "value": 9},
        {"key": "bob", "value": 5},
        {"key": "carol", "value": 1},
    ]


def test_a_list_state_has_a_row_for_every_item(snapshot: StateSnapshot) -> None:
    assert items(snapshot, "ledger", "items")["alice"] == ["apple", "cherry", "apple"]
    assert rows(snapshot, "ledger", "items")[:2] == [
        {"key": "alice", "position": 0, "value": "apple"},
        {"key": "alice", "position": 1, "value": "cherry"},
    ]


def test_a_map_state_has_a_row_for_every_item(snapshot: StateSnapshot) -> None:
    assert items(snapshot, "ledger", "amounts")["alice"] == {"apple": 5, "cherry": 4}
    assert {"key": "alice", "map_key": "apple", "value": 5} in rows(snapshot, "ledger", "amounts")


def test_timers_are_a_table_of_keys_and_timestamps(snapshot: StateSnapshot) -> None:
    timers = snapshot.operator("ledger").keyed("_event-time-timers")
    assert timers.kind == "timers"
    assert timers.get("alice") == [2000, 3000, 4000]
    assert {"key": "bob", "timestamp": 5000} in rows(snapshot, "ledger", "_event-time-timers")


def test_one_key_is_looked_up_in_every_kind_of_state(snapshot: StateSnapshot) -> None:
    operator = snapshot.operator("ledger")
    assert operator.keyed("total").get("alice") == 9
    assert operator.keyed("items").get("alice") == ["apple", "cherry", "apple"]
    assert operator.keyed("amounts").get("alice") == {"apple": 5, "cherry": 4}
    assert operator.keyed("last").get("alice") == ("apple", 2)
    assert operator.keyed("total").get("nobody") is None
    assert operator.keyed("total").get("nobody", 0) == 0


def test_an_earlier_checkpoint_shows_what_was(tmp_path: Path) -> None:
    run(ledger, tmp_path, execution__checkpointing__num_retained="5")
    first, second = flott.state.open(tmp_path / "chk-1"), flott.state.open(tmp_path / "chk-2")
    assert items(first, "ledger", "total") == {"alice": 3, "bob": 5}
    assert items(second, "ledger", "total") == {"alice": 9, "bob": 5, "carol": 1}
    assert flott.state.open(tmp_path / "chk-1" / "_metadata").checkpoint_id == 1
    assert flott.state.open(f"file:{tmp_path}/chk-1").checkpoint_id == 1
    assert first.latest().checkpoint_id == 2


def test_the_key_counts_and_sizes_add_up(snapshot: StateSnapshot) -> None:
    total = snapshot.operator("ledger").keyed("total")
    assert total.key_count == 3
    assert sum(total.keys_by_group.values()) == 3
    assert all(0 <= group < 128 for group in total.keys_by_group)
    assert sorted(total.keys()) == ["alice", "bob", "carol"]
    sizes = [state.size_bytes for state in snapshot.operator("ledger").states]
    assert all(size > 0 for size in sizes)
    assert sum(sizes) < snapshot.manifest.state_bytes


def test_a_description_names_operators_states_types_and_keys(snapshot: StateSnapshot) -> None:
    text = snapshot.describe()
    assert "checkpoint of job 'job'" in text
    assert "uid 'ledger'" in text
    (line,) = [line for line in text.splitlines() if line.split()[:1] == ["total"]]
    assert line.split()[1] == "value"
    assert "3" in line.split()
    assert "keys" not in snapshot.describe(count_keys=False)


def test_state_that_was_cut_for_another_parallelism_is_read_the_same(tmp_path: Path) -> None:
    run(ledger, tmp_path, epochs=1, parallelism=3)
    run(ledger, tmp_path, epochs=2, parallelism=2)
    snapshot = flott.state.open(tmp_path)
    assert items(snapshot, "ledger", "total") == {"alice": 9, "bob": 5, "carol": 1}
    assert snapshot.operator("ledger").keyed("amounts").get("alice") == {"apple": 5, "cherry": 4}


# --- windows, joins, operator state ----------------------------------------------------------------------------------


class Sum(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[2])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Whole(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, list(elements)


def windowed(env: StreamExecutionEnvironment, assigner: Any, *, trigger: Any = None, whole: bool = False) -> None:
    stream = orders(env).key_by(lambda order: order[0], Types.STRING()).window(assigner)
    if trigger is not None:
        stream = stream.trigger(trigger)
    (stream.process(Whole()) if whole else stream.aggregate(Sum())).uid("windows").print()


def only_state(snapshot: StateSnapshot, kind: str) -> Any:
    (state,) = [state for state in snapshot.operator("windows").states if state.kind == kind]
    return state


def test_folded_windows_are_a_table_of_key_window_and_value(tmp_path: Path) -> None:
    found = snapshot_of(lambda env: windowed(env, TumblingEventTimeWindows.of(Time.seconds(4))), tmp_path)
    panes = only_state(found, "panes")
    assert panes.get("alice") == {TimeWindow(0, 4000): 5, TimeWindow(4000, 8000): 4}
    assert panes.get("alice", window=TimeWindow(0, 4000)) == 5
    assert panes.get("alice", window=(4000, 8000)) == 4
    assert {"key": "alice", "window_start": 0, "window_end": 4000, "namespace": None, "value": 5} in rows(
        found, "windows", panes.name
    )


def test_windows_with_all_their_elements_have_a_row_for_each(tmp_path: Path) -> None:
    found = snapshot_of(lambda env: windowed(env, TumblingEventTimeWindows.of(Time.seconds(4)), whole=True), tmp_path)
    panes = only_state(found, "list-panes")
    assert panes.get("alice", window=(0, 4000)) == [("alice", "apple", 3), ("alice", "apple", 2)]
    assert {row["position"] for row in rows(found, "windows", panes.name)} == {0, 1}


def test_sessions_are_a_table_of_key_window_and_value(tmp_path: Path) -> None:
    found = snapshot_of(lambda env: windowed(env, EventTimeSessionWindows.with_gap(Time.seconds(2))), tmp_path)
    sessions = only_state(found, "sessions")
    assert sessions.get("alice") == {TimeWindow(2000, 6000): 9}
    assert sessions.get("carol", window=TimeWindow(1000, 3000)) == 1
    assert sessions.get("carol", window=TimeWindow(1000, 4000)) is None


def test_windows_of_the_general_operator_say_their_window(tmp_path: Path) -> None:
    assigner, trigger = TumblingEventTimeWindows.of(Time.seconds(4)), CountTrigger.of(100)
    found = snapshot_of(lambda env: windowed(env, assigner, trigger=trigger), tmp_path)
    contents = found.operator("windows").keyed("_window-contents")
    assert contents.get("alice") == {TimeWindow(0, 4000): 5, TimeWindow(4000, 8000): 4}
    assert contents.get("alice", window=(4000, 8000)) == 4
    row = {"key": "bob", "window_start": 4000, "window_end": 8000, "namespace": None, "value": 5}
    assert row in rows(found, "windows", "_window-contents")


def test_windows_that_merged_are_shown_under_the_window_they_have_become(tmp_path: Path) -> None:
    assigner, trigger = EventTimeSessionWindows.with_gap(Time.seconds(2)), CountTrigger.of(100)
    found = snapshot_of(lambda env: windowed(env, assigner, trigger=trigger), tmp_path)
    contents = found.operator("windows").keyed("_window-contents")
    assert contents.get("alice") == {TimeWindow(2000, 6000): 9}
    assert contents.get("alice", window=(2000, 6000)) == 9
    assert contents.get("alice", window=(3000, 5000)) is None


class Pairs(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def test_records_that_wait_for_a_partner_are_a_table_with_timestamps(tmp_path: Path) -> None:
    def join(env: StreamExecutionEnvironment) -> None:
        left = orders(env).key_by(lambda order: order[0], Types.STRING())
        right = orders(env).key_by(lambda order: order[0], Types.STRING())
        left.interval_join(right).between(Time.seconds(-1), Time.seconds(1)).process(Pairs()).uid("join").print()

    found = snapshot_of(join, tmp_path)
    waiting = found.operator("join").keyed("_interval-join-left")
    assert waiting.kind == "timelines"
    assert [timestamp for timestamp, _ in waiting.get("alice")] == [2000, 3000, 4000]
    assert [row["timestamp"] for row in rows(found, "join", waiting.name) if row["key"] == "bob"] == [5000]


class Rules(BroadcastProcessFunction[Any, Any, Any]):
    LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.get_broadcast_state(self.LIMITS).put(value[1], value[2])
        yield from ()


class Remembering(MapFunction[Any, Any], CheckpointedFunction):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def map(self, value: Any) -> Any:
        self.seen.append(value[0])
        return value

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        self.everywhere = store.get_union_list_state(ListStateDescriptor("everywhere", Types.STRING()))

    def snapshot_state(self, context: Any) -> None:
        self.state.update(self.seen)
        self.everywhere.update(self.seen[:1])


def test_broadcast_state_is_one_map_although_every_subtask_has_it(tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        rules = orders(env).broadcast(Rules.LIMITS)
        orders(env, []).connect(rules).process(Rules()).uid("rules").print()

    found = snapshot_of(program, tmp_path)
    limits = found.state("rules", "limits")
    assert limits.kind == "broadcast"
    assert dict(limits.items()) == {"apple": 2, "bread": 5, "cherry": 4}
    assert limits.get("cherry") == 4
    assert rows(found, "rules", "limits")[0] == {"key": "apple", "value": 2}


def test_operator_lists_say_whose_item_stands_where(tmp_path: Path) -> None:
    found = snapshot_of(lambda env: orders(env).rebalance().map(Remembering()).uid("memory").print(), tmp_path)
    seen = rows(found, "memory", "seen")
    assert sorted(row["value"] for row in seen) == ["alice", "alice", "alice", "bob", "carol"]
    assert {row["subtask"] for row in seen} == {0, 1}
    assert found.state("memory", "everywhere").kind == "union-list"
    with pytest.raises(StateError, match="is a list"):
        found.state("memory", "seen").get("alice")


def test_state_with_a_time_to_live_shows_when_it_was_last_used(tmp_path: Path) -> None:
    class Expiring(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: Any) -> None:
            value = ValueStateDescriptor("value", Types.LONG())
            value.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            items = ListStateDescriptor("items", Types.STRING())
            items.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
            self.value, self.items = runtime_context.get_state(value), runtime_context.get_list_state(items)

        def process_element(self, order: Any, ctx: Any) -> Iterator[Any]:
            self.value.update(order[2])
            self.items.add(order[1])
            yield order

    found = snapshot_of(
        lambda env: orders(env).key_by(lambda order: order[0], Types.STRING()).process(Expiring()).uid("ttl").print(),
        tmp_path,
    )
    value = found.operator("ttl").keyed("value")
    assert value.time_to_live_ms == 3_600_000
    assert value.get("alice") == 2
    assert found.operator("ttl").keyed("items").get("alice") == ["apple", "cherry", "apple"]
    (row,) = [row for row in rows(found, "ttl", "value") if row["key"] == "alice"]
    assert row["value"] == 2
    assert isinstance(row["last_access"], int)
    columns = [column.name for column in found.state("ttl", "items").columns]
    assert columns == ["key", "position", "value", "last_access"]


# --- types -----------------------------------------------------------------------------------------------------------

SHOP = '''
from dataclasses import dataclass
from flott.common import Types
from flott.datastream import KeyedProcessFunction
from flott.datastream.state import ValueStateDescriptor

@dataclass(frozen=True)
class Account:
    user: str
    total: int
    tags: list[str]

class Keep(KeyedProcessFunction):
    def __init__(self, declared):
        self.declared = declared
    def open(self, runtime_context):
        info = Types.of(Account) if self.declared else Types.PICKLED_BYTE_ARRAY()
        self.account = runtime_context.get_state(ValueStateDescriptor("account", info))
    def process_element(self, order, ctx):
        before = self.account.value()
        total = before.total if before else 0
        self.account.update(Account(order[0], total + order[2], [order[1]]))
        yield order
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of the program's, which is gone when the state is read."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "shop_of_the_test.py").write_text(SHOP)
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield importlib.import_module("shop_of_the_test")
    sys.modules.pop("shop_of_the_test", None)


def forget_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shop_of_the_test")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("modules")])
    importlib.invalidate_caches()


def accounts(shop: Any, declared: bool) -> Any:
    def program(env: StreamExecutionEnvironment) -> None:
        stream = orders(env).key_by(lambda order: order[0], Types.STRING())
        stream.process(shop.Keep(declared)).uid("accounts").print()

    return program


def test_declared_records_are_columns_even_where_their_class_is_missing(
    tmp_path: Path, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = snapshot_of(accounts(shop, True), tmp_path / "job")
    forget_shop(monkeypatch)
    account = found.operator("accounts").keyed("account")
    assert account.get("alice") == Row(user="alice", total=9, tags=["apple"])
    assert rows(found, "accounts", "account")[0] == {"key": "alice", "user": "alice", "total": 9, "tags": ["apple"]}
    assert "dataclass Account" in (account.value_type or "")


def test_pickled_records_whose_class_is_missing_are_refused_by_state_and_class(
    tmp_path: Path, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = snapshot_of(accounts(shop, False), tmp_path / "job")
    forget_shop(monkeypatch)
    account = found.operator("accounts").keyed("account")
    with pytest.raises(StateError, match=r"'account'.*shop_of_the_test"):
        account.get("alice")
    with pytest.raises(StateError, match=r"'account'.*shop_of_the_test"):
        account.to_arrow()


def test_pickled_records_whose_class_is_there_are_recognised(tmp_path: Path, shop: Any) -> None:
    found = snapshot_of(accounts(shop, False), tmp_path / "job")
    assert rows(found, "accounts", "account")[0] == {"key": "alice", "user": "alice", "total": 9, "tags": ["apple"]}


def as_account(shop: Any) -> Any:
    return lambda order: shop.Account(order[0], order[2], [order[1]])


def together(one: Any, other: Any) -> Any:
    return type(one)(one.user, one.total + other.total, one.tags + other.tags)


FOUR_SECONDS, TWO_SECONDS_APART = (
    TumblingEventTimeWindows.of(Time.seconds(4)),
    EventTimeSessionWindows.with_gap(Time.seconds(2)),
)

FIRST, OTHERS = Row(user="alice", total=3, tags=["apple"]), Row(user="alice", total=2, tags=["apple"])
BOTH = Row(user="alice", total=5, tags=["apple", "apple"])
CHERRY = Row(user="alice", total=4, tags=["cherry"])

#: What is done with a keyed stream of accounts, its state, and what is in there for alice between 0 and 4000.
KEPT: dict[str, tuple[Any, str, Any]] = {
    "windows of a fold": (lambda keyed: keyed.window(FOUR_SECONDS).reduce(together), "_window-panes", BOTH),
    "windows of elements": (
        lambda keyed: keyed.window(FOUR_SECONDS).process(Whole()),
        "_window-element-panes",
        [FIRST, OTHERS],
    ),
    "late windows of a fold": (
        lambda keyed: keyed.window(FOUR_SECONDS).allowed_lateness(1).reduce(together),
        "_window-contents",
        BOTH,
    ),
    "late windows of elements": (
        lambda keyed: keyed.window(FOUR_SECONDS).allowed_lateness(1).process(Whole()),
        "_window-elements",
        [FIRST, OTHERS],
    ),
    "windows with an evictor": (
        lambda keyed: keyed.window(FOUR_SECONDS).evictor(CountEvictor.of(9)).process(Whole()),
        "_window-timestamped-elements",
        [(FIRST, 3000), (OTHERS, 2000)],
    ),
}


@pytest.mark.parametrize("kind", KEPT)
def test_windows_of_declared_records_are_read_without_their_class(
    kind: str, tmp_path: Path, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, name, expected = KEPT[kind]

    def program(env: StreamExecutionEnvironment) -> None:
        keyed = orders(env).map(as_account(shop), shop.Account).key_by(lambda account: account.user, Types.STRING())
        apply(keyed).uid("windows").print()

    found = snapshot_of(program, tmp_path / "job")
    forget_shop(monkeypatch)
    state = found.operator("windows").keyed(name)
    assert state.get("alice", window=(0, 4000)) == expected
    assert "dataclass Account(user: string" in (state.value_type or "")
    (first, *_) = rows(found, "windows", name)
    fields = ["value"] if "evictor" in kind else ["user", "total", "tags"]
    assert list(first)[-len(fields) :] == fields


def test_sessions_sums_and_waiting_records_are_read_without_their_class(
    tmp_path: Path, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        keyed = orders(env).map(as_account(shop), shop.Account).key_by(lambda account: account.user, Types.STRING())
        keyed.window(TWO_SECONDS_APART).reduce(together).uid("sessions").print()
        keyed.reduce(together).uid("sums").print()
        keyed.interval_join(keyed).between(Time.seconds(-1), Time.seconds(1)).process(Pairs()).uid("join").print()

    found = snapshot_of(program, tmp_path / "job")
    forget_shop(monkeypatch)
    everything = Row(user="alice", total=9, tags=["apple", "cherry", "apple"])
    sessions = found.operator("sessions").keyed("_sessions")
    assert sessions.get("alice") == {TimeWindow(2000, 6000): everything}
    assert (sessions.value_type or "").startswith("dataclass Account(")
    assert {
        "key": "bob", "window_start": 5000, "window_end": 7000, "namespace": None,
        "user": "bob", "total": 5, "tags": ["bread"],
    } in rows(found, "sessions", "_sessions")  # fmt: skip
    assert found.operator("sums").keyed("_reduce").get("alice") == everything
    waiting = found.operator("join").keyed("_interval-join-right")
    assert waiting.get("alice") == [(2000, OTHERS), (3000, FIRST), (4000, CHERRY)]
    (row,) = [row for row in rows(found, "join", waiting.name) if row["key"] == "bob"]
    assert row == {"key": "bob", "timestamp": 5000, "user": "bob", "total": 5, "tags": ["bread"]}


def keeping(values: list[tuple[str, Any]]) -> Any:
    """A program that keeps the last value of each key, undeclared."""

    class Last(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: Any) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            self.last.update(value[1])
            yield value

    def program(env: StreamExecutionEnvironment) -> None:
        source = ScriptedSource([*values, EndOfEpoch()], endless=True)
        stream = env.from_source(source, stamped(lambda value: 0), "values").key_by(lambda value: value[0])
        stream.process(Last()).uid("last").print()

    return program


def test_values_of_many_types_are_shown_as_text(tmp_path: Path) -> None:
    found = snapshot_of(keeping([("a", 1), ("b", "two"), ("c", {3})]), tmp_path, epochs=1)
    assert rows(found, "last", "last") == [
        {"key": "a", "value_repr": "1"},
        {"key": "b", "value_repr": "'two'"},
        {"key": "c", "value_repr": "{3}"},
    ]
    with_bytes = rows(found, "last", "last", pickled=True)
    assert [pickle.loads(row["value_pickled"]) for row in with_bytes] == [1, "two", {3}]


def test_a_value_unlike_the_first_ones_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flott.snapshots.views.SAMPLE_ROWS", 1)
    found = snapshot_of(keeping([("a", 1), ("b", "two")]), tmp_path, epochs=1)
    with pytest.raises(StateError, match=r"value_type=Types\.PICKLED_BYTE_ARRAY"):
        found.state("last", "last").to_arrow()
    shown = found.state("last", "last").to_arrow(value_type=Types.PICKLED_BYTE_ARRAY()).to_pylist()
    assert sorted(row["value_repr"] for row in shown) == ["'two'", "1"]


def test_a_type_can_be_chosen_where_none_was_declared(tmp_path: Path) -> None:
    found = snapshot_of(keeping([("a", 1), ("b", 2)]), tmp_path, epochs=1)
    table = found.state("last", "last").to_arrow(value_type=float)
    assert str(table.schema.field("value").type) == "double"
    assert sorted(table.column("value").to_pylist()) == [1.0, 2.0]


# --- what is read, and what is not -----------------------------------------------------------------------------------


def many_keys(env: StreamExecutionEnvironment) -> None:
    script = [(f"user-{n}", "x" * 50, n) for n in range(2000)]
    ledger(env, [*script, EndOfEpoch(), *script[:200], EndOfEpoch()])


def test_a_lookup_reads_the_blocks_of_one_key_group_only(tmp_path: Path) -> None:
    run(many_keys, tmp_path)
    snapshot = flott.state.open(tmp_path)
    storage = CountingStorage(str(tmp_path), sync=False)
    counted = StateSnapshot(storage, snapshot.manifest, snapshot.path)
    total = counted.operator("ledger").keyed("total")
    _ = counted.operator("ledger").states
    footers = sum(storage.read_bytes.values())
    storage.read_bytes.clear()
    assert total.get("user-1999") == 1999
    read = sum(storage.read_bytes.values())
    size = sum(file.size for part in counted.operator("ledger").parts for file in part.sequence)
    assert read - footers < size / 20, f"{read} bytes read of {size}"


def test_a_lookup_does_not_read_older_files_than_it_must(tmp_path: Path) -> None:
    run(ledger, tmp_path, parallelism=1)
    snapshot = flott.state.open(tmp_path)
    (part,) = snapshot.operator("ledger").parts
    assert len(part.sequence) == 2
    storage = CountingStorage(str(tmp_path), sync=False)
    counted = StateSnapshot(storage, snapshot.manifest, snapshot.path)
    total, items = counted.operator("ledger").keyed("total"), counted.operator("ledger").keyed("items")

    def read_of_oldest(look_up: Any) -> int:
        storage.read_bytes.clear()
        look_up()
        return storage.read_bytes[part.sequence[0].name]

    footer = read_of_oldest(lambda: total.get("carol"))  # carol came later: the oldest file is opened, and that is all
    assert read_of_oldest(lambda: total.get("alice")) == footer
    assert read_of_oldest(lambda: items.get("alice")) > footer  # her list begins there


def test_items_hold_one_key_group_in_memory(tmp_path: Path) -> None:
    snapshot = snapshot_of(many_keys, tmp_path, epochs=1)
    storage = CountingStorage(str(tmp_path), sync=False)
    counted = StateSnapshot(storage, snapshot.manifest, snapshot.path)
    stream = counted.operator("ledger").keyed("total").items()
    next(stream)
    early = sum(storage.read_bytes.values())
    assert len(list(stream)) == 1999
    assert early < sum(storage.read_bytes.values()) / 10


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_damaged_key_group_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    snapshot = snapshot_of(many_keys, tmp_path, epochs=1, parallelism=1)
    (part,) = snapshot.operator("ledger").parts
    total = snapshot.operator("ledger").keyed("total")
    groups = {key: group for group, entries in total.groups() for key, _, _ in entries}
    file = tmp_path / part.sequence[-1].name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    refused: set[int] = set()
    for key in groups:
        try:
            assert total.get(key) == int(key.removeprefix("user-"))
        except CorruptStateError:
            refused.add(groups[key])
    assert len(refused) == 1
    with pytest.raises(CorruptStateError, match="checksum"):
        list(total.items())


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    snapshot = snapshot_of(ledger, tmp_path, parallelism=1)
    (part,) = snapshot.operator("ledger").parts
    file = tmp_path / part.sequence[-1].name
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(CorruptStateError, match="ends in the middle"):
        _ = flott.state.open(tmp_path).operator("ledger").states


def test_a_checkpoint_that_is_deleted_while_it_is_read_says_so(tmp_path: Path) -> None:
    snapshot = snapshot_of(ledger, tmp_path)
    total = snapshot.operator("ledger").keyed("total")
    for name in snapshot.manifest.files:
        (tmp_path / name).unlink()
    with pytest.raises(StateError, match=r"does not exist any more.*open\(\) it again"):
        total.get("alice")
    with pytest.raises(StateError, match="does not exist any more"):
        list(total.items())
    with pytest.raises(StateError, match="refers to files that do not exist"):
        flott.state.open(tmp_path)


def test_the_latest_checkpoint_of_a_running_job_can_always_be_opened(tmp_path: Path) -> None:
    script = [entry for n in range(20) for entry in ((f"user-{n % 3}", "x", n), EndOfEpoch())]
    env = in_process(2)
    ledger(env, script)
    totals: list[int] = []

    def look(step: str, epoch: int) -> None:
        if step == "committed":
            found = flott.state.open(tmp_path)
            assert found.checkpoint_id == epoch
            totals.append(sum(value for _, value in found.operator("ledger").keyed("total").items()))
            if epoch == 20:
                raise Cancel

    job = live(env, tmp_path, on_step=look)
    assert job.failure is None
    assert totals == [sum(range(n + 1)) for n in range(20)]


def test_opening_races_with_a_job_that_deletes_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint that was the latest is gone when it is read: the one after it is opened."""
    run(ledger, tmp_path, execution__checkpointing__num_retained="5")
    seen = iter([[1], [1, 2]])
    monkeypatch.setattr(CheckpointStore, "checkpoint_ids", lambda self: next(seen))
    (tmp_path / paths.metadata(1)).unlink()
    assert flott.state.open(tmp_path).checkpoint_id == 2


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder / "nowhere", "no such folder"),
        (lambda folder: (folder / "file").write_text("x") and folder / "file", "It is a file"),
        (lambda folder: folder, "Give the path of a checkpoint"),
    ],
)
def test_a_place_without_checkpoints_is_refused(tmp_path: Path, make: Any, reason: str) -> None:
    with pytest.raises(StateError, match=reason):
        flott.state.open(make(tmp_path))


def test_the_directory_of_several_jobs_says_which_there_are(tmp_path: Path) -> None:
    run(ledger, tmp_path / "one")
    with pytest.raises(StateError, match=r"directories of jobs: open one of them \(one\)"):
        flott.state.open(tmp_path)


def test_an_unknown_operator_or_state_says_which_there_are(snapshot: StateSnapshot) -> None:
    with pytest.raises(StateError, match="ledger"):
        snapshot.operator("leger")
    with pytest.raises(StateError, match="'total'"):
        snapshot.operator("ledger").state("totals")
    assert snapshot.operator("Ledger").uid == "ledger"
    assert snapshot.operator(snapshot.operator("ledger").id).uid == "ledger"


def test_a_job_client_is_opened_by_its_directory(tmp_path: Path) -> None:
    env = in_process(1, execution__checkpointing__dir=str(tmp_path))
    ledger(env)
    client = env.execute_async("running")
    try:
        found = wait_for(client, epoch=2)
        assert items(found, "ledger", "total") == {"alice": 9, "bob": 5, "carol": 1}
    finally:
        client.cancel().result()


# --- whoever wrote it ------------------------------------------------------------------------------------------------


def wait_for(client: Any, epoch: int) -> StateSnapshot:
    """The state of a running job after so many epochs."""
    while True:
        assert client.get_job_status().result() in (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING)
        try:
            found = flott.state.open(client)
        except StateError:  # none yet
            continue
        if found.checkpoint_id >= epoch:
            return found


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_checkpoints_and_savepoints_of_every_backend_and_format_read_the_same(tmp_path: Path, backend: str) -> None:
    env = in_process(2, execution__checkpointing__dir=str(tmp_path), state__backend__type=backend)
    ledger(env)
    client = env.execute_async("running")
    try:
        checkpoint = wait_for(client, epoch=2)
        canonical = client.trigger_savepoint(str(tmp_path / "savepoints"), SavepointFormatType.CANONICAL).result()
        native = client.trigger_savepoint(str(tmp_path / "savepoints"), SavepointFormatType.NATIVE).result()
        for place in (checkpoint.path, canonical, native):
            found = flott.state.open(place)
            assert items(found, "ledger", "total") == {"alice": 9, "bob": 5, "carol": 1}
            assert found.operator("ledger").keyed("items").get("alice") == ["apple", "cherry", "apple"]
            assert found.operator("ledger").keyed("amounts").get("alice") == {"apple": 5, "cherry": 4}
            assert found.operator("ledger").keyed("_event-time-timers").get("bob") == [5000]
        with pytest.raises(StateError, match="is a savepoint"):
            flott.state.open(native).latest()
    finally:
        client.cancel().result()


def test_sequences_that_were_compacted_read_the_same(tmp_path: Path) -> None:
    run(ledger, tmp_path, parallelism=1)
    before = flott.state.open(tmp_path)
    (part,) = before.operator("ledger").parts
    base = compact(CompactionOrder(part.sequence[:1], part.groups, "state/compacted", whole=True), before.storage)
    operator = before.manifest.operators[before.operator("ledger").id]
    subtask = replace(operator.subtasks[0], sequence=(base, *part.sequence[1:]))
    operators = {**before.manifest.operators, before.operator("ledger").id: replace(operator, subtasks=(subtask,))}
    compacted = StateSnapshot(before.storage, replace(before.manifest, operators=operators), before.path)
    for name in ("total", "items", "amounts", "last", "_event-time-timers"):
        assert items(compacted, "ledger", name) == items(before, "ledger", name)
        for key in ("alice", "bob", "carol", "nobody"):
            assert compacted.operator("ledger").keyed(name).get(key) == before.operator("ledger").keyed(name).get(key)


def test_damaged_metadata_is_refused(tmp_path: Path) -> None:
    snapshot = snapshot_of(ledger, tmp_path)
    metadata = Path(snapshot.path, "_metadata")
    metadata.write_bytes(metadata.read_bytes()[:-10])
    with pytest.raises(CorruptStateError, match="damaged"):
        flott.state.open(tmp_path)


def test_without_pyarrow_the_sentence_says_what_to_install(snapshot: StateSnapshot, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "flott.snapshots.arrow", raising=False)
    with pytest.raises(StateError, match=r"pip install 'flott\[arrow\]'"):
        snapshot.state("ledger", "total").to_arrow()
    assert snapshot.operator("ledger").keyed("total").get("bob") == 5
