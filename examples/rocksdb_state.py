"""Keep state larger than memory, with a time to live: ``python examples/rocksdb_state.py``.

A news site shows each reader an article once. For every reader, the function keeps a growing map of the articles that
were shown, and when. With RocksDB the map is on the local disk, and an access to one article reads only this entry.
Entries older than a day of event time expire, so that an article may be shown again. The memory for state is limited;
the size of the state is not. Needs ``pip install 'flott[rocksdb]'``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from flott.common import Configuration, Duration, Time, WatermarkStrategy
from flott.datastream import (
    EmbeddedRocksDBStateBackend,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.state import MapStateDescriptor, StateTtlConfig

READERS, ARTICLES, REQUESTS = 8, 5_000, 50_000
START_MS = 1_767_225_600_000  # 2026-01-01
THREE_DAYS_MS = 3 * 86_400_000

#: (reader, article, time)
Request = tuple[str, int, int]


def request(index: int) -> Request:
    """Return the request of an index, which is deterministic: three days of requests, in order of time."""
    chance = random.Random(index)
    reader = f"reader-{chance.randrange(READERS)}"
    return reader, chance.randrange(ARTICLES), START_MS + index * THREE_DAYS_MS // REQUESTS


class ShowOnce(KeyedProcessFunction[str, Request, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        a_day = StateTtlConfig.new_builder(Time.days(1)).use_event_time().build()
        descriptor = MapStateDescriptor("shown", int, int)
        descriptor.enable_time_to_live(a_day)
        self.shown = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Request, ctx: KeyedProcessFunction.Context[str]) -> None:
        _, article, at_ms = value
        if not self.shown.contains(article):  # reads one row of the database, regardless of the size of the map
            self.shown.put(article, at_ms)
        ctx.timer_service().register_event_time_timer(START_MS + THREE_DAYS_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[str]:
        latest, articles = 0, 0
        for at_ms in self.shown.values():  # fetched as the loop proceeds
            latest, articles = max(latest, at_ms), articles + 1
        hours = (latest - START_MS) // 3_600_000
        yield f"{ctx.get_current_key()}: {articles} articles within a day, the last one after {hours} hours"


def main(env: StreamExecutionEnvironment) -> None:
    settings = Configuration()
    settings.set_string("taskmanager.memory.managed.size", "8 mb")
    env.configure(settings)
    env.set_state_backend(EmbeddedRocksDBStateBackend())  # or state.backend.type: rocksdb
    requests = DataGeneratorSource(request, count=REQUESTS)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_assigner(
        lambda request, _: request[2]
    )
    (
        env.from_source(requests, in_event_time, "requests")
        .set_parallelism(1)  # so that the requests of a reader are in order of time
        .key_by(lambda request: request[0])
        .process(ShowOnce())
        .uid("show once")
        .print()
    )
    env.execute("state in RocksDB")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
