"""Sessions by event-time timers over out-of-order input, with a side output for late records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common import Duration, WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

LATE = OutputTag("late")
GAP_MS = 10

#: (user, event time) from two places; ("ann", 12) of "west" comes after the watermark has passed it.
SCRIPT = {
    "east": [
        ("ann", 1), ("bob", 3), ("ann", 2), EndOfEpoch(), ("ann", 9), ("bob", 14), EndOfEpoch(), ("cid", 30),
        ("ann", 31), EndOfEpoch(), ("bob", 33), ("cid", 29), EndOfEpoch(), ("ann", 60), ("bob", 61), EndOfEpoch(),
        ("cid", 75),
    ],
    "west": [
        ("ann", 4), EndOfEpoch(), ("cid", 11), ("ann", 8), EndOfEpoch(), ("cid", 28), EndOfEpoch(), ("ann", 12),
        ("dan", 35), EndOfEpoch(), ("dan", 62), ("ann", 13), EndOfEpoch(), ("dan", 70), ("bob", 1),
    ],
}  # fmt: skip


class Sessions(KeyedProcessFunction[str, tuple[str, int], str]):
    """A session ends when nothing came for GAP_MS of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.times = runtime_context.get_list_state(ListStateDescriptor("times"))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer"))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[Any]:
        timers = ctx.timer_service()
        if ctx.timestamp() <= timers.current_watermark():
            yield LATE, f"{value[0]} at {value[1]}"
            return
        self.times.add(value[1])
        end = max(self.times.get()) + GAP_MS
        if self.timer.value() is not None and self.timer.value() != end:
            timers.delete_event_time_timer(self.timer.value())
        timers.register_event_time_timer(end)
        self.timer.update(end)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"{ctx.get_current_key()}: {sorted(self.times.get())} until {timestamp}"
        self.times.clear()
        self.timer.clear()


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda visit, _: visit[1]
    )
    sessions = (
        env.from_source(ScriptedSource(SCRIPT), strategy, "visits")
        .uid("visits")
        .key_by(lambda visit: visit[0])
        .process(Sessions())
        .uid("sessions")
    )
    sessions.sink_to(lines_to(folder, "sessions"))
    sessions.get_side_output(LATE).sink_to(lines_to(folder, "late"))
