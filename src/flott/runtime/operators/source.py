"""The source operator: reads the slices its subtask was given, with timestamps and watermarks per split. Task side.

An open slice has no end when it is given: it is followed, beside all others of its subtask, until the task is told to
end them. What it has brought so far counts wherever a slice that was read to its end does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, cast

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, WatermarkStrategy
from flott.datastream.connectors.base import (
    BadRecord,
    ColumnRecords,
    Json,
    Pause,
    Records,
    Slice,
    Source,
    SourceReader,
)
from flott.errors import BadRecordError
from flott.graph.specs import DEAD_LETTERS
from flott.metrics._engine_metrics import RECORDS_IN_ERRORS
from flott.runtime.operators.batch import Batch, ColumnBatch, RowBatch
from flott.runtime.operators.operator import EventTime, Operator, OperatorContext, RecordFailure
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.operators.watermarks import CLOSING_TIME, TimeKeeper, TimeProgress, parts_of, stamping_failure


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


@dataclass
class _Reading:
    """A slice that is being read."""

    part: Slice
    keeper: TimeKeeper
    records: int = 0
    is_begun: bool = False  #: it has brought a batch; its records may all have been skipped


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
        self._unread: dict[str, int] = {}  #: the watermarks of splits whose slice is not read to its end
        self._open: dict[str, _Reading] = {}  #: the slices that are followed, by split
        self._is_ending = False  #: whether they are to end
        self._is_within_batch = False  #: event time has taken note of records that were not emitted yet
        self._emitted_ms = 0  #: when generators emitted periodically

    def open(self) -> None:
        try:
            self._reader = self._source.create_reader()
            self._reader.open()
        except Exception as error:
            raise self.failure("opening the source reader") from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def read(self, assignment: SourceAssignment) -> Iterator[Pause | None]:
        """Return an iterator that reads everything assigned, and stops after each batch so that the task can pass on
        what was produced, and do something else.

        It stops also after a batch whose records were all skipped or rejected: there may be very many of them.

        Open slices come last. They yield a ``Pause`` when they have nothing, and go on until ``end_open_slices``.
        """
        self._assignment, self._is_assigned = assignment, True
        self.reports = {}
        self.measure(RECORDS_IN_ERRORS, 0)
        self._is_ending = self._is_within_batch = False
        self._unread = {item.part.split: item.progress.watermark for item in assignment.slices if not item.part.is_open}
        self._emitted_ms = self.context.scope.now_ms
        followed = [_Reading(i.part, self._keeper(i.progress)) for i in assignment.slices if i.part.is_open]
        self._open = {reading.part.split: reading for reading in followed}
        return self._read_all(assignment)

    def _read_all(self, assignment: SourceAssignment) -> Iterator[Pause | None]:
        for item in assignment.slices:
            if not item.part.is_open:
                yield from self._read_slice(_Reading(item.part, self._keeper(item.progress)))
        if self._open:
            yield from self._follow()

    @property
    def is_following(self) -> bool:
        """Return whether it is reading, and only open slices are left to read."""
        return bool(self._open) and not self._unread

    @property
    def has_followed(self) -> bool:
        """Return whether open slices have brought anything: also what was skipped must not be read again."""
        return any(reading.is_begun for reading in self._open.values())

    def end_open_slices(self) -> None:
        """Let reading end with the records that open slices have brought. It does so when it is continued."""
        self._is_ending = True

    def _read_slice(self, reading: _Reading) -> Iterator[None]:
        assert self._reader is not None
        for batch in self._calling(self._reader.read_batches(reading.part), _whereabouts(reading.part)):
            yield from self._take(reading, cast("Records[Any] | ColumnRecords", batch))
            if self._is_emission_due():
                self._emit_periodically(reading.keeper, reading.part)
        del self._unread[reading.part.split]
        self._close(reading)

    def _follow(self) -> Iterator[Pause | None]:
        """Take what open slices bring until they are to end."""
        assert self._reader is not None
        scope = self.context.scope
        parts = [reading.part for reading in self._open.values()]
        doing = f"following splits {', '.join(part.split for part in parts)}"
        with closing(self._reader.follow(parts)) as followed:
            for news in self._calling(followed, doing):
                if isinstance(news, Pause):
                    scope.origin = None
                    if not self._is_ending:
                        yield news
                else:
                    part, batch = cast("tuple[Slice, Records[Any] | ColumnRecords]", news)
                    reading = self._open[part.split]
                    reading.keeper.turn_to(scope.now_ms, 0)
                    yield from self._take(reading, batch)
                if self._is_ending:
                    break
        ended, self._open = self._open, {}
        for reading in ended.values():
            reading.keeper.turn_to(scope.now_ms, 0)
            self._close(reading)

    def _take(self, reading: _Reading, batch: Records[Any] | ColumnRecords) -> Iterator[None]:
        """Emit a batch, and yield whenever the task may do something else."""
        assert self._reader is not None
        reading.is_begun = True
        if batch.rejected:
            self._reject(batch.rejected)
        size = len(batch.values) if isinstance(batch, Records) else batch.columns.num_rows
        if not size:
            yield
            return
        part, count = reading.part, reading.records
        self.context.scope.origin = (self._reader.roughly(part, count), self._reader.roughly(part, count + size - 1))
        timed = self._timed(reading.keeper, part, batch, count)
        for piece, watermark in self._pieces(reading, timed):
            self._emit_piece(piece, part, reading.records)
            reading.records += len(piece)
            self._is_within_batch = reading.records < count + size
            if watermark is not None:
                self._pass_time(watermark)
            yield

    def _close(self, reading: _Reading) -> None:
        """Report how far a slice was read."""
        assert self._reader is not None
        self.context.scope.origin = None
        part = reading.part
        try:
            reached, progress = self._reader.reached(part), reading.keeper.close_epoch()
        except Exception as error:
            raise self.failure(f"{CLOSING_TIME} of split {part.split}") from error
        self.reports[part.split] = SplitReport(reached, progress, reading.records, part.ends_split)

    def _emit_piece(self, piece: Batch, part: Slice, count: int) -> None:
        assert self._reader is not None
        scope = self.context.scope
        try:
            self.emit(piece)
        except RecordFailure as failure:
            # The chain keeps the batch's order as long as it only maps, so the position may be known exactly.
            own = self.context.operator
            if failure.index is not None and (failure.operator.fed_by == 0 or failure.operator is own):
                first = last = count + failure.index
            else:
                first, last = count, count + len(piece) - 1
            scope.origin = (self._reader.locate(part, first), self._reader.locate(part, last))
            raise

    # --- event time while a slice is read, in tasks that run continuously -------------------------------------------

    def _pieces(self, reading: _Reading, batch: Batch) -> Iterator[tuple[Batch, int | None]]:
        """Yield a batch, cut where the watermark of the source advances within it, with the watermark behind each."""
        keeper, part = reading.keeper, reading.part
        if not keeper.steps or self.context.scope.pass_time is None or not isinstance(batch, RowBatch):
            yield batch, None
            return
        steps, reached, limit = [], self.watermark, self._limit_by_others(part.split)
        for stop, watermark in keeper.steps:
            if (found := min(watermark, limit)) > reached:
                reached = found
                steps.append((stop, reached))
        if not part.is_open:
            self._unread[part.split] = keeper.steps[-1][1]
        yield from parts_of(batch, steps)

    def _limit_by_others(self, split: str) -> int:
        """Return how far event time may come by the other splits of this subtask."""
        waited_for = [watermark for other, watermark in self._unread.items() if other != split]
        waited_for += [r.progress.watermark for r in self.reports.values() if not (r.progress.idle or r.ended)]
        others = (reading.keeper.progress for other, reading in self._open.items() if other != split)
        waited_for += [progress.watermark for progress in others if not progress.idle]
        if self._assignment.held_watermark is not None:
            waited_for.append(self._assignment.held_watermark)
        return min(waited_for, default=MAX_WATERMARK)

    def _pass_time(self, watermark: int) -> None:
        """Advance event time here and in everything behind."""
        self.watermark = watermark
        if (pass_time := self.context.scope.pass_time) is not None:
            pass_time(self)

    def _is_emission_due(self) -> bool:
        scope = self.context.scope
        interval_ms = scope.watermark_interval_ms
        return interval_ms > 0 and scope.now_ms - self._emitted_ms >= interval_ms

    def _emit_periodically(self, keeper: TimeKeeper, part: Slice) -> None:
        """Let generators emit in the middle of a slice that takes long to read."""
        self._emitted_ms = self.context.scope.now_ms
        if self._strategy.ingestion_time:
            return
        try:
            watermark = keeper.emit_periodically().watermark
        except Exception as error:
            raise self.failure("on_periodic_emit()") from error
        self._unread[part.split] = watermark
        if (reached := min(watermark, self._limit_by_others(part.split))) > self.watermark:
            self._pass_time(reached)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _keeper(self, progress: TimeProgress) -> TimeKeeper:
        try:
            return TimeKeeper(self._strategy, progress, self.context.scope.now_ms, self._assignment.ingestion_ms)
        except Exception as error:
            raise self.failure("making the watermark generator") from error

    def _calling(self, news: Iterable[object], doing: str) -> Iterator[object]:
        """Yield what a reader yields; say where it was when it raises."""
        found = iter(news)
        while True:
            try:
                one = next(found, None)
            except BadRecordError as error:
                self.context.scope.origin = (error.place, error.place)
                raise self.failure("decoding a record", record=error.value, has_record=True) from error
            except Exception as error:
                raise self.failure(doing) from error
            if one is None:
                return
            yield one

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
        if self._is_within_batch:
            return EventTime(self.watermark)  # the records that follow must not come behind the watermark of the last
        if self._assignment.finished:
            self.watermark = MAX_WATERMARK
            return EventTime(self.watermark, ended=True)
        if self._strategy.ingestion_time:
            self.watermark = max(self.watermark, self._assignment.ingestion_ms - 1)
            return EventTime(self.watermark)
        standing = [(report.progress, report.ended) for report in self.reports.values()]
        standing += [(progress, False) for progress in self._followed()]
        waited_for = [progress.watermark for progress, ended in standing if not (progress.idle or ended)]
        if self._assignment.held_watermark is not None:
            waited_for.append(self._assignment.held_watermark)
        if waited_for:
            self.watermark = max(self.watermark, min(waited_for))
            return EventTime(self.watermark)
        # No split is being waited for: what ended or is idle counts as far as it got, and others need not wait for this
        # subtask, unless it read the last splits the source has for now.
        ended = [progress.watermark for progress, has_ended in standing if has_ended]
        idle = [progress.watermark for progress, has_ended in standing if not has_ended]
        if self._assignment.idle_watermark is not None:
            idle.append(self._assignment.idle_watermark)
        self.watermark = max(self.watermark, min(ended, default=MIN_WATERMARK), *idle)
        return EventTime(self.watermark, idle=not (ended and self._assignment.bereft))

    def _followed(self) -> list[TimeProgress]:
        """Return how far event time has come in the slices that are followed."""
        now_ms = self.context.scope.now_ms
        try:
            found = []
            for reading in self._open.values():
                reading.keeper.turn_to(now_ms, 0)
                found.append(reading.keeper.pause())
        except Exception as error:
            raise self.failure(CLOSING_TIME) from error
        return found

    def next_wakeup_ms(self) -> int | None:
        """Return when a split that is followed becomes idle, so that event time goes on without it."""
        timeout = self._strategy.idle_timeout_ms
        if timeout is None:
            return None
        waited_for = (reading.keeper.progress for reading in self._open.values() if not reading.keeper.progress.idle)
        return min((p.active_at_ms + timeout for p in waited_for if p.active_at_ms is not None), default=None)


def _whereabouts(part: Slice) -> str:
    return f"reading split {part.split} from {part.start!r} to {part.stop!r}"


def _column_batch(batch: ColumnRecords) -> ColumnBatch:
    kinds = batch.kinds
    if kinds is not None:
        from flott.runtime.operators.arrow import kinds_array

        kinds = kinds_array(kinds.astype("int8", copy=False).tobytes())
    return ColumnBatch(batch.columns, batch.record_type, None, kinds)
