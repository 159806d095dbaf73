"""The subtasks of one operator with one table of some kind: epochs, crashes, restores, rescaling and compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.backends.rocksdb.keyed_state import RocksKeyedState
from flott.runtime.managed_state.backends.rocksdb.store import Budget
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.key_groups import groups_of, key_group_of, subtask_of
from flott.runtime.managed_state.kinds.table_kind import TableKind
from flott.runtime.managed_state.ttl.time_to_live import Horizon
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage

MAX_PARALLELISM = 8

#: What happens between the steps of a program.
events = st.one_of(
    st.tuples(st.sampled_from(["checkpoint", "checkpoint", "crash", "put aside", "restart", "follow"])),
    st.tuples(st.just("rescale"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.integers(0, 3), st.integers(2, 5)),
)


@dataclass
class Subtask:
    """A subtask with its state at work, and an idle copy that catches up now and then."""

    groups: range
    state: KeyedState
    follower: KeyedState
    sequence: FileSequence = ()


class KindCluster:
    """All subtasks. ``opened`` is called with each table that a program asks for."""

    def __init__(self, kind: TableKind[Any, Any], folder: Path, rocksdb: bool, opened: Callable[[Any], None] = id):
        self.kind = kind
        self.folder = folder
        self.rocksdb = rocksdb
        self.opened = opened
        self.storage: Any = MemoryStorage()
        self.names = 0
        self.subtasks = [self._subtask(range(MAX_PARALLELISM))]
        self.begin()

    def _name(self, what: str) -> str:
        self.names += 1
        return f"{what}-{self.names}"

    def _state(self, groups: range) -> KeyedState:
        if not self.rocksdb:
            return KeyedState("op", MAX_PARALLELISM, groups)
        return RocksKeyedState("op", MAX_PARALLELISM, groups, self.folder / self._name("db"), Budget(1 << 20))

    def _subtask(self, groups: range, sequence: FileSequence = ()) -> Subtask:
        return Subtask(groups, self._state(groups), KeyedState("op", MAX_PARALLELISM, groups), sequence)

    def begin(self) -> None:
        """An epoch begins with what the last one left."""
        for subtask in self.subtasks:
            subtask.state.bring_to(subtask.sequence, self.storage)
            self.opened(self._asked_for(subtask.state))

    def _asked_for(self, state: KeyedState) -> Any:
        return state.table(self.kind, "t")

    def table(self, key: Any) -> Any:
        """The table of the subtask that owns a key."""
        group = key_group_of(key, MAX_PARALLELISM)
        subtask = self.subtasks[subtask_of(group, MAX_PARALLELISM, len(self.subtasks))]
        return self._asked_for(subtask.state)

    def tables(self) -> Iterator[Any]:
        """The tables of all subtasks."""
        return (self._asked_for(subtask.state) for subtask in self.subtasks)

    def happen(self, event: tuple[Any, ...]) -> bool:
        """Do what an event says; returns whether the epoch was lost."""
        match event:
            case ("put aside",):
                for subtask in self.subtasks:
                    if isinstance(subtask.state, RocksKeyedState):
                        subtask.state._put_aside(subtask.state._paged)
                return False
            case ("crash",):
                for subtask in self.subtasks:
                    subtask.state.close()
                self.begin()
                return True
        self.checkpoint()
        match event:
            case ("restart",):
                self.rocksdb = not self.rocksdb
                self.subtasks = [self._subtask(subtask.groups, subtask.sequence) for subtask in self.subtasks]
            case ("follow",):
                self.follow()
            case "rescale", parallelism:
                self._rescale(parallelism)
            case "compact", start, length:
                for subtask in self.subtasks:
                    subtask.sequence = self._compacted(subtask, start, length)
        self.begin()
        return False

    def checkpoint(self) -> None:
        """The epoch ends: what changed is written."""
        for subtask in self.subtasks:
            subtask.sequence = subtask.state.save(subtask.sequence, self.storage, self._name("state"))

    def follow(self) -> None:
        """Copies that were away catch up, and hold what the others hold."""
        for subtask in self.subtasks:
            subtask.follower.bring_to(subtask.sequence, self.storage)

    def _rescale(self, parallelism: int) -> None:
        former = self.subtasks
        self.subtasks = []
        for index in range(parallelism):
            groups = groups_of(index, MAX_PARALLELISM, parallelism)
            parts: list[Any] = []
            for subtask in former:
                shared = range(max(subtask.groups.start, groups.start), min(subtask.groups.stop, groups.stop))
                if shared:
                    parts += (file.restricted(shared) for file in subtask.sequence if file.within(shared))
            self.subtasks.append(self._subtask(groups, tuple(parts)))

    def _compacted(
        self, subtask: Subtask, start: int, length: int, horizon: Horizon | None = None
    ) -> FileSequence:
        sequence = subtask.sequence
        if any(file.groups is not None for file in sequence) or sum(file.is_base for file in sequence) > 1:
            start, length = 0, len(sequence)
        run = sequence[start : start + length]
        if len(run) < 2:
            return sequence
        groups = (subtask.groups.start, subtask.groups.stop)
        order = CompactionOrder(run, groups, self._name("compacted"), start == 0, horizon)
        return (*sequence[:start], compact(order, self.storage), *sequence[start + length :])

    def close(self) -> None:
        """Let go of all databases."""
        for subtask in self.subtasks:
            subtask.state.close()
