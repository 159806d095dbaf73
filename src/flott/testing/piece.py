"""Runs a piece of a program with the engine's own subtasks in the calling thread, one call at a time.

    source (one subtask per input) -> the piece's operators, in as many subtasks as asked for -> capture

A record that is pushed in runs through to the end at once: over real partitioners and buffers between vertices, through
the real chains within them. Ending an epoch is what the engine does, too: event time advances vertex by vertex, every
subtask saves its state, and the next epoch begins from what was saved.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from flott.common._ids import EpochId, JobId
from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MIN_WATERMARK, WatermarkStrategy
from flott.datastream._data_stream import DataStream
from flott.datastream.connectors.base import (
    Sink,
    SinkWriter,
    Slice,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.errors import ProgramError, StorageError
from flott.graph.chain import chain
from flott.graph.job_graph import ChainedOperator, JobEdge, JobGraph, JobVertex, VertexId
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec, SourceSpec
from flott.runtime.checkpoint.manifest import Manifest, OperatorSnapshot
from flott.runtime.epoch.accumulators import add_up
from flott.runtime.epoch.failure import card_of
from flott.runtime.epoch.gate import combine
from flott.runtime.epoch.image import JobImage, TaskSettings, make_image
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.redistribute import redistribute
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.state_saving import save_subtask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.epoch.topology import lay_out
from flott.runtime.epoch.wire import Row, decode_batch, encode_batch
from flott.runtime.jobmaster.epoch_outcome import snapshot_of
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.operators.batch import Batch, Emit, RowBatch
from flott.runtime.operators.operator import EpochScope, EventTime, Operator, RecordFailure
from flott.runtime.operators.source import SourceAssignment, SourceOperator
from flott.runtime.storage import PosixStorage, Storage
from flott.testing.harness import in_process

R = TypeVar("R")

JOB = JobId("operator-harness")
#: A longer sequence of state files is compacted.
LONGEST_SEQUENCE = 16


@dataclass(frozen=True)
class PieceSettings:
    """The settings of a piece."""

    parallelism: int = 1
    max_parallelism: int = 128
    serialize: bool = True
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    input_types: Sequence[TypeInformation | None] = ()


@dataclass(eq=False)
class Captured:
    """The output of a piece: the main output, and every side output by its tag."""

    serialize: bool
    main: list[tuple[Any, int | None]] = field(default_factory=list)
    sides: dict[str, list[tuple[Any, int | None]]] = field(default_factory=dict)

    def take(self, values: Sequence[Any], timestamps: Sequence[int] | None, tag: str | None = None) -> None:
        """Add a batch."""
        if self.serialize:
            batch = _round_trip(RowBatch(list(values), None if timestamps is None else list(timestamps)))
            values, timestamps = batch.values, batch.timestamps
        stamps: Sequence[int | None] = timestamps if timestamps is not None else [None] * len(values)
        found = self.main if tag is None else self.sides.setdefault(tag, [])
        found.extend(zip(values, stamps, strict=True))


class Piece:
    """The connected subtasks of a piece. An epoch runs until the input ends."""

    def __init__(
        self, write: Callable[..., Any], inputs: Sequence[str], settings: PieceSettings, snapshot: PieceSnapshot | None
    ):
        self.settings = settings
        self.captured = Captured(settings.serialize)
        self.graph = _graph_of(write, inputs, settings, self.captured)
        self.storage = MemoryStorage(JOB, files=dict(snapshot.files) if snapshot is not None else {})
        image = _image_of(self.graph, self.storage, settings)
        self.scope = EpochScope()
        self._outbox: deque[Row] = deque()
        self._edges = {edge.index: edge for edge in self.graph.edges}
        self.subtasks: dict[VertexId, list[Subtask]] = {
            vertex.id: [self._subtask(image, vertex, index) for index in range(vertex.parallelism)]
            for vertex in self.graph.vertices
        }
        self._compose()
        self.sources = [self._source(name) for name in inputs]
        self._snapshots: dict[OperatorId, OperatorSnapshot] = {}
        self.accumulators: bytes | None = None  #: the user's, over all completed epochs
        self.epoch = 0
        self.now_ms = 0
        self._resuming = snapshot is not None  #: true until the first epoch has ended
        if snapshot is not None:
            self._check(snapshot.manifest)
            self._snapshots = dict(snapshot.manifest.operators)
            self.accumulators = snapshot.manifest.accumulators
            self.epoch, self.now_ms = snapshot.manifest.checkpoint_id, snapshot.manifest.completed_at_ms
        self.times = [self._restored_time(source) for source in self.sources]

    # --- composition -------------------------------------------------------------------------------------------------

    def _subtask(self, image: JobImage, vertex: JobVertex, index: int) -> Subtask:
        outgoing = self.graph.edges_out_of(vertex.id)
        if self.settings.serialize:
            vertex, _, outgoing = image.load_vertex(vertex.id)
        return Subtask(image, vertex, outgoing, index, self.scope)

    def _compose(self) -> None:
        for vertex in self.graph.vertices:
            for subtask in self.subtasks[vertex.id]:
                subtask.compose(self._outbox.append, self._neighbours(vertex, subtask.index))
                for operator in subtask.operators:
                    operator.side_emits = _TappedSideOutputs(operator.side_emits, self.captured)

    def _neighbours(self, vertex: JobVertex, index: int) -> dict[int, Emit]:
        """Return the inputs that a subtask calls directly: pointwise edges, and all edges if nothing is serialized."""
        return {
            edge.index: self.subtasks[edge.target][index].input(edge.input_index)
            for edge in self.graph.edges_out_of(vertex.id)
            if not self.settings.serialize or edge.partitioning.pointwise
        }

    def _source(self, name: str) -> SourceOperator:
        for vertex in self.graph.vertices:
            head = self.subtasks[vertex.id][0].operators[0]
            if isinstance(head, SourceOperator) and vertex.head.node.name == f"Source: {name}":
                return head
        raise ProgramError(
            f"The piece of program does not use its input {name!r}. Return a stream that is made from all the streams"
            " that the function is given."
        )

    def _check(self, manifest: Manifest) -> None:
        if manifest.channels:
            raise ProgramError(
                "The snapshot is an unaligned checkpoint: it holds records that were on their way between tasks. Take a"
                " savepoint of the job, which holds none."
            )
        for ident, snapshot in manifest.operators.items():
            if ident not in self.graph.operators and snapshot.has_state:
                named = f"{snapshot.name!r}" + (f" (uid {snapshot.uid!r})" if snapshot.uid else " (no uid)")
                raise ProgramError(
                    f"The snapshot holds state of operator {named}, which this piece of program does not have. Restore"
                    " it with the piece it was taken of, or give the operator that continues it the same uid()."
                )

    def _restored_time(self, source: SourceOperator) -> EventTime:
        snapshot = self._snapshots.get(source.context.operator.id)
        return EventTime(snapshot.subtasks[0].watermark if snapshot is not None else MIN_WATERMARK)

    def all_subtasks(self) -> Iterator[Subtask]:
        """Yield all subtasks, those of upstream vertices first."""
        for vertex in self.graph.vertices:
            yield from self.subtasks[vertex.id]

    def operators(self) -> Iterator[tuple[ChainedOperator, Operator]]:
        """Yield the operators of all subtasks that belong to the piece itself."""
        for subtask in self.all_subtasks():
            for described, operator in zip(subtask.vertex.operators, subtask.operators, strict=True):
                if not isinstance(described.node.spec, SourceSpec | SinkSpec):
                    yield described, operator

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the next epoch: processing-time timers that are due fire."""
        self.epoch += 1
        operators = self.graph.operators
        plan = EpochPlan(
            run_id=JOB,
            epoch=EpochId(self.epoch),
            attempt=0,
            now_ms=self.now_ms,
            seed=0,
            states={
                ident: redistribute(self._snapshots.get(ident), operator, resuming=self._resuming)
                for ident, operator in operators.items()
            },
        )
        subtasks = list(self.all_subtasks())
        for subtask in subtasks:
            self._in(subtask, subtask.restore, plan, JOB)
        for subtask in reversed(subtasks):
            self._in(subtask, subtask.begin)
        self._settle()

    def push(self, index: int, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        """Process records up to the output."""
        batch = RowBatch(list(values), None if timestamps is None else list(timestamps))
        if self.settings.serialize:
            batch = _round_trip(batch)
        source = self.sources[index]
        subtask = self.subtasks[VertexId(source.context.operator.id)][0]
        self._in(subtask, source.emit, batch)
        self._settle()

    def finish_epoch(self) -> None:
        """Advance event time to that of the inputs, fire timers, and save all state."""
        for source, time in zip(self.sources, self.times, strict=True):
            for _ in source.read(_assignment(time)):
                raise AssertionError("a harness assigns no slices")
        reached: dict[VertexId, list[list[EventTime]]] = {}
        for vertex in self.graph.vertices:
            reached[vertex.id] = [self._advance(subtask, reached) for subtask in self.subtasks[vertex.id]]
            self._deliver()
        reports: dict[OperatorId, list[OperatorReport]] = {}
        for subtask in self.all_subtasks():
            for ident, report in self._in(subtask, save_subtask, subtask, JOB).items():
                reports.setdefault(ident, []).append(report)
        self._snapshots = {
            ident: self._compacted(ident, snapshot_of(self.graph.operators[ident], found))
            for ident, found in reports.items()
        }
        added = [report.accumulators for found in reports.values() for report in found if report.accumulators]
        self.accumulators = add_up(self.accumulators, added)
        self._resuming = False
        self.storage.keep(self.manifest().files)

    def _advance(self, subtask: Subtask, reached: dict[VertexId, list[list[EventTime]]]) -> list[EventTime]:
        inputs = []
        for edge in self.graph.edges_into(subtask.vertex.id):
            senders = zip(self.subtasks[edge.source], reached[edge.source], strict=True)
            heard = [times[edge.source_operator] for sender, times in senders if _tells(sender, edge, subtask.index)]
            inputs.append(combine(heard))
        return self._in(subtask, subtask.advance, combine(inputs))

    def _compacted(self, ident: OperatorId, snapshot: OperatorSnapshot) -> OperatorSnapshot:
        """Return the snapshot with long file sequences compacted, so that memory does not grow with the epochs."""
        subtasks = list(snapshot.subtasks)
        for index, subtask in enumerate(subtasks):
            if len(subtask.sequence or ()) > LONGEST_SEQUENCE:
                groups = groups_of(index, snapshot.max_parallelism, snapshot.parallelism)
                target = f"state/{ident[:16]}-{index}-{self.epoch}-compacted"
                order = CompactionOrder(subtask.sequence or (), (groups.start, groups.stop), target, whole=True)
                subtasks[index] = replace(subtask, sequence=(compact(order, self.storage),))
        return replace(snapshot, subtasks=tuple(subtasks))

    def manifest(self) -> Manifest:
        """Return the end of the last epoch as a checkpoint."""
        operators = dict(self._snapshots)
        return Manifest(JobId(JOB), JOB, EpochId(self.epoch), self.now_ms, 0, operators, accumulators=self.accumulators)

    def close(self) -> None:
        """Close all functions, and raise the first failure after all were closed."""
        failure: Exception | None = None
        for subtask in self.all_subtasks():
            try:
                self._in(subtask, subtask.close)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    # --- between vertices --------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Send all buffered records, vertex by vertex, up to the output."""
        for subtask in self.all_subtasks():
            for partition in subtask.partitions.values():
                self._in(subtask, partition.flush)
            self._deliver()

    def _deliver(self) -> None:
        while self._outbox:
            _, index, _, edge_index, _, _, payload = self._outbox.popleft()
            edge = self._edges[edge_index]
            target = self.subtasks[edge.target][index]
            batch, _ = decode_batch(payload)
            self._in(target, target.input(edge.input_index), batch)

    def _in(self, subtask: Subtask, work: Callable[..., R], *arguments: Any) -> R:
        """Call something that may run user code. Exceptions of user code get the failure card as a note."""
        try:
            return work(*arguments)
        except RecordFailure as error:
            failure = error.__cause__ or error
            failure.add_note(f"\n{card_of(error, subtask.vertex.name, subtask.index, self.scope)}")
        raise failure  # outside of the handler: the user's exception keeps its own context


# --- snapshots and storage -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PieceSnapshot:
    """A manifest and the files it refers to."""

    manifest: Manifest
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class MemoryStorage(PosixStorage):
    """Files in this process's memory."""

    files: dict[str, bytes] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        try:
            return self.files[name]
        except KeyError:
            raise StorageError(f"There is no file {name} in the snapshot.") from None

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = bytes(data)

    publish = write

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        yield io.BytesIO(self.read(name))

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        file = io.BytesIO()
        yield file
        self.write(name, file.getvalue())

    def delete(self, name: str) -> None:
        self.files.pop(name, None)

    def exists(self, name: str) -> bool:
        return name in self.files

    def keep(self, names: frozenset[str]) -> None:
        """Delete all other files."""
        for name in self.files.keys() - names:
            del self.files[name]


# --- the program around a piece --------------------------------------------------------------------------------------


def _graph_of(
    write: Callable[..., Any], inputs: Sequence[str], settings: PieceSettings, captured: Captured
) -> JobGraph:
    env = in_process(settings.parallelism)
    env.set_max_parallelism(settings.max_parallelism)
    types = settings.input_types or [None] * len(inputs)
    streams = [
        env.from_source(_NoSource(), WatermarkStrategy.no_watermarks(), name, type_info).set_parallelism(1)
        for name, type_info in zip(inputs, types, strict=True)
    ]
    result = write(*streams)
    if not isinstance(result, DataStream) or result.get_execution_environment() is not env:
        raise ProgramError(
            "The function given to a harness takes its input stream(s) and returns the stream that is made of them, as"
            f" in lambda stream: stream.map(f); found {result!r}."
        )
    if any(step.is_sink for step in env._program):
        raise ProgramError(
            "A harness looks at what comes before a sink. Return the stream and leave print(), sink_to() and add_sink()"
            " out of the piece."
        )
    result.sink_to(_CaptureSink(captured)).name("output").set_parallelism(1)
    graph = chain(env.get_stream_graph(job_name=JOB))
    if not settings.serialize and any(vertex.parallelism > 1 for vertex in graph.vertices):
        raise ProgramError(
            "serialize=False runs the very function objects it is given, so there can be one subtask only. Leave it"
            " out to test with a higher parallelism."
        )
    return graph


def _image_of(graph: JobGraph, storage: Storage, settings: PieceSettings) -> JobImage:
    task_settings = TaskSettings(job_parameters=dict(settings.job_parameters))
    if settings.serialize:
        return make_image(graph, JOB, JOB, storage, task_settings)
    return JobImage(JOB, JOB, JOB, lay_out(graph), {}, {}, {}, storage, task_settings, (), b"")


def _tells(sender: Subtask, edge: JobEdge, index: int) -> bool:
    """Return whether a subtask sends its event time to the subtask with this index at the other end of an edge."""
    partition = sender.partitions.get(edge.index)
    return sender.index == index if partition is None else index in partition.receivers()


def _assignment(time: EventTime) -> SourceAssignment:
    if time.ended:
        return SourceAssignment(finished=True)
    return SourceAssignment(held_watermark=time.watermark)


def _round_trip(batch: RowBatch) -> RowBatch:
    decoded, _ = decode_batch(encode_batch(batch))
    return decoded.to_rows()


class _NoSource(Source[Any]):
    """An input whose records are pushed, not read."""

    def create_enumerator(self) -> SplitEnumerator:
        raise AssertionError("a harness plans no input")

    def create_reader(self) -> SourceReader[Any]:
        return _NoReader()


class _NoReader(SourceReader[Any]):
    """Reads nothing."""

    def read(self, part: Slice) -> Iterator[Any]:
        return iter(())


#: Outputs by token: a sink that was pickled finds its output again.
_captures: WeakValueDictionary[str, Captured] = WeakValueDictionary()


class _CaptureSink(Sink[Any]):
    """Passes records to the harness at once."""

    def __init__(self, captured: Captured):
        self._token = uuid4().hex
        _captures[self._token] = captured

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return _CaptureWriter(_captures[self._token])


class _CaptureWriter(SinkWriter[Any]):
    """Adds records to the output of the harness."""

    def __init__(self, captured: Captured):
        self._captured = captured

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._captured.take(values, timestamps)


class _TappedSideOutputs(dict[str, Emit]):
    """The side outputs of an operator. Every tag has a consumer, even if the program has none."""

    def __init__(self, known: Mapping[str, Emit], captured: Captured):
        super().__init__(known)
        self._captured = captured

    def get(self, tag: str, default: Any = None) -> Any:
        consume = super().get(tag)

        def tapped(batch: Batch) -> None:
            rows = batch.to_rows()
            self._captured.take(rows.values, rows.timestamps, tag)
            if consume is not None:
                consume(batch)

        return tapped
