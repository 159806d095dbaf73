"""Workers that keep keyed state from epoch to epoch, and a model of the same state made of plain dicts."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from hypothesis import strategies as st

from flott.errors import StorageError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.handles import (
    TableAggregatingState,
    TableListState,
    TableMapState,
    TableReducingState,
    TableValueState,
)
from flott.runtime.managed_state.key_groups import key_group_of

MAX_PARALLELISM = 16
ALL_GROUPS = range(MAX_PARALLELISM)
KEYS = ["a", "b", 3, (4, "d"), None]


class MemoryStorage:
    """Files in a dict."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads: list[str] = []
        self.broken = False

    def read(self, name: str) -> bytes:
        self._check()
        self.reads.append(name)
        if name not in self.files:
            raise StorageError(f"Cannot read {name}: No such file or directory.")
        return self.files[name]

    @contextmanager
    def open(self, name: str) -> Iterator[io.BytesIO]:
        yield io.BytesIO(self.read(name))

    @contextmanager
    def create(self, name: str) -> Iterator[io.BytesIO]:
        file = io.BytesIO()
        yield file
        self.write(name, file.getvalue())  # fails late, as a full disk does: all is given away by then

    def write(self, name: str, data: bytes) -> None:
        self._check()
        assert name not in self.files, "state files are immutable"
        self.files[name] = data

    def _check(self) -> None:
        if self.broken:
            raise StorageError("The disk is gone.")


class Average:
    """An aggregate whose accumulator changes in shape and may be None."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: int, accumulator: Any) -> Any:
        if value == 0:
            return None
        total, count = accumulator or (0, 0)
        return total + value, count + 1

    def get_result(self, accumulator: Any) -> Any:
        return "nothing" if accumulator is None else accumulator[0] / accumulator[1]


def add_or_forget(total: int | None, value: int) -> int | None:
    """A reduce function whose result may be None."""
    return (total or 0) + value if value else None


class Worker:
    """A process with its copy of one subtask's state."""

    def __init__(self, groups: range = ALL_GROUPS) -> None:
        self.state = KeyedState("counter (uid c)", MAX_PARALLELISM, groups)
        self.open()

    def open(self) -> None:
        state, current = self.state, self.state.current
        self.value = TableValueState(state.value_table("value"), current)
        self.list = TableListState(state.list_table("list"), current)
        self.map = TableMapState(state.map_table("map"), current)
        self.sum = TableReducingState(state.value_table("sum"), current, add_or_forget)
        self.average = TableAggregatingState(state.value_table("average"), current, Average())
        self.timers = state.timer_table("timers")

    def do(self, operation: str, key: Any, argument: int) -> None:
        """One step of a user's function."""
        self.state.current.key = key
        getattr(self, f"_{operation}")(argument)

    def view(self) -> dict[str, Any]:
        """Everything a program can see."""
        seen: dict[str, Any] = {}
        for key in KEYS:
            self.state.current.key = key
            seen[repr(key)] = (
                self.value.value(), self.list.get(), self.map.items(), self.sum.get(), self.average.get(),
                self.map.is_empty(), [self.map.contains(n) for n in range(6)],
            )  # fmt: skip
        seen["timers"] = self.fired()
        seen["next timer"] = copy.deepcopy(self.timers).next_timestamp()
        return seen

    def value_keys(self) -> list[Any]:
        """The keys that have a value."""
        return self.state.keys_with("value")

    def fired(self) -> list[Any]:
        """The timers in the order they would fire."""
        timers = copy.deepcopy(self.timers)
        fired = []
        while (timer := timers.pop_due(10**9)) is not None:
            fired.append(timer)
        return fired

    # --- operations ---------------------------------------------------------------------------------------------------

    def _set(self, n: int) -> None:
        self.value.update(n or None)

    def _clear(self, n: int) -> None:
        self.value.clear()

    def _add(self, n: int) -> None:
        self.list.add(n)

    def _add_all(self, n: int) -> None:
        self.list.add_all(range(n))

    def _replace(self, n: int) -> None:
        self.list.update(range(n))

    def _clear_list(self, n: int) -> None:
        self.list.clear()

    def _put(self, n: int) -> None:
        self.map.put(n, len(self.map.items()) * 100 + n)

    def _put_all(self, n: int) -> None:
        self.map.put_all(dict.fromkeys(range(n), n))

    def _remove(self, n: int) -> None:
        self.map.remove(n)

    def _clear_map(self, n: int) -> None:
        self.map.clear()

    def _sum(self, n: int) -> None:
        self.sum.add(n)

    def _clear_sum(self, n: int) -> None:
        self.sum.clear()

    def _average(self, n: int) -> None:
        self.average.add(n)

    def _clear_average(self, n: int) -> None:
        self.average.clear()

    def _register(self, n: int) -> None:
        self.timers.register(n, self.state.current.key)

    def _delete(self, n: int) -> None:
        self.timers.delete(n, self.state.current.key)

    def _fire(self, n: int) -> None:
        self.timers.pop_due(n)


