"""A small cluster that holds keyed state: hosts, processes and subtasks, with everything that may happen to them.

It does what the driver and the workers do with the state of one keyed operator (bring to a version, save, compact,
redistribute), without operators, records or Spark, so that a test can do it thousands of times in any order.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from flott.common import Time, Types
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.key_groups import groups_of, key_group_of
from flott.runtime.managed_state.ttl.time_to_live import Horizon
from flott.runtime.operators.context import TableStateStore
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage

Descriptor = TypeVar("Descriptor", bound=StateDescriptor)

GROUPS = 8
KEYS: list[Any] = ["a", "b", 3, (4, "d"), None]  #: each in a key group of its own
PANES = [(0, 10), (10, 20), (20, 30)]

#: How long values with a time to live last; each sort of state is cleaned up in another way.
LIFE_MS = 100
VALUE_TTL = StateTtlConfig.new_builder(Time.milliseconds(LIFE_MS)).cleanup_incrementally(2, False).build()
LIST_TTL = StateTtlConfig.new_builder(Time.milliseconds(LIFE_MS)).cleanup_full_snapshot().build()
MAP_TTL = StateTtlConfig.new_builder(Time.milliseconds(LIFE_MS)).cleanup_in_rocksdb_compact_filter(1000).build()


def add(first: int, second: int) -> int:
    """What the reducing state does."""
    return first + second


# --- what a program does with its state ------------------------------------------------------------------------------


class Copy:
    """One process's copy of the state of a subtask, as a program uses it.

    The types of some states are declared. ``widened``: in a later version of the program they are wider.
    """

    def __init__(self, state: KeyedState, widened: bool):
        self.state = state
        store = TableStateStore(state, state.current)
        number = Types.DOUBLE() if widened else Types.LONG()
        self.value = store.get_state(ValueStateDescriptor("value"))
        self.sum = store.get_reducing_state(ReducingStateDescriptor("sum", add, number))
        self.list = store.get_list_state(ListStateDescriptor("list", number))
        self.map = store.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))
        self.brief = store.get_state(_brief(ValueStateDescriptor("brief", number), VALUE_TTL))
        self.brief_list = store.get_list_state(_brief(ListStateDescriptor("brief list"), LIST_TTL))
        self.brief_map = store.get_map_state(_brief(MapStateDescriptor("brief map", Types.LONG(), number), MAP_TTL))
        self.timers = state.timer_table("timers")
        self.named = state.value_table("named", namespaced=True)
        self.panes = state.pane_table("panes")
        self.elements = state.list_pane_table("elements")
        self.waiting = state.timeline_table("waiting")

    def do(self, operation: str, key: Any, n: int) -> None:  # one ladder, to be read beside the model's
        self.state.current.key = key
        match operation:
            case "set":
                self.value.update(n)
            case "clear":
                self.value.clear()
            case "add to sum":
                self.sum.add(n)
            case "append":
                self.list.add(n)
            case "append many":
                self.list.add_all(range(n))
            case "replace":
                self.list.update(range(n))
            case "clear list":
                self.list.clear()
            case "put":
                self.map.put(n, f"{n}!")
            case "put many":
                self.map.put_all(dict.fromkeys(range(n), f"{n}"))
            case "remove":
                self.map.remove(n)
            case "clear map":
                self.map.clear()
            case "register":
                self.timers.register(n, key)
            case "delete":
                self.timers.delete(n, key)
            case "set named":
                self.named.entries[key, n % 2] = n
                self.named.changed[key, n % 2] = None
            case "clear named":
                self.named.discard((key, n % 2))
            case "open":
                held, marks = self.panes.open(PANES[n % 3])
                held[key] = held.get(key, 0) + n
                marks[key] = 0
            case "collect":
                lists, tails = self.elements.open(PANES[n % 3])
                items = lists.setdefault(key, [])
                tails.setdefault(key, len(items))
                items.append(n)
            case "set brief":
                self.brief.update(n)
            case "clear brief":
                self.brief.clear()
            case "append brief":
                self.brief_list.add(n)
            case "clear brief list":
                self.brief_list.clear()
            case "put brief":
                self.brief_map.put(n, n * n)
            case "remove brief":
                self.brief_map.remove(n)
            case _:
                raise AssertionError(operation)

    def view(self, key: Any) -> dict[str, Any]:
        """Everything a program sees of a key. A map's order is the backend's affair."""
        self.state.current.key = key
        mapped = list(self.map.items())
        assert len(dict(mapped)) == len(mapped)
        assert self.map.is_empty() == (not mapped)
        assert [n for n in range(6) if self.map.contains(n)] == sorted(dict(mapped))
        return {
            "value": self.value.value(),
            "sum": self.sum.get(),
            "list": list(self.list.get()),
            "map": dict(mapped),
            "named": {name: self.named.entries[key, name] for name in (0, 1) if (key, name) in self.named.entries},
            "panes": {pane: held[key] for pane, held in self.panes.panes.items() if key in held},
            "elements": {pane: list(held[key]) for pane, held in self.elements.panes.items() if key in held},
            "waiting": list(zip(*self.waiting.entries.get(key, ((), ())), strict=True)),
            "brief": self.brief.value(),
            "brief list": list(self.brief_list.get()),
            "brief map": dict(self.brief_map.items()),
        }

    def held_keys(self) -> list[Any]:
        """The keys that have a value, a list or a map; each once, and none that is not the subtask's."""
        found = [list(self.state.keys_with(name)) for name in ("value", "list", "map")]
        for keys in found:
            assert len(set(keys)) == len(keys)
            assert all(group_of(key) in self.state.groups for key in keys)
        return [key for keys in found for key in keys]


