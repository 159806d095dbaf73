"""A task that runs continuously: it processes what its channels bring, one message at a time. Task side.

The subtasks, their operators and their state are those of epochs (``flott.runtime.epoch.task_steps``). What differs is
when the steps are called:

    records       are processed as they come and collected in buffers
    event time    advances when a channel brings a new time, before a snapshot, and between two records where a
                  watermark generator emits for single records
    settle        event time advances as far as it can, timers fire, buffers leave: when there is nothing else to do,
                  when the buffer timeout has passed, when a processing-time timer is due
    barrier       once all inputs have brought it: settle, pass it on, take the state aside, continue. That of an
                  unaligned checkpoint: the same as soon as one input has brought it (``unreported``)
    marker        its age is noted, and it is passed on behind the records before it (``latency_tracking``)
    save          state that was taken aside is encoded in steps of a millisecond: at once if there is nothing else to
                  do, otherwise in a quarter of the time
    failed save   the driver is told; the files are written again before the next ones (``file_writing``)

A task never waits. ``step`` does one piece of work, or says that there is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from flott.common._ids import EpochId, SubtaskIndex
from flott.graph.operator_ids import OperatorId
from flott.metrics import _engine_metrics as table
from flott.runtime.checkpoint import paths
from flott.runtime.clock import Clock
from flott.runtime.epoch.channel_reading import saved_rows
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import CheckpointTimes, SubtaskReport, TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.task_steps import (
    SavingSubtask,
    Times,
    advance_behind,
    advance_time,
    begin,
    begin_saving,
    restore_state,
    time_rows,
)
from flott.runtime.epoch.wire import DATA, MARKER, decode_batch
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.operators.batch import Emit
from flott.runtime.operators.operator import Operator
from flott.runtime.operators.sink import SinkOperator
from flott.runtime.pipelined.barrier_alignment import Reaction
from flott.runtime.pipelined.checkpoint_saving import CheckpointSaving
from flott.runtime.pipelined.control import (
    EndRound,
    InputFound,
    OutputFound,
    RoundRead,
    SlotEvent,
)
from flott.runtime.pipelined.file_writing import FilesAside, StateFilesWriter
from flott.runtime.pipelined.input_channels import InputChannel, InputChannels, SourceQueue
from flott.runtime.pipelined.latency_tracking import LatencyRules, LatencyTracking
from flott.runtime.pipelined.links import Links, OutputChannels
from flott.runtime.pipelined.messages import Barrier, Buffer, EventTimes, LatencyMarker, Overtaking, TaskAddress
from flott.runtime.pipelined.source_reading import ReadOutcome, RoundReading, TaskSources
from flott.runtime.pipelined.task_load import TaskLoad
from flott.runtime.pipelined.task_time import TaskTime
from flott.runtime.pipelined.unreported import Unreported
from flott.runtime.storage import Storage

#: Where event time follows the clock, it advances after this time without input.
CLOCK_EVERY_MS = 100
#: A busy task settles after this time if neither a buffer timeout nor an interval for watermarks says so.
DEFAULT_SETTLING_MS = 200


@dataclass(frozen=True)
class TaskRules:
    """The settings of continuous tasks."""

    #: How long a busy task may collect records in a buffer. 0: it sends them after every piece of work. None: until the
    #: buffer is full.
    buffer_timeout_ms: int | None = 100
    watermark_interval_ms: int = 200  #: generators emit after this time, at the latest
    exactly_once: bool = True
    heartbeat_ms: int = 10_000  #: how often a slot tells the driver that it lives
    heartbeat_timeout_ms: int = 50_000  #: a slot that has told nothing for so long is lost
    slots_timeout_ms: int = 300_000  #: how long a job waits for its slots
    latency: LatencyRules = field(default_factory=LatencyRules)

    @property
    def settles_after_ms(self) -> int:
        """Return after which time a busy task settles.

        Event time must move also without a timeout for buffers, and those leave before it: it is behind their records.
        """
        if self.buffer_timeout_ms is not None:
            return self.buffer_timeout_ms
        return self.watermark_interval_ms or DEFAULT_SETTLING_MS


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
        self.time = TaskTime(clock.monotonic())
        self.load = TaskLoad(task, self.time)
        self.is_over = False  #: the final checkpoint was taken
        self._scope = task.subtasks[0].scope  #: shared by all subtasks of the task
        self._scope.pass_time = self._pass_time
        self._scope.watermark_interval_ms = rules.watermark_interval_ms
        self._takes = self._inputs_of_edges()
        self._sources = TaskSources(task, clock)
        self._waits_for_commits = any(
            isinstance(operator, SinkOperator) and operator.waits_for_commits
            for subtask in task.subtasks
            for operator in subtask.operators
        )
        #: The checkpoint that must be committed before anything is processed; None: there is none.
        self._uncommitted: EpochId | None = None
        self._latency = LatencyTracking(task, rules.latency) if rules.latency.interval_ms else None
        self._follows_clock = any(op.follows_clock for subtask in task.subtasks for op in subtask.operators)
        self._is_readers_turn = True  #: open slices are read in turn with everything else
        #: The event time that was sent last.
        self._told: dict[TaskAddress, tuple[tuple[int, int, bool, bool], ...]] = {}
        self._unsettled = False  #: whether records were processed since ``settle``
        self._settled_ms = 0
        self._is_news_known = False  #: the driver knows, or will know, that this epoch has something to save
        self._wakeup_ms: int | None = None
        self.saving = CheckpointSaving(task, address, outputs, clock, report, place, writer)
        self._began_ms = 0
        self._barrier_at: tuple[int, float] | None = None  #: when the first barrier came, by the clock and monotonic
        self._barrier_of: EpochId | None = None  #: the checkpoint of that barrier
        self._run = ""

    def _inputs_of_edges(self) -> dict[int, tuple[Subtask, int, Emit]]:
        return {
            edge.index: (subtask, edge.input_index, subtask.input(edge.input_index, edge.index))
            for subtask in self.task.subtasks
            for edge in self.task.incoming[subtask.vertex.id]
            if edge.index not in self.task.image.topology.local_edges
        }

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self, plan: EpochPlan, run: str) -> None:
        """Restore the state that a plan names, and begin. ``run``: different for every start of the tasks."""
        self._run = run
        restore_state(self.task, plan, self._attempt_id(plan.epoch))
        self.inputs.restore(saved_rows(self.task, plan))
        self._begin(plan.epoch)
        if self._latency is not None:
            self._latency.begin(self._clock.now_ms())

    def _attempt_id(self, epoch: EpochId) -> str:
        return f"{self._run}-{epoch}.{self.address.stage}.{self.address.partition}"

    def _begin(self, epoch: EpochId) -> None:
        scope = self._scope
        scope.epoch, scope.attempt_id = epoch, self._attempt_id(epoch)
        # Not before the last checkpoint: sinks take versions from it, and the clock of this host may be slow.
        scope.now_ms = max(scope.now_ms, self._clock.now_ms())
        scope.origin = None
        self._began_ms = self._settled_ms = scope.now_ms
        begin(self.task)
        self._sources.begin()
        for channel in self.inputs.channels.values():
            channel.bytes_received.clear()
        self._unsettled = True  # timers may have fired
        self._is_news_known = False
        self._note_wakeup()

    def settled(self, checkpoint: EpochId) -> None:
        """Continue after a checkpoint that was committed or given up."""
        if self._uncommitted is not None and self._uncommitted <= checkpoint:
            self._uncommitted = None

    def replace_files(self, replaced: Mapping[OperatorId, tuple[FileSequence, FileSequence]]) -> None:
        """Continue with the files that replace others in a completed checkpoint."""
        for subtask in self.task.subtasks:
            for slot in subtask.slots:
                if (change := replaced.get(slot.described.id)) is not None:
                    slot.files = with_replaced(slot.files, *change)

    # --- work --------------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Return whether ``step`` would do something, if its output were taken."""
        return self._has_input or self.saving.has_work

    @property
    def _has_input(self) -> bool:
        if self._uncommitted is not None:
            return False
        return self._unsettled or self._sources.ready_round() is not None or self.inputs.has_work or self._is_awake()

    def _is_busy(self) -> bool:
        """Return whether it can process input: records must not wait behind other work."""
        return self._has_input and not self.outputs.is_blocked

    @property
    def is_blocked(self) -> bool:
        """Return whether it has work but a receiver takes no more output."""
        return self.outputs.is_blocked and self._has_input

    @property
    def wakeup_ms(self) -> int | None:
        """Return when it has something to do without input."""
        if self._uncommitted is not None or self.outputs.is_blocked:
            return None  # it can do nothing before it hears of a commit, or of a receiver
        if self._latency is None or self._latency.due_ms is None:
            return self._wakeup_ms
        return self._latency.due_ms if self._wakeup_ms is None else min(self._latency.due_ms, self._wakeup_ms)

    @property
    def resume_at(self) -> float | None:
        """Return when a source that is followed may have something, by the monotonic clock."""
        if self._uncommitted is not None or self.outputs.is_blocked:
            return None
        return self._sources.resume_at

    def _is_awake(self) -> bool:
        return self._wakeup_ms is not None and self._wakeup_ms <= self._clock.now_ms()

    def step(self) -> bool:
        """Do one piece of work; return whether there was any."""
        is_saving = self.saving.unreported is not None and self.saving.step(self._is_busy)
        if self.inputs.alignment.is_due:  # whether or not its output is taken
            self._turn_clocks()
            self._note_barrier()
            assert self.inputs.alignment.checkpoint is not None
            self._checkpoint(Barrier(self.inputs.alignment.checkpoint))
            return True
        if (self.outputs.is_blocked and not self._is_hurried) or self._uncommitted is not None:
            return is_saving
        scope = self._scope
        self._turn_clocks()
        made_markers = self._latency is not None and self._make_markers(self._latency)
        reading = self._sources.ready_round()
        if reading is not None and (self._is_readers_turn or not reading.is_following):
            if not self._read_on(reading) and not self.inputs.has_work:
                return is_saving or made_markers
        elif (channel := self.inputs.next_channel()) is not None:
            self._process(channel)
            self._is_readers_turn = True
        elif (source := self.inputs.next_source()) is not None:
            self._obey(source)
            self._is_readers_turn = True
        elif reading is not None:
            if not self._read_on(reading):
                return is_saving or made_markers
        elif self._unsettled or self._is_awake():
            self.settle()
            return True
        else:
            return is_saving or made_markers
        self._send()
        if self._unsettled and scope.now_ms - self._settled_ms >= self._rules.settles_after_ms:
            if self._sources.only_follow:
                self.settle()
            elif self._rules.buffer_timeout_ms is not None:
                self._flush()  # in the middle of bounded slices it is not known how far event time has come
        return True

    @property
    def _is_hurried(self) -> bool:
        """Return whether a round stands before the barrier of an unaligned checkpoint: it is read whatever follows."""
        unaligned = self.inputs.alignment.unaligned
        if not self._sources:
            return False
        return unaligned >= self._scope.epoch and unaligned > self.inputs.alignment.given_up

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
        elif isinstance(message, LatencyMarker) and self._latency is not None:
            self._latency.pass_on(message, self._takes[message.edge][0], self._clock.now_ms())

    def _take(self, channel: InputChannel, buffer: Buffer) -> None:
        subtask, input_index, take = self._takes[buffer.edge]
        self.task.turn_to(subtask)
        payload = buffer.payload
        decoded = decode_batch(payload) if isinstance(payload, bytes) else payload
        for batch, origin in subtask.announced(input_index, iter((decoded,))):
            self._scope.origin = origin
            take(batch)
        self._scope.origin = None
        self._unsettled = self._is_news_known = True  # by the source that it came from, or by who let timers fire
        channel.processed(self._links)

    # --- sources -----------------------------------------------------------------------------------------------------

    def _make_markers(self, latency: LatencyTracking) -> bool:
        """Let sources make latency markers, if they are due and receivers take output."""
        now_ms = self._clock.now_ms()
        if not latency.is_due(now_ms) or self.outputs.is_blocked:
            return False
        latency.make(now_ms)
        self._send()
        return True

    def _obey(self, source: SourceQueue) -> None:
        wanted = source.queue.popleft()
        if isinstance(wanted, Barrier):
            self._on_barrier(source.source, wanted)
            return
        self._read_on(self._sources.open_round(wanted))

    def end_round(self, command: EndRound) -> None:
        """End the open slices of a round where they are, or as soon as it is begun."""
        self._sources.end_round(command)

    def _read_on(self, reading: RoundReading) -> bool:
        """Read the next batch of a source; at the end of a round, advance event time and tell the driver.

        Return whether anything came of it.
        """
        self._is_readers_turn = False
        source, order = reading.order.source, reading.order
        outcome = self._sources.read_on(reading)
        if outcome is ReadOutcome.READ:
            self._unsettled = self._is_news_known = True
            if reading.has_news():
                self._report(InputFound(source, order.round))
        elif outcome is ReadOutcome.PAUSED:
            if not self._unsettled:
                return False
            self.settle()  # a source that has nothing at present is the time for it, however short the pause is
        else:
            splits = dict(reading.head.reports)
            self.settle()
            self._report(RoundRead(source, reading.subtask.index, order.round, splits))
        return True

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
        if not self._is_news_known and any(s.counts.records_out for sub in self.task.subtasks for s in sub.slots):
            self._is_news_known = True
            self._report(OutputFound(self._scope.epoch))

    def _pass_time(self, operator: Operator) -> None:
        """Let everything behind an operator follow its watermark, in the middle of a batch."""
        scope = self._scope
        origin, scope.origin = scope.origin, None  # what timers emit does not come from the record at hand
        times = advance_behind(self.task, self.inputs, operator)
        scope.origin = origin
        self._send()
        self._send_times(times)

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
            assert kind in (DATA, MARKER)
            self.outputs.put(TaskAddress(stage, receiver), Buffer(edge, payload) if kind == DATA else payload)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _on_barrier(self, source: TaskAddress | OperatorId, barrier: Barrier) -> None:
        if barrier.checkpoint == self.inputs.alignment.checkpoint:
            self._note_barrier()
        if self.inputs.on_barrier(source, barrier.checkpoint) is Reaction.TAKE_SNAPSHOT:
            self._checkpoint(barrier)

    def _note_barrier(self) -> None:
        checkpoint = self.inputs.alignment.checkpoint
        if checkpoint != self._barrier_of:
            self._barrier_of, self._barrier_at = checkpoint, (self._clock.now_ms(), self._clock.monotonic())

    def overtake(self, checkpoint: EpochId) -> None:
        """Let the barriers of a checkpoint overtake buffers: those that come, and those that wait to leave."""
        if not self.saving.overtake(checkpoint):
            self.inputs.become_unaligned(checkpoint)

    def give_up(self, checkpoint: EpochId) -> None:
        """Wait for nothing more of a checkpoint that the driver has given up."""
        self.inputs.give_up(checkpoint)
        self.saving.give_up(checkpoint)

    def _checkpoint(self, barrier: Barrier) -> None:
        self.saving.abandon()
        assert self._barrier_at is not None
        (barrier_ms, came), self._barrier_at = self._barrier_at, None
        aligned = self._clock.monotonic()
        if self.inputs.alignment.unaligned == barrier.checkpoint:
            barrier = replace(barrier, overtaking=Overtaking.NOW)
        self.settle()
        overtaken = self.outputs.send_barrier(barrier)
        aside = FilesAside()
        changed = self._save(aside)
        reports = self._reports(changed)
        if barrier.final:
            for one in changed:
                one.steps.finish()
            self.task.close()
            self.is_over = True
        recording = self.inputs.record(barrier.checkpoint)
        name = paths.channel_file(
            self.task.subtasks[0].vertex.head.id, self.address.partition, self._scope.epoch, self._scope.attempt_id
        )
        if not barrier.final:
            self._begin(EpochId(barrier.checkpoint + 1))
            self.load.count(reports)
            self._uncommitted = barrier.checkpoint if self._waits_for_commits else None
        taken = self._clock.monotonic()
        times = CheckpointTimes(barrier_ms, (aligned - came) * 1000, (taken - aligned) * 1000)
        self.saving.begin(Unreported(barrier, changed, reports, times, taken, aside, name, recording, overtaken))

    def _save(self, aside: FilesAside) -> list[SavingSubtask]:
        """Take the state aside. Sources report what they have read in all rounds since the last checkpoint."""
        with self._sources.reporting_all_rounds():
            return begin_saving(self.task, self._scope.attempt_id, cast(Storage, aside))

    def _reports(self, saving: list[SavingSubtask]) -> tuple[SubtaskReport, ...]:
        busy, back_pressured, idle = self.time.read(self._clock.monotonic())
        share = 1 / max(len(saving), 1)
        return tuple(
            SubtaskReport(
                one.subtask.vertex.id,
                SubtaskIndex(one.subtask.index),
                self._scope.attempt_id,
                {},
                {},  # when they are saved
                one.wakeup_ms,
                busy * share,
                os.getpid(),
                place=self._place,
                started_ms=self._began_ms,
                ended_ms=self._clock.now_ms(),
                measures={
                    table.TASK_RECORDS_IN.name: one.subtask.slots[0].counts.records_in,
                    table.TASK_RECORDS_OUT.name: one.subtask.records_sent,
                    table.TASK_BYTES_IN.name: sum(size for _, size in self._received(one.subtask).values()),
                    table.TASK_BYTES_OUT.name: one.subtask.bytes_sent,
                    table.TASK_BUSY_MS.name: busy * 1000,
                    table.TASK_BACK_PRESSURED_MS.name: back_pressured * 1000,
                    table.TASK_IDLE_MS.name: idle * 1000,
                },
                edges=self._received(one.subtask),
                latencies=self._latency.take(one.subtask) if self._latency is not None else {},
            )
            for one in saving
        )

    def _received(self, subtask: Subtask) -> dict[int, tuple[int, int]]:
        """Return how many records and bytes have come in on each edge since the last checkpoint."""
        channels = self.inputs.channels.values()
        return {
            edge.index: (
                subtask.edge_records.get(edge.index, 0),
                sum(channel.bytes_received.get(edge.index, 0) for channel in channels),
            )
            for edge in self.task.incoming[subtask.vertex.id]
        }


def with_replaced(files: FileSequence, before: FileSequence, after: FileSequence) -> FileSequence:
    """Return a sequence with another beginning, if it begins as expected."""
    return (*after, *files[len(before) :]) if files[: len(before)] == before else files
