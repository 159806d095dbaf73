"""The driver side of one source: its enumerator and the event time of its splits. Driver side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import SlicePlan, SliceRequest, Source
from flott.errors import EpochFailure, FlottError, ProgramError
from flott.graph.job_graph import ChainedOperator
from flott.graph.specs import SourceSpec
from flott.runtime.checkpoint.manifest import SourceSnapshot
from flott.runtime.epoch.plan import assign_slices
from flott.runtime.operators.source import SliceAssignment, SourceAssignment, SplitReport
from flott.runtime.operators.watermarks import TimeProgress


class SourceCoordinator:
    """Plans what an epoch reads of one source, and keeps what every split has reached."""

    def __init__(self, operator: ChainedOperator):
        spec = operator.node.spec
        assert isinstance(spec, SourceSpec)
        self.operator = operator
        self._source: Source[Any] = spec.source
        self._strategy: WatermarkStrategy = spec.strategy
        self._parallelism = operator.node.parallelism
        self._enumerator = self._source.create_enumerator()
        self._splits: dict[str, TimeProgress] = {}
        self._readers: dict[str, int] = {}  #: the subtask that reads each split, from its first slice to its end
        self.finished = False

    def open(self, snapshot: SourceSnapshot | None) -> None:
        """Get ready, from a snapshot if there is one. Refuses an input nobody can read."""
        try:
            self._enumerator.open()
            if snapshot is not None:
                self._enumerator.restore(snapshot.enumerator)
        except FlottError:
            raise
        except Exception as error:
            raise ProgramError(
                f"Source {self.operator.label} ({self.operator.node.source_line}) cannot be opened:"
                f" {type(error).__name__}: {error}"
            ) from error
        if snapshot is not None:
            self._splits = dict(snapshot.splits)
            if len(snapshot.readers) == self._parallelism:
                self._readers = {split: i for i, splits in enumerate(snapshot.readers) for split in splits}
            self.finished = snapshot.finished

    def plan(self, max_records: int, now_ms: int) -> SlicePlan:
        """What the next epoch may read."""
        if self.finished:
            return SlicePlan(finished=True)
        with self._answering("plan"):
            return self._enumerator.plan(SliceRequest(max_records, self._parallelism, now_ms))

    def assign(self, plan: SlicePlan, now_ms: int) -> tuple[SourceAssignment, ...]:
        """The plan distributed over subtasks, with each split's progress and what the others hold back."""
        assigned = assign_slices(plan.slices, self._parallelism, self._readers)
        self._readers |= {part.split: subtask for subtask, parts in enumerate(assigned) for part in parts}
        return tuple(
            SourceAssignment(
                tuple(SliceAssignment(part, self._splits.get(part.split, TimeProgress())) for part in parts),
                held_watermark=min(self._silent(subtask, plan, now_ms, idle=False), default=None),
                idle_watermark=max(self._silent(subtask, plan, now_ms, idle=True), default=None),
                finished=plan.finished,
            )
            for subtask, parts in enumerate(assigned)
        )

    def _silent(self, subtask: int, plan: SlicePlan, now_ms: int, idle: bool) -> list[int]:
        """Watermarks of the splits of a subtask that an epoch does not read. Those of nobody are everybody's."""
        reading = {part.split for part in plan.slices}
        timeout = self._strategy.idle_timeout_ms
        return [
            progress.watermark
            for split, progress in self._splits.items()
            if split not in reading
            and self._readers.get(split, subtask) == subtask
            and progress.idle_at(now_ms, timeout) is idle
        ]

    def complete(self, plan: SlicePlan, reports: dict[str, SplitReport], now_ms: int) -> None:
        """The epoch that read the plan is complete."""
        with self._answering("advance"):
            self._enumerator.advance(plan, {split: report.reached for split, report in reports.items()})
        timeout = self._strategy.idle_timeout_ms
        for split, progress in self._splits.items():
            if split not in reports and progress.idle_at(now_ms, timeout):
                self._splits[split] = replace(progress, idle=True)
        for split, report in reports.items():
            if report.ended:
                self._splits.pop(split, None)
                self._readers.pop(split, None)
            else:
                self._splits[split] = report.progress
        self.finished = plan.finished

    def snapshot(self) -> SourceSnapshot:
        """What to continue from."""
        readers: list[list[str]] = [[] for _ in range(self._parallelism)]
        for split, subtask in self._readers.items():
            readers[subtask].append(split)
        with self._answering("snapshot"):
            state = self._enumerator.snapshot()
        return SourceSnapshot(state, dict(self._splits), self.finished, tuple(map(tuple, readers)))

    def idle_deadline_ms(self) -> int | None:
        """When the next split will have been silent for so long that event time may go on without it."""
        timeout = self._strategy.idle_timeout_ms
        if timeout is None or self.finished:
            return None
        waiting = [p.active_at_ms + timeout for p in self._splits.values() if not p.idle and p.active_at_ms is not None]
        return min(waiting, default=None)

    @contextmanager
    def _answering(self, method: str) -> Iterator[None]:
        """What an enumerator raises fails the epoch: the outside world may be better after a restart."""
        try:
            yield
        except FlottError:
            raise
        except Exception as error:
            raise EpochFailure(
                f"Source {self.operator.label} ({self.operator.node.source_line}): {method}() of its enumerator raised"
                f" {type(error).__name__}: {error}"
            ) from error

    def close(self) -> None:
        """Release the enumerator."""
        self._enumerator.close()