def _brief(descriptor: Descriptor, ttl: StateTtlConfig) -> Descriptor:
    descriptor.enable_time_to_live(ttl)
    return descriptor


PER_KEY = [
    "set", "set", "clear", "add to sum", "append", "append", "append many", "replace", "clear list", "put", "put",
    "put many", "remove", "clear map", "register", "register", "delete", "set named", "clear named", "open", "open",
    "collect", "collect", "set brief", "clear brief", "append brief", "clear brief list", "put brief", "remove brief",
]  # fmt: skip


def group_of(key: Any) -> int:
    return key_group_of(key, GROUPS)


# --- the same as plain dicts -----------------------------------------------------------------------------------------


class PlainModel:
    """The whole state of the operator, in plain dicts and without any care for cost."""

    def __init__(self) -> None:
        self.now = 0  #: the processing time of the epoch
        self.values: dict[Any, int] = {}
        self.sums: dict[Any, int] = {}
        self.lists: dict[Any, list[int]] = {}
        self.maps: dict[Any, dict[int, Any]] = {}
        self.timers: set[tuple[int, Any]] = set()
        self.named: dict[tuple[Any, int], int] = {}
        self.panes: dict[Any, dict[Any, int]] = {}
        self.elements: dict[Any, dict[Any, list[int]]] = {}
        self.waiting: list[tuple[Any, int, int]] = []
        self.horizon = 0
        self.brief: dict[Any, tuple[int, int]] = {}
        self.brief_lists: dict[Any, list[tuple[int, int]]] = {}
        self.brief_maps: dict[Any, dict[int, tuple[int, int]]] = {}

    def do(self, operation: str, key: Any, n: int) -> None:
        items, held = self.lists.setdefault(key, []), self.maps.setdefault(key, {})
        match operation:
            case "set":
                self.values[key] = n
            case "clear":
                self.values.pop(key, None)
            case "add to sum":
                self.sums[key] = self.sums.get(key, 0) + n
            case "append":
                items.append(n)
            case "append many":
                items.extend(range(n))
            case "replace":
                items[:] = range(n)
            case "clear list":
                items.clear()
            case "put":
                held[n] = f"{n}!"
            case "put many":
                held.update(dict.fromkeys(range(n), f"{n}"))
            case "remove":
                held.pop(n, None)
            case "clear map":
                held.clear()
            case "register":
                self.timers.add((n, key))
            case "delete":
                self.timers.discard((n, key))
            case "set named":
                self.named[key, n % 2] = n
            case "clear named":
                self.named.pop((key, n % 2), None)
            case "open":
                pane = self.panes.setdefault(PANES[n % 3], {})
                pane[key] = pane.get(key, 0) + n
            case "collect":
                self.elements.setdefault(PANES[n % 3], {}).setdefault(key, []).append(n)
            case "set brief":
                self.brief[key] = (n, self.now)
            case "clear brief":
                self.brief.pop(key, None)
            case "append brief":
                self.brief_lists.setdefault(key, []).append((n, self.now))
            case "clear brief list":
                self.brief_lists.pop(key, None)
            case "put brief":
                self.brief_maps.setdefault(key, {})[n] = (n * n, self.now)
            case "remove brief":
                self.brief_maps.get(key, {}).pop(n, None)

    def trim(self, horizon: int) -> None:
        self.horizon = horizon
        self.waiting = [record for record in self.waiting if record[1] >= horizon]

    def fire(self, until: int, groups: range) -> tuple[int, Any, Any] | None:
        """The earliest timer of some key groups that is due, which goes."""
        due = [(at, encode_key(key), key) for at, key in self.timers if at <= until and group_of(key) in groups]
        if not due:
            return None
        at, _, key = min(due, key=lambda timer: timer[:2])
        self.timers.remove((at, key))
        return at, key, None

    def view(self, key: Any) -> dict[str, Any]:
        records = sorted((record for record in self.waiting if record[0] == key), key=lambda record: record[1])
        value = self.brief.get(key)
        return {
            "value": self.values.get(key),
            "sum": self.sums.get(key),
            "list": self.lists.get(key, []),
            "map": self.maps.get(key, {}),
            "named": {name: n for (owner, name), n in self.named.items() if owner == key},
            "panes": {pane: held[key] for pane, held in self.panes.items() if key in held},
            "elements": {pane: held[key] for pane, held in self.elements.items() if key in held},
            "waiting": [(at, number) for _, at, number in records],
            "brief": value[0] if value is not None and self._lives(value[1]) else None,
            "brief list": [n for n, stamp in self.brief_lists.get(key, []) if self._lives(stamp)],
            "brief map": {k: n for k, (n, stamp) in self.brief_maps.get(key, {}).items() if self._lives(stamp)},
        }

    def _lives(self, stamp: int) -> bool:
        return stamp + LIFE_MS > self.now

    def held_keys(self) -> list[Any]:
        kept = [list(self.values), [key for key in KEYS if self.lists.get(key)], [k for k in KEYS if self.maps.get(k)]]
        return [key for keys in kept for key in keys]


