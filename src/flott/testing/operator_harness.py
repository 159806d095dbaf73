"""Tests a piece of a program, record by record, without running a job. Everything happens in the calling thread.

>>> from flott.common import Types
>>> from flott.datastream import KeyedProcessFunction
>>> from flott.datastream.state import ValueStateDescriptor
>>> class Count(KeyedProcessFunction):
...     def open(self, runtime_context):
...         self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
...     def process_element(self, value, ctx):
...         self.count.update((self.count.value() or 0) + 1)
...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
...     def on_timer(self, timestamp, ctx):
...         yield ctx.get_current_key(), self.count.value()
>>> with OperatorHarness(lambda stream: stream.key_by(lambda word: word).process(Count())) as harness:
...     harness.process_elements(["a", "b", "a"], timestamps=[1, 2, 3])
...     harness.process_watermark(12)
...     harness.output_with_timestamps, harness.get_state("b", "count"), harness.num_event_time_timers
([(('a', 2), 11), (('b', 1), 12)], 1, 1)

The operators are the engine's own, with real keyed state, timers, key groups and checkpoints. **Time moves as in a job:
between epochs.** All records that come in before ``process_watermark`` or ``set_processing_time`` are processed at the
time that was reached before; the call ends their epoch, saves all state, and the next record begins the next one.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from flott.common.typeinfo import TypeInformation
from flott.datastream._data_stream import DataStream
from flott.datastream.output_tag import OutputTag
from flott.errors import CorruptStateError, ProgramError
from flott.metrics.metricbase import combine
from flott.runtime.checkpoint.manifest import decode_manifest, encode_manifest
from flott.runtime.epoch.accumulators import add_up, encode_accumulators, values_of
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.key_groups import key_group_of
from flott.runtime.managed_state.kinds.registry import kind_of
from flott.runtime.managed_state.ttl.time_to_live import state_name
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.lateness import LateCount
from flott.runtime.operators.operator import EventTime
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS
from flott.testing.piece import Piece, PieceSettings, PieceSnapshot

_METADATA = "_metadata"

# The state of a harness: open, or why it accepts no more input.
_OPEN = "open"
_ENDED = "end_input() was called"
_CLOSED = "it is closed"


@dataclass(frozen=True)
class HarnessSnapshot:
    """All state of a piece at the end of an epoch, as the bytes of a zip archive, which can be stored and compared.

    Inside are a checkpoint's metadata and its state files, in the formats that jobs write. Bytes that were saved by a
    test of an earlier version of your program show whether the present one still reads its state.
    """

    data: bytes

    def __bytes__(self) -> bytes:
        return self.data

    @staticmethod
    def _of(content: PieceSnapshot) -> HarnessSnapshot:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            files = {_METADATA: encode_manifest(content.manifest), **content.files}
            for name in sorted(files):
                archive.writestr(zipfile.ZipInfo(name), files[name])  # a ZipInfo of its own has a constant date
        return HarnessSnapshot(target.getvalue())

    def _content(self) -> PieceSnapshot:
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                files = {name: archive.read(name) for name in archive.namelist()}
                manifest = decode_manifest(files.pop(_METADATA), "the metadata of the snapshot")
        except (zipfile.BadZipFile, KeyError) as error:
            raise CorruptStateError(f"This is not a snapshot of a harness, or it is damaged: {error}.") from error
        return PieceSnapshot(manifest, files)


class _Harness:
    """The common part of harnesses with one and with two inputs."""

    def __init__(
        self,
        piece: Callable[..., DataStream[Any]],
        inputs: tuple[str, ...],
        settings: PieceSettings,
        processing_time: int | None,
        snapshot: HarnessSnapshot | None,
    ):
        self._piece = Piece(piece, inputs, settings, snapshot._content() if snapshot is not None else None)
        self._late = LateCount()
        self._state = _OPEN
        if processing_time is not None:
            self._refuse_past(processing_time)
            self._piece.now_ms = processing_time
        self._guarded(self._piece.begin)

    # --- input -------------------------------------------------------------------------------------------------------

    def process_watermark(self, timestamp: int) -> None:
        """End the epoch and advance event time to the timestamp on all inputs; event-time timers fire.

        The records before the call were processed at the watermark before; records after it are late if they are not
        younger than ``timestamp``. A watermark that goes back changes nothing, as everywhere.
        """
        self._advance(range(len(self._piece.times)), timestamp)

    def end_epoch(self) -> None:
        """End the epoch with a checkpoint, and begin the next one. Time does not advance."""
        self._require_open()
        self._guarded(self._end_epoch)
        self._guarded(self._piece.begin)

    def set_processing_time(self, timestamp: int) -> None:
        """End the epoch and begin the next at this processing time, in milliseconds; processing-time timers fire."""
        self._require_open()
        self._refuse_past(timestamp)
        self._guarded(self._end_epoch)
        self._piece.now_ms = timestamp
        self._guarded(self._piece.begin)

    def end_input(self) -> None:
        """End the input: event time advances to its end, all event-time timers and windows fire, operators finish."""
        self._require_open()
        self._piece.times = [replace(time, ended=True) for time in self._piece.times]
        self._guarded(self._end_epoch)
        self._state = _ENDED

    def _process(self, index: int, values: Iterable[Any], timestamps: Iterable[int] | None) -> None:
        self._require_open()
        batch = list(values)
        stamps = None if timestamps is None else list(timestamps)
        if stamps is not None and len(stamps) != len(batch):
            raise ProgramError(f"There are {len(batch)} elements and {len(stamps)} timestamps; give one for each.")
        if batch:
            self._guarded(lambda: self._piece.push(index, batch, stamps))

    def _advance(self, inputs: Iterable[int], timestamp: int) -> None:
        self._require_open()
        for index in inputs:
            self._piece.times[index] = EventTime(max(self._piece.times[index].watermark, timestamp))
        self.end_epoch()

    def _end_epoch(self) -> None:
        self._piece.finish_epoch()
        self._late = self.late_records
        for _, operator in self._piece.operators():
            operator.ledger.begin()
            if isinstance(operator, FunctionOperator):
                operator.runtime_context.begin()  # its accumulators have been counted

    # --- output ------------------------------------------------------------------------------------------------------

    @property
    def output(self) -> list[Any]:
        """Return the output so far."""
        return [value for value, _ in self._piece.captured.main]

    @property
    def output_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """Return the output so far, each record with its timestamp or None."""
        return list(self._piece.captured.main)

    def side_output(self, tag: OutputTag) -> list[Any]:
        """Return the records that operators sent to this side output so far."""
        return [value for value, _ in self._piece.captured.sides.get(tag.tag_id, [])]

    def side_output_with_timestamps(self, tag: OutputTag) -> list[tuple[Any, int | None]]:
        """Return the records of a side output, each with its timestamp or None."""
        return list(self._piece.captured.sides.get(tag.tag_id, []))

    def clear_output(self) -> None:
        """Clear the output so far, including side outputs."""
        self._piece.captured.main.clear()
        self._piece.captured.sides.clear()

    @property
    def late_records(self) -> LateCount:
        """Return the counts of late records: ``late`` (in a side output), ``dropped``, and a few ``samples``."""
        late = self._late
        for _, operator in self._piece.operators():
            late = late.plus(operator.ledger.read())
        return late

    @property
    def metrics(self) -> dict[str, int | float]:
        """Return the metrics that functions registered, over all subtasks: ``operator name.metric name``."""
        totals: dict[str, int | float] = {}
        for described, operator in self._piece.operators():
            if isinstance(operator, FunctionOperator):
                readings = operator.metrics.readings()
                combine(totals, {f"{described.node.name}.{name}": reading for name, reading in readings.items()})
        return totals

    @property
    def accumulators(self) -> dict[str, Any]:
        """Return the results of the accumulators that functions registered, over all subtasks and operators."""
        added = [
            encode_accumulators(operator.runtime_context.accumulators)
            for _, operator in self._piece.operators()
            if isinstance(operator, FunctionOperator)
        ]
        return values_of(add_up(self._piece.accumulators, added))

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def current_watermark(self) -> int:
        """Return the event time: the minimum of the operators' watermarks."""
        return min(operator.watermark for _, operator in self._piece.operators())

    @property
    def num_keyed_state_entries(self) -> int:
        """Return the number of entries of keyed state: one for each state and key (and window) that is not empty."""
        timers = (EVENT_TIMERS, PROCESSING_TIMERS)
        return sum(size for name, size in self._sizes() if name not in timers)

    @property
    def num_event_time_timers(self) -> int:
        """Return the number of registered event-time timers."""
        return sum(size for name, size in self._sizes() if name == EVENT_TIMERS)

    @property
    def num_processing_time_timers(self) -> int:
        """Return the number of registered processing-time timers."""
        return sum(size for name, size in self._sizes() if name == PROCESSING_TIMERS)

    def get_state(self, key: Any, name: str, operator: str | None = None) -> Any:
        """Return the contents of a state for a key: a value (an accumulator, for aggregating state), a list or a dict.

        None, an empty list or an empty dict if it holds nothing. ``operator`` is the name or uid of the operator, where
        several of the piece have a state of this name.
        """
        found = {
            described.id: (described, instance.context.keyed_state)
            for described, instance in self._piece.operators()
            if instance.context.keyed_state is not None
            and instance.context.keyed_state.find(instance.context.keyed_state.lifetimes.table_of(name)) is not None
            and operator in (None, described.node.name, described.node.uid)
            and key_group_of(key, described.node.max_parallelism) in instance.context.keyed_state.groups
        }
        if len(found) != 1:
            known = sorted({state_name(name) for name, _ in self._sizes() if not name.startswith("_")})
            owners = " and ".join(described.label for described, _ in found.values()) or "no operator"
            raise ProgramError(
                f"A state {name!r} is held by {owners}; states of this piece: {', '.join(known) or 'none'}. Give the"
                " name of one of them, and the name or uid of its operator if several hold one."
            )
        (_, state), = found.values()
        return _content_of(state, name, key)

    def _sizes(self) -> Iterable[tuple[str, int]]:
        for _, operator in self._piece.operators():
            if operator.context.keyed_state is not None:
                yield from operator.context.keyed_state.sizes().items()

    def snapshot(self) -> HarnessSnapshot:
        """End the epoch and return its checkpoint, which a new harness can be restored from. This harness continues."""
        if self._state == _OPEN:
            self._guarded(self._end_epoch)
            taken = self._taken()
            self._guarded(self._piece.begin)
            return taken
        if self._state != _ENDED:
            self._require_open()
        return self._taken()

    def _taken(self) -> HarnessSnapshot:
        return HarnessSnapshot._of(PieceSnapshot(self._piece.manifest(), self._piece.storage.files))

    # --- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all functions. Time does not advance: call :meth:`end_input` first to fire the last timers."""
        if self._state != _CLOSED:
            self._state = _CLOSED
            self._piece.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
            return
        with suppress(Exception):  # the test has already failed
            self.close()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._state = f"it has failed ({type(error).__name__}: {error})"
            raise

    def _require_open(self) -> None:
        if self._state != _OPEN:
            raise ProgramError(
                f"This harness takes no more input, because {self._state}. Make a new one; given a snapshot it goes on"
                " from there, as a job does after a failure."
            )

    def _refuse_past(self, timestamp: int) -> None:
        if timestamp < self._piece.now_ms:
            raise ProgramError(
                f"Processing time cannot go back from {self._piece.now_ms} to {timestamp}. Start a harness with the"
                " processing_time it should begin with."
            )


