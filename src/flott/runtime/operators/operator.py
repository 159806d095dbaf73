"""The operator: a step of a chain that takes batches of records and pushes batches on. Task side.

Operators work on whole batches, so a chain costs one call per operator and *batch*, and each operator is one tight
loop.

    [ restore -> (open) -> begin -> process* -> advance -> (finish) -> snapshot -> outcome ]* -> close

The bracket is one epoch; ``open`` is called in the first one only.

An operator outlives an epoch: its worker keeps it, opened, for the next one. What belongs to the current epoch is in
the :class:`EpochScope` that all operators of a task share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flott.common._ids import EpochId, JobId, SubtaskIndex
from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.datastream.functions._callables import as_key_selector
from flott.errors import ProgramError, TypeMismatchError
from flott.graph.job_graph import ChainedOperator
from flott.metrics._engine_metrics import EngineMetric
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.operator.operator_state import OperatorState
from flott.runtime.operators.batch import Batch, ColumnBatch, Emit, Form, RowBatch
from flott.runtime.operators.lateness import LateLedger
from flott.runtime.operators.outcome import OperatorOutcome

if TYPE_CHECKING:
    from flott.runtime.operators.watermarks import TimeProgress


@dataclass(frozen=True)
class EventTime:
    """How far event time has come on a channel, an input or an operator."""

    watermark: int = MIN_WATERMARK
    idle: bool = False  #: nothing comes from here for now: do not wait for it
    ended: bool = False  #: nothing will come from here ever again


NO_EPOCH = EpochId(0)


@dataclass
class EpochScope:
    """What every operator of a task may know about the epoch it runs in. Set again at the start of each epoch."""

    epoch: EpochId = NO_EPOCH
    now_ms: int = 0  #: processing time, frozen for the epoch so that it can be repeated
    attempt: int = 0  #: how often this epoch was tried before
    attempt_id: str = ""  #: different for every attempt of every task, to make file names of
    seed: int = 0
    #: Where the records at hand come from, in words: the first and last position they may stem from.
    origin: tuple[str, str] | None = None
    #: Called by an operator that has advanced its watermark between two records, so that everything behind it follows.
    #: None: event time advances at the end of the epoch only.
    pass_time: Callable[[Operator], None] | None = None
    #: How often generators emit watermarks periodically while a task reads on; 0: not before it pauses.
    watermark_interval_ms: int = 0


@dataclass(frozen=True)
class OperatorContext:
    """Where an operator runs: constant for as long as it is open."""

    job_id: JobId
    job_name: str
    task_name: str
    operator: ChainedOperator
    subtask: SubtaskIndex
    scope: EpochScope
    keyed_state: KeyedState | None = None
    operator_state: OperatorState = field(default_factory=lambda: OperatorState("?"))
    job_parameters: dict[str, str] = field(default_factory=dict)
    batch: bool = False  #: only final results are wanted

    @property
    def parallelism(self) -> int:
        """Return the number of subtasks of the operator."""
        return self.operator.node.parallelism

    @property
    def max_parallelism(self) -> int:
        """Return the number of key groups of the operator."""
        return self.operator.node.max_parallelism


class RecordFailure(Exception):
    """User code raised. Carries what the failure card shows; the user's exception is the cause."""

    def __init__(
        self,
        operator: ChainedOperator,
        activity: str,
        *,
        record: Any = None,
        has_record: bool = False,
        key: Any = None,
        has_key: bool = False,
        timestamp: int | None = None,
        index: int | None = None,
        origin: tuple[str, str] | None = None,
    ):
        super().__init__(activity)
        self.operator = operator
        self.activity = activity  #: what it was doing: "processing a record", "open()", ...
        self.record, self.has_record = record, has_record
        self.key, self.has_key = key, has_key
        self.timestamp = timestamp
        self.index = index  #: position of the record in the batch the operator was given
        self.origin = origin  #: where the record comes from, if it is not one of the records at hand


def position_of(cursor: Iterator[Any], length: int) -> int:
    """Return the position of what an iterator over a list of this length has just given out."""
    return length - cursor.__length_hint__() - 1  # type: ignore[attr-defined,no-any-return]


def _nowhere(batch: Batch) -> None:
    """Drop output that has no consumer."""


