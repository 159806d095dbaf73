"""The source operator: reads the slices its subtask was given, with timestamps and watermarks per split. Task side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, WatermarkStrategy
from flott.datastream.connectors.base import BadRecord, ColumnRecords, Json, Records, Slice, Source, SourceReader
from flott.errors import BadRecordError
from flott.graph.specs import DEAD_LETTERS
from flott.metrics._engine_metrics import RECORDS_IN_ERRORS
from flott.runtime.operators.batch import Batch, ColumnBatch, RowBatch
from flott.runtime.operators.operator import EventTime, Operator, OperatorContext, RecordFailure
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.operators.watermarks import CLOSING_TIME, TimeKeeper, TimeProgress, stamping_failure


@dataclass(frozen=True)
class SliceAssignment:
    """A slice to read, and how far its split had come."""

    part: Slice
    progress: TimeProgress


@dataclass(frozen=True)
class SourceAssignment:
    """All that one source subtask does in an epoch."""

    slices: tuple[SliceAssignment, ...] = ()
    #: The lowest watermark among this subtask's splits that are not read in this epoch but must be waited for.
    held_watermark: int | None = None
    #: The highest watermark among those that are idle: as far as event time goes once nothing is waited for.
    idle_watermark: int | None = None
    #: The source has no split after this epoch, but may get others: it is waited for as far as its last ones came.
    bereft: bool = False
    ingestion_ms: int = 0  #: the time of this epoch's records, for a source in ingestion time
    finished: bool = False  #: after this epoch the source has nothing more, ever


@dataclass(frozen=True)
class SplitReport:
    """Where a split stands after the epoch."""

    reached: Json
    progress: TimeProgress
    records: int
    ended: bool  #: nothing comes of it any more


class SourceOperator(Operator):
    """Reads a source."""

    def __init__(self, context: OperatorContext, source: Source[Any], strategy: WatermarkStrategy):
        super().__init__(context)
        self._source = source
        self._strategy = strategy
        self._reader: SourceReader[Any] | None = None
        self.reports: dict[str, SplitReport] = {}
        self._assignment = SourceAssignment()
        self._is_assigned = False  #: whether it has ever been told what to read

    def open(self) -> None:
        try:
            self._reader = self._source.create_reader()
            self._reader.open()
        except Exception as error:
            raise self.failure("opening the source reader") from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def read(self, assignment: SourceAssignment) -> Iterator[None]:
        """Read everything assigned, pausing after each batch so that the task can pass on what was produced."""
        self._assignment, self._is_assigned = assignment, True
        self.reports = {}
        self.measure(RECORDS_IN_ERRORS, 0)
        for item in assignment.slices:
            yield from self._read_slice(item.part, item.progress)

    def _read_slice(self, part: Slice, progress: TimeProgress) -> Iterator[None]:
        assert self._reader is not None
        scope = self.context.scope
        keeper = self._keeper(progress)
        count = 0
        for batch in self._batches(self._reader, part):
            if batch.rejected:
                self._reject(batch.rejected)
            size = len(batch.values) if isinstance(batch, Records) else batch.columns.num_rows
            if not size:
                continue
            scope.origin = (self._reader.roughly(part, count), self._reader.roughly(part, count + size - 1))
            timed = self._timed(keeper, part, batch, count)
            try:
                self.emit(timed)
            except RecordFailure as failure:
                # The chain keeps the batch's order as long as it only maps, so the position may be known exactly.
                own = self.context.operator
                if failure.index is not None and (failure.operator.fed_by == 0 or failure.operator is own):
                    first = last = count + failure.index
                else:
                    first, last = count, count + size - 1
                scope.origin = (self._reader.locate(part, first), self._reader.locate(part, last))
                raise
            count += size
            yield
        scope.origin = None
        try:
            reached, progress = self._reader.reached(part), keeper.close_epoch()
        except Exception as error:
            raise self.failure(f"{CLOSING_TIME} of split {part.split}") from error
        self.reports[part.split] = SplitReport(reached, progress, count, part.ends_split)

    def _keeper(self, progress: TimeProgress) -> TimeKeeper:
        try:
            return TimeKeeper(self._strategy, progress, self.context.scope.now_ms, self._assignment.ingestion_ms)
        except Exception as error:
            raise self.failure("making the watermark generator") from error

    def _batches(self, reader: SourceReader[Any], part: Slice) -> Iterator[Records[Any] | ColumnRecords]:
        batches = iter(reader.read_batches(part))
        while True:
            try:
                batch = next(batches, None)
            except BadRecordError as error:
                self.context.scope.origin = (error.place, error.place)
                raise self.failure("decoding a record", record=error.value, has_record=True) from error
            except Exception as error:
                raise self.failure(f"reading split {part.split} from {part.start!r} to {part.stop!r}") from error
            if batch is None:
                return
            yield batch

    def _reject(self, rejected: list[BadRecord]) -> None:
        """Count records that cannot be decoded, and send them to the dead-letter sink if there is one."""
        self.measure(RECORDS_IN_ERRORS, len(rejected))
        if emit := self.side_emits.get(DEAD_LETTERS):
            emit(RowBatch(rejected, None))

    def _timed(self, keeper: TimeKeeper, part: Slice, batch: Records[Any] | ColumnRecords, count: int) -> Batch:
        """Return what a reader gave as a batch with timestamps; event time has taken note of it."""
        if isinstance(batch, Records):
            return RowBatch(batch.values, self._stamp(keeper, part, batch, count))
        try:
            keeper.observe_columns(batch.columns)
        except Exception as error:
            raise self.failure("computing the watermark of a batch of rows") from error
        return _column_batch(batch)

    def _stamp(self, keeper: TimeKeeper, part: Slice, batch: Records[Any], count: int) -> list[int] | None:
        try:
            timestamps = keeper.assign(batch.values, batch.timestamps)
            keeper.observe(batch.values, timestamps)
            return timestamps
        except Exception as error:
            failure = stamping_failure(self, keeper, batch.values, batch.timestamps)
            if failure.index is not None and self._reader is not None:
                exact = self._reader.locate(part, count + failure.index)
                self.context.scope.origin = (exact, exact)
            raise failure from error

    def outcome(self) -> OperatorOutcome:
        return replace(super().outcome(), splits=self.reports)

    def advance(self, time: EventTime) -> EventTime:
        if not self._is_assigned:
            return EventTime(self.watermark)  # its splits are not known yet, so it must be waited for
        if self._assignment.finished:
            self.watermark = MAX_WATERMARK
            return EventTime(self.watermark, ended=True)
        if self._strategy.ingestion_time:
            self.watermark = max(self.watermark, self._assignment.ingestion_ms - 1)
            return EventTime(self.watermark)
        waited_for = [r.progress.watermark for r in self.reports.values() if not (r.progress.idle or r.ended)]
        if self._assignment.held_watermark is not None:
            waited_for.append(self._assignment.held_watermark)
        if waited_for:
            self.watermark = max(self.watermark, min(waited_for))
            return EventTime(self.watermark)
        # No split is being waited for: what ended or is idle counts as far as it got, and others need not wait for this
        # subtask, unless it read the last splits the source has for now.
        ended = [r.progress.watermark for r in self.reports.values() if r.ended]
        idle = [r.progress.watermark for r in self.reports.values() if not r.ended]
        if self._assignment.idle_watermark is not None:
            idle.append(self._assignment.idle_watermark)
        self.watermark = max(self.watermark, min(ended, default=MIN_WATERMARK), *idle)
        return EventTime(self.watermark, idle=not (ended and self._assignment.bereft))


def _column_batch(batch: ColumnRecords) -> ColumnBatch:
    kinds = batch.kinds
    if kinds is not None:
        from flott.runtime.operators.arrow import kinds_array

        kinds = kinds_array(kinds.astype("int8", copy=False).tobytes())
    return ColumnBatch(batch.columns, batch.record_type, None, kinds)
