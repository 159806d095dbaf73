"""ProcessFunction and KeyedProcessFunction. Task side.

The loop over a batch is chosen once, when the operator opens: generator or plain function, keyed or not. Records for
side outputs (pairs with an OutputTag) are sorted out per batch, and only if any tag exists in this process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.functions._broadcast import KeyedBroadcastProcessFunction
from flott.datastream.functions._co import CoProcessFunction, KeyedCoProcessFunction
from flott.datastream.functions._process import KeyedProcessFunction
from flott.datastream.output_tag import OutputTag
from flott.datastream.time_domain import TimeDomain
from flott.datastream.timerservice import TimerService
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.context import KeyedTimerService, UnkeyedTimerService
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import EventTime, Operator, OperatorContext

_Call = Callable[[Any, "CallContext"], Iterable[Any]]
_Select = Callable[[Any], Any]
_Append = Callable[[Any], None]
_Extend = Callable[[Iterable[Any]], None]

EVENT_TIMERS = "_event-time-timers"
PROCESSING_TIMERS = "_processing-time-timers"

_WITH_TIMERS = (KeyedProcessFunction, KeyedCoProcessFunction, KeyedBroadcastProcessFunction)


class CallContext:
    """A context object: its fields are set before each call, so none is made per record."""

    __slots__ = ("_domain", "_timers", "_timestamp")

    def __init__(self, timers: TimerService):
        self._timers = timers
        self._timestamp: int | None = None
        self._domain = TimeDomain.EVENT_TIME

    def timestamp(self) -> int:
        return self._timestamp  # type: ignore[return-value]  # None where the stream has no timestamps


class RecordContext(CallContext, KeyedCoProcessFunction.OnTimerContext[Any], CoProcessFunction.Context):
    """What a process function sees, of records and of timers."""

    __slots__ = ("_current",)

    def __init__(self, timers: TimerService, current: CurrentKey):
        super().__init__(timers)
        self._current = current

    def get_current_key(self) -> Any:
        return self._current.key

    def timer_service(self) -> TimerService:
        return self._timers

    def time_domain(self) -> TimeDomain:
        return self._domain


class ProcessOperator(FunctionOperator):
    """Runs a process function of one or two inputs, with timers if it is keyed."""

    def __init__(self, context: OperatorContext, function: Any):
        super().__init__(context, function)
        state = context.keyed_state
        self.current = state.current if state is not None else CurrentKey()
        self.event_timers: TimerTable | None = None
        self.processing_timers: TimerTable | None = None
        if state is not None:
            self.event_timers = state.timer_table(EVENT_TIMERS)
            self.processing_timers = state.timer_table(PROCESSING_TIMERS)
            service: TimerService = KeyedTimerService(self, self.event_timers, self.processing_timers, self.current)
        else:
            service = UnkeyedTimerService(self)
        self.record = self.make_context(service)
        self._first: Callable[[RowBatch], None] = self._unready
        self._second: Callable[[RowBatch], None] = self._unready

    def make_context(self, timers: TimerService) -> RecordContext:
        """Return the context of records and timers."""
        return RecordContext(timers, self.current)

    def prepare(self) -> None:
        if hasattr(self.function, "process_element"):
            self._first = self.loop(0, self.function.process_element, self.record)
        else:
            self._first = self.loop(0, self.function.process_element1, self.record)
            self._second = self.loop(1, self.function.process_element2, self.record)

    def process(self, batch: RowBatch) -> None:
        self._first(batch)

    def process_second(self, batch: RowBatch) -> None:
        self._second(batch)

    def _unready(self, batch: RowBatch) -> None:
        raise AssertionError("process() before open()")

    def loop(self, index: int, call: Callable[..., Any], record: CallContext) -> Callable[[RowBatch], None]:
        """Return the loop over batches of an input that calls the function for each record."""
        keyed = KeyedInput.of(self.context, index)
        if not inspect.isgeneratorfunction(call):
            call = _iterable(call)
        current, clock = self.current, self.clocks.event

        def run(batch: RowBatch) -> None:
            timestamps = batch.timestamps
            select = keyed.select_in(batch.values) if keyed is not None else None
            out: list[Any] = []
            stamps: list[int] | None = None if timestamps is None else []
            cursor = iter(batch.values)
            clock.follow(cursor, timestamps)
            record._timestamp, record._domain = None, TimeDomain.EVENT_TIME
            try:
                if timestamps is not None and stamps is not None:
                    _stamped_loop(cursor, timestamps, select, current, call, record, out.append, stamps.append)
                elif select is not None:
                    _keyed_loop(cursor, select, current, call, record, out.extend)
                else:
                    _plain_loop(cursor, call, record, out.extend)
            except Exception as error:
                raise self.record_failure(batch, cursor, index) from error
            emit_tagged(self, out, stamps)

        return run

    # --- timers ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        super().begin()
        self._fire_processing_timers()

    def advance(self, time: EventTime) -> EventTime:
        before = self.watermark
        advanced = super().advance(time)
        self._fire_processing_timers()  # those set during this epoch that are due already
        # Within the stream a timer that was set behind the watermark waits, as in Flink, until the watermark advances:
        # when a task settles depends on how busy it is.
        is_epoch = self.context.scope.pass_time is None
        if self.event_timers is not None and (is_epoch or self.watermark > before):
            self._fire(self.event_timers, self.watermark, TimeDomain.EVENT_TIME)
        return advanced

    def end_keys(self) -> None:
        super().end_keys()
        if self.processing_timers is not None:  # they are not waited for: the input has ended
            self._fire(self.processing_timers, MAX_WATERMARK, TimeDomain.PROCESSING_TIME)

    def next_wakeup_ms(self) -> int | None:
        return self.processing_timers.next_timestamp() if self.processing_timers is not None else None

    def next_event_time_ms(self) -> int | None:
        return self.event_timers.next_timestamp() if self.event_timers is not None else None

    def _fire_processing_timers(self) -> None:
        if self.processing_timers is not None:
            self._fire(self.processing_timers, self.context.scope.now_ms, TimeDomain.PROCESSING_TIME)

    def _fire(self, timers: TimerTable, time: int, domain: TimeDomain) -> None:
        if not isinstance(self.function, _WITH_TIMERS):
            return
        record, current, on_timer = self.record, self.current, _iterable(self.function.on_timer)
        clock, in_event_time = self.clocks.event, domain is TimeDomain.EVENT_TIME
        clock.follow(None, None)
        out: list[Any] = []
        stamps: list[int] = []
        while (timer := timers.pop_due(time)) is not None:
            timestamp, key, _ = timer
            current.key, record._timestamp, record._domain = key, timestamp, domain
            if in_event_time:
                clock.time = timestamp
            try:
                for produced in on_timer(timestamp, record):
                    out.append(produced)
                    stamps.append(timestamp)
            except Exception as error:
                raise self.failure(
                    f"on_timer({timestamp}) in {domain.name.replace('_', ' ').lower()}",
                    key=key,
                    has_key=True,
                    timestamp=timestamp,
                ) from error
        if out:
            # Records made by processing-time timers have no event time, as in Flink.
            emit_tagged(self, out, stamps if domain is TimeDomain.EVENT_TIME else None)


# The loops over a batch. Everything they touch is a local variable: that is a tenth of their time.


def _plain_loop(values: Iterator[Any], call: _Call, record: CallContext, extend: _Extend) -> None:
    for value in values:
        extend(call(value, record))


def _keyed_loop(
    values: Iterator[Any], select: _Select, current: CurrentKey, call: _Call, record: CallContext, extend: _Extend
) -> None:
    for value in values:
        current.key = select(value)
        extend(call(value, record))


def _stamped_loop(
    values: Iterator[Any],
    timestamps: list[int],
    select: _Select | None,
    current: CurrentKey,
    call: _Call,
    record: CallContext,
    append: _Append,
    stamp: _Append,
) -> None:
    for value, timestamp in zip(values, timestamps, strict=True):
        record._timestamp = timestamp
        if select is not None:
            current.key = select(value)
        for produced in call(value, record):
            append(produced)
            stamp(timestamp)


def emit_tagged(operator: Operator, out: list[Any], timestamps: list[int] | None) -> None:
    """Emit a batch, sending pairs of an OutputTag and a value to the side outputs."""
    if not out:
        return
    if not OutputTag.any_created or not any(_is_tagged(produced) for produced in out):
        operator.emit(RowBatch(out, timestamps))
        return
    main = [index for index, produced in enumerate(out) if not _is_tagged(produced)]
    if main:
        stamps = None if timestamps is None else [timestamps[i] for i in main]
        operator.emit(RowBatch([out[i] for i in main], stamps))
    sides: dict[str, list[int]] = {}
    for index, produced in enumerate(out):
        if _is_tagged(produced):
            sides.setdefault(produced[0].tag_id, []).append(index)
    for tag, chosen in sides.items():
        if emit := operator.side_emits.get(tag):
            stamps = None if timestamps is None else [timestamps[i] for i in chosen]
            emit(RowBatch([out[i][1] for i in chosen], stamps))


def _is_tagged(produced: Any) -> bool:
    return produced.__class__ is tuple and len(produced) == 2 and produced[0].__class__ is OutputTag


def _iterable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``call`` with None, the result of a function without ``yield``, taken as no result."""

    def iterable(*arguments: Any) -> Any:
        produced = call(*arguments)
        return () if produced is None else produced

    return iterable
