"""State with a time to live: every kind of state, every option."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flott.common import Types
from flott.common.time import Time
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.functions import AggregateFunction
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.errors import ProgramError, StateError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.sequence_reader import open_sequence
from flott.runtime.managed_state.kinds.lists import ListTable
from flott.runtime.managed_state.kinds.maps import MapTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.managed_state.ttl.time_to_live import UNSTAMPED
from flott.runtime.operators.context import TableStateStore, state_handle
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage

TTL = 100


class Total(AggregateFunction[int, list[int], int]):
    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> int:
        return sum(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


def plain() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TTL))


class Process:
    """A process that holds the state of one subtask, and its clocks."""

    make_state: Callable[[], KeyedState] = staticmethod(lambda: KeyedState("counter (uid c)", 16, range(16)))

    def __init__(self, storage: MemoryStorage | None = None, sequence: Any = ()):
        self.state = self.make_state()
        self.storage = storage or MemoryStorage()
        self.sequence = sequence
        self.restore()
        self.state.current.key = "k"

    def restore(self) -> None:
        """Be as the files say, whatever was done since."""
        self.state.bring_to(self.sequence, self.storage)  # type: ignore[arg-type]

    def at(self, now: int, watermark: int = MIN_WATERMARK) -> None:
        """The epoch ends and is saved, the next one begins."""
        self.save()
        self.state.lifetimes.begin(now, watermark)

    def of(self, timestamp: int) -> None:
        """A record with this timestamp is at hand."""
        records = iter([None])
        next(records)
        self.state.lifetimes.clocks.event.follow(records, [timestamp])

    def get(self, descriptor: StateDescriptor, config: StateTtlConfig.Builder | None = None) -> Any:
        if config is not None:
            descriptor.enable_time_to_live(config.build())
        return state_handle(TableStateStore(self.state, self.state.current), descriptor)

    def save(self) -> None:
        name = f"file-{len(self.storage.files)}"
        self.sequence = self.state.save(self.sequence, self.storage, name)  # type: ignore[arg-type]
        self.restore()

    def successor(self) -> Process:
        """Another process, on another host, that takes over what was saved."""
        return Process(self.storage, self.sequence)

    def held(self, table: str = "s@ttl") -> Any:
        """What the table really holds for the key."""
        found = self.state.find(table)
        assert isinstance(found, ValueTable | ListTable | MapTable)
        content = found.entries.get(self.state.current.key)
        if content is None or isinstance(found, ValueTable):
            return content
        return list(content) if isinstance(found, ListTable) else dict(content.items())

    def entries(self, table: str = "s@ttl") -> int:
        """For how many keys the table really holds something."""
        found = self.state.find(table)
        assert isinstance(found, ValueTable | ListTable | MapTable)
        return len(list(found.entries))


@pytest.fixture(autouse=True, params=["hashmap", "rocksdb"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of this module runs with every backend."""
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")
        hosts = count()

        def make_state() -> KeyedState:
            return RocksKeyedState("counter (uid c)", 16, range(16), tmp_path / str(next(hosts)), Budget(4 << 20))

        monkeypatch.setattr(Process, "make_state", staticmethod(make_state))
    return str(request.param)


