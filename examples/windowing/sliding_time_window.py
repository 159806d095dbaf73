"""Compute a moving average with overlapping windows: ``python examples/windowing/sliding_time_window.py``.

The program emits the mean temperature of the last ten minutes, every five minutes. A record belongs to two windows. The
aggregate function keeps two numbers for each window and not the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import AggregateFunction, StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import SlidingEventTimeWindows, TimeWindow

Reading = tuple[str, int, float]  #: sensor, minute, degrees

READINGS: list[Reading] = [
    ("roof", 1, 20.0), ("roof", 4, 22.0), ("roof", 6, 24.0), ("cellar", 7, 11.0), ("roof", 11, 26.0),
    ("cellar", 14, 12.0),
]  # fmt: skip


class Mean(AggregateFunction[Reading, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Reading, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Labelled(WindowFunction[float, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[float]) -> Iterator[str]:
        for mean in inputs:
            yield f"{key} from minute {window.start // 60_000} to {window.end // 60_000}: {mean:.1f} degrees"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
        lambda reading, _: reading[1] * 60_000
    )
    readings = env.from_collection(READINGS).assign_timestamps_and_watermarks(in_event_time)
    (
        readings.key_by(lambda reading: reading[0])
        .window(SlidingEventTimeWindows.of(Time.minutes(10), Time.minutes(5)))
        .aggregate(Mean(), Labelled())
        .print()
    )
    env.execute("sliding windows")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