class Operator:
    """The root of all operators. Subclasses override what they need; ``emit`` is set when the chain is composed."""

    #: The form of the batches that ``process`` and ``process_second`` take. Batches of the other form are converted
    #: where they enter the operator.
    accepts: Form = Form.ROWS
    #: Whether it takes batches with row kinds. The input of all others consists of inserts.
    takes_kinds = False
    #: The input whose records of an epoch are all processed before any of the other; None: in the order of the inputs.
    leading_input: int | None = None

    def __init__(self, context: OperatorContext):
        self.context = context
        self.emit: Emit = _nowhere
        self.side_emits: dict[str, Emit] = {}
        self.watermark = MIN_WATERMARK  #: what closed the previous epoch; the new one while timers fire
        self.ledger = LateLedger()  #: of operators that may find a record too late
        self.measures: dict[str, int | float] = {}  #: values of the engine's metrics in this epoch
        self.records_in = 0  #: how many records the epoch had, once it ends
        #: The keys in state are ending, in a batch job. A timer that a program sets now is not set, as in Flink: one
        #: that sets itself again whenever it fires would never end.
        self.ending = False

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def keeps_state_in_fields(self) -> bool:
        """Return whether fields of the operator hold operator state, so that it stands for one version of it only."""
        return False

    def restore(self, watermark: int, progress: TimeProgress) -> None:
        """Continue with the event time of the last checkpoint. ``progress`` concerns watermark generators."""
        self.watermark = watermark

    def open(self) -> None:
        """Get ready; called once per worker process that takes the subtask over."""

    def begin(self) -> None:
        """Begin an epoch: state is at the last checkpoint's version, processing time has been set."""

    def process(self, batch: Any) -> None:
        """Take a batch of the first input, in the form that the operator accepts."""
        raise NotImplementedError

    def process_second(self, batch: Any) -> None:
        """Take a batch of the second input, for operators that have one."""
        raise NotImplementedError

    def advance(self, time: EventTime) -> EventTime:
        """Move event time forward and fire timers, after all records of the epoch; return what downstream is told."""
        self.watermark = max(self.watermark, time.watermark)
        return EventTime(self.watermark, time.idle, time.ended)

    def end_keys(self) -> None:
        """End the keys in state, in a batch job: no more records come for them, so event time ends and all timers fire.

        Called behind the records of every key; once for all of them at the end if they did not come key by key. The
        state is emptied afterwards, and event time starts again for the next key.
        """
        self.advance(EventTime(MAX_WATERMARK, ended=True))

    def finish(self) -> None:
        """Finish: the input has ended for good, and its last timers have fired."""

    def snapshot(self) -> None:
        """Write what is not in state yet: the epoch ends and state is about to be saved."""

    def outcome(self) -> OperatorOutcome:
        """Return what the operator reports at the end of an epoch. Called once, after ``snapshot``."""
        return OperatorOutcome(late=self.ledger.read(), next_event_time_ms=self.next_event_time_ms())

    def measure(self, metric: EngineMetric, value: int | float) -> None:
        """Report a value of one of the engine's metrics in this epoch. Its row says how several values are combined."""
        before = self.measures.get(metric.name)
        self.measures[metric.name] = value if before is None else metric.epochs.of((before, value))

    def next_wakeup_ms(self) -> int | None:
        """Return when the operator wants an epoch even if there is no input."""
        return None

    def next_event_time_ms(self) -> int | None:
        """Return the next event time at which it has something to do; a wake-up, where event time follows the clock."""
        return None

    @property
    def follows_clock(self) -> bool:
        """Return whether event time advances here as the clock does, without input."""
        return False

    def interrupt(self) -> None:
        """Stop waiting for anything: the epoch was cancelled. Called from another thread, at any time."""

    def close(self) -> None:
        """Release what ``open`` took."""

    def refuse_late(self, values: list[Any], timestamps: list[int], tag_id: str | None) -> None:
        """Send records that came too late to a side output, or drop them; either way they are counted."""
        self.ledger.enter(values, timestamps, self.watermark, kept=tag_id is not None)
        if tag_id is not None and (emit := self.side_emits.get(tag_id)):
            emit(RowBatch(values, timestamps))

    # --- the forms of batches ----------------------------------------------------------------------------------------

    def column_type(self, input_index: int) -> TypeInformation:
        """Return the type that rows of an input are put into columns by, for operators that accept columns."""
        raise NotImplementedError

    def fitting(self, input_index: int) -> Callable[[Batch], Batch]:
        """Return a function that brings a batch to the form that the operator accepts. Called once, for a chain."""
        accepts, takes_kinds = self.accepts, self.takes_kinds
        record_type = self.column_type(input_index) if accepts is Form.COLUMNS else None

        def fit(batch: Batch) -> Batch:
            if accepts is Form.ROWS:
                if batch.__class__ is not RowBatch:
                    batch = batch.to_rows()
            elif record_type is not None and batch.__class__ is not ColumnBatch:
                batch = self._to_columns(batch, record_type)
            if batch.kinds is not None and not takes_kinds:
                raise self._unexpected_kinds()
            return batch

        return fit

    def _to_columns(self, batch: Batch, record_type: TypeInformation) -> ColumnBatch:
        try:
            return batch.to_columns(record_type)
        except TypeMismatchError as error:
            raise self.failure("putting its input into columns") from error

    def _unexpected_kinds(self) -> RecordFailure:
        failure = self.failure("taking a batch")
        failure.__cause__ = ProgramError(
            f"Operator {self.context.operator.label} was given a changelog, found row kinds in its input. It takes"
            " inserts only: turn the changelog into a stream of rows first."
        )
        return failure

    # --- failure -----------------------------------------------------------------------------------------------------

    def failure(self, activity: str, **details: Any) -> RecordFailure:
        """Return a failure of user code in this operator."""
        return RecordFailure(self.context.operator, activity, **details)

    def record_failure(self, batch: RowBatch, cursor: Iterator[Any], input_index: int = 0) -> RecordFailure:
        """Return a failure at the record that a cursor over a batch's values gave out last.

        So the loop need not count.
        """
        values, timestamps = batch.values, batch.timestamps
        index = position_of(cursor, len(values))
        key, has_key = self._key_of(values[index], input_index)
        return self.failure(
            "processing a record",
            record=values[index],
            has_record=True,
            key=key,
            has_key=has_key,
            timestamp=timestamps[index] if timestamps is not None else None,
            index=index,
        )

    def _key_of(self, record: Any, input_index: int) -> tuple[Any, bool]:
        """Return the key of a record that failed, and whether it has one."""
        keys = self.context.operator.node.keys
        spec = keys[input_index] if input_index < len(keys) else None
        if spec is None:
            return None, False
        try:
            return as_key_selector(spec.selector)(record), True
        except Exception:  # it may be the selector that failed
            return None, False
