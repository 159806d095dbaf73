"""Event-time session windows that are folded as records come and fire once, at their end. Task side.

A key's open sessions stand in one short list, so a record that prolongs a session replaces one element of it. Timers
are lazy: a key has one for the end its earliest session had when the timer was set, and only when that fires is it set
again for the end the session has by then. A session that grows with every record so costs no timer per record.
"""

from __future__ import annotations

from typing import Any

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.window._assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
)
from flott.datastream.window._windows import TimeWindow
from flott.graph.specs import WindowSpec
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.runtime.operators.process import EVENT_TIMERS
from flott.runtime.operators.window.aligned import fires_once_at_its_end
from flott.runtime.operators.window.contents import make_fold
from flott.runtime.operators.window.contexts import AssignerContext
from flott.runtime.operators.window.holdings import SESSIONS
from flott.runtime.operators.window.operator import WindowedOperator

#: A session as it stands in state: start, end, folded value.
Session = tuple[int, int, Any]


def is_sessions(spec: WindowSpec) -> bool:
    """Return whether :class:`SessionWindowOperator` can run the spec."""
    kinds = (EventTimeSessionWindows, DynamicEventTimeSessionWindows)
    return type(spec.assigner) in kinds and spec.fold is not None and fires_once_at_its_end(spec)


class SessionWindowOperator(WindowedOperator):
    """Sessions of each key."""

    def __init__(self, context: OperatorContext, spec: WindowSpec):
        super().__init__(context, spec)
        assert spec.fold is not None
        self._fold = make_fold(spec.fold)
        self._table = self.state.value_table(SESSIONS)
        self.hold(SESSIONS)
        self._timers = self.state.timer_table(EVENT_TIMERS)
        self._assigner_context = AssignerContext(self)

    def take_over(self, key: Any, window: Any, held: Any) -> None:
        if window.max_timestamp() <= self.watermark:
            self.forget(key, window)
            return
        self._table.entries[key] = [*self._table.entries.get(key, []), (window.start, window.end, held)]
        self._table.changed[key] = None
        self._timers.register(window.max_timestamp(), key)

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        if timestamps is None or min(timestamps) == MIN_WATERMARK:
            raise self.without_time(batch)
        late: list[tuple[Any, int]] = []
        cursor = iter(values)
        entries, changed, add = self._table.entries, self._table.changed, self._fold.add
        select = self.select_in(values)
        try:
            ends = self._ends(values, timestamps)
            for value, start, end in zip(cursor, timestamps, ends, strict=True):
                key = select(value)
                sessions = entries.get(key)
                if sessions is not None:
                    place = 0 if len(sessions) == 1 else _only_met(sessions, start, end)
                    if place is not None:
                        first, last, folded = sessions[place]
                        if start <= last and first <= end:
                            if start > first:
                                start = first
                            if end < last:
                                end = last
                            sessions[place] = (start, end, add(value, folded))
                            changed[key] = None
                            continue
                if not self._put(key, sessions or [], value, start, end):
                    late.append((value, start))
        except Exception as error:
            raise self.record_failure(batch, cursor) from error
        if late:
            refused, stamps = [list(part) for part in zip(*late, strict=True)]
            self.refuse_late(refused, stamps, self.spec.late_tag_id)

    def _ends(self, values: list[Any], timestamps: list[int]) -> list[int]:
        """Return the end of the window that each record alone would have."""
        assigner = self.spec.assigner
        if isinstance(assigner, EventTimeSessionWindows):
            gap = assigner.gap_ms
            return [timestamp + gap for timestamp in timestamps]
        ends = []
        for value, timestamp in zip(values, timestamps, strict=True):
            (window,) = assigner.assign_windows(value, timestamp, self._assigner_context)
            ends.append(window.end)
        return ends

    def _put(self, key: Any, sessions: list[Session], value: Any, start: int, end: int) -> bool:
        """Let a record open a session, or join several; False if it is late."""
        met = [session for session in sessions if _touches(session, start, end)]
        others = [session for session in sessions if not _touches(session, start, end)]
        if met:
            folded = met[0][2]
            for session in met[1:]:
                folded = self._fold.merge(folded, session[2])
            start = min(start, *(session[0] for session in met))
            end = max(end, *(session[1] for session in met))
            folded = self._fold.add(value, folded)
        elif end - 1 <= self.watermark:
            return False
        else:
            folded = self._fold.first(value)
        self._table.entries[key] = [*others, (start, end, folded)]
        self._table.changed[key] = None
        if all(end < session[1] for session in sessions):  # nothing will wake the key early enough
            self._timers.register(end - 1, key)
        return True

    # --- the end of sessions -----------------------------------------------------------------------------------------

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        while (timer := self._timers.pop_due(self.watermark)) is not None:
            timestamp, key, _ = timer
            sessions = self._table.entries.get(key, [])
            ended = [session for session in sessions if session[1] - 1 <= timestamp]
            if ended:
                self._emit(key, ended)
                self._keep(key, [session for session in sessions if session[1] - 1 > timestamp])
            if left := self._table.entries.get(key):
                self._timers.register(min(session[1] for session in left) - 1, key)
            self.flush(MAX_BATCH_RECORDS)
        self.flush()
        return advanced

    def next_event_time_ms(self) -> int | None:
        return self._timers.next_timestamp()

    def _keep(self, key: Any, sessions: list[Session]) -> None:
        if sessions:
            self._table.entries[key] = sessions
            self._table.changed[key] = None
        else:
            self._table.discard(key)

    def _emit(self, key: Any, ended: list[Session]) -> None:
        self.current.key = key
        for start, end, folded in sorted(ended, key=lambda session: session[1]):
            window = TimeWindow(start, end)
            self.clocks.event.time = window.max_timestamp()
            try:
                self.fire(key, window, [self._fold.result(folded)])
                self.forget(key, window)
            except Exception as error:
                raise self.window_failure(window, key) from error


def _touches(session: Session, start: int, end: int) -> bool:
    return bool(start <= session[1] and session[0] <= end)


def _only_met(sessions: list[Session], start: int, end: int) -> int | None:
    """Return the place of the session that a window touches, if there is just one."""
    met = None
    for place, session in enumerate(sessions):
        if start <= session[1] and session[0] <= end:  # for every record of a key with several sessions: no call
            if met is not None:
                return None
            met = place
    return met
