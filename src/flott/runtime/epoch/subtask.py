"""A vertex subtask: its operators composed into one push chain, with their state. Task side.

Composition happens once per worker process and subtask, not per record and not per epoch: every operator's ``emit`` is
bound to what follows it. The subtask then lives in the worker's cache, and each epoch brings its state to the right
version, pushes batches in, advances event time, and saves what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import ProgramError, TypeMismatchError
from flott.graph.job_graph import ChainedOperator, JobEdge, JobVertex
from flott.runtime.epoch.accumulators import encode_accumulators
from flott.runtime.epoch.exchange import ResultPartition
from flott.runtime.epoch.grouping import KeyGrouping
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan, SubtaskState
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.wire import Origin, Row, decode_batch, encode_batch
from flott.runtime.logs.hearing import Speaker
from flott.runtime.managed_state.backends.backend import BackendSettings, StateOwner, make_keyed_state
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.operator.operator_shares import OperatorStateFile
from flott.runtime.managed_state.operator.operator_state import OperatorState
from flott.runtime.operators.batch import Batch, Coalescer, ColumnBatch, Emit, Form, RowBatch
from flott.runtime.operators.build import build_operator
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import EpochScope, EventTime, Operator, OperatorContext, RecordFailure
from flott.runtime.operators.sink import SinkOperator
from flott.runtime.operators.source import SourceOperator
from flott.runtime.operators.watermarks import TimestampsOperator


@contextmanager
def _blaming(operator: ChainedOperator, activity: str) -> Iterator[None]:
    """Whatever goes wrong inside is this operator's doing."""
    try:
        yield
    except Exception as error:
        raise RecordFailure(operator, activity) from error


def _common_type(types: Sequence[TypeInformation | None]) -> TypeInformation | None:
    """The one type that is declared for the keys of all inputs."""
    return types[0] if types and all(declared == types[0] for declared in types) else None


class RecordCounts:
    """Counts the records of one operator."""

    __slots__ = ("records_in", "records_out", "records_sent")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """An epoch begins."""
        self.records_in = 0
        self.records_out = 0
        self.records_sent = 0  #: of those, how many left the vertex


