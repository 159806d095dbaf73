"""Decides which executor runs which task of a job: a task stays where it is, and moves only when it must. Pure.

A task that comes back to its executor finds its state there. Elsewhere it reads files to catch up, and leaves a copy
behind. So a task has a *home*, the executor on which it is placed. It gets another home only if

- its executor is gone, or
- its executor has more tasks of a stage than its share, because executors were added, or
- Spark ran it on another executor, which has room for it: its own executor was busy with tasks of other jobs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.topology import Topology

#: A task of a job: its stage and its position in it, which is the index of all its subtasks.
TaskPosition = tuple[int, int]
#: Spark's id of the executor of each task.
TaskHomes = Mapping[TaskPosition, str]


@dataclass(frozen=True)
class ExecutorSlots:
    """An executor, and how many tasks it can run at the same time."""

    id: str
    host: str  #: as Spark knows it
    slots: int


@dataclass(frozen=True)
class Placement:
    """The home of every task. Empty if there is no executor."""

    homes: TaskHomes = field(default_factory=dict)
    #: With which placement of the job each task came to its home. The last to come is the first to leave.
    arrivals: Mapping[TaskPosition, int] = field(default_factory=dict, compare=False)

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return max((stage + 1 for stage, _ in self.homes), default=0)

    def of_stage(self, stage: int) -> list[str]:
        """Return the executors of the tasks of a stage, by position."""
        return [self.homes[task] for task in sorted(self.homes) if task[0] == stage]

    def on_executor(self, executor: str) -> frozenset[TaskPosition]:
        """Return the tasks whose home is an executor."""
        return frozenset(task for task, home in self.homes.items() if home == executor)


def place(
    widths: Sequence[int],
    executors: Sequence[ExecutorSlots],
    former: Placement,
    ran_on: TaskHomes,
    turn: int = 0,
) -> Placement:
    """Return the home of every task.

    ``widths``: the number of tasks of each stage. Stages run one after the other, so each is balanced by itself: no
    executor has more than its share of the slots, rounded up. ``former`` is the placement so far, ``ran_on`` are the
    executors that ran the tasks last. ``turn`` says which executor takes the first task: it differs from job to job,
    so that small jobs do not all run on the same one.
    """
    usable = sorted((one for one in executors if one.slots > 0), key=lambda one: one.id)
    if not usable:
        return Placement()
    first = turn % len(usable)
    ordered = [*usable[first:], *usable[:first]]
    homes: dict[TaskPosition, str] = {}
    for stage, width in enumerate(widths):
        tasks = sorted(((stage, n) for n in range(width)), key=lambda task: former.arrivals.get(task, 0))
        homes.update(_place_stage(tasks, ordered, former.homes, ran_on, Counter(homes.values())))
    number = max(former.arrivals.values(), default=0) + 1
    stayed = {task for task, home in homes.items() if former.homes.get(task) == home}
    return Placement(homes, {task: former.arrivals[task] if task in stayed else number for task in homes})


def _place_stage(
    tasks: Sequence[TaskPosition],
    executors: Sequence[ExecutorSlots],
    former: TaskHomes,
    ran_on: TaskHomes,
    others: Mapping[str, int],
) -> dict[TaskPosition, str]:
    """Return the homes of the tasks of one stage, which stay in the given order.

    ``others``: how many tasks of other stages each executor has.
    """
    slots = sum(executor.slots for executor in executors)
    room = {executor.id: -(-len(tasks) * executor.slots // slots) for executor in executors}  # its share, rounded up
    homes: dict[TaskPosition, str] = {}

    def settle(task: TaskPosition, executor: str | None) -> None:
        if task not in homes and executor is not None and room.get(executor, 0) > 0:
            homes[task] = executor
            room[executor] -= 1

    # Tasks that ran at home come before those that were displaced, so that none loses its home to another.
    for task in tasks:
        if ran_on.get(task, former.get(task)) == former.get(task):
            settle(task, former.get(task))
    for candidates in (ran_on, former):
        for task in tasks:
            settle(task, candidates.get(task))
    for task in tasks:
        if task not in homes:
            load = Counter(homes.values())
            free = [executor for executor in executors if room[executor.id] > 0]
            settle(task, min(free, key=lambda one: (load[one.id] / one.slots, others.get(one.id, 0) / one.slots)).id)
    return homes


@dataclass(frozen=True)
class SlotPreference:
    """Where a slot of a pipelined job is to run: on an executor, or on any of a host."""

    host: str
    executor: str | None = None


def place_slots(
    slots: int,
    executors: Sequence[ExecutorSlots],
    tasks_at: TaskHomes,
    hosts: Mapping[str, str],
) -> tuple[SlotPreference | None, ...]:
    """Return where each slot is to run; None: wherever there is room.

    A slot runs the tasks with its position of all stages. ``tasks_at`` is where they ran last, in either mode,
    ``hosts`` are the hosts of executors, also of those that are gone. A slot prefers the executor that ran most of its
    tasks. All slots run at the same time, so an executor that is preferred by more slots than it can run is left to the
    first ones. The others prefer its host, where copies of their state are: they must not wait for a busy executor.
    """
    room = {executor.id: executor.slots for executor in executors}
    found: list[SlotPreference | None] = []
    for slot in range(slots):
        # A later stage decides if none has more: that of the source has no keyed state.
        ran = [tasks_at[task] for task in sorted(tasks_at, reverse=True) if task[1] == slot]
        best = Counter(ran).most_common(1)
        executor = best[0][0] if best else None
        if executor is None or executor not in hosts:
            found.append(None)
        elif room.get(executor, 0) > 0:
            room[executor] -= 1
            found.append(SlotPreference(hosts[executor], executor))
        else:
            found.append(SlotPreference(hosts[executor]))
    return tuple(found)


def executors_in(result: EpochResult, topology: Topology) -> dict[TaskPosition, str]:
    """Return where the tasks of an epoch ran, as far as they have reported."""
    return {(topology.stage_of[report.vertex], report.subtask): report.place.executor for report in result.reports}


# --- for workers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnTasks:
    """The tasks that are at home where a worker runs."""

    of_executor: frozenset[TaskPosition]
    of_host: frozenset[TaskPosition]  #: of all executors of the host


def encode_homes(placement: Placement, executors: Iterable[ExecutorSlots]) -> str:
    """Return a placement on all present executors as text, in which a worker finds the tasks of its own."""
    hosts = {executor.id: executor.host for executor in executors}
    return json.dumps({"hosts": hosts, "homes": [placement.of_stage(stage) for stage in range(placement.stages)]})


def decode_homes(text: str, executor: str) -> OwnTasks | None:
    """Return the tasks that are at home on an executor; None if the text is empty or does not know the executor."""
    found = json.loads(text) if text else {"hosts": {}}
    hosts = found["hosts"]
    if executor not in hosts:
        return None
    homes = {(stage, n): home for stage, own in enumerate(found["homes"]) for n, home in enumerate(own)}
    return OwnTasks(
        frozenset(task for task, home in homes.items() if home == executor),
        frozenset(task for task, home in homes.items() if hosts[home] == hosts[executor]),
    )