KINDS: dict[str, tuple[Callable[[], StateDescriptor], Callable[[Any], None], Callable[[Any], Any], Any, Any]] = {
    # descriptor, how to write, how to read, what is read then, what is read of nothing
    "value": (lambda: ValueStateDescriptor("s"), lambda s: s.update(7), lambda s: s.value(), 7, None),
    "reducing": (lambda: ReducingStateDescriptor("s", operator.add), lambda s: s.add(7), lambda s: s.get(), 7, None),
    "aggregating": (lambda: AggregatingStateDescriptor("s", Total()), lambda s: s.add(7), lambda s: s.get(), 7, None),
    "list": (lambda: ListStateDescriptor("s"), lambda s: s.add(7), lambda s: list(s.get()), [7], []),
    "list, updated": (lambda: ListStateDescriptor("s"), lambda s: s.update([7]), lambda s: list(s), [7], []),
    "list, several": (lambda: ListStateDescriptor("s"), lambda s: s.add_all([7]), lambda s: list(s.get()), [7], []),
    "map": (lambda: MapStateDescriptor("s"), lambda s: s.put("m", 7), lambda s: s.get("m"), 7, None),
    "map, several": (lambda: MapStateDescriptor("s"), lambda s: s.put_all({"m": 7}), lambda s: s["m"], 7, None),
    "map, items": (lambda: MapStateDescriptor("s"), lambda s: s.put("m", 7), lambda s: list(s.items()), [("m", 7)], []),
    "map, keys": (lambda: MapStateDescriptor("s"), lambda s: s.put("m", 7), lambda s: list(s.keys()), ["m"], []),
    "map, values": (lambda: MapStateDescriptor("s"), lambda s: s.put("m", 7), lambda s: list(s.values()), [7], []),
    "map, contains": (lambda: MapStateDescriptor("s"), lambda s: s.put("m", 7), lambda s: "m" in s, True, False),
}  # fmt: skip

every_kind = pytest.mark.parametrize(("describe", "write", "read", "there", "nothing"), KINDS.values(), ids=KINDS)
every_clock = pytest.mark.parametrize("in_event_time", [False, True], ids=["processing time", "event time"])


def clocked(process: Process, in_event_time: bool) -> Callable[[int], None]:
    """What begins an epoch at a time, of either clock."""
    return (lambda time: process.at(0, time)) if in_event_time else process.at


def by(config: StateTtlConfig.Builder, in_event_time: bool) -> StateTtlConfig.Builder:
    return config.use_event_time() if in_event_time else config.use_processing_time()


# ---- when something expires ------------------------------------------------------------------------------------------


@every_kind
@every_clock
def test_state_lives_for_its_time_and_not_a_millisecond_longer(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any, in_event_time: bool
) -> None:
    process = Process()
    epoch_at = clocked(process, in_event_time)
    epoch_at(1000)
    state = process.get(describe(), by(plain(), in_event_time))
    write(state)
    assert read(state) == there
    epoch_at(1000 + TTL - 1)
    assert read(state) == there
    epoch_at(1000 + TTL)
    assert read(state) == nothing


@every_kind
@every_clock
def test_what_has_expired_is_removed_when_it_is_read(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any, in_event_time: bool
) -> None:
    process = Process()
    epoch_at = clocked(process, in_event_time)
    epoch_at(1000)
    state = process.get(describe(), by(plain().disable_cleanup_in_background(), in_event_time))
    write(state)
    epoch_at(1000 + TTL)
    table = "s@event-ttl" if in_event_time else "s@ttl"
    assert process.held(table)
    read(state)
    assert not process.held(table)


@every_kind
@pytest.mark.parametrize(
    ("update", "lives_on"),
    [(StateTtlConfig.UpdateType.OnCreateAndWrite, False), (StateTtlConfig.UpdateType.OnReadAndWrite, True)],
)
@every_clock
def test_reading_prolongs_life_if_asked_to(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any, update: Any, lives_on: bool, in_event_time: bool
) -> None:
    process = Process()
    epoch_at = clocked(process, in_event_time)
    epoch_at(0)
    state = process.get(describe(), by(plain().set_update_type(update), in_event_time))
    write(state)
    epoch_at(TTL - 1)
    assert read(state) == there
    epoch_at(2 * TTL - 2)
    assert read(state) == (there if lives_on else nothing)
    epoch_at(3 * TTL)
    assert read(state) == nothing


@every_kind
def test_what_was_prolonged_by_reading_is_saved(describe: Any, write: Any, read: Any, there: Any, nothing: Any) -> None:
    process = Process()
    process.at(0)
    write(process.get(describe(), plain().update_ttl_on_read_and_write()))
    process.save()
    process.at(TTL - 1)
    read(process.get(describe(), plain().update_ttl_on_read_and_write()))
    process.save()
    other = process.successor()
    other.at(TTL + 1)
    assert read(other.get(describe(), plain().update_ttl_on_read_and_write())) == there