class OperatorHarness(_Harness):
    """Runs a piece of a program with one input: any operators, written as in a program.

    >>> harness = OperatorHarness(lambda stream: stream.map(lambda n: n * n).filter(lambda n: n > 1))
    >>> harness.process_elements([1, 2, 3])
    >>> harness.output
    [4, 9]

    ``parallelism`` is the number of subtasks: keyed records go to the subtask that owns their key group, others round
    robin. A snapshot may be restored at another parallelism than it was taken at:

    >>> def running_sum(stream):
    ...     return stream.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    >>> with OperatorHarness(running_sum) as one:
    ...     one.process_elements([("a", 1), ("b", 10)])
    ...     taken = one.snapshot()
    >>> with OperatorHarness(running_sum, parallelism=3, snapshot=taken) as three:
    ...     three.process_elements([("b", 10), ("a", 1)])
    ...     sorted(three.output)
    [('a', 2), ('b', 20)]

    ``serialize`` (on by default) sends functions, records and state through the pickling they would go through on a
    cluster. Without it the harness runs the very objects it is given, so that a function can be a stand-in that the
    test looks into afterwards:

    >>> seen = []
    >>> harness = OperatorHarness(lambda stream: stream.map(seen.append), serialize=False)
    >>> harness.process_element("x")
    >>> seen
    ['x']

    User code that raises, raises here: the exception itself, with the failure card that a job would show as a note.
    The harness then takes no more input.
    """

    def __init__(
        self,
        piece: Callable[[DataStream[Any]], DataStream[Any]],
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        snapshot: HarnessSnapshot | None = None,
        serialize: bool = True,
        processing_time: int | None = None,
        job_parameters: Mapping[str, str] | None = None,
        input_type: TypeInformation | None = None,
    ):
        settings = PieceSettings(parallelism, max_parallelism, serialize, job_parameters or {}, (input_type,))
        super().__init__(piece, ("input",), settings, processing_time, snapshot)

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record. The results are in :attr:`output` afterwards."""
        self._process(0, (value,), None if timestamp is None else (timestamp,))

    def process_elements(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Process records as one batch, with a timestamp for each or for none."""
        self._process(0, values, timestamps)


