"""A story is run, and what happens is observed: what was read, fired and refused, and how far event time came.

The engine runs it in-process and on a manual clock, so it is the same every time. Times are seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flott.common import Duration, Time, WatermarkStrategy
from flott.common._watermark_report import TimePlace
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream import DataStream, OutputTag, ProcessJoinFunction, StreamExecutionEnvironment, WindowFunction
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.window import TimeWindow
from flott.runtime.jobmanager.time_report import explain
from flott.testing import Cancel, ManualClock, ScriptedSource, in_process, live


class Record(NamedTuple):
    """A record of a story."""

    key: str
    second: int
    value: int


class Fired(NamedTuple):
    """A result of a window."""

    key: str
    start: float
    end: float
    records: tuple[Record, ...]

    @property
    def total(self) -> int:
        return sum(record.value for record in self.records)


@dataclass(frozen=True)
class Happened:
    """What was observed, each with the number of its epoch."""

    read: list[tuple[int, Any]]
    results: list[tuple[int, Any]]
    aside: list[tuple[int, Any]]
    dropped: list[tuple[int, Any]]
    watermarks: dict[int, float | None]  #: epoch -> where event time was at its end, in seconds; None: not begun

    @property
    def epochs(self) -> list[int]:
        return sorted(self.watermarks)


class Contents(WindowFunction[Record, Fired, str, TimeWindow]):
    """The window itself as a result."""

    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Record]) -> Iterator[Fired]:
        yield Fired(key, window.start / 1000, window.end / 1000, tuple(inputs))


LATE = OutputTag("late")
Program = Callable[[DataStream[Record]], DataStream[Any]]


def in_order(slack_seconds: int = 0) -> WatermarkStrategy:
    """Event time follows the records, so many seconds behind."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(slack_seconds))
    return strategy.with_timestamp_assigner(lambda record, _: record.second * 1000)


def observe(script: Sequence[Any], program: Program, slack_seconds: int = 0) -> Happened:
    """Run a story and see what happens."""
    env = in_process(parallelism=1)
    source = env.from_source(ScriptedSource(script, endless=True), in_order(slack_seconds), "story")
    seen = _Seen()
    source.sink_to(seen.into("read"))
    results = program(source)
    results.sink_to(seen.into("results"))
    results.get_side_output(LATE).sink_to(seen.into("aside"))
    return seen.run(env)


class _Seen:
    """Collects what sinks are given, with the epoch in which they are given it."""

    def __init__(self) -> None:
        self.epoch = 0
        self.lists: dict[str, list[tuple[int, Any]]] = {"read": [], "results": [], "aside": []}

    def into(self, name: str) -> CallableSink[Any]:
        return CallableSink(lambda value: self.lists[name].append((self.epoch, value)))

    def run(self, env: StreamExecutionEnvironment) -> Happened:
        def on_step(_: str, epoch: int) -> None:
            self.epoch = epoch

        with tempfile.TemporaryDirectory() as folder:
            life = live(env, folder, clock=ManualClock(0, until_ms=60_000), on_step=on_step)
        assert life.failure is None, life.failure
        watermarks = {epoch.epoch: seconds_of(epoch.watermark) for epoch in life.history.epochs if epoch.records_in}
        return Happened(**self.lists, dropped=self._dropped(life.history.epochs), watermarks=watermarks)

    def _dropped(self, epochs: Iterable[Any]) -> list[tuple[int, Any]]:
        """The records that the ledger of late records says are lost."""
        entries = [(epoch.epoch, entry) for epoch in epochs for entry in epoch.ledger.values() if entry.dropped]
        assert all(entry.dropped == len(entry.samples) for _, entry in entries), "the ledger has samples of a few only"
        lost = {(epoch, sample.record) for epoch, entry in entries for sample in entry.samples}
        return [(epoch, record) for epoch, record in self.lists["read"] if (epoch, repr(record)) in lost]


def seconds_of(watermark: int) -> float | None:
    """Nothing up to and with the watermark is expected any more: event time is one millisecond later."""
    return None if watermark == MIN_WATERMARK else (watermark + 1) / 1000


# --- splits -----------------------------------------------------------------------------------------------------------


def observe_splits(
    splits: Mapping[str, Sequence[Any]], idle_after_ms: int, epochs: int
) -> tuple[list[tuple[int, Record]], dict[int, TimePlace]]:
    """The records of each epoch, and where source and splits were at its end, as the report on event time says."""
    places: dict[int, TimePlace] = {}
    read: list[tuple[int, Record]] = []
    for last in range(1, epochs + 1):
        read, places[last] = _until(last, splits, idle_after_ms)
    return read, places


def _until(
    last: int, splits: Mapping[str, Sequence[Any]], idle_after_ms: int
) -> tuple[list[tuple[int, Record]], TimePlace]:
    """The same until the end of an epoch, after which the job is cancelled."""
    seen, env = _Seen(), in_process(parallelism=1)
    strategy = in_order().with_idleness(Duration.of_millis(idle_after_ms))
    env.from_source(ScriptedSource(splits, endless=True), strategy, "story").sink_to(seen.into("read"))

    def on_step(step: str, epoch: int) -> None:
        seen.epoch = epoch
        if step == "committed" and epoch == last:
            raise Cancel

    with tempfile.TemporaryDirectory() as folder:
        life = live(env, folder, clock=ManualClock(0, until_ms=60_000), on_step=on_step)
        (sink,) = explain(life.master.time_snapshot()).places
    return seen.lists["read"], next(place for place in _upstream(sink) if place.name == "Source: story")


def _upstream(place: TimePlace) -> Iterator[TimePlace]:
    yield place
    for source in place.inputs:
        yield from _upstream(source)


# --- pairs ------------------------------------------------------------------------------------------------------------


class Paired(ProcessJoinFunction[Record, Record, tuple[Record, Record]]):
    """Both records as they are."""

    def process_element(
        self, left: Record, right: Record, ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[Record, Record]]:
        yield left, right


def observe_pairs(
    left: Sequence[Record], right: Sequence[Record], bounds: tuple[int, int]
) -> list[tuple[Record, Record]]:
    """What an interval join makes of two streams."""
    seen, env = _Seen(), in_process(parallelism=1)
    one, other = (
        env.from_source(ScriptedSource(records, endless=True), in_order(), name).key_by(key_of)
        for name, records in (("left", left), ("right", right))
    )
    lower, upper = (Time.seconds(bound) for bound in bounds)
    one.interval_join(other).between(lower, upper).process(Paired()).sink_to(seen.into("results"))
    return [pair for _, pair in seen.run(env).results]


def key_of(record: Record) -> str:
    """The key of a record."""
    return record.key
