"""Events of an epoch by key, before they are put into order. Task side.

Event time advances behind the records of an epoch. So the events of an epoch are collected first, and each key is
processed once, at its end: its partial matches are read from state and written to state once for all of its events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cmp_to_key
from itertools import compress, groupby
from typing import Any, NamedTuple

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import ProgramError
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import Operator, RecordFailure

#: A timestamp and an event.
Arrival = tuple[int, Any]


class Collected(NamedTuple):
    """The events of an epoch."""

    by_key: dict[Any, list[Arrival]]
    latest: int  #: no event is later
    in_order: bool  #: the events of each key are in the order of time


class Arrivals:
    """Collects the events of an epoch."""

    def __init__(
        self,
        owner: Operator,
        event_time: bool,
        comparator: Callable[[Any, Any], int] | None,
        late_tag_id: str | None,
    ):
        keyed = KeyedInput.of(owner.context, 0)
        assert keyed is not None, "patterns need a keyed input"
        self._owner = owner
        self._keyed = keyed
        self._event_time = event_time
        self._comparator = comparator
        self._late_tag_id = late_tag_id
        self.by_key: defaultdict[Any, list[Arrival]] = defaultdict(list)
        self.latest = MIN_WATERMARK  #: no event of the epoch is later
        self._in_order = True  #: they have come in the order of time so far

    def hand_over(self) -> Collected:
        """Return the events that were collected, and start again."""
        collected = Collected(self.by_key, self.latest, self._in_order)
        self.by_key, self.latest, self._in_order = defaultdict(list), MIN_WATERMARK, True
        return collected

    def take(self, batch: RowBatch) -> None:
        """Take a batch."""
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        if not self._event_time:
            timestamps = [self._owner.context.scope.now_ms] * len(values)
        elif timestamps is None or (earliest := min(timestamps)) <= MIN_WATERMARK:
            raise self._no_timestamp(batch)
        elif earliest <= self._owner.watermark:
            watermark = self._owner.watermark
            late = [timestamp <= watermark for timestamp in timestamps]
            self._owner.refuse_late(
                list(compress(values, late)), list(compress(timestamps, late)), self._late_tag_id
            )
            timely = [not is_late for is_late in late]
            values, timestamps = list(compress(values, timely)), list(compress(timestamps, timely))
        if timestamps:
            ordered = timestamps == sorted(timestamps) and timestamps[0] >= self.latest
            self._in_order = self._in_order and ordered
            self.latest = max(self.latest, timestamps[-1] if ordered else max(timestamps))
        select, by_key, cursor = self._keyed.select_in(values), self.by_key, iter(values)
        try:
            for arrival in zip(timestamps, cursor, strict=True):
                by_key[select(arrival[1])].append(arrival)
        except Exception as error:
            raise self._owner.record_failure(RowBatch(values, timestamps), cursor) from error

    def in_order(self, arrivals: list[Arrival], ordered: bool = False) -> list[Arrival]:
        """Return events by timestamp; those of the same timestamp by the comparator, and as they came."""
        if len(arrivals) > 1:
            if not ordered:
                arrivals.sort(key=_timestamp)
            if self._comparator is not None:
                by_comparator = cmp_to_key(self._comparator)
                return [
                    arrival
                    for _, alike in groupby(arrivals, _timestamp)
                    for arrival in sorted(alike, key=lambda arrival: by_comparator(arrival[1]))
                ]
        return arrivals

    def _no_timestamp(self, batch: RowBatch) -> RecordFailure:
        index = 0 if batch.timestamps is None else batch.timestamps.index(min(batch.timestamps))
        failure = self._owner.failure("looking for a pattern", record=batch.values[index], has_record=True)
        failure.__cause__ = ProgramError(
            "A pattern in event time orders events by their timestamps, found an event without one. Call"
            " assign_timestamps_and_watermarks() with a WatermarkStrategy that has a timestamp assigner before"
            " key_by(), or in_processing_time() on the pattern stream."
        )
        return failure


def _timestamp(arrival: Arrival) -> int:
    return arrival[0]
