"""Latency markers: in order with records, part of nothing, and as old as the records that were sent with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration
from flott.common import _options as options
from flott.common._ids import EpochId, SubtaskIndex
from flott.common.execution_config import ExecutionConfig
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import READ_BATCH_RECORDS
from flott.errors import ConfigurationError
from flott.graph.chain import chain
from flott.graph.job_graph import VertexId
from flott.graph.operator_ids import OperatorId
from flott.runtime.clock import SystemClock
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.epoch.report import EpochResult, SubtaskReport
from flott.runtime.epoch.report_sums import whole_of
from flott.runtime.epoch.wire import decode_batch
from flott.runtime.pipelined.input_channels import InputChannels
from flott.runtime.pipelined.latency_tracking import LatencyTracking
from flott.runtime.pipelined.links import LocalLinks
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.messages import Buffer, Channel, LatencyMarker, Message
from flott.testing.clock import ManualClock
from flott.testing.harness import Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_pipelined_jobs import NO_WATERMARKS, counting, expected_counts, pipelined
from tests.unit.runtime.pipelined.test_slot_processes import committed, expected, program
from tests.unit.runtime.pipelined.test_unaligned_checkpoints import expected as expected_unaligned
from tests.unit.runtime.pipelined.test_unaligned_checkpoints import stall, unaligned

EVERY_SECOND = {"metrics__latency__interval": "1 s"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Channel, Message]]:
    """Everything that tasks in this process transmit, in order."""
    found: list[tuple[Channel, Message]] = []
    transmit = LocalLinks.transmit

    def noting(self: LocalLinks, channel: Channel, message: Message) -> None:
        found.append((channel, message))
        transmit(self, channel, message)

    monkeypatch.setattr(LocalLinks, "transmit", noting)
    return found


def markers_in(sent: Sequence[tuple[Channel, Message]]) -> list[LatencyMarker]:
    return [message for _, message in sent if isinstance(message, LatencyMarker)]


def ages_in(life: Incarnation) -> dict[LatencyPath, MarkerAges]:
    """The ages of all markers of a job, by path."""
    total: dict[LatencyPath, MarkerAges] = {}
    for epoch in life.history.epochs:
        for subtask in epoch.subtasks:
            for path, ages in subtask.latencies.items():
                total[path] = total[path].plus(ages) if path in total else ages
    return total


def operator_id(env: StreamExecutionEnvironment, name: str) -> OperatorId:
    graph = chain(env.get_stream_graph(clear_transformations=False))
    return next(ident for ident, found in graph.operators.items() if name in found.node.name)


class Slow(LocalPipeline):
    """The clock passes between two stages, so everything takes 30 ms to the second and 60 ms to the third."""

    def __init__(self, clock: ManualClock, stage_ms: int = 30):
        super().__init__(clock)
        self._manual = clock
        self._stage_ms = stage_ms

    def _work(self) -> bool:
        worked = False
        for stage in range(self._stages):
            for slot in self._slots:
                while slot.work_in_stage(stage):
                    worked = True
            if stage < self._stages - 1:
                self._manual.advance(self._stage_ms)
        return worked


# --- whether there are any -------------------------------------------------------------------------------------------


def test_by_default_nothing_is_sent_and_nothing_measured(
    tmp_path: Path, sent: list[tuple[Channel, Message]]
) -> None:
    clock = ManualClock(0)
    pipeline = LocalPipeline(clock)
    looked: list[object] = []

    def look(step: str, epoch: int) -> None:
        looked.extend(task._latency for slot in pipeline.slots for task in slot.tasks.values())

    env = pipelined(2)
    counting(env, ScriptedSource([1, Wait(5000), 2]), Ledger("off"))
    life = live(env, tmp_path, clock=clock, pipeline=pipeline, on_step=look)
    assert sent
    assert looked
    assert not any(looked)
    assert markers_in(sent) == []
    assert ages_in(life) == {}


def test_epochs_have_no_markers(tmp_path: Path) -> None:
    env = in_process(2, **EVERY_SECOND)
    counting(env, ScriptedSource([1, EndOfEpoch(), 2]), Ledger("epochs"))
    life = live(env, tmp_path)
    assert life.status is JobStatus.FINISHED
    assert ages_in(life) == {}


def test_a_source_without_input_sends_a_marker_every_interval(
    tmp_path: Path, sent: list[tuple[Channel, Message]]
) -> None:
    env = pipelined(1, interval="1 h", **EVERY_SECOND)
    counting(env, ScriptedSource([1, Wait(5000), 2]), Ledger("silent"))
    life = live(env, tmp_path, clock=ManualClock(0))
    assert [marker.made_ms for marker in markers_in(sent)] == [0, 1000, 2000, 3000, 4000, 5000]
    assert {ages.count for ages in ages_in(life).values()} == {6}


def test_a_source_that_has_ended_sends_no_more(tmp_path: Path, sent: list[tuple[Channel, Message]]) -> None:
    env = pipelined(1, interval="1 h", **EVERY_SECOND)
    short = env.from_source(ScriptedSource([1]), NO_WATERMARKS, "short").uid("short")
    long = env.from_source(ScriptedSource([2, Wait(5000), 3]), NO_WATERMARKS, "long").uid("long")
    short.union(long).key_by(lambda n: n).map(lambda n: n).sink_to(LedgerSink(Ledger("ended")))
    ids = {name: operator_id(env, name) for name in ("short", "long")}
    live(env, tmp_path, clock=ManualClock(0))
    made = Counter(marker.source for marker in markers_in(sent))
    assert made[ids["short"]] == 1
    assert made[ids["long"]] == 6


# --- where they go ---------------------------------------------------------------------------------------------------


#: A buffer holds more than a source reads at once.
LARGE = TaskSettings(buffer_records=3000)


class Read:
    """How many records a source has read, by the clock that passes with them."""

    clock = ManualClock(0)
    records = 0


def reading(n: int) -> int:
    Read.records += 1
    Read.clock.advance(1)
    return n


def read_with_markers(folder: Path, interval: str, sent: list[tuple[Channel, Message]]) -> list[Message]:
    """Read several batches in a round, a millisecond for each record; return what went through the only channel."""
    Read.clock, Read.records = ManualClock(0), 0
    sent.clear()
    env = pipelined(
        1, interval="1 h", metrics__latency__interval=interval, execution__buffer_timeout__interval="1 h",
        flott__pipelined__round_duration="1 h",
    )  # fmt: skip
    numbers = env.from_source(ScriptedSource(list(range(12 * READ_BATCH_RECORDS))), NO_WATERMARKS, "numbers")
    numbers.map(reading).key_by(lambda n: 0).map(lambda n: n).sink_to(LedgerSink(Ledger("read")))
    assert live(env, folder, clock=Read.clock, settings=LARGE).status is JobStatus.FINISHED
    return [message for _, message in sent]


def records_in(message: Message) -> int:
    if not isinstance(message, Buffer):
        return 0
    payload = message.payload
    return len((decode_batch(payload) if isinstance(payload, bytes) else payload)[0])


def test_a_marker_comes_behind_the_records_before_it_and_with_their_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: list[tuple[Channel, Message]]
) -> None:
    read_before: list[int] = []
    make = LatencyTracking.make

    def noting(self: LatencyTracking, now_ms: int) -> None:
        read_before.append(Read.records)
        make(self, now_ms)

    monkeypatch.setattr(LatencyTracking, "make", noting)
    messages = read_with_markers(tmp_path / "on", "1 ms", sent)
    found, ahead = [], 0
    for message in messages:
        ahead += records_in(message)
        if isinstance(message, LatencyMarker):
            found.append(ahead)
    assert READ_BATCH_RECORDS in read_before  # while a round is being read, which has more than a batch
    assert len(read_before) > 3
    assert len(found) == len(read_before)
    limit = LARGE.buffer_records + READ_BATCH_RECORDS
    assert all(before <= ahead < before + limit for before, ahead in zip(read_before, found, strict=True))
    assert found != read_before, "some have waited for their buffer"
    # No buffer left earlier than it would have.
    without = read_with_markers(tmp_path / "off", "0 ms", sent)
    assert list(filter(None, map(records_in, messages))) == list(filter(None, map(records_in, without)))


def test_a_marker_goes_to_one_receiver_of_every_edge_and_all_have_their_share(
    tmp_path: Path, sent: list[tuple[Channel, Message]]
) -> None:
    env = pipelined(3, interval="1 h", **EVERY_SECOND)
    numbers = env.from_source(ScriptedSource([1, Wait(60_000), 2]), NO_WATERMARKS, "numbers").set_parallelism(1)
    first = numbers.key_by(lambda n: n).map(lambda n: n).name("first")
    first.key_by(lambda n: n).map(lambda n: n).name("second").sink_to(LedgerSink(Ledger("one")))
    numbers.rebalance().map(lambda n: n).name("beside").sink_to(LedgerSink(Ledger("other")))
    live(env, tmp_path, clock=ManualClock(0))
    by_edge: dict[int, list[tuple[Channel, LatencyMarker]]] = {}
    for channel, message in sent:
        if isinstance(message, LatencyMarker):
            by_edge.setdefault(message.edge, []).append((channel, message))
    assert len(by_edge) == 3
    for found in by_edge.values():
        assert [marker.made_ms for _, marker in found] == [1000 * n for n in range(61)]
        assert {channel.receiver.partition for channel, _ in found} == {0, 1, 2}


def test_markers_skip_functions_and_are_not_counted_as_records(tmp_path: Path) -> None:
    env = pipelined(2, interval="1 h", **EVERY_SECOND)
    ledger = Ledger("skipped")
    counting(env, ScriptedSource([1, Wait(5000), 2]), ledger)
    life = live(env, tmp_path, clock=ManualClock(0))
    assert Counter(ledger.records) == Counter([(1, 1), (2, 1)])
    counted = {traffic for epoch in life.history.epochs for traffic in epoch.operators.values()}
    assert counted == {(0, 2), (2, 2), (2, 0)}


# --- how old they are ------------------------------------------------------------------------------------------------


def staged(**settings: str) -> StreamExecutionEnvironment:
    """A source with a map in its chain, a map behind an exchange, and a map and a sink behind another."""
    env = pipelined(1, interval="1 h", **settings)
    numbers = env.from_source(ScriptedSource([1, Wait(5000), 2]), NO_WATERMARKS, "numbers")
    first = numbers.map(lambda n: n).name("chained").key_by(lambda n: n).map(lambda n: n).name("first")
    first.key_by(lambda n: n).map(lambda n: n).name("second").sink_to(LedgerSink(Ledger("staged"))).name("out")
    return env


def test_every_operator_measures_the_age_of_the_markers_that_reach_it(tmp_path: Path) -> None:
    env, clock = staged(**EVERY_SECOND), ManualClock(0)
    ids = {name: operator_id(env, name) for name in ("numbers", "chained", "first", "second", "out")}
    life = live(env, tmp_path, clock=clock, pipeline=Slow(clock))
    ages = ages_in(life)
    found = {path.operator: set(one.last_ms) for path, one in ages.items()}
    assert found == {ids["chained"]: {0}, ids["first"]: {30}, ids["second"]: {60}, ids["out"]: {60}}
    assert {(path.subtask, path.source, path.source_subtask) for path in ages} == {(0, ids["numbers"], None)}


def test_back_pressure_shows_in_the_age_and_a_blocked_source_sends_nothing(
    tmp_path: Path, sent: list[tuple[Channel, Message]]
) -> None:
    stalled_ms = 400

    class Stalling(LocalPipeline):
        """The last stage does nothing for a while."""

        def _work(self) -> bool:
            worked = False
            for slot in self.slots:
                while slot.work_in_stage(0):
                    worked = True
            if clock.now_ms() < stalled_ms:
                return worked  # the job waits, and time passes
            for slot in self.slots:
                while slot.work_in_stage(1):
                    worked = True
            return worked

    clock = ManualClock(0)
    env = pipelined(1, interval="50 ms", metrics__latency__interval="20 ms", flott__epoch__max_records="50")
    ledger = Ledger("pressed")
    counting(env, ScriptedSource(list(range(300))), ledger)
    tight = TaskSettings(buffer_records=1, input_memory_bytes=1)
    life = live(env, tmp_path, clock=clock, pipeline=Stalling(clock), settings=tight)
    assert Counter(ledger.records) == expected_counts(300)
    ages = [age for found in ages_in(life).values() for age in found.last_ms]
    assert max(ages) >= stalled_ms  # the first marker waited from the beginning
    made = [marker.made_ms for marker in markers_in(sent)]
    assert made[0] == 0
    assert not [at for at in made if 100 < at < stalled_ms]


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_an_unaligned_checkpoint_with_markers_in_its_queues_restores_the_records_and_no_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Message] = []
    restored: list[Message] = []
    record, restore = InputChannels.record, InputChannels.restore

    def noting(self: InputChannels, checkpoint: EpochId) -> Any:
        waiting.extend(message for channel in self.channels.values() for message in channel.queue)
        return record(self, checkpoint)

    def restoring(self: InputChannels, rows: Any) -> None:
        restore(self, rows)
        restored.extend(message for channel in self.channels.values() for message in channel.queue)

    monkeypatch.setattr(InputChannels, "record", noting)
    monkeypatch.setattr(InputChannels, "restore", restoring)
    ledger = Ledger("markers-restored")
    stall(unaligned(2, ledger, metrics__latency__interval="5 ms"), tmp_path, after=2)
    assert {Buffer, LatencyMarker} <= {message.__class__ for message in waiting}
    restored.clear()
    life = live(unaligned(3, ledger, metrics__latency__interval="5 ms"), tmp_path, clock=ManualClock(9000))
    assert life.status is JobStatus.FINISHED
    assert any(isinstance(message, Buffer) for message in restored)
    assert not any(isinstance(message, LatencyMarker) for message in restored)
    assert Counter(ledger.records) == expected_unaligned()


def test_nothing_comes_behind_the_last_barrier(tmp_path: Path, sent: list[tuple[Channel, Message]]) -> None:
    class Hasty(ManualClock):
        def now_ms(self) -> int:
            self.advance(1)
            return super().now_ms()

    class Passing(LocalPipeline):
        """Tasks are called as in a process of their own, also those that are over."""

        def _work(self) -> bool:
            worked = [slot.work() for slot in self.slots]
            return any(worked)

    def on_step(step: str, epoch: int) -> None:
        if step == "ran":
            clock.advance(5000)
            pipeline._work()

    env, clock = pipelined(2, interval="5 ms", **EVERY_SECOND), Hasty(0)
    counting(env, ScriptedSource({split: list(range(100)) for split in "ab"}), Ledger("hasty"))
    pipeline = Passing(clock)
    life = live(env, tmp_path, clock=clock, pipeline=pipeline, on_step=on_step)
    assert life.status is JobStatus.FINISHED
    assert markers_in(sent)
    assert all(getattr(message, "final", False) for message in dict(sent).values())


def test_what_was_measured_up_to_a_failed_checkpoint_belongs_to_the_next() -> None:
    path, other = LatencyPath(OperatorId("o"), 0), LatencyPath(OperatorId("p"), 0)

    def result(**ages: MarkerAges) -> EpochResult:
        paths = {"path": path, "other": other}
        latencies = {paths[name]: found for name, found in ages.items()}
        report = SubtaskReport(VertexId("v"), SubtaskIndex(0), "1", {}, {}, None, 0.0, 1, latencies=latencies)
        return EpochResult((report,))

    earlier = (result(path=MarkerAges(3, (1, 2))), result(other=MarkerAges(1, (7,))))
    whole = whole_of(EpochResult(result(path=MarkerAges(1, (5,))).reports, earlier=earlier))
    assert whole.reports[0].latencies == {path: MarkerAges(4, (1, 2, 5)), other: MarkerAges(1, (7,))}


# --- sockets ---------------------------------------------------------------------------------------------------------


def test_markers_go_through_sockets(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    markers = {"metrics__latency__interval": "1 ms", "metrics__latency__granularity": "subtask"}
    env = program(out, tmp_path / "mark", None, **markers)
    life = live(env, tmp_path / "job", clock=SystemClock(), pipeline=ProcessPipeline())
    assert life.status is JobStatus.FINISHED, life.failure
    assert committed(out) == expected()
    ages = ages_in(life)
    assert {(path.source_subtask, path.subtask) for path in ages} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert all(age >= 0 for found in ages.values() for age in found.last_ms)


# --- settings --------------------------------------------------------------------------------------------------------


def test_pyflinks_setter_is_the_option() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert config.get_latency_tracking_interval() == 0
    assert config.set_latency_tracking_interval(250) is config
    assert config.get_latency_tracking_interval() == options.read(configuration, options.LATENCY_INTERVAL) == 250
    assert config.set_latency_tracking_interval(-1).get_latency_tracking_interval() == 0
    options.validate(configuration)


def test_pyflinks_setter_makes_sources_send_markers(tmp_path: Path, sent: list[tuple[Channel, Message]]) -> None:
    env = pipelined(1, interval="1 h")
    env.get_config().set_latency_tracking_interval(500)
    counting(env, ScriptedSource([1, Wait(1000), 2]), Ledger("set"))
    live(env, tmp_path, clock=ManualClock(0))
    assert [marker.made_ms for marker in markers_in(sent)] == [0, 500, 1000]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics.latency.interval", "-1 ms"),
        ("metrics.latency.granularity", "all"),
        ("metrics.latency.history-size", "0"),
    ],
)
def test_a_wrong_setting_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError):
        options.check(key, value)
