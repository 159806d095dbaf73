"""Use sessions whose records determine the gap: ``python examples/windowing/session_with_dynamic_gap_window.py``.

A user who opens a film returns later than one who opens a mail. Each record determines the gap after which its session
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment, WindowFunction
from flott.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor, TimeWindow

MINUTE_MS = 60_000
PATIENCE = {"mail": 5, "film": 120, "shop": 15}  #: in minutes
Opened = tuple[str, int, str]  #: user, minute, content

OPENED: list[Opened] = [
    ("ada", 0, "mail"), ("ada", 3, "shop"), ("ada", 17, "mail"), ("bob", 20, "film"), ("ada", 40, "mail"),
    ("bob", 130, "mail"), ("bob", 150, "shop"),
]  # fmt: skip


class ByWhatWasOpened(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return PATIENCE[element[2]] * MINUTE_MS


class Session(WindowFunction[Opened, str, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Opened]) -> Iterator[str]:
        opened = ", ".join(what for _, _, what in inputs)
        yield f"{key} from minute {window.start // MINUTE_MS}, over by {window.end // MINUTE_MS}: {opened}"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda opened, _: opened[1] * MINUTE_MS
    )
    opened = env.from_collection(OPENED).assign_timestamps_and_watermarks(in_event_time)
    (
        opened.key_by(lambda opened: opened[0])
        .window(EventTimeSessionWindows.with_dynamic_gap(ByWhatWasOpened()))
        .apply(Session())
        .print()
    )
    env.execute("sessions with a gap of their own")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
