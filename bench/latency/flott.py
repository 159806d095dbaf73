"""Flott: `python -m bench.latency.flott --timetable {...} --variant pipelined` (or `epochs`, each `-rocksdb`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import state
from bench.latency.samples import Taker
from bench.latency.timetable import SPLITS, Timetable, arguments, now_us
from flott.common import Configuration, Types, WatermarkStrategy
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.connectors.base import (
    READ_BATCH_RECORDS,
    Followed,
    Guarantee,
    Json,
    Pause,
    Records,
    Sink,
    SinkWriter,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor

#: When all records are due, the source is asked so often whether they were read.
LOOK_AGAIN_US = 50_000


class PacedEnumerator(SplitEnumerator):
    """Proposes the records of the fill, then those that are due. Split k of n has the numbers k, k + n, k + 2n, …"""

    def __init__(self, table: Timetable):
        self._table = table
        self._positions = list(range(SPLITS))  #: of each split, the number that comes next
        self._began_us = 0

    def restore(self, state: Json) -> None:
        self._positions, self._began_us = state

    @property
    def is_filled(self) -> bool:
        """Return whether every key has come."""
        return min(self._positions) >= self._table.fill

    def plan(self, request: SliceRequest) -> SlicePlan:
        table, now = self._table, now_us()
        if not self._began_us and self.is_filled:
            self._began_us = now + int(table.settle_s * 1e6)
        gave_up = bool(self._began_us) and now > self._began_us + int(table.longest_s * 1e6)
        if request.may_be_open and self._began_us and not gave_up and (slices := self._open_slices()):
            return SlicePlan(slices, wake_at_ms=self._looks_again_ms(now))
        due = table.due_by(now, self._began_us) if self._began_us else table.fill
        stop = min(due, min(self._positions) + request.max_records)
        stops = [start + max(0, -(-(stop - start) // SPLITS)) * SPLITS for start in self._positions]
        finished = gave_up or min(stops) >= table.records
        slices = tuple(
            Slice(str(split), start, stops[split], (stops[split] - start) // SPLITS,
                  ends_split=finished, detail=self._began_us)
            for split, start in enumerate(self._positions)
            if start < stops[split]
        )  # fmt: skip
        return SlicePlan(slices, finished=finished, backlog=stop < due)

    def _open_slices(self) -> tuple[Slice, ...]:
        return tuple(
            Slice(str(split), start, None, detail=self._began_us, is_open=True)
            for split, start in enumerate(self._positions)
            if start < self._table.records
        )

    def _looks_again_ms(self, now: int) -> int:
        """Return when all records are due or, from then on, a little later each time."""
        last_us = self._table.due_us(self._table.records - 1, self._began_us)
        return max(now + LOOK_AGAIN_US, last_us) // 1000

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        for split, position in reached.items():
            self._positions[int(split)] = position

    def snapshot(self) -> Json:
        return [self._positions, self._began_us]


class PacedReader(SourceReader[Any]):
    """Makes records: a key, and the time at which the record is due."""

    def __init__(self, table: Timetable):
        self._table = table
        self._reached: dict[str, int] = {}

    def records(self, numbers: range, began_us: int) -> list[Any]:
        """Return the records with these numbers."""
        table = self._table
        return [(table.key(number), table.due_us(number, began_us)) for number in numbers]

    def read(self, part: Slice) -> Iterator[Any]:
        for start in range(part.start, part.stop, READ_BATCH_RECORDS * SPLITS):
            stop = min(start + READ_BATCH_RECORDS * SPLITS, part.stop)
            yield from self.records(range(start, stop, SPLITS), part.detail)

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        table, began = self._table, parts[0].detail
        self._reached = {part.split: part.start for part in parts}
        while True:
            due = table.due_by(now_us(), began)
            for part in parts:
                start = self._reached[part.split]
                stop = min(start + READ_BATCH_RECORDS * SPLITS, start + -(-(due - start) // SPLITS) * SPLITS)
                if start < stop:
                    self._reached[part.split] = stop
                    yield part, Records(self.records(range(start, stop, SPLITS), began))
            nearest = min(self._reached.values())
            if nearest >= due:
                is_over = nearest >= table.records
                yield Pause(None if is_over else max(0.0, (table.due_us(nearest, began) - now_us()) / 1e6))

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split] if part.is_open else part.stop


class PacedSource(Source[Any]):
    """Gives so many records a second."""

    def __init__(self, table: Timetable):
        self.table = table

    def create_enumerator(self) -> SplitEnumerator:
        return PacedEnumerator(self.table)

    def create_reader(self) -> SourceReader[Any]:
        return PacedReader(self.table)


class RunningCount(KeyedProcessFunction[int, Any, Any]):
    """Counts the records of a key in value state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count, value[1]


class AgeSink(Sink[Any]):
    """Takes the ages of what is written."""

    def __init__(self, table: Timetable):
        self.table = table

    @property
    def guarantee(self) -> Guarantee | None:
        return None

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return AgeWriter(self.table, context.subtask)


class AgeWriter(SinkWriter[Any]):
    """Leaves a file when it is closed."""

    def __init__(self, table: Timetable, subtask: int):
        self._folder = table.folder
        self._taker = Taker(subtask, table.every)

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._taker.take(values)

    def close(self) -> None:
        self._taker.write(self._folder)


def environment(variant: str, folder: str, **more: str) -> StreamExecutionEnvironment:
    """Return an environment that checkpoints every second, in the mode and on the backend that the variant names."""
    mode, _, backend = variant.partition("-")
    configuration = Configuration()
    settings = {
        "execution.mode": mode,
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": f"{folder}/checkpoints-{uuid.uuid4().hex}",
        "state.backend.type": backend or "hashmap",
        "state.backend.rocksdb.localdir": f"{folder}/local",
        "taskmanager.memory.managed.size": state.MANAGED_MEMORY,
        "flott.progress": "off",
        "parallelism.default": str(SPLITS),
        "spark.master": f"local[{SPLITS}]",
        "restart-strategy.type": "none",
    }
    for key, value in (settings | more).items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def results(env: StreamExecutionEnvironment, source: Source[Any], function: KeyedProcessFunction) -> DataStream:
    """Return the stream of counts: one exchange, and a keyed function with value state."""
    records = env.from_source(source, WatermarkStrategy.no_watermarks(), "paced").uid("paced")
    return records.key_by(lambda record: record[0], Types.LONG()).process(function).uid("count")


def main() -> None:
    """Run one job to its end."""
    table, variant = arguments()
    env = environment(variant, str(Path(table.folder).parent))
    results(env, PacedSource(table), RunningCount()).sink_to(AgeSink(table))
    env.execute("latency")


if __name__ == "__main__":
    main()
