"""The body of a task: rows of one partition in, rows for the next stage out. The same code on every carrier.

    take in all rows, pass on those for later stages -> restore -> begin -> process -> advance time -> save -> report

A failure of user code is not an exception here but data: a failure card for the driver, and a mark for all tasks of the
next stage to do nothing. So Spark sees tasks succeed, retries nothing in vain and prints no Java. Only the death of the
process is an error to Spark.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter

from flott.errors import WorkerLostError
from flott.graph.job_graph import JobEdge, JobVertex, VertexId
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.failure import FailureCard, card_of
from flott.runtime.epoch.gate import InputGate, combine
from flott.runtime.epoch.grouping import KeyGrouping
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import SubtaskReport, TaskPlace
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.topology import Stage, Topology
from flott.runtime.epoch.wire import ABORT, FAILURE, LOG, REPORT, TIME, Row
from flott.runtime.logs.capture import TaskCapture
from flott.runtime.logs.line import TaskLog
from flott.runtime.operators.batch import Batch, Emit
from flott.runtime.operators.operator import EpochScope, EventTime, RecordFailure
from flott.runtime.operators.source import SourceAssignment, SourceOperator

#: In a batch job the garbage collector looks at what is new after so many batches.
TIDY_EVERY = 1024

#: (partition of the next stage, row); rows of the last stage are all for the driver and have partition 0.
Addressed = tuple[int, Row]


@dataclass
class StageTask:
    """The subtasks that share one task of a stage, composed and wired to each other and to the outbox."""

    image: JobImage
    stage: Stage
    partition: int
    subtasks: list[Subtask]
    incoming: dict[VertexId, tuple[JobEdge, ...]]
    outbox: deque[Row] = field(default_factory=deque)

    @staticmethod
    def build(image: JobImage, stage: Stage, partition: int) -> StageTask:
        """Load and compose the subtasks of one task."""
        task = StageTask(image, stage, partition, [], {})
        scope = EpochScope()
        outgoing: dict[VertexId, tuple[JobEdge, ...]] = {}
        for ident in stage.vertices:
            if partition < image.shapes[ident].parallelism:
                vertex, edges_in, edges_out = image.load_vertex(ident)
                by_key = image.batch and _comes_by_key(vertex, edges_in, image.topology)
                task.subtasks.append(Subtask(image, vertex, edges_out, partition, scope, by_key))
                task.incoming[ident], outgoing[ident] = edges_in, edges_out
        by_vertex = {subtask.vertex.id: subtask for subtask in task.subtasks}
        neighbours: dict[int, Emit] = {
            edge.index: _from_neighbour(by_vertex[ident].input(edge.input_index))
            for ident, edges in task.incoming.items()
            for edge in edges
            if edge.index in image.topology.local_edges
        }
        for subtask in task.subtasks:
            own = {edge.index for edge in outgoing[subtask.vertex.id]}
            subtask.compose(task.outbox.append, {i: emit for i, emit in neighbours.items() if i in own})
        return task

    def interrupt(self) -> None:
        """Whatever waits stops waiting, and fails. From any thread."""
        for subtask in self.subtasks:
            subtask.interrupt()

    def close(self) -> None:
        """Close all subtasks; the first failure is raised after all were closed."""
        failure: Exception | None = None
        for subtask in self.subtasks:
            try:
                subtask.close()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure


def _comes_by_key(vertex: JobVertex, incoming: tuple[JobEdge, ...], topology: Topology) -> bool:
    """Whether the vertex has keyed input that a gate can group: none comes from a neighbour, record by record."""
    keyed = [edge for edge in incoming if vertex.head.node.keys and vertex.head.node.keys[edge.input_index] is not None]
    return bool(keyed) and not any(edge.index in topology.local_edges for edge in keyed)


def _from_neighbour(take: Emit) -> Emit:
    """An input fed by another vertex of the task: a position in its batches says nothing about the source's."""

    def taken(batch: Batch) -> None:
        try:
            take(batch)
        except RecordFailure as failure:
            failure.index = None
            raise

    return taken


