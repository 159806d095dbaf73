"""A model of the job: plans, reads and advances a source, with failures, restores and changes of parallelism.

Everything durable goes through JSON, as it would in a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from flott.datastream.connectors.base import Slice, SlicePlan, SliceRequest, Source, SplitEnumerator


@dataclass
class Run:
    """What a run of a source gave."""

    by_split: dict[str, list[Any]] = field(default_factory=dict)
    epochs: int = 0
    largest_state: int = 0
    plans: list[SlicePlan] = field(default_factory=list)

    @property
    def records(self) -> list[Any]:
        return [record for records in self.by_split.values() for record in records]


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def restored_plan(plan: SlicePlan) -> SlicePlan:
    slices = tuple(Slice(**part) for part in through_json([asdict(part) for part in plan.slices]))
    return SlicePlan(slices, plan.finished, plan.backlog, plan.wake_at_ms)


def enumerator_of(source: Source[Any], state: Any) -> SplitEnumerator:
    enumerator = source.create_enumerator()
    enumerator.open()
    if state is not None:
        enumerator.restore(state)
    return enumerator


def run_source(
    source: Source[Any],
    rng: Random,
    *,
    budgets: tuple[int, int] = (1, 50),
    parallelism: Callable[[Random], int] = lambda rng: rng.randint(1, 5),
    troubled: bool = True,
    max_epochs: int = 5000,
    until: Callable[[Run], bool] = lambda run: False,
    on_epoch: Callable[[Run], None] = lambda run: None,
) -> Run:
    """Run the source to its end. ``troubled``: epochs fail, plans outlive their enumerator, splits are paused."""
    run, state, now_ms = Run(), None, 1_000_000
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
        before = through_json(enumerator.snapshot())
        plan = enumerator.plan(request)
        assert through_json(enumerator.snapshot()) == before, "a plan only proposes"
        assert all(part.start <= part.stop for part in plan.slices)
        names = [part.split for part in plan.slices]
        assert len(set(names)) == len(names)
        assert not paused & set(names)
        assert not ended & set(names), "a split that ended gave another slice"
        if troubled and rng.random() < 0.3:
            enumerator = enumerator_of(source, state)
            if rng.random() < 0.5:
                continue  # the epoch failed, and its plan is thrown away
            plan = restored_plan(plan)  # the plan was durable, and the next attempt runs it
        reached = {}
        for part in plan.slices:
            reader = source.create_reader()
            reader.open()
            values = [value for batch in reader.read_batches(part) for value in batch.values]
            reached[part.split] = through_json(reader.reached(part))
            again = source.create_reader()
            assert list(again.read(part)) == values
            assert through_json(again.reached(part)) == reached[part.split]
            run.by_split.setdefault(part.split, []).extend(values)
            if part.ends_split:
                ended.add(part.split)
        enumerator.advance(plan, reached)
        state = through_json(enumerator.snapshot())
        run.largest_state = max(run.largest_state, len(json.dumps(state)))
        run.epochs += 1
        run.plans.append(plan)
        on_epoch(run)
        if plan.finished:
            assert set(run.by_split) == ended, "a source that finished ends all its splits"
            again_finished = enumerator_of(source, state).plan(SliceRequest(10, 2, now_ms))
            assert again_finished.finished
            assert not again_finished.slices
            return run
        assert plan.slices or plan.wake_at_ms is not None or paused, "no progress and no reason"
    return run
