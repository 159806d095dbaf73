"""Join records that are close in event time: ``python examples/interval_join.py``.

A click on an advertisement is joined with the impressions of the same user in the ten minutes before. Neither stream
has windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import ProcessJoinFunction, StreamExecutionEnvironment


class Shown(NamedTuple):
    person: str
    advert: str
    minute: int


class Click(NamedTuple):
    person: str
    minute: int


SHOWN = [Shown("ada", "kettle", 0), Shown("bob", "tent", 2), Shown("ada", "tea", 7), Shown("ada", "lamp", 30)]
CLICKS = [Click("ada", 9), Click("bob", 14), Click("ada", 40), Click("ada", 41)]


class Attribute(ProcessJoinFunction[Shown, Click, str]):
    def process_element(self, left: Shown, right: Click, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        waited = (ctx.get_right_timestamp() - ctx.get_left_timestamp()) // 60_000
        yield f"{left.person} clicked {waited} minutes after seeing the {left.advert}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
        lambda record, _: record.minute * 60_000
    )
    shown = env.from_collection(SHOWN).assign_timestamps_and_watermarks(in_event_time)
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(in_event_time)
    (
        shown.key_by(lambda record: record.person)
        .interval_join(clicks.key_by(lambda record: record.person))
        .between(Time.minutes(0), Time.minutes(10))
        .process(Attribute())
        .print()
    )
    env.execute("interval join")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