class TaskCache:
    """The tasks a worker process keeps between epochs. Which process runs a task changes, so it is only a cache."""

    #: Jobs remembered at once; the one not used for longest makes room.
    MAX_JOBS = 16

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, dict[tuple[int, int], StageTask]] = OrderedDict()  #: by image
        self._job_ids: dict[str, str] = {}  #: whose image it is
        self._taken: StageTask | None = None
        self._interrupted = False

    def take(self, image: JobImage, stage: int, partition: int) -> StageTask:
        """The task, out of the cache until it is given back: one that fails is never seen again."""
        tasks = self._jobs.get(image.image_id)
        if tasks is None:
            image.prepare_process()
            self._forget(image.job_id)
            tasks = self._jobs[image.image_id] = {}
            self._job_ids[image.image_id] = image.job_id
            while len(self._jobs) > self.MAX_JOBS:
                self._drop(next(iter(self._jobs)))
        self._jobs.move_to_end(image.image_id)
        task = tasks.pop((stage, partition), None)
        task = task or StageTask.build(image, image.topology.stages[stage], partition)
        self._taken = task
        if self._interrupted:
            task.interrupt()
        return task

    def _forget(self, job_id: str) -> None:
        """A job has one image at a time: what is left of others, of another parallelism perhaps, is closed."""
        for image_id in [image_id for image_id, owner in self._job_ids.items() if owner == job_id]:
            self._drop(image_id)

    def _drop(self, image_id: str) -> None:
        del self._job_ids[image_id]
        for task in self._jobs.pop(image_id).values():
            close_quietly(task)

    def interrupt(self) -> None:
        """Whatever the task at work waits for, and any that comes after it, it waits no more. From any thread."""
        self._interrupted = True
        self.interrupt_task()

    def interrupt_task(self) -> None:
        """Whatever the task at work waits for, it waits no more; those after it may. From any thread."""
        if (task := self._taken) is not None:
            task.interrupt()

    def give_back(self, task: StageTask) -> None:
        """Keep a task whose epoch went well."""
        if (tasks := self._jobs.get(task.image.image_id)) is not None:
            tasks[task.stage.index, task.partition] = task
        else:
            close_quietly(task)

    def clear(self) -> None:
        """Close and forget everything."""
        for image_id in list(self._jobs):
            self._drop(image_id)
        if self._taken is not None:
            close_quietly(self._taken)  # it may have been left in the middle of its epoch


def close_quietly(task: StageTask) -> None:
    """Close a task that is given up: its own failure was reported already."""
    with suppress(Exception):
        task.close()


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
    """Run one task of one epoch. A generator: rows leave as they are made."""
    return _Run(cache, image, plan, stage, partition, task_attempt, place or TaskPlace()).run(rows)


