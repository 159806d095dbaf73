"""Handle late records in three ways: ``python examples/windowing/late_records.py``.

Late records of the same stream are dropped (and counted), sent to a side output, or accepted for another ten seconds,
in which they make their window fire again. Event time advances at the end of an epoch, which marks in the script set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.common import Time, WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import TimeWindow, TumblingEventTimeWindows
from flott.testing import EndOfEpoch, ScriptedSource

Vote = tuple[str, int]  #: candidate, second

#: Event time is at 12 s after the first epoch, and at 25 s after the second.
VOTES = [
    ("ada", 3), ("ada", 8), ("bob", 12), EndOfEpoch(),
    ("ada", 5), ("bob", 16), ("bob", 25), EndOfEpoch(),
    ("ada", 6), ("bob", 14), ("bob", 27),
]  # fmt: skip

LATE = OutputTag("late")


class Count(WindowFunction[Vote, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Vote]) -> Iterator[str]:
        yield f"{key} from {window.start // 1000} s to {window.end // 1000} s: {len(list(inputs))}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda vote, _: vote[1] * 1000
    )
    votes = env.from_source(ScriptedSource(VOTES), in_event_time, "votes").key_by(lambda vote: vote[0])
    ten_seconds = TumblingEventTimeWindows.of(Time.seconds(10))

    votes.window(ten_seconds).apply(Count()).name("strict").print("strict")

    beside = votes.window(ten_seconds).side_output_late_data(LATE).apply(Count()).name("beside")
    beside.get_side_output(LATE).print("too late")

    votes.window(ten_seconds).allowed_lateness(Time.seconds(10)).apply(Count()).name("lenient").print("lenient")

    result = env.execute("late records")
    for ledger in result.get_late_records():
        print(f"{ledger.operator}: {ledger.records_in} votes, {ledger.late} to the side, {ledger.dropped} dropped")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
