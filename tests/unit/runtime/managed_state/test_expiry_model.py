"""State with a time to live against a model of plain dicts that never cleans up: whatever workers run the epochs,
crash, sweep and compact files, and whenever they do, a program sees the same."""

from __future__ import annotations

import copy
import operator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.time import Time
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.ttl.time_to_live import UNSTAMPED, Horizon
from flott.runtime.operators.context import TableStateStore, state_handle
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage
from tests.unit.runtime.managed_state.test_expiring_state import Total

GROUPS = 8
MS = 10
KEYS = ["a", "b", 3]

Config = StateTtlConfig

configs = st.builds(
    lambda update, visibility, clock, entries: (
        Config.new_builder(Time.milliseconds(MS))
        .set_update_type(update)
        .set_state_visibility(visibility)
        .set_ttl_time_characteristic(clock)
        .cleanup_incrementally(entries, True)
        .cleanup_in_rocksdb_compact_filter(1)
        .build()
    ),
    st.sampled_from([Config.UpdateType.OnCreateAndWrite, Config.UpdateType.OnReadAndWrite]),
    st.sampled_from(Config.StateVisibility),
    st.sampled_from(Config.TtlTimeCharacteristic),
    st.integers(0, 3),
)

OPERATIONS = [
    "set", "clear value", "value", "add", "add some", "replace", "clear list", "list", "put", "remove", "item",
    "contains", "items", "empty", "clear map", "reduce", "reduced", "aggregate", "aggregated",
]  # fmt: skip

#: What a record does: an operation, its key, an argument, and how much later than the watermark it is (None: no time).
records = st.tuples(
    st.sampled_from(OPERATIONS), st.sampled_from(KEYS), st.integers(0, 3), st.one_of(st.none(), st.integers(-3, 15))
)
#: An epoch: how far time has moved on, which worker runs it, what happens after it, its records.
epochs = st.tuples(
    st.integers(0, 12),
    st.integers(0, 2),
    st.sampled_from(["nothing", "nothing", "crash", "compact", "merge", "die"]),
    st.lists(records, max_size=8),
)