# --- the cluster -----------------------------------------------------------------------------------------------------


#: Makes the state of a subtask, given its key groups and the folder of its host.
MakeState = Callable[[range, Path], KeyedState]

PROCESSES = 2  #: of each host


class Host:
    """A machine: a folder on its local disk, and processes that keep what they hold between epochs."""

    def __init__(self, folder: Path, groups: range, make: MakeState, widened: bool):
        self.folder, self.groups, self._make, self._widened = folder, groups, make, widened
        self.processes = [self._start() for _ in range(PROCESSES)]

    def _start(self) -> Copy:
        return Copy(self._make(self.groups, self.folder), self._widened)

    def restart(self, process: int) -> None:
        """A process dies, the database stays as it was when it was last closed, and another takes its place."""
        spared = self.folder.with_name(f"{self.folder.name}.spared")
        if self.folder.exists():
            shutil.copytree(self.folder, spared)
        self.processes[process].state.close()
        if spared.exists():
            shutil.rmtree(self.folder)
            spared.rename(self.folder)
        self.processes[process] = self._start()

    def close(self) -> None:
        for copy in self.processes:
            copy.state.close()


@dataclass
class SubtaskSeat:
    """A subtask: what it owns, its files, and who may run it."""

    groups: range
    sequence: FileSequence
    hosts: list[Host]
    at_work: Copy
    compacted: list[tuple[FileSequence, StateFile]] = field(
        default_factory=list
    )  #: runs of the sequence that became one file

    def lose_process(self) -> None:
        """The process that runs it dies."""
        for host in self.hosts:
            if self.at_work in host.processes:
                host.restart(host.processes.index(self.at_work))

    def settle(self, sequence: FileSequence) -> None:
        """The epoch has ended with this sequence; what was compacted meanwhile takes the place of its run."""
        for run, file in self.compacted:
            for start in range(len(sequence)):
                if sequence[start : start + len(run)] == run:
                    sequence = (*sequence[:start], file, *sequence[start + len(run) :])
                    break
        self.sequence, self.compacted = sequence, []


