"""Join two streams in windows: ``python examples/window_join.py``.

``join`` calls a function for every pair of a rider and a driver of the same district in the same five minutes.
``co_group`` calls a function for every district and five minutes, with all riders and all drivers, also if one side is
empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from flott.common import Time, WatermarkStrategy
from flott.datastream import CoGroupFunction, StreamExecutionEnvironment
from flott.datastream.window import TumblingEventTimeWindows


class Person(NamedTuple):
    name: str
    district: str
    minute: int


RIDERS = [
    Person("Ada", "harbour", 1), Person("Bob", "old town", 3), Person("Cem", "harbour", 4), Person("Dan", "hill", 7),
]  # fmt: skip
DRIVERS = [
    Person("Una", "harbour", 2), Person("Vic", "old town", 6), Person("Wim", "harbour", 6), Person("Xia", "hill", 8),
]  # fmt: skip


class Balance(CoGroupFunction[Person, Person, str]):
    def co_group(self, first: Iterable[Person], second: Iterable[Person]) -> Iterator[str]:
        riders, drivers = list(first), list(second)
        someone = (riders or drivers)[0]
        yield f"{someone.district} from minute {someone.minute // 5 * 5}: {len(riders)} riders, {len(drivers)} drivers"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda person, _: person.minute * 60_000
    )
    riders = env.from_collection(RIDERS).assign_timestamps_and_watermarks(in_event_time)
    drivers = env.from_collection(DRIVERS).assign_timestamps_and_watermarks(in_event_time)
    five_minutes = TumblingEventTimeWindows.of(Time.minutes(5))
    (
        riders.join(drivers)
        .where(lambda rider: rider.district)
        .equal_to(lambda driver: driver.district)
        .window(five_minutes)
        .apply(lambda rider, driver: f"{rider.name} could ride with {driver.name}")
        .print("join")
    )
    (
        riders.co_group(drivers)
        .where(lambda rider: rider.district)
        .equal_to(lambda driver: driver.district)
        .window(five_minutes)
        .apply(Balance())
        .print("co_group")
    )
    env.execute("window join")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