class TwoInputHarness(_Harness):
    """Runs a piece of a program with two inputs: connected streams, a broadcast, a join, a union.

    >>> harness = TwoInputHarness(lambda numbers, words: numbers.map(str).union(words))
    >>> harness.process_element1(1)
    >>> harness.process_element2("two")
    >>> harness.output
    ['1', 'two']

    The rest is as in :class:`OperatorHarness`. Event time is the lesser of the two inputs' watermarks.
    """

    def __init__(
        self,
        piece: Callable[[DataStream[Any], DataStream[Any]], DataStream[Any]],
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        snapshot: HarnessSnapshot | None = None,
        serialize: bool = True,
        processing_time: int | None = None,
        job_parameters: Mapping[str, str] | None = None,
        input_types: tuple[TypeInformation | None, TypeInformation | None] = (None, None),
    ):
        settings = PieceSettings(parallelism, max_parallelism, serialize, job_parameters or {}, input_types)
        super().__init__(piece, ("first input", "second input"), settings, processing_time, snapshot)

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record of the first input."""
        self._process(0, (value,), None if timestamp is None else (timestamp,))

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Process one record of the second input."""
        self._process(1, (value,), None if timestamp is None else (timestamp,))

    def process_elements1(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Process records of the first input as one batch."""
        self._process(0, values, timestamps)

    def process_elements2(self, values: Iterable[Any], timestamps: Iterable[int] | None = None) -> None:
        """Process records of the second input as one batch."""
        self._process(1, values, timestamps)

    def process_watermark1(self, timestamp: int) -> None:
        """Like :meth:`process_watermark`, but on the first input only."""
        self._advance((0,), timestamp)

    def process_watermark2(self, timestamp: int) -> None:
        """Like :meth:`process_watermark`, but on the second input only."""
        self._advance((1,), timestamp)


def _content_of(state: KeyedState, name: str, key: Any) -> Any:
    table: Any = state.find(state.lifetimes.table_of(name))
    expiry = state.lifetimes.expiry(name)
    kind = None if table is None else kind_of(table.kind)
    if kind is not None and kind.ages and not table.namespaced:
        held = table.entries.get(key)
        if expiry is None and held is not None:
            return kind.taken(held)
        return kind.content(held, None if expiry is None else expiry.is_visible)
    raise ProgramError(f"State {name!r} belongs to windows, not to keys alone; look at the output instead.")