class Subtask:
    """One parallel instance of a vertex, opened and kept by a worker."""

    def __init__(
        self,
        image: JobImage,
        vertex: JobVertex,
        outgoing: tuple[JobEdge, ...],
        subtask: int,
        scope: EpochScope,
        by_key: bool = False,
    ):
        self.vertex = vertex
        self.index = subtask
        self.speaker = Speaker(
            vertex.name, subtask, vertex.parallelism, vertex.head.node.name if len(vertex.operators) == 1 else None
        )
        self.scope = scope  #: shared with the other subtasks of the task: they push records into each other
        self.image = image
        self.by_key = by_key  #: keyed input comes one key after the other, in a batch job
        self._outgoing = outgoing
        self._states: list[KeyedState | None] = [self._keyed_state(op) for op in vertex.operators]
        self._operator_states = [OperatorState(op.label) for op in vertex.operators]
        self.operators = [self._build(index, operator) for index, operator in enumerate(vertex.operators)]
        self._traffic = [RecordCounts() for _ in vertex.operators]
        self._sequences: list[FileSequence] = [() for _ in vertex.operators]
        self.partitions: dict[int, ResultPartition] = {}
        self._times: list[tuple[EventTime, EventTime]] = []  #: what each operator was told, and what it told others
        self._metrics_before: list[dict[str, tuple[str, int | float]]] = [{} for _ in vertex.operators]
        self._opened: list[Operator] = []
        self._coalescers: list[Coalescer] = []  #: collect what the head emits key by key

    def _keyed_state(self, operator: ChainedOperator) -> KeyedState | None:
        node = operator.node
        if not node.is_keyed:
            return None
        owner = StateOwner(
            operator.label,
            node.max_parallelism,
            groups_of(self.index, node.max_parallelism, node.parallelism),
            in_place=any(key is not None and key.in_place for key in node.keys),
            key_type=_common_type([key.key_type for key in node.keys if key is not None]),
        )
        # In a batch job one key is held at a time: there is nothing that memory could be too small for.
        settings = BackendSettings() if self.image.batch else self.image.settings.backend
        return make_keyed_state(settings, owner, self.image.job_id, operator.id, self._sharing)

    def _sharing(self) -> int:
        return self.image.keyed_operators_of(self.image.topology.stage_of[self.vertex.id])

    def _build(self, index: int, operator: ChainedOperator) -> Operator:
        return build_operator(
            OperatorContext(
                job_id=self.image.job_id,
                job_name=self.image.job_name,
                task_name=self.vertex.name,
                operator=operator,
                subtask=self.index,
                scope=self.scope,
                keyed_state=self._states[index],
                operator_state=self._operator_states[index],
                job_parameters=self.image.settings.job_parameters,
                batch=self.image.batch,
            )
        )

    # --- composition -------------------------------------------------------------------------------------------------

    def compose(self, send: Callable[[Row], None], neighbours: dict[int, Emit]) -> None:
        """Bind every output. ``neighbours`` holds the inputs of edges that stay in this task, by edge."""
        for edge in self._outgoing:
            if edge.index not in neighbours:
                self.partitions[edge.index] = self._partition(edge, send)
        for index, operator in enumerate(self.operators):
            node = self.vertex.operators[index].node
            operator.emit = self._output(index, None, neighbours, node.output_type)
            tags = {op.side_tag for op in self.vertex.operators if op.fed_by == index and op.side_tag}
            tags |= {edge.side_tag for edge in self._outgoing if edge.source_operator == index and edge.side_tag}
            types = dict(node.side_types)
            operator.side_emits = {tag: self._output(index, tag, neighbours, types.get(tag)) for tag in sorted(tags)}
        if self.by_key:
            head = self.operators[0]
            head.emit = self._coalesced(head.emit)
            head.side_emits = {tag: self._coalesced(emit) for tag, emit in head.side_emits.items()}

    def input(self, index: int) -> Emit:
        """Where batches of the head's input with this index go."""
        return self._counting_in(0, index)

    def _partition(self, edge: JobEdge, send: Callable[[Row], None]) -> ResultPartition:
        target = self.image.shapes[edge.target]
        node = self.vertex.operators[edge.source_operator].node
        return ResultPartition(
            edge=edge,
            sender=self.vertex.operators[edge.source_operator],
            subtask=self.index,
            parallelism=self.vertex.parallelism,
            target_parallelism=target.parallelism,
            target_max_parallelism=target.max_parallelism,
            target_stage=self.image.topology.stage_of[edge.target],
            scope=self.scope,
            max_records=self.image.settings.buffer_records,
            send=send,
            record_type=node.output_type if edge.side_tag is None else dict(node.side_types).get(edge.side_tag),
        )

    def _output(
        self, index: int, tag: str | None, neighbours: dict[int, Emit], declared: TypeInformation | None
    ) -> Emit:
        consumers: list[Emit] = [
            self._counting_in(position)
            for position, operator in enumerate(self.vertex.operators)
            if operator.fed_by == index and operator.side_tag == tag
        ]
        leaving = [edge for edge in self._outgoing if edge.source_operator == index and edge.side_tag == tag]
        for edge in leaving:
            consumers.append(neighbours.get(edge.index) or self.partitions[edge.index].emit)
        emit = self._counting_out(index, consumers, leaves=bool(leaving))
        return emit if declared is None else self._conforming(index, declared, emit)

    def _coalesced(self, emit: Emit) -> Emit:
        self._coalescers.append(Coalescer(emit))
        return self._coalescers[-1].emit

    def _counting_in(self, index: int, input_index: int = 0) -> Emit:
        traffic, operators = self._traffic[index], self.operators
        fit = operators[index].fitting(input_index)

        def counted(batch: Batch) -> None:
            traffic.records_in += len(batch)
            operators[index].process(fit(batch))  # whichever it is now: it may be replaced

        def counted_second(batch: Batch) -> None:
            traffic.records_in += len(batch)
            operators[index].process_second(fit(batch))

        count = counted if input_index == 0 else counted_second
        state = self._states[index]
        return count if state is None or not state.pages else self._paging(index, input_index, state, count)

    def _paging(self, index: int, input_index: int, state: KeyedState, take: Emit) -> Emit:
        """State that is on disk wants to know of a batch before it comes, and when it is done."""
        takes_rows = self.operators[index].accepts is Form.ROWS
        keyed = KeyedInput.of(self.operators[index].context, input_index) if index > 0 and takes_rows else None

        def paged(batch: Batch) -> None:
            if keyed is not None:
                with suppress(Exception):  # a selector that fails, fails again where it can be reported
                    state.prefetch(map(keyed.select, batch.to_rows().values))
            take(batch)
            state.make_room()

        return paged

    def announced(
        self, input_index: int, batches: Iterator[tuple[Batch, Origin]]
    ) -> Iterator[tuple[Batch, Origin]]:
        """Batches for the head, as they are; but state that is on disk hears of several of them at once, before they
        come: the more keys are fetched together, the less each costs."""
        state, keyed = self._states[0], KeyedInput.of(self.operators[0].context, input_index)
        if state is None or not state.pages or keyed is None or self.operators[0].accepts is not Form.ROWS:
            yield from batches
            return
        while ahead := list(islice(batches, max(1, state.foresight // self.image.settings.buffer_records))):
            with suppress(Exception):
                state.prefetch(keyed.select(value) for batch, _ in ahead for value in batch.to_rows().values)
            yield from ahead

    def _counting_out(self, index: int, consumers: Sequence[Emit], leaves: bool) -> Emit:
        traffic = self._traffic[index]

        def fan_out(batch: Batch) -> None:
            traffic.records_out += len(batch)
            for consume in consumers:
                consume(batch)

        def fan_out_and_leave(batch: Batch) -> None:
            traffic.records_sent += len(batch)
            fan_out(batch)

        return fan_out_and_leave if leaves else fan_out

    def _conforming(self, index: int, declared: TypeInformation, emit: Emit) -> Emit:
        operator = self.vertex.operators[index]

        def conform(batch: Batch) -> None:
            if batch.__class__ is ColumnBatch and batch.record_type == declared:
                emit(batch)
                return
            rows = batch.to_rows()
            try:
                checked = declared.conform(rows.values)
            except TypeMismatchError as error:
                culprit = rows.values[error.index] if error.index is not None else None
                raise RecordFailure(
                    operator, "checking a result against its declared type", record=culprit, has_record=True
                ) from error
            emit(RowBatch(checked, rows.timestamps, rows.kinds))

        return conform

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def restore(self, plan: EpochPlan, attempt_id: str) -> None:
        """Be at the version the plan names, in the plan's scope; open the functions that are not."""
        scope = self.scope
        scope.epoch, scope.attempt, scope.attempt_id = plan.epoch, plan.attempt, attempt_id
        scope.now_ms, scope.seed, scope.origin = plan.now_ms, plan.seed, None
        for index, operator in enumerate(self.vertex.operators):
            self._traffic[index].begin()
            restored = plan.states.get(operator.id)
            start = restored[self.index] if restored is not None else SubtaskState()
            self._restore_operator(index, start)
        for instance in self.operators:
            if instance not in self._opened:
                self._opened.append(instance)  # first: one that fails to open is closed too, as in Flink
                instance.open()

    def _restore_operator(self, index: int, start: SubtaskState) -> None:
        if self._operator_states[index].bring_to(start.operator_state, self.image.storage):
            self._renew(index)
        instance, state = self.operators[index], self._states[index]
        instance.watermark = start.watermark
        if isinstance(instance, TimestampsOperator):
            instance.progress = start.progress
        if state is None:
            return
        state.bring_to(start.sequence, self.image.storage)
        self._sequences[index] = start.sequence

    def _renew(self, index: int) -> None:
        """The operator state was read anew, because an epoch ran elsewhere: a function that keeps it in fields of its
        own is out of date, and nobody knows which fields. A fresh copy of the function takes its place."""
        former = self.operators[index]
        if former in self._opened and isinstance(former, FunctionOperator) and former.keeps_state_in_fields:
            vertex, _, _ = self.image.load_vertex(self.vertex.id)
            fresh = self._build(index, vertex.operators[index])
            fresh.emit, fresh.side_emits = former.emit, former.side_emits
            self.operators[index] = fresh
            self._opened.remove(former)
            former.close()

    def begin(self) -> None:
        """Start the epoch, last operator first: whatever fires at once finds everything after it ready."""
        for partition in self.partitions.values():
            partition.begin()
        for index in reversed(range(len(self.operators))):
            self.operators[index].ledger.begin()
            self._metrics_before[index] = self._metrics(index)
            self.operators[index].begin()

    def advance(self, time: EventTime) -> list[EventTime]:
        """Advance event time through the chain; returns each operator's, to tell those that follow."""
        times: list[EventTime] = []
        self._times = []
        for index, operator in enumerate(self.operators):
            fed_by = self.vertex.operators[index].fed_by
            reached = time if fed_by is None else times[fed_by]
            if self.image.batch and reached.ended:
                self.end_keys(index)
            times.append(operator.advance(reached))
            self._times.append((reached, times[-1]))
            if times[-1].ended:
                operator.finish()
            if index == 0:
                for coalescer in self._coalescers:
                    coalescer.flush()
        for partition in self.partitions.values():
            partition.flush()
        return times

    def group(self, input_index: int, payload: bytes, grouping: KeyGrouping) -> None:
        """Take a buffer of keyed input in, to be given out key by key."""
        received, self.scope.origin = decode_batch(payload)
        head = self.operators[0]
        batch = received.to_rows()
        if batch.kinds is not None:  # as in Flink, a batch job has final results only, no changelogs
            raise ProgramError(f"Operator {head.context.operator.label} of a batch job was given row kinds.")
        keyed = KeyedInput.of(head.context, input_index)
        assert keyed is not None
        cursor = iter(batch.values)
        try:
            grouping.add(input_index, cursor, batch.timestamps, keyed.select)
        except Exception as error:
            raise head.record_failure(batch, cursor, input_index) from error
        self.scope.origin = None
        grouping.settle(len(batch), len(payload))

    def end_keys(self, index: int = 0) -> None:
        """Nothing more comes for the keys an operator holds, in a batch job: fire what waits, then forget them."""
        operator, state = self.operators[index], self._states[index]
        if state is not None:
            operator.ending = True
            operator.end_keys()
            operator.ending = False
            operator.watermark = MIN_WATERMARK
            try:
                state.forget()
            except Exception as error:
                raise RecordFailure(self.vertex.operators[index], "ending its keys") from error

    def save(self, attempt_id: str) -> dict[Any, OperatorReport]:
        """Make the epoch's changes durable and report every operator."""
        return {op.id: self._save_operator(index, op, attempt_id) for index, op in enumerate(self.vertex.operators)}

    def _save_operator(self, index: int, operator: ChainedOperator, attempt_id: str) -> OperatorReport:
        instance, state = self.operators[index], self._states[index]
        instance.records_in = self._traffic[index].records_in
        instance.snapshot()
        next_event_time_ms = instance.next_event_time_ms()
        committables, results = instance.prepare_commit() if isinstance(instance, SinkOperator) else ([], None)
        with _blaming(operator, "sending results to the driver"):
            encoded = encode_batch(RowBatch(results)) if results else None
        told, tells = self._times[index]
        sequence = self._save_state(index, operator, state, attempt_id) if state is not None else None
        operator_state = self._save_operator_state(index, operator, attempt_id)
        sizes = {file.name: file.size for file in sequence or ()}
        if operator_state is not None:
            sizes[operator_state.name] = operator_state.size
        own = self._file_name(operator, attempt_id)
        return OperatorReport(
            watermark=instance.watermark,
            watermark_in=told.watermark,
            watermark_out=tells.watermark,
            sequence=sequence,
            operator_state=operator_state,
            written_bytes=sum(size for name, size in sizes.items() if name.startswith(own)),
            state_entries=(state.entry_count() if state else 0) + self._operator_states[index].size(),
            progress=instance.progress if isinstance(instance, TimestampsOperator) else None,
            splits=instance.reports if isinstance(instance, SourceOperator) else {},
            committables=committables,
            results=encoded,
            records_in=self._traffic[index].records_in,
            records_out=self._traffic[index].records_out,
            next_event_time_ms=next_event_time_ms,
            late=instance.ledger.read(),
            metrics=self._metric_changes(index),
            accumulators=self._accumulators(index, operator),
        )

    def _save_operator_state(
        self, index: int, operator: ChainedOperator, attempt_id: str
    ) -> OperatorStateFile | None:
        name = f"{self._file_name(operator, attempt_id)}-operator"
        with _blaming(operator, "saving its operator state"):
            return self._operator_states[index].save(self.image.storage, name)

    def _file_name(self, operator: ChainedOperator, attempt_id: str) -> str:
        return f"state/{operator.id[:16]}-{self.index}-{self.scope.epoch}-{attempt_id}"

    def _save_state(self, index: int, operator: ChainedOperator, state: KeyedState, attempt_id: str) -> FileSequence:
        name = self._file_name(operator, attempt_id)
        with _blaming(operator, "saving its keyed state"):
            return state.save(self._sequences[index], self.image.storage, name)

    @property
    def records_sent(self) -> int:
        """How many records left the vertex in this epoch."""
        return sum(traffic.records_sent for traffic in self._traffic)

    @property
    def bytes_sent(self) -> int:
        """The size of the buffers that other tasks were sent in this epoch."""
        return sum(partition.bytes_sent for partition in self.partitions.values())

    def next_wakeup_ms(self) -> int | None:
        """When any operator wants an epoch."""
        return min((at for op in self.operators if (at := op.next_wakeup_ms()) is not None), default=None)

    def interrupt(self) -> None:
        """No operator waits for anything any more. From any thread."""
        for operator in self.operators:
            operator.interrupt()

    def close(self) -> None:
        """Close every operator, also if one of them fails to."""
        failure: Exception | None = None
        for operator in self._opened:
            try:
                operator.close()
            except Exception as error:
                failure = failure or error
        self._opened = []
        for state in self._states:
            if state is not None:
                state.close()
        if failure is not None:
            raise failure

    # --- metrics -----------------------------------------------------------------------------------------------------

    def _metrics(self, index: int) -> dict[str, tuple[str, int | float]]:
        operator = self.operators[index]
        return operator.metrics.readings() if isinstance(operator, FunctionOperator) else {}

    def _accumulators(self, index: int, operator: ChainedOperator) -> bytes | None:
        instance = self.operators[index]
        if not isinstance(instance, FunctionOperator) or not instance.runtime_context.accumulators:
            return None
        with _blaming(operator, "sending its accumulators to the driver"):
            return encode_accumulators(instance.runtime_context.accumulators)

    def _metric_changes(self, index: int) -> dict[str, tuple[str, int | float]]:
        """What the epoch added to each metric: workers come and go, so only changes can be added up."""
        before = self._metrics_before[index]
        return {
            name: (mode, number - before[name][1] if mode == "sum" and name in before else number)
            for name, (mode, number) in self._metrics(index).items()
        }
