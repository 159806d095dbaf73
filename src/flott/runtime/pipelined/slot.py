"""A slot: the tasks with one index of all stages, run by one loop. Task side.

In every pass each task does one piece of work, the last stage first, so that what was produced is processed before more
of it is produced. A slot whose tasks have nothing to do returns to its caller, which waits for messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flott.common._ids import EpochId
from flott.runtime.clock import Clock
from flott.runtime.epoch.failure import card_of
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.logs.capture import TaskCapture
from flott.runtime.logs.line import TaskLog
from flott.runtime.operators.source import SourceOperator
from flott.runtime.pipelined.channels import ChannelEdges, tasks_of
from flott.runtime.pipelined.control import (
    CheckpointCommitted,
    CheckpointGivenUp,
    Command,
    EndRound,
    EndTasks,
    InjectBarrier,
    OvertakeBuffers,
    ReadRound,
    SlotEvent,
    SlotLogged,
    TaskFailed,
)
from flott.runtime.pipelined.file_writing import BackgroundWriter, ImmediateWriter, StateFilesWriter
from flott.runtime.pipelined.input_channels import InputChannel, InputChannels
from flott.runtime.pipelined.links import Links, OutputChannels
from flott.runtime.pipelined.messages import Message, TaskAddress
from flott.runtime.pipelined.network_memory import credits_of
from flott.runtime.pipelined.task import PipelinedTask, TaskRules

#: Log lines are sent to the driver after this time at the latest.
LOG_EVERY_S = 1.0


@dataclass(frozen=True)
class SlotSettings:
    """What all slots of a job have in common."""

    image: JobImage
    plan: EpochPlan  #: the state to begin with
    channels: tuple[ChannelEdges, ...]
    rules: TaskRules
    run: str  #: different for every start of the tasks
    fair: bool = True  #: channels are read in turn; else the first that has something


class TaskSlot:
    """The tasks of one slot."""

    def __init__(
        self,
        settings: SlotSettings,
        partition: int,
        links: Links,
        clock: Clock,
        report: Callable[[SlotEvent], None],
        place: TaskPlace | None = None,
        writer: StateFilesWriter | None = None,
    ):
        self.partition = partition
        self.settings = self._settings = settings
        self._links = links
        self._clock = clock
        self._report = report
        self._place = place or TaskPlace()
        self._writer = writer or ImmediateWriter()
        self.log = TaskCapture(settings.image.settings.logs)  #: a loop that runs this slot only stays in it
        self._logged_at = clock.monotonic()
        self._at_work: Subtask | None = None
        self.tasks: dict[TaskAddress, PipelinedTask] = {}
        self._downstream_first: Sequence[PipelinedTask] = ()
        self.has_failed = False
        self.is_ended = False

    # --- life --------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Build the tasks. Messages may come from now on."""
        for address in tasks_of(self._settings.image, self.partition):
            self.tasks[address] = self._make_task(address)
        self._downstream_first = tuple(reversed(self.tasks.values()))

    def start(self) -> None:
        """Restore the state of all tasks. The last stage is first: it is ready for others."""
        self._guarded(self._start_tasks)

    def _start_tasks(self) -> None:
        for task in self._downstream_first:
            task.start(self._settings.plan, self._settings.run)

    def _make_task(self, address: TaskAddress) -> PipelinedTask:
        image, channels = self._settings.image, self._settings.channels
        stage = image.topology.stages[address.stage]
        task = StageTask.build(image, stage, address.partition, self._links.shares_process)
        task.turn_to = self._turn_to
        outputs = [
            (found.channel.receiver, _credits(self._settings, found.channel.receiver))
            for found in channels
            if found.channel.sender == address
        ]
        sources = [s.vertex.head.id for s in task.subtasks if isinstance(s.operators[0], SourceOperator)]
        channels_in = _inputs(self._settings, task, address)
        exactly_once, fair = self._settings.rules.exactly_once, self._settings.fair
        overtakable = [found.channel for found in channels if all(image.edges[e].may_be_overtaken for e in found.edges)]
        senders = [channel.sender for channel in overtakable if channel.receiver == address]
        receivers = {channel.receiver for channel in overtakable if channel.sender == address}
        inputs = InputChannels(channels_in, sources, exactly_once=exactly_once, fair=fair, overtakable=senders)
        return PipelinedTask(
            task, address, inputs, OutputChannels(address, outputs, self._links, receivers), self._links, self._clock,
            self._report, self._settings.rules, self._place, self._writer,
        )  # fmt: skip

    def close(self) -> None:
        """Close all tasks. What they have not saved is void."""
        self.is_ended = True
        for task in self.tasks.values():
            if not task.is_over:
                task.task.close_quietly()
        self._send_log(force=True)

    def interrupt(self) -> None:
        """Make every operator that waits for something fail. May be called from any thread."""
        for task in self.tasks.values():
            task.task.interrupt()

    # --- from links and the driver -----------------------------------------------------------------------------------

    def receive(self, receiver: TaskAddress, sender: TaskAddress, message: Message) -> None:
        """Take a message for one of the tasks."""
        self.tasks[receiver].inputs.receive(sender, message)

    def granted(self, sender: TaskAddress, receiver: TaskAddress, credits: int) -> None:
        """Take credits for one of the tasks."""
        self.tasks[sender].outputs.granted(receiver, credits)

    def obey(self, command: Command) -> None:
        """Carry out a command of the driver."""
        match command:
            case ReadRound() | InjectBarrier():
                for task in self.tasks.values():
                    if command.source in task.inputs.sources:
                        task.inputs.order(command)
            case EndRound(source):
                for task in self.tasks.values():
                    if source in task.inputs.sources:
                        task.end_round(command)
            case OvertakeBuffers(checkpoint):
                self._guarded(lambda: self._overtake(checkpoint))
            case CheckpointCommitted(checkpoint, replaced):
                for task in self.tasks.values():
                    task.replace_files(replaced)
                    task.settled(checkpoint)
            case CheckpointGivenUp(checkpoint):
                for task in self.tasks.values():
                    task.give_up(checkpoint)
                    task.settled(checkpoint)
            case EndTasks():
                self.is_ended = True

    def _overtake(self, checkpoint: EpochId) -> None:
        for task in self.tasks.values():
            task.overtake(checkpoint)

    @property
    def address_at_work(self) -> TaskAddress:
        """Return the task that worked last."""
        at_work = self._at_work
        for address, task in self.tasks.items():
            if at_work is not None and at_work in task.task.subtasks:
                return address
        return next(iter(self.tasks), TaskAddress(0, self.partition))

    @property
    def oldest_write(self) -> int | None:
        """Return the number of the checkpoint write that is in progress."""
        return self._writer.oldest if isinstance(self._writer, BackgroundWriter) else None

    # --- work --------------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Let every task do one piece of work; return whether there was any."""
        if self.has_failed or self.is_ended:
            return False
        return bool(self._guarded(self._pass))

    def finish_writing(self) -> None:
        """Report checkpoints whose files are durable, or that they could not be written."""
        self._guarded(self._writer.finish)

    def work_in_stage(self, stage: int) -> bool:
        """Let the task of one stage do one piece of work; return whether there was any."""
        task = self.tasks.get(TaskAddress(stage, self.partition))
        if self.has_failed or self.is_ended or task is None or task.is_over:
            return False
        return bool(self._guarded(task.step))

    def _pass(self) -> bool:
        clock = self._clock.monotonic
        worked = False
        began = clock()
        blocked = [task for task in self._downstream_first if task.is_blocked]
        if blocked:
            self.waits_since(began, blocked)
        for task in self._downstream_first:
            before = task.time.works_since = clock()
            has_worked = task.step()
            task.time.works_since = None
            if has_worked:
                worked = True
                task.time.busy += clock() - before
        if blocked:
            self.waited(clock() - began, blocked)
        self._send_log()
        return worked

    def waits_since(self, began: float, blocked: Sequence[PipelinedTask]) -> None:
        """Note that blocked tasks have been waiting from now on, until ``waited`` is called."""
        for task in blocked:
            task.time.blocked_since = began

    def waited(self, seconds: float, blocked: Sequence[PipelinedTask] | None = None) -> None:
        """Note that time has passed in which blocked tasks could not work."""
        for task in self.blocked if blocked is None else blocked:
            task.time.blocked_since = None
            task.time.back_pressured += seconds

    @property
    def blocked(self) -> list[PipelinedTask]:
        """Return the tasks that have work but whose output is not taken."""
        return [task for task in self._downstream_first if task.is_blocked]

    @property
    def is_over(self) -> bool:
        """Return whether all tasks have taken their final checkpoint."""
        return bool(self.tasks) and all(task.is_over for task in self.tasks.values())

    @property
    def wakeup_ms(self) -> int | None:
        """Return when a task has something to do without input."""
        if self.has_failed or self.is_ended:
            return None
        return min((at for t in self.tasks.values() if not t.is_over and (at := t.wakeup_ms) is not None), default=None)

    @property
    def resume_at(self) -> float | None:
        """Return when a source that is followed may have something, by the monotonic clock."""
        if self.has_failed or self.is_ended:
            return None
        return min((at for t in self.tasks.values() if (at := t.resume_at) is not None), default=None)

    def _guarded(self, work: Callable[[], object]) -> object:
        """Do some work; report what user code raises as a failure card."""
        try:
            with self.log:
                return work()
        except SystemExit:
            raise
        except Exception as error:
            self.has_failed = True
            self._send_log(force=True)
            at_work = self._at_work or next(iter(self.tasks.values())).task.subtasks[0]
            card = card_of(error, at_work.vertex.name, at_work.index, at_work.scope)
            self._report(TaskFailed(replace(card, host=self._place.host, executor=self._place.executor)))
            return None

    def _turn_to(self, subtask: Subtask) -> None:
        self._at_work = subtask
        self.log.turn_to(subtask.speaker, subtask.scope)

    def _send_log(self, force: bool = False) -> None:
        now = self._clock.monotonic()
        if not force and now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        if (lines := self.log.lines()) and self._at_work is not None:
            scope, place = self._at_work.scope, self._place
            log = TaskLog(scope.epoch, scope.attempt, place.host, place.executor, os.getpid(), lines)
            self._report(SlotLogged(log))


def _credits(settings: SlotSettings, receiver: TaskAddress) -> int:
    """Return how many buffers a task takes per channel. Sender and receiver compute the same."""
    return credits_of(receiver, settings.channels, settings.image.settings)


def _inputs(settings: SlotSettings, task: StageTask, address: TaskAddress) -> dict[TaskAddress, InputChannel]:
    leading = {
        edge.index
        for subtask in task.subtasks
        for edge in task.incoming[subtask.vertex.id]
        if edge.input_index == subtask.operators[0].leading_input
    }
    return {
        found.channel.sender: InputChannel(
            found.channel,
            found.edges,
            _credits(settings, address),
            priority=0 if leading & set(found.edges) else 1,
        )
        for found in settings.channels
        if found.channel.receiver == address
    }