@every_kind
def test_writing_prolongs_life(describe: Any, write: Any, read: Any, there: Any, nothing: Any) -> None:
    process = Process()
    process.at(0)
    state = process.get(describe(), plain())
    write(state)
    process.at(TTL - 1)
    state.clear()
    write(state)
    process.at(TTL + 1)
    assert read(state) == there


@every_kind
def test_disabled_means_that_state_lives_for_ever(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any
) -> None:
    process = Process()
    process.at(0)
    state = process.get(describe(), plain().set_update_type(StateTtlConfig.UpdateType.Disabled))
    write(state)
    process.at(10**12)
    assert read(state) == there
    assert process.state.find("s@ttl") is None  # and pays nothing for it


@every_kind
def test_a_cleared_state_is_empty(describe: Any, write: Any, read: Any, there: Any, nothing: Any) -> None:
    process = Process()
    state = process.get(describe(), plain())
    write(state)
    state.clear()
    assert read(state) == nothing


# ---- visibility ------------------------------------------------------------------------------------------------------


@every_kind
def test_what_has_expired_is_returned_once_more_if_asked_to(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any
) -> None:
    process = Process()
    process.at(0)
    state = process.get(describe(), plain().return_expired_if_not_cleaned_up())
    write(state)
    process.at(TTL)
    assert read(state) == there  # reading removes it
    assert read(state) == nothing


@every_kind
def test_what_has_expired_for_as_long_as_it_lived_counts_as_cleaned_up(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any
) -> None:
    for age, seen in ((2 * TTL - 1, there), (2 * TTL, nothing)):
        process = Process()
        process.at(0)
        state = process.get(describe(), plain().return_expired_if_not_cleaned_up())
        write(state)
        process.at(age)
        assert read(state) == seen


@pytest.mark.parametrize("returns_expired", [False, True])
@pytest.mark.parametrize("name", ["reducing", "aggregating"])
def test_values_are_added_to_what_may_be_seen(name: str, returns_expired: bool) -> None:
    describe, write, read, there, _ = KINDS[name]
    config = plain().return_expired_if_not_cleaned_up() if returns_expired else plain()
    process = Process()
    process.at(0)
    state = process.get(describe(), config)
    write(state)
    write(state)
    process.at(TTL)
    write(state)
    assert read(state) == (3 if returns_expired else 1) * there
    process.at(3 * TTL)
    write(state)
    assert read(state) == there


# ---- elements and items expire on their own --------------------------------------------------------------------------


def test_elements_of_a_list_expire_one_by_one() -> None:
    process = Process()
    state = process.get(ListStateDescriptor("s"), plain())
    for time in range(0, 50, 10):
        process.at(time)
        state.add(time)
    for now in (0, 99, 100, 109, 110, 125, 139):
        process.at(now)
        assert list(state.get()) == [time for time in range(0, 50, 10) if time + TTL > now]
    process.at(140)
    assert list(state.get()) == []


def test_a_list_is_not_rewritten_for_a_few_elements() -> None:
    process = Process()
    state = process.get(ListStateDescriptor("s"), plain())
    for time in range(10):
        process.at(time)
        state.add(time)
    process.at(TTL + 3)
    assert list(state.get()) == [4, 5, 6, 7, 8, 9]
    assert len(process.held()) == 10
    process.at(TTL + 4)
    assert list(state.get()) == [5, 6, 7, 8, 9]
    assert len(process.held()) == 5


def test_elements_that_may_still_be_returned_stay_in_their_list() -> None:
    process = Process()
    state = process.get(ListStateDescriptor("s"), plain().return_expired_if_not_cleaned_up())
    for time in (0, 1, 50):
        process.at(time)
        state.add(time)
    process.at(TTL + 10)
    assert list(state.get()) == list(state.get()) == [0, 1, 50]


