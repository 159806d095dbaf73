"""The driver side of one source: its enumerator and the event time of its splits. Driver side.

A source that has no split, because it never had one or because all have ended, has a time too: it is kept under
``NO_SPLIT``. So is that of a source in ingestion time, whose splits have no time of their own.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flott.common._secrets import without_secrets
from flott.common.watermark_strategy import MIN_WATERMARK, WatermarkStrategy
from flott.datastream.connectors.base import Pending, SlicePlan, SliceRequest, Source, SplitEnumerator
from flott.errors import EpochFailure, FlottError, ProgramError
from flott.graph.job_graph import ChainedOperator
from flott.graph.specs import SourceSpec
from flott.runtime.checkpoint.manifest import NO_SPLIT, SourceSnapshot
from flott.runtime.epoch.plan import assign_slices
from flott.runtime.jobmaster.alignment import AlignedSource, Alignment, SplitTime, aligned_budget, next_pace
from flott.runtime.jobmaster.rescaling import deal_splits
from flott.runtime.operators.source import SliceAssignment, SourceAssignment, SplitReport
from flott.runtime.operators.watermarks import TimeProgress

log = logging.getLogger("flott.job")


class SourceCoordinator:
    """Plans what an epoch reads of one source, and keeps what every split has reached."""

    def __init__(self, operator: ChainedOperator):
        spec = operator.node.spec
        assert isinstance(spec, SourceSpec)
        self.operator = operator
        self._source: Source[Any] = spec.source
        self._acknowledges = spec.acknowledges
        self.strategy: WatermarkStrategy = spec.strategy
        self._parallelism = operator.node.parallelism
        self._enumerator = self._source.create_enumerator()
        self._splits: dict[str, TimeProgress] = {}
        self._readers: dict[str, int] = {}  #: the subtask that reads each split, from its first slice to its end
        self._settled: tuple[tuple[str, ...], ...] = ()  #: the same as of the last checkpoint, by subtask
        self._paces: dict[str, float] = {}  #: event time per record of each split, lately
        self.alignment = Alignment()  #: as of the last plan
        self.backlog = False  #: whether there was more to read than the last plan takes
        self.held: frozenset[str] = frozenset()  #: splits that were paused at any time since the last epoch
        self.finished = False

    def open(self, snapshot: SourceSnapshot | None) -> None:
        """Open the enumerator, from a snapshot if there is one. Refuses input that cannot be read."""
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
            self._settled = snapshot.readers
            self._deal()
            self.finished = snapshot.finished

    def rescale(self, operator: ChainedOperator) -> None:
        """Follow a new parallelism of the operator. Every split keeps its position, though perhaps not its reader."""
        changed, self._parallelism = operator.node.parallelism != self._parallelism, operator.node.parallelism
        self.operator = operator
        if changed:
            self._deal()

    def _deal(self) -> None:
        """Assign splits to subtasks, by the last checkpoint and the parallelism alone. With the parallelism of the
        checkpoint every subtask gets the splits that its watermark comes from, whatever was tried in between."""
        self._readers = {split: i for i, splits in enumerate(self._settled) for split in splits}
        if len(self._settled) != self._parallelism:
            self._readers = deal_splits(self._readers, self._parallelism)

    def aligned(self, now_ms: int) -> AlignedSource | None:
        """Return what alignment must know; None if the source belongs to no group, or has left it."""
        group, drift = self.strategy.alignment_group, self.strategy.max_drift_ms
        if group is None or drift is None or self.strategy.generator_factory is None or self.finished:
            return None
        standing = self._standing(SlicePlan(), now_ms, self.held)
        return AlignedSource(group, drift, {name: SplitTime(p.watermark, p.idle) for name, p in standing.items()})

    def choose_slices(
        self, max_records: int, now_ms: int, alignment: Alignment | None = None, may_be_open: bool = False
    ) -> SlicePlan:
        """Return what the next epoch may read. A source whose splits are all paused is not asked for more splits."""
        self.alignment = alignment or Alignment()
        self.held |= self.alignment.paused
        if self.finished:
            return SlicePlan(finished=True)
        if self.alignment.paused and not self.alignment.readable:
            return SlicePlan(backlog=True)
        budget = aligned_budget(max_records, self.alignment, self._pace(), self._parallelism)
        with self._answering("plan"):
            plan = self._enumerator.plan(
                SliceRequest(
                    budget,
                    self._parallelism,
                    now_ms,
                    self.alignment.paused,
                    may_be_open=may_be_open and self._keeps_time_itself,
                )
            )
        self.backlog = plan.backlog
        return plan

    @property
    def _keeps_time_itself(self) -> bool:
        """Return whether its readers need not know the clock of the driver, or the time of other sources."""
        return not self.strategy.ingestion_time and self.strategy.alignment_group is None

    def choose_everything(self, now_ms: int) -> SlicePlan:
        """Return all that is left, for the one epoch of a batch job. Refuses a source that keeps input for later."""
        if self.finished:
            return SlicePlan(finished=True)
        with self._answering("plan"):
            plan = self._enumerator.plan(SliceRequest(sys.maxsize, self._parallelism, now_ms, everything=True))
        if not plan.finished:
            raise ProgramError(
                f"Source {self.operator.label} ({self.operator.node.source_line}) keeps input for later, but a program"
                " in BATCH mode reads everything in one epoch. Let plan() of its enumerator answer a request for"
                " everything with all slices and finished=True, or set execution.runtime-mode to STREAMING."
            )
        return plan

    def assign(
        self, plan: SlicePlan, now_ms: int, held: frozenset[str] = frozenset()
    ) -> tuple[SourceAssignment, ...]:
        """Distribute slices over subtasks, with the progress of each split and what the other splits hold back."""
        assigned = assign_slices(plan.slices, self._parallelism, self._readers)
        self._readers |= {part.split: subtask for subtask, parts in enumerate(assigned) for part in parts}
        standing = self._standing(plan, now_ms, held)
        ending = {part.split for part in plan.slices if part.ends_split}
        bereft = not plan.finished and bool(ending) and len(ending) == len(plan.slices) and standing.keys() <= ending
        for part in plan.slices:
            standing.pop(part.split, None)
        return tuple(
            SourceAssignment(
                tuple(SliceAssignment(part, self._splits.get(part.split, TimeProgress())) for part in parts),
                held_watermark=min(self._silent(standing, subtask, idle=False), default=None),
                idle_watermark=max(self._silent(standing, subtask, idle=True), default=None),
                bereft=bereft,
                ingestion_ms=self._ingestion_ms(now_ms),
                finished=plan.finished,
            )
            for subtask, parts in enumerate(assigned)
        )

    def _standing(self, plan: SlicePlan, now_ms: int, held: frozenset[str]) -> dict[str, TimeProgress]:
        """Return the splits as an epoch that reads a plan finds them. Waiting splits count from now on. Splits that
        were held back have not been silent: they could not be read."""
        timeout = self.strategy.idle_timeout_ms
        found = dict(self._splits)
        for split in plan.waiting:
            found.setdefault(split, TimeProgress(active_at_ms=now_ms))
        if plan.slices or len(found) > 1:
            found.pop(NO_SPLIT, None)
        elif not found and not plan.finished:
            found[NO_SPLIT] = TimeProgress(active_at_ms=now_ms)
        for split, progress in found.items():
            if split in held:
                found[split] = replace(progress, active_at_ms=now_ms)
            elif not progress.idle and progress.idle_at(now_ms, timeout):
                found[split] = replace(progress, idle=True)
        return found

    def _silent(self, standing: Mapping[str, TimeProgress], subtask: int, idle: bool) -> list[int]:
        """Return watermarks of a subtask's splits that are not read. A split without a reader counts for all."""
        return [
            progress.watermark
            for split, progress in standing.items()
            if progress.idle is idle and self._readers.get(split, subtask) == subtask
        ]

    def _ingestion_ms(self, now_ms: int) -> int:
        """Return the time of records that are read now: later than all before, even if the clock went back."""
        return max(now_ms, self._splits.get(NO_SPLIT, TimeProgress()).watermark + 1)

    def complete(
        self, plan: SlicePlan, reports: dict[str, SplitReport], now_ms: int, held: frozenset[str] = frozenset()
    ) -> None:
        """Advance over the slices of a completed epoch."""
        with self._answering("advance"):
            self._enumerator.advance(plan, {split: report.reached for split, report in reports.items()})
        self._measure_pace(reports)
        standing = self._standing(plan, now_ms, held)
        ended: list[int] = []
        for split, report in reports.items():
            if report.ended:
                ended.append(report.progress.watermark)
                standing.pop(split, None)
                self._readers.pop(split, None)
            else:
                standing[split] = report.progress
        if self.strategy.ingestion_time:
            standing = {NO_SPLIT: TimeProgress(self._ingestion_ms(now_ms) - 1, active_at_ms=now_ms)}
        elif not standing and not plan.finished:
            before = self._splits.get(NO_SPLIT, TimeProgress()).watermark
            standing[NO_SPLIT] = TimeProgress(max(before, min(ended, default=before)), active_at_ms=now_ms)
        self._splits = standing
        self.held = frozenset()
        self.finished = plan.finished

    def _measure_pace(self, reports: Mapping[str, SplitReport]) -> None:
        """Measure how much event time a record spanned. The first slice of a split has no earlier time."""
        for split, report in reports.items():
            before = self._splits.get(split, TimeProgress()).watermark
            if before > MIN_WATERMARK and report.records:
                pace = next_pace(self._paces.get(split), report.progress.watermark - before, report.records)
                self._paces[split] = pace
            if report.ended and split in self._paces:
                self._paces[NO_SPLIT] = self._paces.pop(split)  # what others may be like

    def _pace(self) -> float | None:
        """Return the pace of the fastest split that may be read; of all splits, if one of those is not known yet."""
        readable = self._splits.keys() - self.alignment.paused
        known = readable if readable <= self._paces.keys() else self._paces.keys()
        return max((self._paces[split] for split in known), default=None)

    def snapshot(self) -> SourceSnapshot:
        """Return what to continue from."""
        readers: list[list[str]] = [[] for _ in range(self._parallelism)]
        for split, subtask in self._readers.items():
            readers[subtask].append(split)
        with self._answering("snapshot"):
            state = self._enumerator.snapshot()
        self._settled = tuple(map(tuple, readers))
        return SourceSnapshot(state, dict(self._splits), self.finished, self._settled)

    @property
    def waits_for_commits(self) -> bool:
        """Return whether it tells the outside world about every checkpoint: until then it must not advance beyond."""
        return self._acknowledges and type(self._enumerator).acknowledge is not SplitEnumerator.acknowledge

    def acknowledge(self) -> None:
        """Tell the source that its last snapshot is durable. Others learn from it, so an error is no failure."""
        if not self._acknowledges:
            return
        try:
            self._enumerator.acknowledge()
        except Exception as error:
            log.warning(
                "Source %s could not acknowledge a checkpoint (%s: %s). The job continues, and the next checkpoint"
                " acknowledges more.", self.operator.label, type(error).__name__, without_secrets(str(error)),
            )  # fmt: skip

    def pending(self, now_ms: int) -> Pending:
        """Return what is left to read, if the source knows. It is for display only, so an error is no failure."""
        if self.finished:
            return Pending(records=0)
        try:
            return self._enumerator.pending(now_ms)
        except Exception:
            return Pending()

    def idle_deadline_ms(self) -> int | None:
        """Return when the next silent split counts as idle, so that event time continues without it."""
        timeout = self.strategy.idle_timeout_ms
        if timeout is None or self.finished or self.strategy.ingestion_time:
            return None
        return min(
            (
                progress.active_at_ms + timeout
                for split, progress in self._splits.items()
                if not progress.idle and progress.active_at_ms is not None and split not in self.alignment.paused
            ),
            default=None,
        )

    @contextmanager
    def _answering(self, method: str) -> Iterator[None]:
        """Turn what an enumerator raises into a failure of the epoch: a restart may succeed."""
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
