"""Detect events that do not happen in time: ``python examples/event_time_timer.py``.

A parcel should be delivered within two days of event time after it is picked up. Each pick-up registers a timer, and
the delivery deletes it. A timer that fires reports a missing parcel. The scans arrive out of order, so the watermark
stays six hours behind the latest one. The state of a parcel expires, also in event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.state import StateTtlConfig, ValueStateDescriptor

HOUR_MS = 3_600_000
PATIENCE_MS = 48 * HOUR_MS


class Scan(NamedTuple):
    parcel: str
    event: str
    hour: int


SCANS = [
    Scan("A1", "picked up", 0),
    Scan("B2", "picked up", 5),
    Scan("C3", "picked up", 3),
    Scan("A1", "delivered", 30),
    Scan("D4", "picked up", 40),
    Scan("B2", "delivered", 52),
    Scan("C3", "delivered", 70),
]


class Overdue(KeyedProcessFunction[str, Scan, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        due = ValueStateDescriptor("due", int)
        due.enable_time_to_live(StateTtlConfig.new_builder(Time.days(3)).use_event_time().build())
        self.due = runtime_context.get_state(due)

    def process_element(self, value: Scan, ctx: KeyedProcessFunction.Context[str]) -> None:
        timers, due = ctx.timer_service(), self.due.value()
        if value.event == "picked up":
            due = value.hour * HOUR_MS + PATIENCE_MS
            timers.register_event_time_timer(due)
            self.due.update(due)
        # A delivery after the two days has no effect: the timer fires or has fired.
        elif due is not None and value.hour * HOUR_MS <= due:
            timers.delete_event_time_timer(due)
            self.due.clear()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        self.due.clear()
        yield f"parcel {ctx.get_current_key()} should have been delivered by hour {timestamp // HOUR_MS}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(6)).with_timestamp_assigner(
        lambda scan, _: scan.hour * HOUR_MS
    )
    scans = env.from_collection(SCANS).assign_timestamps_and_watermarks(in_event_time)
    scans.key_by(lambda scan: scan.parcel).process(Overdue()).uid("overdue").print()
    env.execute("event-time timer")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
