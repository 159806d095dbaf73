"""A story is run, and what happens is observed: what was read, fired and refused, and how far event time came.

The engine runs it in-process and on a manual clock, so it is the same every time. Times are seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import flott.state
from flott.common import Duration, Time, Types, WatermarkStrategy
from flott.common._watermark_report import TimePlace
from flott.common.completable_future import CompletableFuture
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TimeWindow
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.time_report import explain
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.managed_state.files.file_sequence import FileSequence, StateFile
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.orders import TakeSavepoint
from flott.state import StateSnapshot
from flott.testing import Cancel, EndOfEpoch, ManualClock, ScriptedSource, in_process, live


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


# --- state files ------------------------------------------------------------------------------------------------------


class Sum(KeyedProcessFunction[str, Record, Record]):
    """Adds the values of a key up in state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context[str]) -> Iterator[Record]:
        self.sum.update((self.sum.value() or 0) + value.value)
        yield value


@dataclass(frozen=True)
class WrittenFile:
    """A state file and what it says."""

    entries: dict[str, int]
    of_epochs: tuple[int, ...]  #: whose changes it holds

    @property
    def label(self) -> str:
        return "–".join(str(epoch) for epoch in sorted({self.of_epochs[0], self.of_epochs[-1]}))


@dataclass(frozen=True)
class SeenFiles:
    """Where the state of a job was, at the end of each epoch."""

    held: dict[int, dict[str, int]]  #: epoch -> all state
    sequences: dict[int, tuple[WrittenFile, ...]]  #: epoch -> the files that its checkpoint names
    savepoint: dict[str, int]  #: what its one file holds

    @property
    def written(self) -> dict[int, WrittenFile]:
        """The file that each epoch wrote."""
        return {epoch: sequence[-1] for epoch, sequence in self.sequences.items()}

    @property
    def compacted(self) -> list[WrittenFile]:
        """The files that were made of others."""
        return [file for file in self.sequences[max(self.sequences)] if len(file.of_epochs) > 1]


def observe_files(script: Sequence[Any]) -> SeenFiles:
    """Run a story with state, in which three files are compacted; end with a savepoint."""
    env = in_process(parallelism=1, execution__checkpointing__num_retained="100")
    source = env.from_source(ScriptedSource(script, endless=True), WatermarkStrategy.no_watermarks(), "story")
    source.key_by(key_of, Types.STRING()).process(Sum()).uid("sum").sink_to(CallableSink(lambda record: None))
    last = sum(isinstance(entry, EndOfEpoch) for entry in script)
    with tempfile.TemporaryDirectory() as folder:
        paths: list[CompletableFuture[str]] = []
        masters: list[JobMaster] = []

        def on_step(step: str, epoch: int) -> None:
            if (step, epoch) == ("committed", last):
                paths.append(masters[0].submit(TakeSavepoint(f"{folder}/savepoints")))

        life = live(
            env, f"{folder}/job", clock=ManualClock(0, until_ms=60_000), on_step=on_step, on_start=masters.append,
            compaction_rules=CompactionRules(rewrite_min_deltas=3),
        )  # fmt: skip
        assert life.failure is None, life.failure
        taken = {epoch: flott.state.open(f"{folder}/job/chk-{epoch}") for epoch in range(1, last + 1)}
        savepoint = flott.state.open(paths[0].result())
        assert len(_sequence_of(savepoint)) == 1
        return SeenFiles(
            {epoch: _sums_of(snapshot) for epoch, snapshot in taken.items()},
            {epoch: tuple(_file(taken[epoch], file) for file in _sequence_of(taken[epoch])) for epoch in taken},
            _sums_of(savepoint),
        )


def _sums_of(snapshot: StateSnapshot) -> dict[str, int]:
    return dict(snapshot.operator("sum").keyed("sum").items())


def _sequence_of(snapshot: StateSnapshot) -> FileSequence:
    (part,) = snapshot.operator("sum").parts
    return part.sequence


def _file(snapshot: StateSnapshot, file: StateFile) -> WrittenFile:
    names = file.covers or (file.name,)
    entries: dict[str, int] = {}
    with open_state_file(snapshot.storage, file.name) as reader:
        for _, deltas in reader.blocks(range(128)):
            put, values, _ = deltas["sum"]
            entries.update(zip(put, values, strict=True))
    return WrittenFile(entries, tuple(int(name.split("-")[2]) for name in names))
