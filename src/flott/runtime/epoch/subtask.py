"""A vertex subtask: its operators, connected to each other, with their state. Task side.

Operators are connected once per worker process and subtask, not per record or epoch: the ``emit`` of every operator is
bound to what follows it. The subtask then stays in the worker's cache. In each epoch it is restored to the right
version of its state, takes batches, and advances event time. ``state_saving`` saves what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from flott.common._ids import SubtaskIndex
from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import ProgramError, TypeMismatchError
from flott.graph.job_graph import ChainedOperator, JobEdge, JobVertex
from flott.runtime.epoch.exchange import ResultPartition, to_no_target
from flott.runtime.epoch.grouping import KeyGrouping
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan, SubtaskState
from flott.runtime.epoch.wire import Origin, Row, decode_batch
from flott.runtime.logs.output_buffer import OutputOrigin
from flott.runtime.managed_state.backends.backend import BackendSettings, StateOwner, make_keyed_state
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.managed_state.operator.operator_state import OperatorState
from flott.runtime.operators.batch import Batch, Coalescer, ColumnBatch, Emit, Form, RowBatch
from flott.runtime.operators.build import build_operator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import EpochScope, EventTime, Operator, OperatorContext, RecordFailure


class RecordCounts:
    """Counts the records of one operator in an epoch."""

    __slots__ = ("records_in", "records_out", "records_sent")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start again from zero."""
        self.records_in = 0
        self.records_out = 0
        self.records_sent = 0  #: the part of ``records_out`` that left the vertex


@dataclass(eq=False)
class OperatorSlot:
    """One operator of a subtask, and everything that belongs to it."""

    described: ChainedOperator
    operator: Operator  #: may be replaced: see ``Subtask._replace_function``
    keyed_state: KeyedState | None
    operator_state: OperatorState
    files: FileSequence = ()  #: the sequence of files that the keyed state was restored from
    counts: RecordCounts = field(default_factory=RecordCounts)
    time_in: EventTime = field(default_factory=EventTime)  #: the event time that reached it, and that it passed on
    time_out: EventTime = field(default_factory=EventTime)


