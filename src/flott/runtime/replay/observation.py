"""What operators were given and what they made of it, seen from outside: their methods are wrapped, nothing changes.

Batches are kept as the bytes they are at that moment: a function may change an object afterwards, and two replays are
the same only if all these bytes are.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import cloudpickle

from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.operators.batch import Batch, Emit, RowBatch
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import Operator

#: No key is looked for.
ANY_KEY: Any = object()

#: Methods of an operator in which user code may run.
_CALLS = ("open", "begin", "advance", "end_keys", "finish", "snapshot", "prepare_commit", "read")


@dataclass(frozen=True)
class SeenRecord:
    """A record on its way."""

    value: Any
    timestamp: int | None
    subtask: int
    port: str  #: of what came in "0", or "1" for the second input; of what went out "" or the tag of a side output


@dataclass(frozen=True)
class Watch:
    """What is looked at: of some operators every record, or those of one key."""

    operators: frozenset[OperatorId] = frozenset()
    key: Any = ANY_KEY
    limit: int | None = None  #: so many records of each side of an operator are kept to be shown; None: all

    def wants_key(self, operator: Operator, index: int) -> KeyedInput | None:
        """Return how keys of an input are found, if one of them is looked for."""
        if self.key is ANY_KEY or operator.context.operator.id not in self.operators:
            return None
        return KeyedInput.of(operator.context, index)


@dataclass(frozen=True)
class SeenBatch:
    """Records that passed together, as bytes."""

    subtask: int
    port: str
    payload: bytes
    shown: bool  #: whether they are to be shown

    def records(self) -> Iterator[SeenRecord]:
        """Yield the records one by one."""
        values, timestamps = pickle.loads(self.payload)
        for index, value in enumerate(values):
            yield SeenRecord(value, None if timestamps is None else timestamps[index], self.subtask, self.port)


class Passage:
    """Everything that passed one side of one operator, all subtasks, in the order it was seen."""

    #: How many bytes that are not to be shown are kept, to find where two replays differ.
    SPARE_BYTES = 8 << 20

    def __init__(self, limit: int | None = None) -> None:
        self.count = 0
        self.is_whole = True  #: whether all batches are kept
        self._limit = limit
        self._shown = 0
        self._batches: list[SeenBatch] = []
        self._spare = 0
        self._hash = blake2b(digest_size=16)

    def note(self, subtask: int, port: str, batch: Batch, keep: bool) -> None:
        """Note a batch that passes."""
        rows = batch.to_rows()
        payload = stable_bytes(rows.values, rows.timestamps)
        self.count += len(batch)
        self._hash.update(f"{subtask}:{port}:{len(payload)}:".encode())
        self._hash.update(payload)
        keep = keep and (self._limit is None or self._shown < self._limit)
        if keep:
            self._shown += len(batch)
        else:
            self._spare += len(payload)
        if keep or self._spare <= self.SPARE_BYTES:
            self._batches.append(SeenBatch(subtask, port, payload, keep))
        else:
            self.is_whole = False

    @property
    def digest(self) -> str:
        """Return a digest of all bytes that passed."""
        return self._hash.hexdigest()

    def records(self, *, shown: bool = True) -> Iterator[SeenRecord]:
        """Return the records to be shown, or all that are kept."""
        for batch in self._batches:
            if batch.shown or not shown:
                yield from batch.records()


@dataclass
class SeenTraffic:
    """One operator, seen from outside."""

    received: Passage = field(default_factory=Passage)
    emitted: Passage = field(default_factory=Passage)
    #: Emitted while event time advanced or the operator began: by timers and windows, of whichever key.
    unattributed: int = 0


class Observer:
    """Looks at the operators of one replay."""

    def __init__(self, watch: Watch, approach: Callable[[Operator, Any, Callable[[], None]], None] | None = None):
        self.traffic: dict[OperatorId, SeenTraffic] = {}
        self.failure: BaseException | None = None  #: what an operator raised first
        self._watch = watch
        #: Told before an operator that is watched takes a record of the key that is looked for; makes the call itself.
        self._approach = approach or (lambda operator, key, call: call())

    def instrument(self, task: StageTask) -> None:
        """Look at a task that has just been built, before it is opened."""
        for subtask in task.subtasks:
            for operator in subtask.operators:
                self._wrap(operator)

    def _wrap(self, operator: Operator) -> None:
        ident, subtask = operator.context.operator.id, operator.context.subtask
        limit = self._watch.limit
        traffic = self.traffic.setdefault(ident, SeenTraffic(Passage(limit), Passage(limit)))
        kept = _Attribution(ident in self._watch.operators, self._watch.key is not ANY_KEY)
        operator.emit = _noting(traffic, subtask, "", kept, operator.emit)
        operator.side_emits = {
            tag: _noting(traffic, subtask, tag, kept, emit) for tag, emit in operator.side_emits.items()
        }
        instrumented: Any = operator  # mypy: methods are replaced on this one object
        instrumented.process = self._taking(operator, 0, traffic, kept, operator.process)
        instrumented.process_second = self._taking(operator, 1, traffic, kept, operator.process_second)
        for name in _CALLS:
            if (call := getattr(operator, name, None)) is not None:
                setattr(instrumented, name, self._calling(operator, name, call))

    def _taking(self, operator: Operator, index: int, traffic: SeenTraffic, kept: _Attribution, take: Emit) -> Emit:
        subtask, port = operator.context.subtask, str(index)
        watched = operator.context.operator.id in self._watch.operators

        def taken(batch: Batch) -> None:
            keyed = self._watch.wants_key(operator, index)
            if keyed is None:
                traffic.received.note(subtask, port, batch, watched and not kept.by_key)
                with_failure = self._guarded(lambda: take(batch))
                self._approach(operator, ANY_KEY, with_failure) if watched else with_failure()
                return
            rows = batch.to_rows()
            timestamps = rows.timestamps
            for at, value in enumerate(rows.values):  # one by one: what comes out is then known to be this record's
                single = RowBatch([value], None if timestamps is None else [timestamps[at]])
                key = keyed.select(value)
                kept.in_record, kept.at_key = True, bool(key == self._watch.key)
                traffic.received.note(subtask, port, single, kept.at_key)
                call = self._guarded(lambda single=single: take(single))  # type: ignore[misc]
                self._approach(operator, key, call) if kept.at_key else call()
                kept.in_record = kept.at_key = False

        return taken

    def _calling(self, operator: Operator, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        watched = operator.context.operator.id in self._watch.operators

        def called(*arguments: Any) -> Any:
            answer: list[Any] = []
            guarded = self._guarded(lambda: answer.append(call(*arguments)))
            if watched and name in ("begin", "advance", "end_keys"):
                self._approach(operator, None, guarded)
            else:
                guarded()
            return answer[0]

        return called

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        def guarded() -> None:
            try:
                call()
            except Exception as error:
                self.failure = self.failure or error
                raise

        return guarded


@dataclass
class _Attribution:
    """Whether what an operator emits now is to be kept."""

    watched: bool
    by_key: bool
    in_record: bool = False  #: it processes a single record
    at_key: bool = False  #: of the key that is looked for

    @property
    def keep(self) -> bool:
        return self.watched and (self.at_key or not self.by_key)


def _noting(traffic: SeenTraffic, subtask: int, port: str, kept: _Attribution, emit: Emit) -> Emit:
    def noted(batch: Batch) -> None:
        traffic.emitted.note(subtask, port, batch, kept.keep)
        if kept.watched and kept.by_key and not kept.in_record:
            traffic.unattributed += len(batch)
        emit(batch)

    return noted


class ObservedTasks(TaskCache):
    """Builds the tasks of a replay, and has them looked at."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def take(self, image: JobImage, stage: int, partition: int) -> StageTask:
        task = super().take(image, stage, partition)
        self._observer.instrument(task)
        return task


def stable_bytes(values: Sequence[Any], timestamps: list[int] | None) -> bytes:
    """Return a batch as bytes that are equal when the records are equal, whether or not two are one object."""
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.fast = True
    try:
        pickler.dump((values, timestamps))
        return target.getvalue()
    except Exception:  # an object that contains itself, or that is not picklable by name
        pass
    try:
        return bytes(cloudpickle.dumps((values, timestamps), protocol=5))
    except Exception:
        return pickle.dumps(([repr(value) for value in values], timestamps), protocol=5)