@dataclass(frozen=True)
class Kept:
    """A checkpoint or a savepoint: the files of each former subtask, and what they mean."""

    owned: tuple[range, ...]
    sequences: tuple[FileSequence, ...]
    model: PlainModel
    widened: bool


class StateCluster:
    """All subtasks of one keyed operator."""

    def __init__(self, folder: Path, make: MakeState):
        self.storage = MemoryStorage()
        self.make = make
        self.widened = False
        self.subtasks: list[SubtaskSeat] = []
        self._folder = folder
        self._names = map("file-{:04}".format, count())
        self._folders = map("host-{}".format, count())

    def deploy(self, parallelism: int, sequences: Callable[[range], FileSequence]) -> None:
        """Run with so many subtasks, on hosts that know nothing yet."""
        self.close()
        self.subtasks = []
        for index in range(parallelism):
            groups = groups_of(index, GROUPS, parallelism)
            hosts = [Host(self._folder / next(self._folders), groups, self.make, self.widened) for _ in range(2)]
            self.subtasks.append(SubtaskSeat(groups, sequences(groups), hosts, hosts[0].processes[0]))

    def owner_of(self, key: Any) -> SubtaskSeat:
        owners = [subtask for subtask in self.subtasks if group_of(key) in subtask.groups]
        assert len(owners) == 1
        return owners[0]

    def begin(self, turns: Iterator[int], now_ms: int) -> None:
        """Begin an epoch, each subtask in one of its processes."""
        for subtask in self.subtasks:
            turn = next(turns)
            subtask.at_work = subtask.hosts[turn % 2].processes[turn // 2 % PROCESSES]
            subtask.at_work.state.bring_to(subtask.sequence, self.storage)  # type: ignore[arg-type]
            subtask.at_work.state.lifetimes.begin(now_ms, 0)

    def save(self) -> list[FileSequence]:
        """End the epoch in all subtasks: the sequences that would make it complete."""
        saved: list[FileSequence] = []
        for subtask in self.subtasks:
            subtask.at_work.state.lifetimes.sweep(1)
            saved.append(self.save_one(subtask))
        return saved

    def save_one(self, subtask: SubtaskSeat) -> FileSequence:
        return subtask.at_work.state.save(subtask.sequence, self.storage, next(self._names))  # type: ignore[arg-type]

    def settle(self, sequences: Iterable[FileSequence] | None = None) -> None:
        """The epoch is over: with these sequences, or as it began."""
        for subtask, sequence in zip(
            self.subtasks, sequences or [seat.sequence for seat in self.subtasks], strict=True
        ):
            subtask.at_work.state.close()
            subtask.settle(sequence)

    def compact(
        self, subtask: SubtaskSeat, run: FileSequence, whole: bool, now_ms: int, detached: bool = False
    ) -> StateFile:
        groups = (subtask.groups.start, subtask.groups.stop)
        horizon = Horizon(now_ms, 0, detached)
        return compact(CompactionOrder(run, groups, next(self._names), whole, horizon), self.storage)  # type: ignore[arg-type]

    def keep(self, model: PlainModel, self_contained: bool) -> Kept:
        """What is complete now, as it is or compacted into a file for each subtask."""
        return Kept(
            tuple(subtask.groups for subtask in self.subtasks),
            tuple(
                (self.compact(subtask, subtask.sequence, True, model.now, detached=True),)
                if self_contained and subtask.sequence
                else subtask.sequence
                for subtask in self.subtasks
            ),
            model,
            self.widened,
        )

    def close(self) -> None:
        for subtask in self.subtasks:
            for host in subtask.hosts:
                host.close()


def sequence_for(kept: Kept, groups: range) -> FileSequence:
    """The files that a subtask with these key groups begins with."""
    return tuple(
        file.restricted(shared)
        for owned, sequence in zip(kept.owned, kept.sequences, strict=True)
        if (shared := range(max(owned.start, groups.start), min(owned.stop, groups.stop)))
        for file in sequence
        if file.within(shared)
    )