def test_reading_a_list_prolongs_all_elements_that_have_not_expired() -> None:
    process = Process()
    state = process.get(ListStateDescriptor("s"), plain().update_ttl_on_read_and_write())
    for time in (0, 50):
        process.at(time)
        state.add(time)
    process.at(TTL)
    assert list(state.get()) == [50]
    assert process.held() == [(50, TTL)]


def test_items_of_a_map_expire_one_by_one() -> None:
    process = Process()
    state = process.get(MapStateDescriptor("s"), plain())
    process.at(0)
    state.put("a", 1)
    process.at(60)
    state.put("b", 2)
    process.at(TTL)
    assert list(state.items()) == [("b", 2)]
    assert not state.is_empty()
    assert process.held() == {"b": (2, 60)}
    process.at(60 + TTL)
    assert state.is_empty()
    assert list(state.keys()) == []
    assert not process.held()


def test_a_map_whose_items_have_all_expired_is_empty_before_anybody_removes_them() -> None:
    process = Process()
    state = process.get(MapStateDescriptor("s"), plain())
    process.at(0)
    state.put("a", None)
    assert state.contains("a")
    process.at(TTL)
    assert state.is_empty()
    assert process.held()


def test_an_item_that_is_put_again_after_it_was_gone_is_the_last_one(backend: str) -> None:
    if backend != "hashmap":
        pytest.skip("maps are iterated in the order of their encoded keys")
    # Whether it was swept out before or not: a map is iterated in the same order in every copy of the state.
    process = Process()
    state = process.get(MapStateDescriptor("s"), plain())
    process.at(0)
    state.put("a", 1)
    process.at(1)
    state.put("b", 2)
    process.at(TTL)
    state.put("a", 3)
    assert list(state.items()) == [("b", 2), ("a", 3)]


def test_an_item_that_is_put_again_while_it_may_be_seen_keeps_its_place() -> None:
    process = Process()
    state = process.get(MapStateDescriptor("s"), plain().return_expired_if_not_cleaned_up())
    process.at(0)
    state.put("a", 1)
    process.at(1)
    state.put("b", 2)
    process.at(TTL)
    state.put("a", 3)
    assert list(state.items()) == [("a", 3), ("b", 2)]


def test_state_of_other_keys_is_untouched() -> None:
    process = Process()
    state = process.get(ValueStateDescriptor("s"), plain())
    process.at(0)
    state.update(1)
    process.at(50)
    process.state.current.key = "other"
    state.update(2)
    process.at(TTL)
    assert state.value() == 2
    process.state.current.key = "k"
    assert state.value() is None


# ---- event time ------------------------------------------------------------------------------------------------------


def test_in_event_time_a_record_sees_what_is_not_older_than_itself() -> None:
    process = Process()
    process.at(0, 1000)
    state = process.get(ValueStateDescriptor("s"), plain().use_event_time())
    process.of(1500)
    state.update("of 1500")
    process.of(1500 + TTL)
    assert state.value() is None  # although the watermark is still at 1000
    process.of(1500 + TTL - 1)
    assert state.value() == "of 1500"  # an older record that came later still finds it
    process.at(0, 1500 + TTL)
    process.of(1400)
    assert state.value() is None  # too late: the watermark has passed


@every_kind
def test_in_event_time_it_does_not_matter_where_epochs_end(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any
) -> None:
    seen = []
    for watermarks in ([0, 0, 0, 0], [0, 40, 80, 160], [0, 0, 90, 90]):
        process = Process()
        outcome = []
        for timestamp, watermark in zip((10, 50, 100, 180), watermarks, strict=True):
            process.at(0, watermark)
            process.of(timestamp)
            state = process.get(describe(), plain().use_event_time())
            outcome.append(read(state))
            if timestamp == 50:
                write(state)
            process.save()
            process = process.successor()
        seen.append(outcome)
    assert seen == [[nothing, nothing, there, nothing]] * 3


def test_reading_in_event_time_never_shortens_a_life() -> None:
    process = Process()
    process.at(0, 0)
    state = process.get(ValueStateDescriptor("s"), plain().use_event_time().update_ttl_on_read_and_write())
    process.of(80)
    state.update(1)
    process.of(20)
    assert state.value() == 1
    assert process.held("s@event-ttl") == (1, 80)


