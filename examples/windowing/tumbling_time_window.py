"""Emit one result per window, for windows without overlap: ``python examples/windowing/tumbling_time_window.py``.

The program emits the loudest moment of every ten seconds for each room. ``reduce`` keeps one record per window and room
while records arrive. The window function only adds the key and the time of the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flott.datastream.window import TimeWindow, TumblingEventTimeWindows


class Noise(NamedTuple):
    room: str
    second: int
    decibels: int


NOISES = [
    Noise("kitchen", 1, 60), Noise("hall", 4, 42), Noise("kitchen", 9, 71), Noise("kitchen", 7, 65),
    Noise("hall", 12, 38), Noise("kitchen", 15, 58), Noise("hall", 18, 55), Noise("hall", 21, 40),
]  # fmt: skip


class Peak(ProcessWindowFunction[Noise, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Noise]
    ) -> Iterator[str]:
        (loudest,) = elements
        window = context.window()
        yield f"{window.start // 1000:>2} s to {window.end // 1000} s  {key:<7}  {loudest.decibels} dB"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(3)).with_timestamp_assigner(
        lambda noise, _: noise.second * 1000
    )
    noises = env.from_collection(NOISES).assign_timestamps_and_watermarks(in_event_time)
    (
        noises.key_by(lambda noise: noise.room)
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda one, other: max(one, other, key=lambda noise: noise.decibels), Peak())
        .print()
    )
    env.execute("tumbling windows")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
