"""A model of the job for sources: plans, reads and advances, with failures, restores and changes of parallelism.

Everything durable goes through JSON, as it would in a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from flott.datastream.connectors.base import (
    BadRecord,
    ColumnRecords,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SplitEnumerator,
)


@dataclass
class SourceRun:
    """What a run of a source gave."""

    by_split: dict[str, list[Any]] = field(default_factory=dict)
    rejected: list[BadRecord] = field(default_factory=list)
    epochs: int = 0
    largest_state: int = 0
    plans: list[SlicePlan] = field(default_factory=list)

    @property
    def records(self) -> list[Any]:
        """Return all records, split by split."""
        return [record for records in self.by_split.values() for record in records]


def through_json(value: Any) -> Any:
    """Return what a checkpoint makes of a value."""
    return json.loads(json.dumps(value))


def restored_plan(plan: SlicePlan) -> SlicePlan:
    """Return a plan as another process reads it."""
    slices = tuple(Slice(**part) for part in through_json([asdict(part) for part in plan.slices]))
    return SlicePlan(slices, plan.finished, plan.backlog, plan.wake_at_ms, plan.waiting)


def enumerator_of(source: Source[Any], state: Any) -> SplitEnumerator:
    """Return an open enumerator, restored as after a start of the job."""
    enumerator = source.create_enumerator()
    enumerator.open()
    if state is not None:
        enumerator.restore(state)
        enumerator.acknowledge()
    return enumerator


def read_slice(source: Source[Any], part: Slice) -> tuple[list[Any], list[BadRecord], Any]:
    """Return the records of a slice, those that were rejected, and the position after it."""
    reader = source.create_reader()
    reader.open()
    try:
        batches = list(reader.read_batches(part))
        values = []
        for batch in batches:
            if isinstance(batch, ColumnRecords):
                values += batch.columns.to_pylist()
                continue
            values += batch.values
            assert batch.timestamps is None or len(batch.timestamps) == len(batch.values)
        return values, [bad for batch in batches for bad in batch.rejected or ()], through_json(reader.reached(part))
    finally:
        reader.close()


def _one_by_one(source: Source[Any], part: Slice) -> list[Any]:
    reader = source.create_reader()
    reader.open()
    try:
        return list(reader.read(part))
    finally:
        reader.close()


def run_source(
    source: Source[Any],
    rng: Random,
    *,
    budgets: tuple[int, int] = (1, 50),
    parallelism: Callable[[Random], int] = lambda rng: rng.randint(1, 5),
    troubled: bool = True,
    max_epochs: int = 5000,
    until: Callable[[SourceRun], bool] = lambda run: False,
    on_epoch: Callable[[SourceRun], None] = lambda run: None,
    idle: Callable[[], None] | None = None,
) -> SourceRun:
    """Run a source to its end, or until a condition holds.

    ``troubled``: epochs fail, plans outlive their enumerator, splits are paused. ``idle`` waits when there is nothing
    to read; without it a source must have something to read, or say when it will.
    """
    run, state, now_ms = SourceRun(), None, 1_000_000
    enumerator = enumerator_of(source, state)
    ended: set[str] = set()
    subtasks = parallelism(rng)
    while run.epochs < max_epochs and not until(run):
        now_ms += rng.randint(0, 300)
        if rng.random() < 0.2:
            subtasks = parallelism(rng)
        known = [split for split in run.by_split if split not in ended]
        paused = frozenset(split for split in known if troubled and rng.random() < 0.15)
        request = SliceRequest(rng.randint(*budgets), subtasks, now_ms, paused)
        plan = _planned(enumerator, request, ended)
        if troubled and rng.random() < 0.3:
            enumerator.close()
            enumerator = enumerator_of(source, state)
            if rng.random() < 0.5:
                continue  # the epoch failed, and its plan is thrown away
            plan = restored_plan(plan)  # the plan was durable, and the next attempt runs it
        reached = {}
        for part in plan.slices:
            values, rejected, reached[part.split] = read_slice(source, part)
            assert read_slice(source, part) == (values, rejected, reached[part.split]), "read again, it was another"
            assert _one_by_one(source, part) == values, "read() and read_batches() differ"
            run.by_split.setdefault(part.split, []).extend(values)
            run.rejected += rejected
            if part.ends_split:
                ended.add(part.split)
        enumerator.advance(plan, reached)
        state = through_json(enumerator.snapshot())
        if not troubled or rng.random() < 0.9:  # a process may die after the checkpoint, before it is acknowledged
            enumerator.acknowledge()
        run.largest_state = max(run.largest_state, len(json.dumps(state)))
        run.epochs += 1
        run.plans.append(plan)
        on_epoch(run)
        if plan.finished:
            _check_finished(source, state, run, ended, now_ms)
            break
        if not plan.slices and idle is not None:
            idle()
        elif idle is None:
            assert plan.slices or plan.wake_at_ms is not None or paused, "no progress and no reason"
    enumerator.close()
    return run


def _planned(enumerator: SplitEnumerator, request: SliceRequest, ended: set[str]) -> SlicePlan:
    before = through_json(enumerator.snapshot())
    plan = enumerator.plan(request)
    assert through_json(enumerator.snapshot()) == before, "a plan only proposes, but it changed the snapshot"
    through_json([asdict(part) for part in plan.slices])
    names = [part.split for part in plan.slices]
    assert len(set(names)) == len(names), "a plan has one slice of a split at most"
    assert not request.paused & set(names), "a paused split was planned"
    assert not ended & set(names), "a split that ended gave another slice"
    return plan


def _check_finished(source: Source[Any], state: Any, run: SourceRun, ended: set[str], now_ms: int) -> None:
    assert set(run.by_split) == ended, "a source that finished ends all its splits"
    enumerator = enumerator_of(source, state)
    again = enumerator.plan(SliceRequest(10, 2, now_ms))
    enumerator.close()
    assert again.finished, "a source that finished goes on after a restore"
    assert not again.slices