def test_what_is_written_before_event_time_begins_stays_until_it_is_touched_in_event_time() -> None:
    process = Process()
    process.at(5)
    state = process.get(ValueStateDescriptor("s"), plain().use_event_time().update_ttl_on_read_and_write())
    state.update(1)
    assert process.held("s@event-ttl") == (1, UNSTAMPED)
    assert state.value() == 1
    process.at(6, 10**9)
    assert state.value() == 1
    assert process.held("s@event-ttl") == (1, 10**9)
    process.at(7, 10**9 + TTL)
    assert state.value() is None


def test_a_record_without_a_timestamp_is_as_old_as_the_watermark() -> None:
    process = Process()
    process.at(0, 500)
    state = process.get(ValueStateDescriptor("s"), plain().use_event_time())
    process.of(MIN_WATERMARK)
    state.update(1)
    assert process.held("s@event-ttl") == (1, 500)


# ---- cleanup ---------------------------------------------------------------------------------------------------------


def keep_many(process: Process, state: Any, write: Any, count: int) -> None:
    for key in range(count):
        process.state.current.key = key
        write(state)


@pytest.mark.parametrize("name", ["value", "reducing", "aggregating", "list", "map"])
@every_clock
def test_sweeping_removes_what_nobody_asks_for(name: str, in_event_time: bool) -> None:
    describe, write, read, _, _ = KINDS[name]
    process = Process()
    epoch_at = clocked(process, in_event_time)
    epoch_at(0)
    state = process.get(describe(), by(plain().cleanup_incrementally(4, False), in_event_time))
    keep_many(process, state, write, 10)
    process.state.lifetimes.sweep(0)
    table = "s@event-ttl" if in_event_time else "s@ttl"
    assert process.entries(table) == 10
    left = []
    for step in range(4):
        epoch_at(TTL + step)
        process.state.current.key = "somebody else"
        read(state)
        process.state.lifetimes.sweep(0)
        left.append(process.entries(table))
    assert left == [6, 2, 0, 0]  # four for each access
    process.save()
    assert process.successor().entries(table) == 0


def test_sweeping_for_every_record_needs_no_access() -> None:
    for every_record, left in ((False, 10), (True, 1)):
        process = Process()
        process.at(0)
        state = process.get(ValueStateDescriptor("s"), plain().cleanup_incrementally(3, every_record))
        keep_many(process, state, lambda s: s.update(1), 10)
        process.at(TTL)
        process.state.lifetimes.sweep(3)
        assert process.entries() == left


def test_without_cleanup_in_the_background_only_reading_removes() -> None:
    process = Process()
    process.at(0)
    state = process.get(ValueStateDescriptor("s"), plain().disable_cleanup_in_background())
    keep_many(process, state, lambda s: s.update(1), 10)
    process.at(10**6)
    assert state.value() is None
    process.state.lifetimes.sweep(1000)
    assert process.entries() == 9


def test_sweeping_spares_what_may_still_be_returned() -> None:
    process = Process()
    process.at(0)
    config = plain().return_expired_if_not_cleaned_up().cleanup_incrementally(100, True)
    state = process.get(ValueStateDescriptor("s"), config)
    state.update(1)
    process.at(2 * TTL - 1)
    process.state.lifetimes.sweep(1)
    assert process.held() == (1, 0)
    process.at(3 * TTL)
    process.state.lifetimes.sweep(1)
    assert process.held() is None


def test_in_event_time_sweeping_spares_what_an_older_record_may_see() -> None:
    process = Process()
    process.at(0, 0)
    state = process.get(ValueStateDescriptor("s"), plain().use_event_time().cleanup_incrementally(100, True))
    process.of(50)
    state.update(1)
    process.of(10**6)
    process.state.lifetimes.sweep(1)
    assert process.held("s@event-ttl") == (1, 50)


