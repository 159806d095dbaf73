"""A task that runs continuously: it processes what its channels bring, one message at a time. Task side.

The subtasks, their operators and their state are those of epochs (``flott.runtime.epoch.task_steps``). What differs is
when the steps are called:

    records       are processed as they come and collected in buffers
    event time    advances when a channel brings a new time, and before a snapshot
    settle        event time advances as far as it can, timers fire, buffers leave: when there is nothing else to do,
                  when the buffer timeout has passed, when a processing-time timer is due
    barrier       once all inputs have brought it: settle, pass it on, save the state, continue

A task never waits. ``step`` does one piece of work, or says that there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from flott.common._ids import EpochId, SubtaskIndex
from flott.graph.operator_ids import OperatorId
from flott.metrics import _engine_metrics as table
from flott.runtime.clock import Clock
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import SubtaskReport, TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.task_steps import (
    SavedSubtask,
    Times,
    advance_time,
    begin,
    restore_state,
    save_state,
    time_rows,
)
from flott.runtime.epoch.wire import DATA, decode_batch
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.operators.batch import Emit
from flott.runtime.operators.source import SourceOperator, SplitReport
from flott.runtime.pipelined.barrier_alignment import Reaction
from flott.runtime.pipelined.control import CheckpointSaved, ReadRound, RoundRead, SlotEvent
from flott.runtime.pipelined.file_writing import FilesAside, StateFilesWriter
from flott.runtime.pipelined.input_channels import InputChannel, InputChannels, SourceQueue
from flott.runtime.pipelined.links import Links, OutputChannels
from flott.runtime.pipelined.messages import Barrier, Buffer, EventTimes, TaskAddress
from flott.runtime.pipelined.task_time import TaskTime
from flott.runtime.storage import Storage

#: Where event time follows the clock, it advances after this time without input.
CLOCK_EVERY_MS = 100


@dataclass(frozen=True)
class TaskRules:
    """The settings of continuous tasks."""

    buffer_timeout_ms: int = 100  #: how long a busy task may collect records in a buffer
    exactly_once: bool = True


@dataclass(frozen=True)
class _Round:
    """A round that a source is reading."""

    order: ReadRound
    batches: Iterator[None]


class PipelinedTask:
    """One task of one slot."""

    def __init__(
        self,
        task: StageTask,
        address: TaskAddress,
        inputs: InputChannels,
        outputs: OutputChannels,
        links: Links,
        clock: Clock,
        report: Callable[[SlotEvent], None],
        rules: TaskRules,
        place: TaskPlace,
        writer: StateFilesWriter,
    ):
        self.task = task
        self.address = address
        self.inputs = inputs
        self.outputs = outputs
        self._links = links
        self._clock = clock
        self._report = report
        self._rules = rules
        self._place = place
        self._writer = writer
        self._pages = any(
            slot.keyed_state is not None and slot.keyed_state.pages for one in task.subtasks for slot in one.slots
        )
        self.time = TaskTime(clock.monotonic())
        self.is_over = False  #: the final checkpoint was taken
        self._scope = task.subtasks[0].scope  #: shared by all subtasks of the task
        self._takes = self._inputs_of_edges()
        self._heads = {
            subtask.vertex.head.id: subtask
            for subtask in task.subtasks
            if isinstance(subtask.operators[0], SourceOperator)
        }
        self._follows_clock = any(op.follows_clock for subtask in task.subtasks for op in subtask.operators)
        self._rounds: dict[OperatorId, _Round] = {}  #: being read
        self._read: dict[OperatorId, dict[str, SplitReport]] = {ident: {} for ident in self._heads}
        #: The event time that was sent last.
        self._told: dict[TaskAddress, tuple[tuple[int, int, bool, bool], ...]] = {}
        self._unsettled = False  #: whether records were processed since ``settle``
        self._settled_ms = 0
        self._wakeup_ms: int | None = None
        self._began_ms = 0
        self._run = ""

    def _inputs_of_edges(self) -> dict[int, tuple[Subtask, int, Emit]]:
        return {
            edge.index: (subtask, edge.input_index, subtask.input(edge.input_index))
            for subtask in self.task.subtasks
            for edge in self.task.incoming[subtask.vertex.id]
            if edge.index not in self.task.image.topology.local_edges
        }

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self, plan: EpochPlan, run: str) -> None:
        """Restore the state that a plan names, and begin. ``run``: different for every start of the tasks."""
        self._run = run
        restore_state(self.task, plan, self._attempt_id(plan.epoch))
        self._begin(plan.epoch)

    def _attempt_id(self, epoch: EpochId) -> str:
        return f"{self._run}-{epoch}.{self.address.stage}.{self.address.partition}"

    def _begin(self, epoch: EpochId) -> None:
        scope = self._scope
        scope.epoch, scope.attempt_id, scope.now_ms = epoch, self._attempt_id(epoch), self._clock.now_ms()
        scope.origin = None
        self._began_ms = self._settled_ms = scope.now_ms
        begin(self.task)
        self._read = {ident: {} for ident in self._heads}
        for channel in self.inputs.channels.values():
            channel.bytes_received = 0
        self._unsettled = True  # timers may have fired
        self._note_wakeup()

    def committed(self, replaced: Mapping[OperatorId, tuple[FileSequence, FileSequence]]) -> None:
        """Continue with the files that replace others in a completed checkpoint."""
        for subtask in self.task.subtasks:
            for slot in subtask.slots:
                if (change := replaced.get(slot.described.id)) is not None:
                    slot.files = with_replaced(slot.files, *change)

    # --- work --------------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Return whether ``step`` would do something, if its output were taken."""
        return bool(self._rounds) or self._unsettled or self.inputs.has_work or self._is_awake()

    @property
    def is_blocked(self) -> bool:
        """Return whether it has work but a receiver takes no more output."""
        return self.outputs.is_blocked and self.has_work

    @property
    def wakeup_ms(self) -> int | None:
        """Return when it has something to do without input."""
        return self._wakeup_ms

    def _is_awake(self) -> bool:
        return self._wakeup_ms is not None and self._wakeup_ms <= self._clock.now_ms()

    def step(self) -> bool:
        """Do one piece of work; return whether there was any."""
        if self.outputs.is_blocked:
            return False
        scope = self._scope
        self._turn_clocks()
        if self._rounds:
            self._read_on()
        elif (channel := self.inputs.next_channel()) is not None:
            self._process(channel)
        elif (source := self.inputs.next_source()) is not None:
            self._obey(source)
        elif self._unsettled or self._is_awake():
            self.settle()
            return True
        else:
            return False
        self._send()
        if self._unsettled and scope.now_ms - self._settled_ms >= self._rules.buffer_timeout_ms:
            self._flush() if self._rounds else self.settle()
        return True

    def _turn_clocks(self) -> None:
        """Let operators, and state that expires, know the time."""
        scope, now_ms = self._scope, self._clock.now_ms()
        if now_ms > scope.now_ms:
            scope.now_ms = now_ms
            for subtask in self.task.subtasks:
                for slot in subtask.slots:
                    if slot.keyed_state is not None:
                        slot.keyed_state.lifetimes.clocks.turn(now_ms, slot.operator.watermark)

    def _process(self, channel: InputChannel) -> None:
        message = channel.queue.popleft()
        if message.__class__ is Buffer:
            self._take(channel, message)
        elif isinstance(message, EventTimes):
            if self.inputs.on_times(channel, message):
                self.settle()
        elif isinstance(message, Barrier):
            self._on_barrier(channel.channel.sender, message)

    def _take(self, channel: InputChannel, buffer: Buffer) -> None:
        subtask, input_index, take = self._takes[buffer.edge]
        self.task.turn_to(subtask)
        payload = buffer.payload
        decoded = decode_batch(payload) if isinstance(payload, bytes) else payload
        for batch, origin in subtask.announced(input_index, iter((decoded,))):
            self._scope.origin = origin
            take(batch)
        self._scope.origin = None
        self._unsettled = True
        channel.processed(self._links)

    # --- sources -----------------------------------------------------------------------------------------------------

    def _obey(self, source: SourceQueue) -> None:
        wanted = source.queue.popleft()
        if isinstance(wanted, Barrier):
            self._on_barrier(source.source, wanted)
            return
        subtask = self._heads[source.source]
        head = subtask.operators[0]
        assert isinstance(head, SourceOperator)
        self.task.turn_to(subtask)
        self._rounds[source.source] = _Round(wanted, head.read(wanted.assignment))
        self._read_on()

    def _read_on(self) -> None:
        """Read the next batch of a source; at the end of a round, advance event time and tell the driver."""
        source, current = next(iter(self._rounds.items()))
        subtask = self._heads[source]
        self.task.turn_to(subtask)
        if next(current.batches, _END) is not _END:
            self._unsettled = True
            return
        del self._rounds[source]
        head = subtask.operators[0]
        assert isinstance(head, SourceOperator)
        splits = dict(head.reports)
        self._read[source] = _added(self._read[source], splits)
        self.settle()
        self._report(RoundRead(source, subtask.index, current.order.round, splits))

    # --- event time --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Advance event time as far as the inputs allow, fire timers, and send everything that is held."""
        self._turn_clocks()
        times = advance_time(self.task, self.inputs)
        self._send()
        self._send_times(times)
        self._unsettled = False
        self._settled_ms = self._scope.now_ms
        self._note_wakeup()

    def _flush(self) -> None:
        """Send what is held, in the middle of a round: only at its end it is known how far event time has come."""
        for subtask in self.task.subtasks:
            for partition in subtask.partitions.values():
                partition.flush()
        self._send()
        self._settled_ms = self._scope.now_ms

    def _note_wakeup(self) -> None:
        times = [at for subtask in self.task.subtasks if (at := subtask.next_wakeup_ms()) is not None]
        if self._follows_clock:
            times.append(self._settled_ms + CLOCK_EVERY_MS)
        self._wakeup_ms = min(times, default=None)

    def _send_times(self, times: Times) -> None:
        """Tell receivers how far event time has come, if they do not know it."""
        for stage, receiver, _, _, _, _, (_, entries) in time_rows(self.task, times, ""):
            address, found = TaskAddress(stage, receiver), tuple(entries)
            if self._told.get(address) != found:
                self._told[address] = found
                self.outputs.put(address, EventTimes(found))

    def _send(self) -> None:
        outbox = self.task.outbox
        while outbox:
            stage, receiver, kind, edge, _, _, payload = outbox.popleft()
            assert kind == DATA
            self.outputs.put(TaskAddress(stage, receiver), Buffer(edge, payload))

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _on_barrier(self, source: TaskAddress | OperatorId, barrier: Barrier) -> None:
        if self.inputs.on_barrier(source, barrier.checkpoint) is Reaction.TAKE_SNAPSHOT:
            self._checkpoint(barrier)

    def _checkpoint(self, barrier: Barrier) -> None:
        self.settle()
        self.outputs.put_everywhere(barrier)
        aside = FilesAside()
        saved = self._save(aside)
        if barrier.final:
            self.task.close()
            self.is_over = True
        reports = self._reports(saved)
        if not barrier.final:
            self._reopen()
            self._begin(EpochId(barrier.checkpoint + 1))
        saved_event = CheckpointSaved(barrier.checkpoint, reports)
        self._writer.write(aside, self.task.image.storage, lambda: self._report(saved_event))

    def _save(self, aside: FilesAside) -> list[SavedSubtask]:
        """Take the state aside. Sources report what they have read in all rounds since the last checkpoint.

        State on disk is written at once, because its database is opened again with the file.
        """
        storage = self.task.image.storage if self._pages else cast(Storage, aside)
        heads = {source: self._heads[source].operators[0] for source in self._read}
        last_rounds = {}
        for source, head in heads.items():
            assert isinstance(head, SourceOperator)
            last_rounds[source], head.reports = head.reports, self._read[source]
        saved = save_state(self.task, self._scope.attempt_id, storage)
        for source, head in heads.items():
            assert isinstance(head, SourceOperator)
            head.reports = last_rounds[source]  # event time advances by the last round
        return saved

    def _reopen(self) -> None:
        """Open the databases of state on disk, which are closed when they are saved."""
        for subtask in self.task.subtasks:
            for slot in subtask.slots:
                if slot.keyed_state is not None and slot.keyed_state.pages:
                    self.task.turn_to(subtask)
                    slot.keyed_state.bring_to(slot.files, subtask.image.storage)

    def _reports(self, saved: list[SavedSubtask]) -> tuple[SubtaskReport, ...]:
        busy, back_pressured, idle = self.time.read(self._clock.monotonic())
        share = 1 / max(len(saved), 1)
        return tuple(
            SubtaskReport(
                one.subtask.vertex.id,
                SubtaskIndex(one.subtask.index),
                self._scope.attempt_id,
                {},
                one.operators,
                one.wakeup_ms,
                busy * share,
                os.getpid(),
                place=self._place,
                started_ms=self._began_ms,
                ended_ms=self._clock.now_ms(),
                measures={
                    table.TASK_RECORDS_IN.name: one.subtask.slots[0].counts.records_in,
                    table.TASK_RECORDS_OUT.name: one.subtask.records_sent,
                    table.TASK_BYTES_IN.name: self._bytes_received(one.subtask),
                    table.TASK_BYTES_OUT.name: one.subtask.bytes_sent,
                    table.TASK_BUSY_MS.name: busy * 1000,
                    table.TASK_BACK_PRESSURED_MS.name: back_pressured * 1000,
                    table.TASK_IDLE_MS.name: idle * 1000,
                },
            )
            for one in saved
        )

    def _bytes_received(self, subtask: Subtask) -> int:
        edges = {edge.index for edge in self.task.incoming[subtask.vertex.id]}
        return sum(
            channel.bytes_received for channel in self.inputs.channels.values() if edges & channel.times.keys()
        )


_END = object()


def _added(before: Mapping[str, SplitReport], after: Mapping[str, SplitReport]) -> dict[str, SplitReport]:
    """Return the reports of splits over several rounds: where each stands now, and how many records it gave."""
    total = dict(before)
    for split, report in after.items():
        earlier = before.get(split)
        total[split] = report if earlier is None else replace(report, records=earlier.records + report.records)
    return total


def with_replaced(files: FileSequence, before: FileSequence, after: FileSequence) -> FileSequence:
    """Return a sequence with another beginning, if it begins as expected."""
    return (*after, *files[len(before) :]) if files[: len(before)] == before else files