class Subtask:
    """One parallel instance of a vertex, opened and kept by a worker."""

    def __init__(
        self,
        image: JobImage,
        vertex: JobVertex,
        outgoing: tuple[JobEdge, ...],
        index: int,
        scope: EpochScope,
        by_key: bool = False,
    ):
        self.vertex = vertex
        self.index = SubtaskIndex(index)
        self.speaker = OutputOrigin(
            vertex.name, index, vertex.parallelism, vertex.head.node.name if len(vertex.operators) == 1 else None
        )
        self.scope = scope  #: shared with the other subtasks of the task, which push records into each other
        self.image = image
        self.by_key = by_key  #: keyed input comes one key after the other, in a batch job
        self.edge_records: dict[int, int] = {}  #: how many came in on each edge in this epoch
        self._outgoing = outgoing
        self.slots = [self._make_slot(operator) for operator in vertex.operators]
        self.partitions: dict[int, ResultPartition] = {}
        self._opened: list[Operator] = []
        self._coalescers: list[Coalescer] = []  #: collect what the head emits key by key

    @property
    def operators(self) -> list[Operator]:
        """Return the operators, in the order in which records flow."""
        return [slot.operator for slot in self.slots]

    def _make_slot(self, operator: ChainedOperator) -> OperatorSlot:
        keyed_state, operator_state = self._make_keyed_state(operator), OperatorState(operator.label)
        return OperatorSlot(
            operator, self._build(operator, keyed_state, operator_state), keyed_state, operator_state
        )

    def _make_keyed_state(self, operator: ChainedOperator) -> KeyedState | None:
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
        # A batch job keeps the state of one key at a time, which always fits into memory.
        settings = BackendSettings() if self.image.batch else self.image.settings.backend
        return make_keyed_state(settings, owner, self.image.job_id, operator.id, self._sharing)

    def _sharing(self) -> int:
        return self.image.keyed_operators_of(self.image.topology.stage_of[self.vertex.id])

    def _build(
        self, operator: ChainedOperator, keyed_state: KeyedState | None, operator_state: OperatorState
    ) -> Operator:
        return build_operator(
            OperatorContext(
                job_id=self.image.job_id,
                job_name=self.image.job_name,
                task_name=self.vertex.name,
                operator=operator,
                subtask=self.index,
                scope=self.scope,
                keyed_state=keyed_state,
                operator_state=operator_state,
                job_parameters=self.image.settings.job_parameters,
                batch=self.image.batch,
            )
        )

    # --- connecting operators ----------------------------------------------------------------------------------------

    def compose(
        self,
        send: Callable[[Row], None],
        neighbours: dict[int, Emit],
        hands_over: Callable[[int], bool] = to_no_target,
    ) -> None:
        """Bind every output. ``neighbours`` are the inputs of edges that stay in this task, by edge.

        ``hands_over`` tells to which subtasks of other vertices records may go without being encoded.
        """
        for edge in self._outgoing:
            if edge.index not in neighbours:
                self.partitions[edge.index] = self._partition(edge, send, hands_over)
        for index, slot in enumerate(self.slots):
            node = slot.described.node
            slot.operator.emit = self._output(index, None, neighbours, node.output_type)
            tags = {op.side_tag for op in self.vertex.operators if op.fed_by == index and op.side_tag}
            tags |= {edge.side_tag for edge in self._outgoing if edge.source_operator == index and edge.side_tag}
            types = dict(node.side_types)
            slot.operator.side_emits = {
                tag: self._output(index, tag, neighbours, types.get(tag)) for tag in sorted(tags)
            }
        if self.by_key:
            head = self.slots[0].operator
            head.emit = self._coalesced(head.emit)
            head.side_emits = {tag: self._coalesced(emit) for tag, emit in head.side_emits.items()}

    def input(self, index: int, edge: int | None = None) -> Emit:
        """Return where batches of the head's input with this index go, which come on an edge."""
        take = self._counting_in(self.slots[0], index)
        if edge is None:
            return take
        received = self.edge_records
        received.setdefault(edge, 0)

        def taken(batch: Batch) -> None:
            received[edge] += len(batch)
            take(batch)

        return taken

    def _partition(
        self, edge: JobEdge, send: Callable[[Row], None], hands_over: Callable[[int], bool]
    ) -> ResultPartition:
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
            hands_over=hands_over,
            object_reuse=self.image.settings.object_reuse,
        )

    def _output(
        self, index: int, tag: str | None, neighbours: dict[int, Emit], declared: TypeInformation | None
    ) -> Emit:
        consumers: list[Emit] = [
            self._counting_in(slot)
            for slot in self.slots
            if slot.described.fed_by == index and slot.described.side_tag == tag
        ]
        leaving = [edge for edge in self._outgoing if edge.source_operator == index and edge.side_tag == tag]
        for edge in leaving:
            consumers.append(neighbours.get(edge.index) or self.partitions[edge.index].emit)
        slot = self.slots[index]
        emit = _counting_out(slot, consumers, leaves=bool(leaving))
        return emit if declared is None else _conforming(slot.described, declared, emit)

    def _coalesced(self, emit: Emit) -> Emit:
        self._coalescers.append(Coalescer(emit))
        return self._coalescers[-1].emit

    def _counting_in(self, slot: OperatorSlot, input_index: int = 0) -> Emit:
        counts, fit = slot.counts, slot.operator.fitting(input_index)

        def counted(batch: Batch) -> None:
            counts.records_in += len(batch)
            slot.operator.process(fit(batch))  # looked up each time, because the operator may be replaced

        def counted_second(batch: Batch) -> None:
            counts.records_in += len(batch)
            slot.operator.process_second(fit(batch))

        take = counted if input_index == 0 else counted_second
        state = slot.keyed_state
        return take if state is None or not state.pages else self._paging(slot, input_index, state, take)

    def _paging(self, slot: OperatorSlot, input_index: int, state: KeyedState, take: Emit) -> Emit:
        """Tell state on disk about the keys of a batch before the batch comes, and when it is done."""
        by_selector = slot is not self.slots[0] and slot.operator.accepts is Form.ROWS
        keyed = KeyedInput.of(slot.operator.context, input_index) if by_selector else None

        def paged(batch: Batch) -> None:
            if keyed is not None:
                with suppress(Exception):  # a selector that fails here fails again where it is reported
                    values = batch.to_rows().values
                    state.prefetch(map(keyed.select_in(values), values))
            take(batch)
            state.make_room()

        return paged

    # --- input -------------------------------------------------------------------------------------------------------

    def announced(
        self, input_index: int, batches: Iterator[tuple[Batch, Origin]]
    ) -> Iterator[tuple[Batch, Origin]]:
        """Yield batches for the head unchanged, but tell state on disk about the keys of several batches ahead.

        The more keys are fetched together, the less each of them costs.
        """
        head = self.slots[0]
        state, keyed = head.keyed_state, KeyedInput.of(head.operator.context, input_index)
        if state is None or not state.pages or keyed is None or head.operator.accepts is not Form.ROWS:
            yield from batches
            return
        while ahead := list(islice(batches, max(1, state.foresight // self.image.settings.buffer_records))):
            with suppress(Exception):
                values = [value for batch, _ in ahead for value in batch.to_rows().values]
                state.prefetch(map(keyed.select_in(values), values))
            yield from ahead

    def group(self, input_index: int, edge: int, payload: bytes, grouping: KeyGrouping) -> None:
        """Add a buffer of keyed input to a grouping, which returns the records key by key."""
        received, self.scope.origin = decode_batch(payload)
        head = self.slots[0].operator
        batch = received.to_rows()
        if batch.kinds is not None:  # as in Flink, a batch job has final results only, no changelogs
            raise ProgramError(f"Operator {head.context.operator.label} of a batch job was given row kinds.")
        keyed = KeyedInput.of(head.context, input_index)
        assert keyed is not None
        cursor = iter(batch.values)
        try:
            grouping.add(input_index, cursor, batch.timestamps, keyed.select_in(batch.values))
        except Exception as error:
            raise head.record_failure(batch, cursor, input_index) from error
        self.scope.origin = None
        self.edge_records[edge] = self.edge_records.get(edge, 0) + len(batch)
        grouping.settle(len(batch), len(payload))

    def end_keys(self, index: int = 0) -> None:
        """End the keys that an operator holds, in a batch job: fire their timers, then forget them."""
        slot = self.slots[index]
        operator, state = slot.operator, slot.keyed_state
        if state is not None:
            operator.ending = True
            operator.end_keys()
            operator.ending = False
            operator.watermark = MIN_WATERMARK
            try:
                state.forget()
            except Exception as error:
                raise RecordFailure(slot.described, "ending its keys") from error

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def restore(self, plan: EpochPlan, attempt_id: str) -> None:
        """Bring all operators to the state that a plan names, and open those that are not open yet."""
        scope = self.scope
        scope.epoch, scope.attempt, scope.attempt_id = plan.epoch, plan.attempt, attempt_id
        scope.now_ms, scope.seed, scope.origin = plan.now_ms, plan.seed, None
        for index, slot in enumerate(self.slots):
            starts = plan.states.get(slot.described.id)
            self._restore_operator(index, starts[self.index] if starts is not None else SubtaskState())
        for operator in self.operators:
            if operator not in self._opened:
                self._opened.append(operator)  # first: an operator that fails to open is closed too, as in Flink
                operator.open()

    def _restore_operator(self, index: int, start: SubtaskState) -> None:
        slot = self.slots[index]
        if slot.operator_state.bring_to(start.operator_state, self.image.storage):
            self._replace_function(index)
        slot.operator.restore(start.watermark, start.progress)
        if slot.keyed_state is not None:
            slot.keyed_state.bring_to(start.sequence, self.image.storage)
            slot.files = start.sequence

    def _replace_function(self, index: int) -> None:
        """Replace a function that keeps operator state in its fields by a new copy.

        The operator state was read again because an epoch ran in another process, so the fields are out of date.
        """
        slot = self.slots[index]
        former = slot.operator
        if former in self._opened and former.keeps_state_in_fields:
            vertex, _, _ = self.image.load_vertex(self.vertex.id)
            slot.operator = self._build(vertex.operators[index], slot.keyed_state, slot.operator_state)
            slot.operator.emit, slot.operator.side_emits = former.emit, former.side_emits
            self._opened.remove(former)
            former.close()

    def begin(self) -> None:
        """Start processing after ``restore``, or after state was saved: what is counted starts from zero.

        The last operator is first: what fires at once finds everything after it ready.
        """
        for edge in self.edge_records:
            self.edge_records[edge] = 0
        for partition in self.partitions.values():
            partition.begin()
        for slot in reversed(self.slots):
            slot.counts.begin()
            slot.operator.ledger.begin()
            slot.operator.measures = {}
            slot.operator.begin()

    def advance(self, time: EventTime) -> list[EventTime]:
        """Advance event time through all operators, and return the time that each of them passes on."""
        for index, slot in enumerate(self.slots):
            fed_by = slot.described.fed_by
            slot.time_in = time if fed_by is None else self.slots[fed_by].time_out
            if self.image.batch and slot.time_in.ended:
                self.end_keys(index)
            slot.time_out = slot.operator.advance(slot.time_in)
            if slot.time_out.ended:
                slot.operator.finish()
            if index == 0:
                for coalescer in self._coalescers:
                    coalescer.flush()
        for partition in self.partitions.values():
            partition.flush()
        return [slot.time_out for slot in self.slots]

    def advance_behind(self, operator: Operator) -> None:
        """Advance event time in what follows an operator that has advanced its own between two records."""
        first = self.operators.index(operator)
        self.slots[first].time_out = EventTime(operator.watermark)
        moved = {first}
        for index, slot in enumerate(self.slots):
            fed_by = slot.described.fed_by
            if fed_by in moved:
                slot.time_in = self.slots[fed_by].time_out
                slot.time_out = slot.operator.advance(slot.time_in)
                moved.add(index)
        for partition in self.partitions.values():
            partition.flush()

    @property
    def records_sent(self) -> int:
        """Return how many records left the vertex in this epoch."""
        return sum(slot.counts.records_sent for slot in self.slots)

    @property
    def bytes_sent(self) -> int:
        """Return the size of the buffers that were sent to other tasks in this epoch."""
        return sum(partition.bytes_sent for partition in self.partitions.values())

    def next_wakeup_ms(self) -> int | None:
        """Return the earliest time at which an operator needs an epoch, with input or without."""
        return min((at for op in self.operators if (at := op.next_wakeup_ms()) is not None), default=None)

    def interrupt(self) -> None:
        """Make every operator that waits for something fail. May be called from any thread."""
        for operator in self.operators:
            operator.interrupt()

    def close(self) -> None:
        """Close every operator, even if one of them fails to close, and raise the first failure."""
        failure: Exception | None = None
        for operator in self._opened:
            try:
                operator.close()
            except Exception as error:
                failure = failure or error
        self._opened = []
        for slot in self.slots:
            if slot.keyed_state is not None:
                slot.keyed_state.close()
        if failure is not None:
            raise failure


def _common_type(types: Sequence[TypeInformation | None]) -> TypeInformation | None:
    """Return the type of the keys of all inputs, if they declare the same one."""
    return types[0] if types and all(declared == types[0] for declared in types) else None


def _counting_out(slot: OperatorSlot, consumers: Sequence[Emit], leaves: bool) -> Emit:
    counts = slot.counts

    def fan_out(batch: Batch) -> None:
        counts.records_out += len(batch)
        for consume in consumers:
            consume(batch)

    def fan_out_and_leave(batch: Batch) -> None:
        counts.records_sent += len(batch)
        fan_out(batch)

    return fan_out_and_leave if leaves else fan_out


def _conforming(operator: ChainedOperator, declared: TypeInformation, emit: Emit) -> Emit:
    """Check results against the type that is declared for them."""
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
