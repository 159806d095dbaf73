"""Which part of whose operator state a subtask begins with: values, and the pure function that decides. Driver side.

Operator state belongs to a subtask, not to a key, so a change of parallelism deals it out by what was asked for:

    SPLIT       a list; all items, in the order of the subtasks, are divided evenly
    UNION       a list; every subtask gets all items
    BROADCAST   a map, the same everywhere; every subtask takes some former subtask's
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """How a state is dealt out; the value is what files and manifests call it."""

    SPLIT = "split-list"
    UNION = "union-list"
    BROADCAST = "broadcast"


@dataclass(frozen=True)
class StateShape:
    """What a reference says about one state in its file: enough to deal it out without reading it."""

    name: str
    mode: Mode
    items: int


@dataclass(frozen=True)
class OperatorStateFile:
    """A reference to one immutable file: all operator state of one subtask."""

    name: str
    size: int
    states: tuple[StateShape, ...]


@dataclass(frozen=True)
class StateShare:
    """Some items of one state in a subtask's file, from ``start`` up to and without ``stop``."""

    file: str
    state: str
    start: int
    stop: int


@dataclass(frozen=True)
class OperatorStart:
    """Where the operator state of a subtask begins."""

    restored: bool = False  #: whether the checkpoint knows the operator, with state or without
    file: OperatorStateFile | None = None  #: the subtask's own
    shares: tuple[StateShare, ...] = ()  #: of several files; then there is no ``file``


def deal_out(
    files: Sequence[OperatorStateFile | None], parallelism: int, *, resuming: bool = False
) -> tuple[OperatorStart, ...]:
    """Return where each of so many subtasks begins, given the files of the former ones.

    ``resuming``: the checkpoint is one that the job is started from, not one it has just made; only then does a union
    list come to all, so that what an epoch computes never depends on which process runs it.
    """
    same = parallelism == len(files)
    unites = resuming and any(mode is Mode.UNION for _, mode in _states(files))
    if same and not unites:
        return tuple(OperatorStart(True, file) for file in files)
    return tuple(
        OperatorStart(
            True,
            None,
            tuple(
                share
                for name, mode in _states(files)
                for share in _shares(_runs(files, name, mode), mode, subtask, parallelism, same)
            ),
        )
        for subtask in range(parallelism)
    )


def _states(files: Sequence[OperatorStateFile | None]) -> dict[tuple[str, Mode], None]:
    """Return all states there are, in a fixed order."""
    return {(shape.name, shape.mode): None for file in files if file is not None for shape in file.states}


def _runs(files: Sequence[OperatorStateFile | None], name: str, mode: Mode) -> dict[int, StateShare]:
    """Return all items of a state: those of each former subtask that has any."""
    return {
        subtask: StateShare(file.name, name, 0, shape.items)
        for subtask, file in enumerate(files)
        if file is not None
        for shape in file.states
        if (shape.name, shape.mode) == (name, mode)
    }


def _shares(
    runs: dict[int, StateShare], mode: Mode, subtask: int, parallelism: int, same: bool
) -> Iterator[StateShare]:
    match mode:
        case Mode.UNION:
            yield from runs.values()
        case Mode.SPLIT if same:
            if subtask in runs:
                yield runs[subtask]
        case Mode.SPLIT:
            total = sum(run.stop for run in runs.values())
            yield from _cut(runs.values(), total * subtask // parallelism, total * (subtask + 1) // parallelism)
        case Mode.BROADCAST:
            yield runs[subtask] if subtask in runs else list(runs.values())[subtask % len(runs)]


def _cut(runs: Iterable[StateShare], start: int, stop: int) -> Iterator[StateShare]:
    """Return the items from ``start`` to ``stop`` of all runs, one after the other."""
    before = 0
    for run in runs:
        first, last = max(start - before, 0), min(stop - before, run.stop)
        if first < last:
            yield StateShare(run.file, run.state, first, last)
        before += run.stop
