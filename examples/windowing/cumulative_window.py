"""Emit the total of the day every six hours, with growing windows: ``python examples/windowing/cumulative_window.py``.

Windows of one day share their start. The first ends after six hours, the next after twelve, and so on. Flink has this
in SQL (CUMULATE), Flott in the DataStream API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.common import Time, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import CumulativeEventTimeWindows, TimeWindow

HOUR_MS = 3_600_000
Sale = tuple[str, int, int]  #: shop, hour, amount

SALES: list[Sale] = [("main street", 2, 10), ("main street", 8, 5), ("main street", 20, 7), ("main street", 27, 4)]


class SoFar(WindowFunction[Sale, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Sale]) -> Iterator[str]:
        for _, _, amount in inputs:
            day, hour = window.start // (24 * HOUR_MS), (window.end - window.start) // HOUR_MS
            yield f"{key}, day {day} up to hour {hour:>2}: {amount}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda sale, _: sale[1] * HOUR_MS
    )
    sales = env.from_collection(SALES).assign_timestamps_and_watermarks(in_event_time)
    (
        sales.key_by(lambda sale: sale[0])
        .window(CumulativeEventTimeWindows.of(Time.days(1), Time.hours(6)))
        .reduce(lambda one, other: (one[0], one[1], one[2] + other[2]), SoFar())
        .print()
    )
    env.execute("cumulative windows")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