class _Run:
    """One execution of one task."""

    def __init__(
        self,
        cache: TaskCache,
        image: JobImage,
        plan: EpochPlan,
        stage: int,
        partition: int,
        task_attempt: str,
        place: TaskPlace,
    ):
        self._cache = cache
        self._image = image
        self._plan = plan
        self._stage = stage
        self._partition = partition
        self._attempt_id = f"{plan.run_id}-{plan.attempt}-{task_attempt}"
        self._busy_with = ""  #: the vertex at work, for failure cards
        self._scope = EpochScope(epoch=plan.epoch, attempt=plan.attempt)
        self._batches = 0  #: taken so far
        self._place = place
        self._clock = SystemClock()  #: of this host: tells people when, decides nothing
        self._started_ms = self._clock.now_ms()
        self._said = TaskCapture(image.settings.logs)

    def run(self, rows: Iterable[Row]) -> Iterator[Addressed]:
        gate = InputGate(self._image.settings.input_memory_bytes)
        collecting = gc.isenabled()
        try:
            for row in rows:
                if row[0] != self._stage:
                    yield self._address(row)
                elif row[1] == self._partition:
                    gate.add(row)
                else:
                    raise WorkerLostError(f"Rows for task {row[1]} reached task {self._partition} of stage {row[0]}.")
            if gate.aborted:
                yield from self._abort()
                return
            # Records come and go by the million and form no cycles: the collector would only search in vain.
            gc.disable()
            with self._said:
                yield from self._attempt(gate)
            if lines := self._said.lines():
                epoch, attempt, place = self._plan.epoch, self._plan.attempt, self._place
                yield self._to_driver(LOG, TaskLog(epoch, attempt, place.host, place.executor, os.getpid(), lines))
        finally:
            gate.close()
            if collecting:
                gc.enable()

    def _attempt(self, gate: InputGate) -> Iterator[Addressed]:
        """The epoch, or what is told of its failure."""
        task: StageTask | None = None
        try:
            task = self._cache.take(self._image, self._stage, self._partition)
            yield from self._epoch(task, gate)
        except GeneratorExit:  # the epoch was cancelled
            if task is not None:
                close_quietly(task)
            raise
        except Exception as error:
            if task is not None:
                close_quietly(task)
            yield from self._fail(card_of(error, self._busy_with, self._partition, self._scope))
            return
        if not self._plan.final:
            self._cache.give_back(task)

    # --- the epoch ---------------------------------------------------------------------------------------------------

    def _epoch(self, task: StageTask, gate: InputGate) -> Iterator[Addressed]:
        started = perf_counter()
        for subtask in task.subtasks:
            self._focus(subtask)
            subtask.restore(self._plan, self._attempt_id)
        for subtask in reversed(task.subtasks):
            self._focus(subtask)
            subtask.begin()
        yield from self._feed_leading(task, gate)
        for subtask in task.subtasks:
            self._focus(subtask)
            yield from self._feed(task, subtask, gate)
        times = self._advance(task, gate)
        yield from self._drain(task)
        yield from self._tell_time(task, times)
        wakeups, saved = [], []
        for subtask in task.subtasks:
            self._focus(subtask)
            wakeups.append(subtask.next_wakeup_ms())  # before its state is saved, and perhaps closed
            saved.append(subtask.save(self._attempt_id))
        if self._plan.final:
            task.close()
        busy = (perf_counter() - started) / max(len(task.subtasks), 1)
        for subtask, operators, wakeup in zip(task.subtasks, saved, wakeups, strict=True):
            report = SubtaskReport(
                subtask.vertex.id, subtask.index, self._attempt_id, gate.consumed, operators, wakeup, busy, os.getpid(),
                place=self._place,
                started_ms=self._started_ms,
                ended_ms=self._clock.now_ms(),
                records_out=subtask.records_sent,
                bytes_in=sum(gate.bytes_received(e.index, subtask.index) for e in task.incoming[subtask.vertex.id]),
                bytes_out=subtask.bytes_sent,
            )  # fmt: skip
            yield self._to_driver(REPORT, report)

    def _focus(self, subtask: Subtask) -> None:
        self._busy_with = subtask.vertex.name
        self._scope = subtask.scope
        self._said.turn_to(subtask.speaker, subtask.scope)

    def _feed(self, task: StageTask, subtask: Subtask, gate: InputGate) -> Iterator[Addressed]:
        head = subtask.operators[0]
        if isinstance(head, SourceOperator):
            assigned = self._plan.sources.get(subtask.vertex.head.id)
            for _ in head.read(assigned[subtask.index] if assigned is not None else SourceAssignment()):
                if task.outbox:
                    yield from self._drain(task)
                self._tidy()
            return
        keys = subtask.vertex.head.node.keys if subtask.by_key else ()
        by_key: list[JobEdge] = []
        for edge in task.incoming[subtask.vertex.id]:
            if keys and keys[edge.input_index] is not None:
                by_key.append(edge)
            else:
                yield from self._feed_edge(task, subtask, gate, edge)
        if by_key:
            yield from self._feed_by_key(task, subtask, gate, by_key)

    def _feed_edge(self, task: StageTask, subtask: Subtask, gate: InputGate, edge: JobEdge) -> Iterator[Addressed]:
        take = subtask.input(edge.input_index)
        for batch, origin in subtask.announced(edge.input_index, gate.batches(edge.index, subtask.index)):
            subtask.scope.origin = origin
            take(batch)
            if task.outbox:
                yield from self._drain(task)
            self._tidy()
        subtask.scope.origin = None

    def _feed_leading(self, task: StageTask, gate: InputGate) -> Iterator[Addressed]:
        """The inputs that come before all others, before any vertex pushes records on; the last vertex first."""
        for subtask in reversed(task.subtasks):
            leading = subtask.operators[0].leading_input
            for edge in task.incoming[subtask.vertex.id]:
                if edge.input_index == leading:
                    self._focus(subtask)
                    yield from self._feed_edge(task, subtask, gate, edge)

    def _feed_by_key(
        self, task: StageTask, subtask: Subtask, gate: InputGate, edges: list[JobEdge]
    ) -> Iterator[Addressed]:
        takes = [subtask.input(index) for index in range(len(subtask.vertex.head.node.keys))]
        grouping = KeyGrouping(self._image.settings.input_memory_bytes)
        try:
            for edge in edges:
                for payload in gate.payloads(edge.index, subtask.index):
                    subtask.group(edge.input_index, payload, grouping)
                    self._tidy()
            for batch in grouping.batches():
                if batch is None:
                    subtask.end_keys()
                else:
                    index, rows = batch
                    takes[index](rows)
                    self._tidy()
                if task.outbox:
                    yield from self._drain(task)
        finally:
            grouping.close()

    def _tidy(self) -> None:
        """The collector is off during an epoch; that of a batch job is so long that cycles would pile up."""
        self._batches += 1
        if self._image.batch and self._batches % TIDY_EVERY == 0:
            gc.collect(1)  # only what is new: what survives is not looked at again

    def _advance(self, task: StageTask, gate: InputGate) -> dict[VertexId, list[EventTime]]:
        times: dict[VertexId, list[EventTime]] = {}
        for subtask in task.subtasks:
            self._focus(subtask)
            inputs = [
                times[edge.source][edge.source_operator]
                if edge.index in self._image.topology.local_edges
                else gate.time(edge.index, subtask.index)
                for edge in task.incoming[subtask.vertex.id]
            ]
            times[subtask.vertex.id] = subtask.advance(combine(inputs))
        return times

    def _tell_time(self, task: StageTask, times: dict[VertexId, list[EventTime]]) -> Iterator[Addressed]:
        """One row per receiving task says how far event time has come on all edges to it."""
        news: dict[tuple[int, int], list[tuple[int, int, bool, bool]]] = {}
        for subtask in task.subtasks:
            for index, partition in subtask.partitions.items():
                edge = partition.edge
                time = times[subtask.vertex.id][edge.source_operator]
                for receiver in partition.receivers():
                    address = (self._image.topology.stage_of[edge.target], receiver)
                    news.setdefault(address, []).append((index, time.watermark, time.idle, time.ended))
        for (stage, receiver), entries in news.items():
            yield self._address((stage, receiver, TIME, self._stage, self._partition, 0, (self._attempt_id, entries)))

    # --- sending -----------------------------------------------------------------------------------------------------

    def _drain(self, task: StageTask) -> Iterator[Addressed]:
        outbox = task.outbox
        while outbox:
            yield self._address(outbox.popleft())

    def _address(self, row: Row) -> Addressed:
        """The partition of the next stage that takes the row: its destination, or one that passes it on."""
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
        """Tell every task of the next stage, and through them the rest, that this epoch is void."""
        following = self._stage + 1
        if following < len(self._image.topology.stages):
            for partition in range(self._image.topology.stages[following].width):
                yield partition, (following, partition, ABORT, 0, self._partition, 0, None)
