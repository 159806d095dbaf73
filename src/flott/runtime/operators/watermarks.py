"""Timestamps and watermarks: per split in a source, per subtask in the middle of a stream. Task side."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import index
from typing import Any

from flott.common.watermark_strategy import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    BoundedOutOfOrdernessGenerator,
    Watermark,
    WatermarkOutput,
    WatermarkStrategy,
)
from flott.errors import TypeMismatchError
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.operator import EventTime, Operator, OperatorContext, RecordFailure, position_of
from flott.runtime.operators.outcome import OperatorOutcome

_WHOLE = {int}

#: What is done at the end of an epoch, for failure cards.
CLOSING_TIME = "on_periodic_emit() and saving the watermark generator"


def _milliseconds(timestamp: Any) -> int:
    """Return a timestamp as the plain int that is compared and saved."""
    try:
        return index(timestamp)
    except TypeError:
        raise TypeMismatchError(
            f"A timestamp is a whole number of milliseconds since 1970, found {timestamp!r} of type"
            f" {type(timestamp).__name__}. Return an int from the timestamp assigner."
        ) from None


@dataclass(frozen=True)
class TimeProgress:
    """How far event time has come in one split (or subtask): everything that must survive an epoch."""

    watermark: int = MIN_WATERMARK
    idle: bool = False
    active_at_ms: int | None = None  #: when its last record was read; None before the first
    generator: bytes | None = None  #: the generator's attributes, pickled; None if there is no generator

    def idle_at(self, now_ms: int, idle_timeout_ms: int | None) -> bool:
        """Return whether nothing has come for so long that it is not to be waited for any more."""
        if self.idle:
            return True
        return (
            idle_timeout_ms is not None
            and self.active_at_ms is not None
            and (now_ms - self.active_at_ms >= idle_timeout_ms)
        )


class TimeKeeper(WatermarkOutput):
    """Runs one watermark generator over batches and keeps its progress.

    ``ingestion_ms`` is the time of records in ingestion time: the epoch's clock, or later if event time was there
    already.
    """

    def __init__(self, strategy: WatermarkStrategy, progress: TimeProgress, now_ms: int, ingestion_ms: int):
        self._strategy = strategy
        self._now_ms = now_ms
        self._progress = progress
        self._ingestion_ms = ingestion_ms if strategy.ingestion_time else None
        self._generator = strategy.generator_factory() if strategy.generator_factory is not None else None
        if self._generator is not None and progress.generator is not None:
            vars(self._generator).update(pickle.loads(progress.generator))
        assigner = strategy.timestamp_assigner
        self._extract = assigner.extract_timestamp if assigner is not None else None
        # The built-in generators look at whole batches; a user's own sees every record.
        self._batch = self._generator if isinstance(self._generator, BoundedOutOfOrdernessGenerator) else None
        #: The watermarks that the generator emitted within the last batch, with the number of records before each.
        self.steps: list[tuple[int, int]] = []
        self._observed: tuple[Iterator[Any], int] | None = None  #: the batch at hand: a cursor, and its length

    @property
    def progress(self) -> TimeProgress:
        """Return how far event time has come, without what the generator keeps."""
        return self._progress

    def turn_to(self, now_ms: int, ingestion_ms: int) -> None:
        """Follow the clock, which stands still in an epoch and runs in a task that runs continuously."""
        self._now_ms = now_ms
        if self._ingestion_ms is not None:
            self._ingestion_ms = ingestion_ms

    def assign(self, values: list[Any], timestamps: list[int] | None) -> list[int] | None:
        """Return the timestamps of a batch by the strategy. Calls user code."""
        extract = self._extract
        if extract is None:
            return timestamps if self._ingestion_ms is None else [self._ingestion_ms] * len(values)
        if timestamps is None:
            stamped = [extract(value, MIN_WATERMARK) for value in values]
        else:
            stamped = [extract(value, timestamp) for value, timestamp in zip(values, timestamps, strict=True)]
        return stamped if set(map(type, stamped)) == _WHOLE else [_milliseconds(timestamp) for timestamp in stamped]

    def observe(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Take note of a batch. Calls user code if the generator is the user's."""
        if values:
            self._progress = replace(self._progress, active_at_ms=self._now_ms, idle=False)
        if self.steps:
            self.steps = []
        if self._generator is None or timestamps is None:
            return
        if self._batch is not None:
            self._batch.on_batch(timestamps)
            return
        cursor = iter(values)
        self._observed = cursor, len(values)
        for value, timestamp in zip(cursor, timestamps, strict=True):
            self._generator.on_event(value, timestamp, self)
        self._observed = None

    def observe_columns(self, columns: Any) -> None:
        """Take note of a batch of columns, of which only the generator of a table knows the time."""
        if columns.num_rows:
            self._progress = replace(self._progress, active_at_ms=self._now_ms, idle=False)
        if (note := getattr(self._generator, "on_columns", None)) is not None:
            note(columns)

    def locate(self, values: list[Any], timestamps: list[int] | None) -> int | None:
        """Return the position of the record that the strategy fails at. Goes through a batch again, one by one."""
        for position, value in enumerate(values):
            try:
                stamp = self.assign([value], timestamps and timestamps[position : position + 1])
                self.observe([value], stamp)
            except Exception:
                return position
        return None

    def emit_periodically(self) -> TimeProgress:
        """Let the generator emit, and return the progress without what the generator keeps."""
        if self._generator is not None:
            self._generator.on_periodic_emit(self)
        return self._progress

    def close_epoch(self) -> TimeProgress:
        """Return the progress at the end of the epoch."""
        return self.saved(self.pause())

    def saved(self, progress: TimeProgress) -> TimeProgress:
        """Return progress with what the generator keeps."""
        if self._generator is None or self._ingestion_ms is not None:
            return progress
        return replace(progress, generator=pickle.dumps(vars(self._generator)))

    def pause(self) -> TimeProgress:
        """Return the progress behind all records that have come, without what the generator keeps."""
        if self._ingestion_ms is not None:  # follows the clock, whatever comes
            return TimeProgress(watermark=self._ingestion_ms - 1, active_at_ms=self._now_ms)
        self.emit_periodically()
        if self._progress.active_at_ms is None:
            self._progress = replace(self._progress, active_at_ms=self._now_ms)
        if self._progress.idle_at(self._now_ms, self._strategy.idle_timeout_ms):
            self._progress = replace(self._progress, idle=True)
        return self._progress

    # --- WatermarkOutput: what a generator calls ---------------------------------------------------------------------

    def emit_watermark(self, watermark: Watermark) -> None:
        reached = max(watermark.timestamp, self._progress.watermark)
        if self._observed is not None and reached > self._progress.watermark:
            behind = position_of(*self._observed) + 1
            if self.steps and self.steps[-1][0] == behind:
                self.steps.pop()  # it emits twice for a record
            self.steps.append((behind, reached))
        self._progress = replace(self._progress, watermark=reached, idle=False)

    def mark_idle(self) -> None:
        self._progress = replace(self._progress, idle=True)

    def mark_active(self) -> None:
        self._progress = replace(self._progress, idle=False)


