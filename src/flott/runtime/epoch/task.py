"""One epoch of one task: rows of a partition in, rows for the next stage out. Every runner uses the same code.

The steps are functions of ``task_steps``; this module calls them in the order of an epoch, sends rows, and reports.

Failures of user code are data here, not exceptions: a failure card for the driver, and a row that tells all tasks of
the next stage to do nothing. So tasks succeed as far as Spark can see, and Spark does not retry them or print Java
traces. Only the death of the process is an error to Spark.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import perf_counter

from flott.common._ids import SubtaskIndex
from flott.errors import WorkerLostError
from flott.metrics import _engine_metrics as table
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.channel_reading import BEFORE_ALL, saved_rows
from flott.runtime.epoch.failure import FailureCard, card_of
from flott.runtime.epoch.gate import InputGate
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import SubtaskReport, TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.epoch.task_steps import (
    SavedSubtask,
    advance_time,
    begin,
    read_input,
    restore_state,
    save_state,
    time_rows,
)
from flott.runtime.epoch.wire import ABORT, DATA, FAILURE, LOG, REPORT, Row
from flott.runtime.logs.capture import TaskCapture
from flott.runtime.logs.line import TaskLog
from flott.runtime.operators.operator import EpochScope

#: In a batch job the garbage collector examines new objects after this many batches.
COLLECT_EVERY = 1024

#: (partition of the next stage, row). Rows of the last stage are all for the driver and have partition 0.
Addressed = tuple[int, Row]


def run_task(
    cache: TaskCache,
    image: JobImage,
    plan: EpochPlan,
    stage: int,
    partition: int,
    task_attempt: str,
    rows: Iterable[Row],
    place: TaskPlace | None = None,
) -> Iterator[Addressed]:
    """Run one task of one epoch, and yield rows as they are produced."""
    return _TaskAttempt(image, plan, stage, partition, task_attempt, place or TaskPlace()).run(cache, rows)


class _TaskAttempt:
    """One execution of one task."""

    def __init__(
        self, image: JobImage, plan: EpochPlan, stage: int, partition: int, task_attempt: str, place: TaskPlace
    ):
        self._image = image
        self._plan = plan
        self._stage = stage
        self._partition = SubtaskIndex(partition)  #: of every subtask of the task
        self._attempt_id = f"{plan.run_id}-{plan.attempt}-{task_attempt}"
        self._place = place
        self._clock = SystemClock()  #: of this host. It decides nothing, it only says when something happened
        self._started_ms = self._clock.now_ms()
        self._log = TaskCapture(image.settings.logs)
        self._vertex = ""  #: the one that is working, for failure cards
        self._scope = EpochScope(epoch=plan.epoch, attempt=plan.attempt)

    def run(self, cache: TaskCache, rows: Iterable[Row]) -> Iterator[Addressed]:
        gate = InputGate(self._image.settings.input_memory_bytes)
        collecting = gc.isenabled()
        try:
            yield from self._receive(rows, gate)
            if gate.aborted:
                yield from self._abort()
                return
            # Records come and go by the million and form no cycles: the collector would search in vain.
            gc.disable()
            with self._log:
                yield from self._try_epoch(cache, gate)
            if lines := self._log.lines():
                place = self._place
                log = TaskLog(self._plan.epoch, self._plan.attempt, place.host, place.executor, os.getpid(), lines)
                yield self._to_driver(LOG, log)
        finally:
            gate.close()
            if collecting:
                gc.enable()

    def _receive(self, rows: Iterable[Row], gate: InputGate) -> Iterator[Addressed]:
        """Collect the rows for this task, and pass on those for later stages."""
        for row in rows:
            if row[0] != self._stage:
                yield self._address(row)
            elif row[1] == self._partition:
                gate.add(row)
            else:
                raise WorkerLostError(f"Rows for task {row[1]} reached task {self._partition} of stage {row[0]}.")

    def _try_epoch(self, cache: TaskCache, gate: InputGate) -> Iterator[Addressed]:
        """Run the epoch, or report its failure. A task that failed is closed and never used again."""
        task: StageTask | None = None
        try:
            task = cache.take(self._image, self._stage, self._partition)
            task.turn_to = self._turn_to
            yield from self._run_epoch(task, gate)
        except GeneratorExit:  # the epoch was cancelled
            if task is not None:
                task.close_quietly()
            raise
        except Exception as error:
            if task is not None:
                task.close_quietly()
            yield from self._fail(card_of(error, self._vertex, self._partition, self._scope))
            return
        if not self._plan.final:
            cache.give_back(task)

    def _turn_to(self, subtask: Subtask) -> None:
        self._vertex = subtask.vertex.name
        self._scope = subtask.scope
        self._log.turn_to(subtask.speaker, subtask.scope)

    # --- the epoch ---------------------------------------------------------------------------------------------------

    def _run_epoch(self, task: StageTask, gate: InputGate) -> Iterator[Addressed]:
        started = perf_counter()
        restore_state(task, self._plan, self._attempt_id)
        for stage, receiver, kind, edge, sender, sequence, payload in saved_rows(task, self._plan):
            if kind == DATA:  # event time advances at the end of the epoch
                gate.add((stage, receiver, kind, edge, BEFORE_ALL + sender, sequence, payload))
        begin(task)
        for batches, _ in enumerate(read_input(task, gate, self._plan.sources), start=1):
            yield from self._send(task)
            if self._image.batch and batches % COLLECT_EVERY == 0:
                gc.collect(1)  # only new objects: an epoch of a batch job is so long that cycles would pile up
        times = advance_time(task, gate)
        yield from self._send(task)
        yield from map(self._address, time_rows(task, times, self._attempt_id))
        saved = save_state(task, self._attempt_id)
        if self._plan.final:
            task.close()
        busy_seconds = (perf_counter() - started) / max(len(saved), 1)
        for subtask in saved:
            yield self._to_driver(REPORT, self._report(task, subtask, gate, busy_seconds))

    def _report(self, task: StageTask, saved: SavedSubtask, gate: InputGate, busy_seconds: float) -> SubtaskReport:
        subtask, incoming = saved.subtask, task.incoming[saved.subtask.vertex.id]
        received = {edge.index: gate.bytes_received(edge.index, subtask.index) for edge in incoming}
        return SubtaskReport(
            subtask.vertex.id,
            subtask.index,
            self._attempt_id,
            gate.consumed,
            saved.operators,
            saved.wakeup_ms,
            busy_seconds,
            os.getpid(),
            place=self._place,
            started_ms=self._started_ms,
            ended_ms=self._clock.now_ms(),
            measures={
                table.TASK_RECORDS_IN.name: subtask.slots[0].counts.records_in,
                table.TASK_RECORDS_OUT.name: subtask.records_sent,
                table.TASK_BYTES_IN.name: sum(received.values()),
                table.TASK_BYTES_OUT.name: subtask.bytes_sent,
                table.TASK_BUSY_MS.name: busy_seconds * 1000,
            },
            edges={edge: (subtask.edge_records.get(edge, 0), size) for edge, size in received.items()},
        )

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send(self, task: StageTask) -> Iterator[Addressed]:
        outbox = task.outbox
        while outbox:
            yield self._address(outbox.popleft())

    def _address(self, row: Row) -> Addressed:
        """Add the partition of the next stage that takes the row: its destination, or a task that passes it on."""
        following = self._stage + 1
        if following >= len(self._image.topology.stages):
            return 0, row
        if row[0] == following:
            return row[1], row
        return row[1] % self._image.topology.stages[following].width, row

    def _to_driver(self, kind: int, content: object) -> Addressed:
        driver = self._image.topology.driver
        return self._address((driver, self._partition, kind, 0, self._partition, 0, pickle.dumps(content, 5)))

    def _fail(self, card: FailureCard) -> Iterator[Addressed]:
        yield self._to_driver(FAILURE, replace(card, host=self._place.host, executor=self._place.executor))
        yield from self._abort()

    def _abort(self) -> Iterator[Addressed]:
        """Tell every task of the next stage, and through them all others, that this epoch has failed."""
        following = self._stage + 1
        if following < len(self._image.topology.stages):
            for partition in range(self._image.topology.stages[following].width):
                yield partition, (following, partition, ABORT, 0, self._partition, 0, None)