class Model:
    """What should be seen. Nothing is ever removed but by the program, or by reading what has expired."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.on_read = config.get_update_type() is Config.UpdateType.OnReadAndWrite
        self.linger = config.get_state_visibility() is Config.StateVisibility.ReturnExpiredIfNotCleanedUp
        self.in_event_time = config.get_ttl_time_characteristic() is Config.TtlTimeCharacteristic.EventTime
        self.singles: dict[Any, tuple[Any, int]] = {}
        self.lists: dict[Any, list[tuple[Any, int]]] = {}
        self.maps: dict[Any, dict[Any, tuple[Any, int]]] = {}
        self.now = self.floor = MIN_WATERMARK

    def begin(self, now: int, watermark: int) -> None:
        self.now = self.floor = watermark if self.in_event_time else now

    def record(self, timestamp: int) -> None:
        if self.in_event_time:
            self.now = max(timestamp, self.floor)

    @property
    def stamp(self) -> int:
        return UNSTAMPED if self.now == MIN_WATERMARK else self.now

    def is_visible(self, held: tuple[Any, int]) -> bool:
        return held[1] + MS * (1 + self.linger) > self.now

    def has_expired(self, held: tuple[Any, int], time: int) -> bool:
        return held[1] + MS <= time

    def is_gone(self, held: tuple[Any, int]) -> bool:
        return held[1] + MS * (1 + self.linger) <= self.floor

    def prolonged(self, held: tuple[Any, int]) -> tuple[Any, int]:
        value, stamp = held
        if not self.on_read or self.has_expired(held, self.now):
            return held
        return value, self.stamp if stamp == UNSTAMPED else max(stamp, self.now)

    def read(self, held: dict[Any, tuple[Any, int]], key: Any) -> tuple[Any, int] | None:
        if key not in held:
            return None
        found = held[key]
        held[key] = self.prolonged(found)
        if self.has_expired(found, self.floor):
            del held[key]
        return found if self.is_visible(found) else None

    def found(self, key: Any) -> Any:
        held = self.singles.get(key)
        return held[0] if held is not None and self.is_visible(held) else None

    def do(self, what: str, key: Any, n: int) -> Any:
        held = self.maps.setdefault(key, {})
        elements = self.lists.setdefault(key, [])
        match what:
            case "set":
                if n:
                    self.singles["v", key] = (n, self.stamp)
                else:
                    self.singles.pop(("v", key), None)
            case "clear value":
                self.singles.pop(("v", key), None)
            case "value":
                return (self.read(self.singles, ("v", key)) or (None,))[0]
            case "add":
                elements.append((n, self.stamp))
            case "add some":
                elements += [(i, self.stamp) for i in range(n)]
            case "replace":
                elements[:] = [(i, self.stamp) for i in range(n)]
            case "clear list":
                elements.clear()
            case "list":
                return self.read_list(elements)
            case "put":
                if n in held and self.is_gone(held[n]):
                    del held[n]
                held[n] = (n * 2, self.stamp)
            case "remove":
                held.pop(n, None)
            case "item":
                return (self.read(held, n) or (None,))[0]
            case "contains":
                return self.read(held, n) is not None
            case "items":
                return [(k, found[0]) for k in list(held) if (found := self.read(held, k)) is not None]
            case "empty":
                return not any(map(self.is_visible, held.values()))
            case "clear map":
                held.clear()
            case "reduce":
                former = self.found(("r", key))
                self.singles["r", key] = (n if former is None else former + n, self.stamp)
            case "reduced":
                return (self.read(self.singles, ("r", key)) or (None,))[0]
            case "aggregate":
                former = self.found(("a", key))
                self.singles["a", key] = ([*(former or []), n], self.stamp)
            case "aggregated":
                found = self.read(self.singles, ("a", key))
                return None if found is None else sum(found[0])
        return None

    def read_list(self, elements: list[tuple[Any, int]]) -> list[Any]:
        seen = [held[0] for held in elements if self.is_visible(held)]
        prolonged = list(map(self.prolonged, elements))
        if prolonged != elements:
            elements[:] = [held for held in prolonged if not self.has_expired(held, self.floor)]
        elif all(self.has_expired(held, self.floor) for held in elements):
            elements.clear()
        return seen


class Worker:
    """A process with its copy of the state."""

    def __init__(self, state: KeyedState, config: StateTtlConfig) -> None:
        self.state = state
        self.config = config

    def begin(self, sequence: FileSequence, storage: MemoryStorage, now: int, watermark: int) -> None:
        self.state.bring_to(sequence, storage)  # type: ignore[arg-type]
        self.state.lifetimes.begin(now, watermark)
        store = TableStateStore(self.state, self.state.current)
        descriptors = {
            "v": ValueStateDescriptor("v"),
            "l": ListStateDescriptor("l"),
            "m": MapStateDescriptor("m"),
            "r": ReducingStateDescriptor("r", operator.add),
            "a": AggregatingStateDescriptor("a", Total()),
        }
        for descriptor in descriptors.values():
            descriptor.enable_time_to_live(self.config)
        self.handles: dict[str, Any] = {name: state_handle(store, found) for name, found in descriptors.items()}

    def record(self, timestamp: int | None) -> None:
        batch = iter([None])
        next(batch)
        self.state.lifetimes.clocks.event.follow(batch, None if timestamp is None else [timestamp])

    def do(self, what: str, key: Any, n: int) -> Any:
        self.state.current.key = key
        handles = self.handles
        match what:
            case "set":
                handles["v"].update(n or None)
            case "clear value":
                handles["v"].clear()
            case "value":
                return handles["v"].value()
            case "add":
                handles["l"].add(n)
            case "add some":
                handles["l"].add_all(range(n))
            case "replace":
                handles["l"].update(range(n))
            case "clear list":
                handles["l"].clear()
            case "list":
                return list(handles["l"].get())
            case "put":
                handles["m"].put(n, n * 2)
            case "remove":
                handles["m"].remove(n)
            case "item":
                return handles["m"].get(n)
            case "contains":
                return n in handles["m"]
            case "items":
                return list(handles["m"].items())
            case "empty":
                return handles["m"].is_empty()
            case "clear map":
                handles["m"].clear()
            case "reduce":
                handles["r"].add(n)
            case "reduced":
                return handles["r"].get()
            case "aggregate":
                handles["a"].add(n)
            case "aggregated":
                return handles["a"].get()
        return None


READS = ["value", "list", "item", "contains", "empty", "reduced", "aggregated", "items"]


class Cluster:
    """Workers on hosts, which hold state in memory or, with a folder, in databases; and the files they share."""

    def __init__(self, config: StateTtlConfig, folder: Path | None = None):
        self.config = config
        self.folder = folder
        self.storage = MemoryStorage()
        self.names = map("file-{}".format, count())
        self.hosts = count(2)
        self.workers = [self.worker(0), self.worker(1), self.worker(1)]

    def worker(self, host: int) -> Worker:
        if self.folder is None:
            return Worker(KeyedState("counter (uid c)", GROUPS, range(GROUPS)), self.config)
        place = self.folder / str(host)
        return Worker(RocksKeyedState("counter (uid c)", GROUPS, range(GROUPS), place, Budget(4 << 20)), self.config)

    def stranger(self) -> Worker:
        """A worker on a host that was never seen before."""
        return self.worker(next(self.hosts))

    def compacted(self, sequence: FileSequence, start: int, horizon: Horizon) -> FileSequence:
        """The sequence with all files from some place on compacted into one."""
        order = CompactionOrder(sequence[start:], (0, GROUPS), next(self.names), start == 0, horizon)
        return (*sequence[:start], compact(order, self.storage))  # type: ignore[arg-type]


def play(cluster: Cluster, script: list[Any]) -> None:
    """Let workers run epochs, and compare all they see with the model."""
    model, sequence = Model(cluster.config), ()
    now, watermark = 1000, MIN_WATERMARK
    for step, chosen, afterwards, work in script:
        now += step
        before = copy.deepcopy(model)
        worker = cluster.workers[chosen]
        worker.begin(sequence, cluster.storage, now, watermark)
        model.begin(now, watermark)
        for what, key, n, lead in work:
            base = 100 if watermark == MIN_WATERMARK else watermark
            timestamp = None if lead is None else base + lead
            worker.record(timestamp)
            model.record(MIN_WATERMARK if timestamp is None else timestamp)
            assert seen(worker, what, key, n) == seen(model, what, key, n), (what, key, n)
        worker.state.lifetimes.sweep(len(work))
        if afterwards == "crash":
            worker.state.close()
            model = before  # the epoch does not count
            continue
        sequence = worker.state.save(sequence, cluster.storage, next(cluster.names))  # type: ignore[arg-type]
        watermark = step + (100 if watermark == MIN_WATERMARK else watermark)
        if afterwards == "die":
            cluster.workers[chosen] = cluster.stranger()
        if afterwards in ("compact", "merge") and len(sequence) > 1:
            sequence = cluster.compacted(sequence, 0 if afterwards == "compact" else 1, Horizon(now, watermark))
        compare(cluster, copy.deepcopy(model), sequence, now, watermark)
        if sequence:
            savepoint = cluster.compacted(sequence, 0, Horizon(now, watermark, detached=True))
            compare(cluster, copy.deepcopy(model), savepoint, now, watermark)


def compare(cluster: Cluster, model: Model, sequence: FileSequence, now: int, watermark: int) -> None:
    """A worker that was never seen before sees what the model says."""
    worker = cluster.stranger()
    worker.begin(sequence, cluster.storage, now, watermark)
    model.begin(now, watermark)
    worker.record(None)
    for key in KEYS:
        for what in READS:
            for n in range(4) if what in ("item", "contains") else (0,):
                assert seen(worker, what, key, n) == seen(model, what, key, n), (what, key, n)
    worker.state.close()


def seen(by: Worker | Model, what: str, key: Any, n: int) -> Any:
    found = by.do(what, key, n)
    return sorted(found) if what == "items" and IN_DATABASES else found


#: Maps in a database are iterated in the order of their encoded keys, those in memory in the order of the model's.
IN_DATABASES = False


@given(configs, st.lists(epochs, max_size=12))
@settings(max_examples=200)
def test_a_program_sees_the_same_whoever_runs_it_and_whenever_state_is_cleaned_up(
    config: StateTtlConfig, script: list[Any]
) -> None:
    play(Cluster(config), script)


@given(configs, st.lists(epochs, max_size=8))
@settings(max_examples=25)
def test_the_same_with_state_in_databases(config: StateTtlConfig, script: list[Any]) -> None:
    pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")
    with mock.patch(f"{__name__}.IN_DATABASES", True), TemporaryDirectory() as folder:
        play(Cluster(config, Path(folder)), script)
