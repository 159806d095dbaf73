"""The simulated job: keyed values, lists, maps, timers and windows, and what it must put out whatever happens to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from flott.common import Duration, WatermarkStrategy
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

WINDOW_MS = 40
KEYS_PER_SPLIT = 3

#: (key, timestamp, number)
Event = tuple[str, int, int]


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value[1]


class Account(KeyedProcessFunction[str, Event, Any]):
    """Numbers the records of a key, and remembers some of them in every kind of state: any loss or repetition shows."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent"))
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums"))

    def process_element(self, value: Event, ctx: Any) -> Iterator[Any]:
        key, at, number = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.recent.add(number)
        bucket = number % 3
        self.sums.put(bucket, (self.sums.get(bucket) or 0) + number)
        yield "record", key, count, number, sorted(self.sums.items())
        if count % 4 == 0:
            yield "four", key, count, list(self.recent.get())
            self.recent.clear()
        if count % 7 == 0:
            self.sums.remove(bucket)
        ctx.timer_service().register_event_time_timer(at + 10)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), timestamp


class Script:
    """The input of one seed. A key's records are all in one split, in the order of their timestamps."""

    def __init__(self, random: Random):
        self.splits: dict[str, list[Any]] = {}
        self.events: list[Event] = []
        for split in range(random.randint(1, 3)):
            entries: list[Any] = []
            at = 0
            for number in range(random.randint(0, 40)):
                at += random.randint(0, 12)
                self.events.append((f"{split}{random.randrange(KEYS_PER_SPLIT)}", at, number))
                entries += [self.events[-1], *random.choices([[], [EndOfEpoch()], [Abort(1)]], [6, 4, 0.3])[0]]
            self.splits[f"s{split}"] = entries

    def expected(self) -> Counter[str]:
        """What comes of it, reckoned without any care for how."""
        found: Counter[str] = Counter()
        windows: Counter[tuple[str, int]] = Counter()
        for key in sorted({event[0] for event in self.events}):
            recent: list[int] = []
            sums: dict[int, int] = {}
            for index, (_, at, number) in enumerate(event for event in self.events if event[0] == key):
                recent.append(number)
                sums[number % 3] = sums.get(number % 3, 0) + number
                found[repr(("record", key, index + 1, number, sorted(sums.items())))] += 1
                if (index + 1) % 4 == 0:
                    found[repr(("four", key, index + 1, recent))] += 1
                    recent = []
                if (index + 1) % 7 == 0:
                    sums.pop(number % 3, None)
                windows[key, at // WINDOW_MS] += number
            timers = {at + 10 for event_key, at, _ in self.events if event_key == key}
            found.update(repr(("timer", key, at)) for at in timers)
        found.update(repr(("window", key, total)) for (key, _), total in windows.items())
        return found


def build(env: StreamExecutionEnvironment, source: ScriptedSource, ledgers: tuple[Ledger, Ledger]) -> None:
    """The program."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    events = env.from_source(source, strategy, "events").uid("events")
    keyed = events.key_by(lambda event: event[0])
    keyed.process(Account()).uid("account").sink_to(LedgerSink(ledgers[0])).uid("records")
    (
        keyed.map(lambda event: (event[0], event[2]))
        .uid("numbers")
        .key_by(lambda pair: pair[0])
        .window(TumblingEventTimeWindows.of(Duration.of_millis(WINDOW_MS)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("windows")
        .map(lambda pair: ("window", *pair))
        .uid("named")
        .sink_to(LedgerSink(ledgers[1]))
        .uid("sums")
    )