def test_sweeping_does_not_rewrite_a_list_for_a_few_elements() -> None:
    process = Process()
    state = process.get(ListStateDescriptor("s"), plain().cleanup_incrementally(9, True))
    for time in range(4):
        process.at(time)
        state.add(time)
    process.save()
    for now, left in ((TTL, 4), (TTL + 20, 0)):
        process.at(now)
        process.state.lifetimes.sweep(1)
        assert len(process.held() or ()) == left


def test_a_table_is_gone_through_a_few_times_while_a_value_lives() -> None:
    process = Process()
    state = process.get(ValueStateDescriptor("s"), plain().cleanup_incrementally(1000, True))
    process.at(0)
    process.state.lifetimes.sweep(1)  # a round, of an empty table
    process.state.current.key = "old"
    state.update(1)
    process.at(TTL + 1)
    process.state.lifetimes.sweep(1)  # another
    assert process.entries() == 0
    state.update(1)
    process.state.find("s@ttl").entries["old"] = (1, 2)  # type: ignore[union-attr]  # dies in a moment
    process.at(TTL + 2)
    process.state.lifetimes.sweep(1)
    assert process.entries() == 1
    process.at(TTL + 1 + TTL // 16)
    process.state.lifetimes.sweep(1)
    assert process.entries() == 0


def test_a_clock_that_is_set_back_does_not_stop_the_sweeping() -> None:
    process = Process()
    state = process.get(ValueStateDescriptor("s"), plain().cleanup_incrementally(1000, True))
    process.at(10**12)
    process.state.lifetimes.sweep(1)
    process.at(1000)
    state.update(1)
    process.at(1000 + TTL)
    process.state.lifetimes.sweep(1)
    assert process.entries() == 0


def test_sweeping_goes_through_a_table_that_changes() -> None:
    process = Process()
    process.at(0)
    state = process.get(ValueStateDescriptor("s"), plain().cleanup_incrementally(3, True))
    keep_many(process, state, lambda s: s.update(1), 100)
    for step in range(60):
        process.at(TTL + step * TTL)
        process.state.current.key = ("new", step)
        state.update(2)
        process.state.current.key = 99 - step
        state.clear()
        process.state.lifetimes.sweep(2)
    assert process.entries() <= 5


# ---- merging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reducing", "aggregating", "list"])
def test_entries_that_are_merged_become_one_without_what_has_expired(name: str) -> None:
    describe, write, read, _, _ = KINDS[name]
    process = Process()
    state = process.get(describe(), plain())
    for time, key in ((0, "old"), (50, "into"), (60, "other")):
        process.at(time)
        process.state.current.key = key
        write(state)
    process.at(TTL)
    state.unite("into", ["old", "other", "never there"])
    process.state.current.key = "into"
    assert read(state) == ([7, 7] if name == "list" else 14)
    assert process.entries() == 1
    process.at(TTL + 55)
    assert read(state) == ([7] if name == "list" else 14)  # elements keep their age, a new value has its own
    state.unite("into", ["nobody"])
    process.at(TTL + 60)
    assert read(state) == ([] if name == "list" else 14)


@pytest.mark.parametrize("name", ["reducing", "aggregating"])
def test_of_entries_that_have_all_expired_nothing_is_left_to_merge(name: str) -> None:
    describe, write, read, _, nothing = KINDS[name]
    process = Process()
    state = process.get(describe(), plain())
    process.at(0)
    write(state)
    process.at(TTL)
    state.unite("into", ["k"])
    process.state.current.key = "into"
    assert read(state) == nothing
    assert process.entries() == 0


# ---- declared types --------------------------------------------------------------------------------------------------


def test_declared_types_are_those_of_the_values_without_their_stamps() -> None:
    process = Process()
    process.at(3)
    state = process.get(ValueStateDescriptor("s", Types.DOUBLE()), plain())
    state.update(1)
    process.save()
    assert process.held() == (1.0, 3)
    assert process.successor().held() == (1.0, 3)
    state.update("one")
    with pytest.raises(TypeMismatchError, match=r"key 'k'.*'one'"):
        process.save()


# ---- the same state with another time to live ------------------------------------------------------------------------


@every_kind
@every_clock
def test_state_that_gets_a_time_to_live_is_as_old_as_the_epoch(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any, in_event_time: bool
) -> None:
    before = Process()
    before.at(0, 0)
    write(before.get(describe()))
    before.save()
    for age, seen in ((0, there), (TTL - 1, there), (TTL, nothing)):
        after = before.successor()
        clocked(after, in_event_time)(10**6)
        state = after.get(describe(), by(plain(), in_event_time))
        after.save()
        after = after.successor()  # reads a file without stamps, then one with
        clocked(after, in_event_time)(10**6 + age)
        state = after.get(describe(), by(plain(), in_event_time))
        assert read(state) == seen
        assert not after.held("s")


@every_kind
def test_state_that_loses_its_time_to_live_lives_for_ever(
    describe: Any, write: Any, read: Any, there: Any, nothing: Any
) -> None:
    for age, seen in ((TTL - 1, there), (TTL, nothing)):  # what was gone stays gone
        before = Process()
        before.at(0)
        write(before.get(describe(), plain()))
        before.save()
        after = before.successor()
        after.at(age)
        assert read(after.get(describe())) == seen
        after.save()
        after = after.successor()
        after.at(10**9)
        assert read(after.get(describe())) == seen


@every_kind
def test_stamps_of_another_clock_are_replaced(describe: Any, write: Any, read: Any, there: Any, nothing: Any) -> None:
    before = Process()
    before.at(10**12)
    write(before.get(describe(), plain()))
    before.save()
    for watermark, seen in ((5000, there), (5000 + TTL, nothing)):
        after = before.successor()
        after.at(10**12 + 1, 5000)
        after.get(describe(), plain().use_event_time())
        after.save()
        after.at(10**12 + 2, watermark)
        assert read(after.get(describe(), plain().use_event_time())) == seen


def test_what_was_emptied_before_does_not_hide_what_is_there() -> None:
    before = Process()
    state = before.get(MapStateDescriptor("s"))
    for key in range(50):
        before.state.current.key = key
        state.put("m", key)
    before.save()
    for key in range(49):
        before.state.current.key = key
        state.remove("m")  # the last item, but the map was not cleared
    before.save()
    before.at(0)
    for process in (before.successor(), Process(before.storage, before.sequence)):
        process.at(0)
        process.state.current.key = 49
        assert process.get(MapStateDescriptor("s"), plain()).get("m") == 49


def test_a_failed_epoch_converts_again() -> None:
    before = Process()
    before.at(0)
    before.get(ValueStateDescriptor("s")).update(1)
    before.save()
    after = before.successor()
    after.at(50)
    state = after.get(ValueStateDescriptor("s"), plain())
    assert state.value() == 1
    after.restore()  # the epoch failed: as it was before
    after.state.lifetimes.begin(50, MIN_WATERMARK)
    assert state.value() == 1
    assert after.held() == (1, 50)


def test_a_longer_life_is_a_matter_of_the_same_stamps() -> None:
    before = Process()
    before.at(0)
    before.get(ValueStateDescriptor("s"), plain()).update(1)
    before.save()
    after = before.successor()
    after.at(TTL - 1)
    longer = StateTtlConfig.new_builder(Time.milliseconds(10 * TTL))
    state = after.get(ValueStateDescriptor("s"), longer)
    after.at(TTL)
    assert len(after.sequence) == 2  # it says so in a file, though nothing changed: compaction must know
    after.at(9 * TTL)
    assert len(after.sequence) == 2
    assert state.value() == 1
    later = after.successor()
    later.at(9 * TTL)
    assert later.get(ValueStateDescriptor("s"), longer).value() == 1
    later.save()
    assert len(later.sequence) == 2
    header = later.state.lifetimes.header("s@ttl")
    assert header is not None
    assert header["ms"] == 10 * TTL


def test_a_life_that_was_changed_is_said_in_a_file_also_if_the_first_epoch_failed() -> None:
    before = Process()
    before.at(1000)
    before.get(ValueStateDescriptor("s"), plain()).update(1)
    before.save()
    after = before.successor()
    after.at(500)  # the clock was set back
    longer = StateTtlConfig.new_builder(Time.milliseconds(10 * TTL))
    after.get(ValueStateDescriptor("s"), longer).update(2)
    after.restore()  # the epoch has failed
    after.state.lifetimes.begin(500, MIN_WATERMARK)
    after.save()
    assert [file.name for file in after.sequence] == ["file-0", "file-1"]
    later = after.successor()
    header = later.state.lifetimes.header("s@ttl")
    assert header is not None
    assert (header["ms"], header["since"]) == (10 * TTL, 1001)
    later.at(600)
    assert later.get(ValueStateDescriptor("s"), longer).value() == 1
    later.save()
    assert len(later.sequence) == 2


def test_of_files_of_several_subtasks_the_time_to_live_that_was_declared_last_counts() -> None:
    first = Process()
    first.at(0)
    first.get(ValueStateDescriptor("s"), plain()).update(1)
    first.save()
    second = first.successor()
    second.at(1)
    longer = StateTtlConfig.new_builder(Time.milliseconds(10 * TTL))
    second.get(ValueStateDescriptor("s"), longer).update(2)
    second.save()
    newer, older = second.sequence[1], first.sequence[0]
    storage: Any = first.storage
    for sequence in ((newer, older), (older, newer)):
        with open_sequence(sequence, range(16), storage) as reader:
            ttl = reader.headers["s@ttl"].ttl
            assert ttl is not None
            assert ttl["ms"] == 10 * TTL
        third = Process(first.storage, sequence)
        third.at(2)
        third.get(ValueStateDescriptor("s"), longer)
        third.save()
        assert len(third.sequence) == 2  # nothing new to say


def test_a_subtask_takes_over_from_others_of_which_some_had_not_asked_for_the_state_yet() -> None:
    # Functions of windows ask for state when a window fires: some subtasks have moved what they hold, some have not.
    asked, has_not = Process(), Process()
    has_not.storage = asked.storage
    for process, keys in ((asked, ("a", "b")), (has_not, ("c", "d"))):
        state = process.get(ValueStateDescriptor("s"))
        for key in keys:
            process.state.current.key = key
            state.update(key)
        process.save()
    asked = asked.successor()
    asked.at(0)
    asked.get(ValueStateDescriptor("s"), plain())
    asked.save()
    for sequence in ((*asked.sequence, *has_not.sequence), (*has_not.sequence, *asked.sequence)):
        process = Process(asked.storage, sequence)
        process.at(50)
        state = process.get(ValueStateDescriptor("s"), plain())
        for now, left in ((50, "abcd"), (TTL, "cd"), (TTL + 50, "")):
            process.at(now)
            found = ""
            for key in "abcd":
                process.state.current.key = key
                found += state.value() or ""
            assert found == left


def test_one_state_has_one_time_to_live() -> None:
    process = Process()
    process.get(ValueStateDescriptor("s"), plain())
    process.get(ValueStateDescriptor("s"), plain())
    with pytest.raises(ProgramError, match="asks for the state 's' twice, with different times to live"):
        process.get(ValueStateDescriptor("s"))
    with pytest.raises(ProgramError, match="twice, with different times to live"):
        process.get(ValueStateDescriptor("s"), StateTtlConfig.new_builder(Time.seconds(9)))


def test_a_state_does_not_change_its_kind_with_its_time_to_live() -> None:
    before = Process()
    before.get(ListStateDescriptor("s")).add(1)
    before.save()
    with pytest.raises(StateError, match="has a value state 's', but its checkpoint holds a list state"):
        before.successor().get(ValueStateDescriptor("s"), plain())


def test_a_name_that_could_be_mistaken_is_refused() -> None:
    with pytest.raises(ProgramError, match="'s@ttl' ends as those do"):
        Process().get(ValueStateDescriptor("s@ttl"))
