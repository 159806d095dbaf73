"""Group clicks to visits with session windows: ``python examples/windowing/session_with_gap_window.py``.

Clicks of a visitor that are less than ten minutes apart are one visit. The click at minute 9 arrives last and merges
two visits into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flott.datastream.window import EventTimeSessionWindows, TimeWindow

Click = tuple[str, int, str]  #: visitor, minute, page

CLICKS: list[Click] = [
    ("ada", 0, "home"), ("bob", 2, "home"), ("ada", 4, "tents"), ("ada", 17, "basket"), ("bob", 30, "home"),
    ("bob", 33, "lamps"), ("ada", 9, "stoves"),
]  # fmt: skip


class Visit(ProcessWindowFunction[Click, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Click]
    ) -> Iterator[str]:
        pages = [page for _, _, page in sorted(elements, key=lambda click: click[1])]
        start, last = context.window().start // 60_000, context.window().end // 60_000 - 10
        yield f"{key} from minute {start} to {last}: {' > '.join(pages)}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(30)).with_timestamp_assigner(
        lambda click, _: click[1] * 60_000
    )
    clicks = env.from_collection(CLICKS).assign_timestamps_and_watermarks(in_event_time)
    (
        clicks.key_by(lambda click: click[0])
        .window(EventTimeSessionWindows.with_gap(Time.minutes(10)))
        .process(Visit())
        .print()
    )
    env.execute("sessions")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
