"""Runs a source epoch by epoch without a job, as the job master does, and lets epochs fail. For tests.

Everything that a checkpoint or a plan would hold passes through JSON, as it does in a job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flott.common.types import Row, RowKind
from flott.datastream.connectors.base import Json, Slice, SlicePlan, SliceRequest, Source, SplitEnumerator


class Crash(Exception):
    """The driver died here."""


def durable(plan: SlicePlan) -> SlicePlan:
    """The plan as it is read back from its file."""
    slices = tuple(Slice(**json.loads(json.dumps(vars(part)))) for part in plan.slices)
    return SlicePlan(slices, plan.finished, plan.backlog)


@dataclass
class Epochs:
    """A job of one source: its durable state, its committed output, and an enumerator that may be replaced."""

    source: Source[Any]
    max_records: int = 100
    parallelism: int = 2
    crash: Callable[[str], None] = lambda place: None  #: called between any two steps; raises Crash to die there
    acknowledges: Callable[[], bool] = lambda: True  #: False: the server could not be reached, and the job goes on
    output: list[Any] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    state: Json = None
    plan: SlicePlan | None = None  #: written durably, and not completed yet
    finished: bool = False
    epochs: int = 0
    now_ms: int = 1_000_000
    _enumerator: SplitEnumerator | None = None

    @property
    def enumerator(self) -> SplitEnumerator:
        if self._enumerator is None:
            enumerator = self.source.create_enumerator()
            enumerator.open()
            if self.state is not None:
                enumerator.restore(json.loads(self.state))
                self.crash("restored")
                if self.acknowledges():
                    enumerator.acknowledge()
            self._enumerator = enumerator
        return self._enumerator

    def die(self) -> None:
        """Lose everything that is not durable."""
        enumerator, self._enumerator = self._enumerator, None
        if enumerator is not None:
            enumerator.close()

    def step(self) -> bool:
        """Run one epoch, or try to. Returns whether it read something."""
        try:
            return self._step()
        except Crash:
            self.die()
            return True

    def _step(self) -> bool:
        enumerator = self.enumerator
        self.now_ms += 50
        self.crash("before plan")
        if self.plan is None:
            plan = enumerator.plan(SliceRequest(self.max_records, self.parallelism, self.now_ms))
            self.crash("planned")
            if not plan.slices and not plan.finished:
                return False
            self.plan = durable(plan)
        plan, reached, values, times = self.plan, {}, [], []
        for part in plan.slices:
            reader = self.source.create_reader()
            reader.open()
            for batch in reader.read_batches(part):
                values += batch.values
                times += batch.timestamps or []
                self.crash("reading")
            reached[part.split] = json.loads(json.dumps(reader.reached(part)))
            reader.close()
            self.crash("read")
        enumerator.advance(plan, reached)
        state = json.dumps(enumerator.snapshot())
        self.crash("before the checkpoint")
        self.state, self.plan, self.finished = state, None, plan.finished  # the checkpoint: all or nothing
        self.output += values
        self.timestamps += times
        self.epochs += 1
        self.crash("before acknowledging")
        if self.acknowledges():
            enumerator.acknowledge()
        self.crash("acknowledged")
        return True

    def run(self, until: Callable[[], bool] | None = None, limit: int = 10_000) -> None:
        """Run epochs until there is nothing to read, or until a condition holds."""
        for _ in range(limit):
            if self.finished or (until is not None and until()):
                return
            if not self.step() and until is None:
                return
        raise AssertionError(f"no end after {limit} epochs")


def replay(rows: Iterable[Row], key: str = "id") -> dict[Any, dict[str, Any]]:
    """Apply a changelog to an empty table, and refuse what cannot happen without a gap or a duplicate."""
    table: dict[Any, dict[str, Any]] = {}
    for row in rows:
        values, kind = row.as_dict(), row.get_row_kind()
        name = values[key]
        if kind is RowKind.INSERT:
            assert name not in table, f"inserted twice: {row}"
            table[name] = values
        elif kind is RowKind.UPDATE_BEFORE:
            assert table.get(name) == values, f"the row before the update is {table.get(name)}: {row}"
            del table[name]
        elif kind is RowKind.UPDATE_AFTER:
            table[name] = values
        else:
            assert name in table, f"deleted without having been there: {row}"
            del table[name]
    return table