OPERATIONS = sorted(name[1:] for name in vars(Worker) if name.startswith("_") and not name.startswith("__"))

operations = st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(KEYS), st.integers(0, 5))


class Model:
    """The same state as plain dicts, written without any care for cost."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.lists: dict[Any, list[int]] = {}
        self.maps: dict[Any, dict[int, int]] = {}
        self.sums: dict[Any, Any] = {}
        self.averages: dict[Any, Any] = {}
        self.timers: set[tuple[int, Any]] = set()

    def do(self, operation: str, key: Any, n: int) -> None:  # one ladder, to be read beside Worker's operations
        held = self.maps.setdefault(key, {})
        match operation:
            case "set":
                self.values[key] = n or None
            case "clear":
                self.values.pop(key, None)
            case "add":
                self.lists[key] = [*self.lists.get(key, []), n]
            case "add_all":
                self.lists[key] = [*self.lists.get(key, []), *range(n)]
            case "replace":
                self.lists[key] = list(range(n))
            case "clear_list":
                self.lists.pop(key, None)
            case "put":
                held[n] = len(held) * 100 + n
            case "put_all":
                held.update(dict.fromkeys(range(n), n))
            case "remove":
                held.pop(n, None)
            case "clear_map":
                held.clear()
            case "sum":
                self.sums[key] = add_or_forget(self.sums[key], n) if key in self.sums else n
            case "clear_sum":
                self.sums.pop(key, None)
            case "average":
                self.averages[key] = Average().add(n, self.averages.get(key))
            case "clear_average":
                self.averages.pop(key, None)
            case "register":
                self.timers.add((n, key))
            case "delete":
                self.timers.discard((n, key))
            case "fire":
                if due := [timer for timer in self.sorted_timers() if timer[0] <= n]:
                    self.timers.remove(due[0])

    def sorted_timers(self) -> list[tuple[int, Any]]:
        return sorted(self.timers, key=lambda timer: (timer[0], encode_key(timer[1])))

    def view(self) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key in KEYS:
            held = self.maps.get(key, {})
            average = Average().get_result(self.averages[key]) if key in self.averages else None
            seen[repr(key)] = (
                self.values.get(key), self.lists.get(key, []), list(held.items()), self.sums.get(key), average,
                not held, [n in held for n in range(6)],
            )  # fmt: skip
        seen["timers"] = [(at, key, None) for at, key in self.sorted_timers()]
        seen["next timer"] = self.sorted_timers()[0][0] if self.timers else None
        return seen


def compacted(
    sequence: FileSequence, storage: Any, name: str, start: int = 0, stop: int | None = None, groups: range = ALL_GROUPS
) -> FileSequence:
    """The sequence with some neighbours among its files compacted into one."""
    stop = len(sequence) if stop is None else stop
    order = CompactionOrder(sequence[start:stop], (groups.start, groups.stop), name, whole=start == 0)
    return (*sequence[:start], compact(order, storage), *sequence[stop:])


class Folder:
    """Compactions sequences as compaction might, with names of its own."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self._names = map("compacted-{}".format, count())

    def __call__(self, sequence: FileSequence, run: Run | None, groups: range = ALL_GROUPS) -> FileSequence:
        if run is None or not sequence:
            return sequence
        start = run[0] % len(sequence)
        return compacted(sequence, self._storage, next(self._names), start, start + run[1], groups)


#: Where a compaction begins, counted round the sequence, and how many files it takes; None: nothing is compacted.
Run = tuple[int, int]
#: After most epochs nothing is compacted; else anything from one file to the whole sequence.
runs: st.SearchStrategy[Run | None] = st.one_of(
    st.none(), st.none(), st.tuples(st.integers(0, 12), st.integers(1, 9)), st.just((0, 100))
)


def fresh(sequence: FileSequence, storage: Any, groups: range = ALL_GROUPS) -> Worker:
    """A worker that was never seen before, restored."""
    worker = Worker(groups)
    worker.state.bring_to(sequence, storage)
    return worker


def group_of(key: Any) -> int:
    return key_group_of(key, MAX_PARALLELISM)