def stamping_failure(
    operator: Operator, keeper: TimeKeeper, values: list[Any], timestamps: list[int] | None
) -> RecordFailure:
    """Return the failure of a strategy on a batch, with the record if it is found."""
    position = keeper.locate(values, timestamps)
    if position is None:
        return operator.failure("assigning timestamps or watermarks")
    return operator.failure(
        "assigning a timestamp or watermark", record=values[position], has_record=True, index=position
    )


def parts_of(batch: RowBatch, steps: list[tuple[int, int]]) -> Iterator[tuple[RowBatch, int | None]]:
    """Cut a batch where watermarks were emitted; yield the parts with the watermark behind each, if there is one."""
    values, timestamps = batch.values, batch.timestamps
    start = 0
    for stop, watermark in steps:
        yield RowBatch(values[start:stop], timestamps and timestamps[start:stop]), watermark
        start = stop
    if start < len(values):
        yield RowBatch(values[start:], timestamps and timestamps[start:]), None


class TimestampsOperator(Operator):
    """assign_timestamps_and_watermarks in the middle of a stream: replaces what came from upstream."""

    def __init__(self, context: OperatorContext, strategy: WatermarkStrategy):
        super().__init__(context)
        self._strategy = strategy
        self.progress = TimeProgress()  #: restored before, saved after each epoch by the task
        self._keeper: TimeKeeper | None = None

    def restore(self, watermark: int, progress: TimeProgress) -> None:
        super().restore(watermark, progress)
        self.progress = progress

    def outcome(self) -> OperatorOutcome:
        return replace(super().outcome(), progress=self.progress)

    def begin(self) -> None:
        now_ms = self.context.scope.now_ms
        try:
            self._keeper = TimeKeeper(self._strategy, self.progress, now_ms, max(now_ms, self.watermark + 1))
        except Exception as error:
            raise self.failure("making the watermark generator") from error

    @property
    def follows_clock(self) -> bool:
        return self._strategy.ingestion_time

    def _turn_keeper(self) -> TimeKeeper:
        assert self._keeper is not None
        now_ms = self.context.scope.now_ms
        self._keeper.turn_to(now_ms, max(now_ms, self.watermark + 1))
        return self._keeper

    def process(self, batch: RowBatch) -> None:
        self._keeper = self._turn_keeper()
        try:
            stamped = self._keeper.assign(batch.values, batch.timestamps)
            self._keeper.observe(batch.values, stamped)
        except Exception as error:
            raise stamping_failure(self, self._keeper, batch.values, batch.timestamps) from error
        pass_time = self.context.scope.pass_time
        if not self._keeper.steps or pass_time is None:
            self.emit(RowBatch(batch.values, stamped))
            return
        for part, watermark in parts_of(RowBatch(batch.values, stamped), self._keeper.steps):
            self.emit(part)
            if watermark is not None and watermark > self.watermark:
                self.watermark = watermark
                pass_time(self)

    def advance(self, time: EventTime) -> EventTime:
        self._keeper = self._turn_keeper()
        try:
            self.progress = self._keeper.pause()
        except Exception as error:
            raise self.failure(CLOSING_TIME) from error
        # At the end of the input nothing more can come, whatever the generator thinks.
        reached = MAX_WATERMARK if time.ended else self.progress.watermark
        self.watermark = max(self.watermark, reached)
        return EventTime(self.watermark, self.progress.idle and not time.ended, time.ended)

    def snapshot(self) -> None:
        assert self._keeper is not None
        try:
            self.progress = self._keeper.saved(self.progress)
        except Exception as error:
            raise self.failure(CLOSING_TIME) from error

    def next_wakeup_ms(self) -> int | None:
        timeout = self._strategy.idle_timeout_ms
        if timeout is None or self._strategy.ingestion_time or self.progress.idle or self.progress.active_at_ms is None:
            return None
        return self.progress.active_at_ms + timeout
