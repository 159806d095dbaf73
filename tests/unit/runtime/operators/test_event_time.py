"""Event time: the slowest channel counts, idle ones do not, splits keep their own time, and timers follow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Duration, WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkGenerator
from flott.datastream.functions import KeyedProcessFunction, ProcessFunction
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.epoch.gate import combine
from flott.runtime.operators.operator import EventTime
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait

IDLE, END = True, True
NEVER, EVER = MIN_WATERMARK, MAX_WATERMARK


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        ([], EventTime(NEVER, idle=True)),
        ([EventTime(5)], EventTime(5)),
        ([EventTime(5), EventTime(3)], EventTime(3)),
        ([EventTime(5), EventTime(3, IDLE)], EventTime(5)),
        ([EventTime(5, IDLE), EventTime(3, IDLE)], EventTime(5, idle=True)),
        ([EventTime(NEVER, IDLE), EventTime(3)], EventTime(3)),
        ([EventTime(EVER, ended=END), EventTime(3)], EventTime(3)),
        ([EventTime(EVER, ended=END), EventTime(EVER, ended=END)], EventTime(EVER, ended=END)),
        # As in Flink: an idle channel holds nobody back, not even from the end of the others.
        ([EventTime(EVER, ended=END), EventTime(3, IDLE)], EventTime(EVER)),
    ],
)
def test_event_time_over_channels_is_that_of_the_slowest_one_that_counts(
    channels: list[EventTime], expected: EventTime
) -> None:
    assert combine(channels) == expected


ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[1])


class Late(KeyedProcessFunction[Any, Any, Any]):
    """Emits each record with the watermark it met, and each key's timer."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        watermark = ctx.timer_service().current_watermark()
        yield ("late" if ctx.timestamp() <= watermark else "timely"), value, watermark
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp, ctx.timer_service().current_watermark()


def run(source: ScriptedSource, folder: Path, strategy: WatermarkStrategy = ASCENDING, **how: Any) -> list[Any]:
    """What ``Late`` emits for a source, and the epochs it took (as the last element)."""
    ledger = Ledger(uuid4().hex)
    incarnation = run_into(ledger, source, folder, strategy, **how)
    assert incarnation.failure is None, incarnation.failure
    return ledger.records


def run_into(
    ledger: Ledger, source: ScriptedSource, folder: Path, strategy: WatermarkStrategy = ASCENDING, **how: Any
) -> Incarnation:
    env = in_process(how.pop("parallelism", 2), restart_strategy__type="fixed-delay")
    stream = env.from_source(source, strategy, "items").uid("items")
    chained = stream.process(Pass()) if how.pop("chained", False) else stream
    chained.key_by(lambda item: item[0]).process(Late()).uid("late").sink_to(LedgerSink(ledger)).uid("sink")
    return live(env, folder, **how)


class Pass(ProcessFunction[Any, Any]):
    """Calls a record late by the watermark of its own subtask, next to the source."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if ctx.timestamp() <= ctx.timer_service().current_watermark():
            yield ("late at the source", value[1])
        yield value


def test_a_record_is_late_if_it_is_not_after_the_watermark_of_the_previous_epoch(tmp_path: Path) -> None:
    script = [("k", 10), ("k", 3), EndOfEpoch(), ("k", 9), ("k", 10), ("k", 8), EndOfEpoch(), ("k", 11)]
    found = run(ScriptedSource(script), tmp_path)
    assert [(kind, item[1]) for kind, item, _ in found if kind != "timer"] == [
        ("timely", 10), ("timely", 3), ("late", 9), ("timely", 10), ("late", 8), ("timely", 11),
    ]  # fmt: skip


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_splits_with_ascending_timestamps_have_no_late_records_whatever_happens(
    tmp_path: Path, seed: int, chained: bool
) -> None:
    """Splits are of different speed, are read in epochs of different size, and the job crashes and is rescaled."""
    random = Random(seed)
    script = {}
    for split in range(random.randint(1, 5)):
        time, entries = random.randrange(100), []
        for _ in range(random.randint(1, 30)):
            time += random.choice([1, 1, 5, 40])
            entries += [(f"key{random.randrange(4)}", time), *random.choices([[], [EndOfEpoch()]], [2, 1])[0]]
        script[f"split{split}"] = entries
    source, ledger = ScriptedSource(script), Ledger(uuid4().hex)
    parallelism = random.randint(1, 4)
    while True:
        left = random.randint(1, 20)

        def die(step: str, epoch: int) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        incarnation = run_into(ledger, source, tmp_path, chained=chained, parallelism=parallelism, on_step=die)
        if not incarnation.crashed:
            break
        if random.random() < 0.3:
            parallelism = random.randint(1, 4)
    assert incarnation.failure is None
    assert [record for record in ledger.records if record[0].startswith("late")] == []
    items = [entry for entries in script.values() for entry in entries if not isinstance(entry, EndOfEpoch)]
    assert sorted(r[1] for r in ledger.records if r[0] == "timely") == sorted(items)
    assert sum(r[0] == "timer" for r in ledger.records) >= len({(key, time) for key, time in items})


def test_a_silent_split_holds_event_time_back_without_idleness(tmp_path: Path) -> None:
    busy = [("a", 10), EndOfEpoch(), ("a", 20), EndOfEpoch(), ("a", 30)]
    found = run(ScriptedSource({"busy": busy, "slow": [("b", 1), Wait(5_000), ("b", 2)]}), tmp_path)
    assert [record[1] for record in found if record[0] == "timer"] == [1, 2, 10, 20, 30]
    assert all(record[0] != "late" for record in found)


def test_an_idle_split_releases_event_time_without_new_input(tmp_path: Path) -> None:
    script = {"busy": [("a", 10), EndOfEpoch(), ("a", 20)], "slow": [("b", 1)]}
    clock, seen = ManualClock(0, until_ms=60_000), Ledger(uuid4().hex)
    strategy = ASCENDING.with_idleness(Duration.of_millis(700))
    incarnation = run_into(seen, ScriptedSource(script, endless=True), tmp_path, strategy, clock=clock)
    timers = [record[1:] for record in seen.records if record[0] == "timer"]
    # "slow" stands at 0 and holds "busy" back until it has been silent for 700 ms.
    assert timers == [(1, 19), (10, 19)]
    assert [epoch.epoch for epoch in incarnation.history.epochs] == [1, 2, 3]


def test_when_everything_is_idle_no_epochs_run(tmp_path: Path) -> None:
    clock, seen = ManualClock(0, until_ms=60_000), Ledger(uuid4().hex)
    source = ScriptedSource({"busy": [("a", 10)], "slow": [("b", 1)]}, endless=True)
    strategy = ASCENDING.with_idleness(Duration.of_millis(100))
    incarnation = run_into(seen, source, tmp_path, strategy, clock=clock)
    assert [epoch.epoch for epoch in incarnation.history.epochs] == [1, 2]


def test_the_end_of_a_bounded_input_fires_everything(tmp_path: Path) -> None:
    found = run(ScriptedSource([("a", 5), ("b", 7), ("a", 7)]), tmp_path)
    assert sorted(record[1] for record in found if record[0] == "timer") == [5, 7, 7]
    assert {record[2] for record in found if record[0] == "timer"} == {MAX_WATERMARK}


def test_a_source_that_has_ended_does_not_hold_back_another(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(2)
    short = env.from_source(ScriptedSource([("a", 1)]), ASCENDING, "short")
    script = [("b", 50), EndOfEpoch(), ("b", 60), EndOfEpoch(), ("b", 70), EndOfEpoch(), ("b", 80)]
    long = env.from_source(ScriptedSource(script), ASCENDING, "long")
    short.union(long).key_by(lambda item: item[0]).process(Late()).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    met = {record[1][1]: record[2] for record in ledger.records if record[0] != "timer"}
    assert met[60] == 49
    assert met[80] == 69


# --- generators of one's own -----------------------------------------------------------------------------------------


class Counting(WatermarkGenerator):
    """Every third record of its split moves event time; remembers across epochs."""

    def __init__(self) -> None:
        self.seen = 0
        self.newest = 0

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        self.seen += 1
        self.newest = max(self.newest, timestamp)
        if self.seen % 3 == 0:
            output.emit_watermark(Watermark(self.newest))

    def on_periodic_emit(self, output: Any) -> None:
        return None


class Periodic(Counting):
    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        self.seen += 1

    def on_periodic_emit(self, output: Any) -> None:
        output.emit_watermark(Watermark(self.seen * 10))


ONE_BY_ONE = [entry for n in range(1, 8) for entry in (("k", n), EndOfEpoch())]


@pytest.mark.parametrize("middle", [False, True])
@pytest.mark.parametrize(
    ("generator", "watermarks"),
    [(Counting, [NEVER, NEVER, NEVER, 3, 3, 3, 6]), (Periodic, [NEVER, 10, 20, 30, 40, 50, 60])],
)
def test_a_generator_keeps_its_state_from_epoch_to_epoch_and_over_crashes(
    tmp_path: Path, generator: Any, watermarks: list[int], middle: bool
) -> None:
    strategy = WatermarkStrategy.for_generator(generator).with_timestamp_assigner(lambda item, _: item[1])
    ledger = Ledger(uuid4().hex)
    source = ScriptedSource(ONE_BY_ONE)
    for crash_at in (2, 5, 99):
        env = in_process(1)
        if middle:
            stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
            stamped = stream.assign_timestamps_and_watermarks(strategy)
        else:
            stamped = env.from_source(source, strategy, "items")
        stamped.key_by(lambda item: item[0]).process(Late()).sink_to(LedgerSink(ledger))

        def die(step: str, epoch: int, at: int = crash_at) -> None:
            if step == "completed" and epoch == at:
                raise Crash

        assert live(env, tmp_path, on_step=die).failure is None
    assert [record[2] for record in ledger.records if record[0] != "timer"] == watermarks


class Punctuated(WatermarkGenerator):
    """A record "mark" says that everything before it has come."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        if value[0] == "mark":
            output.emit_watermark(Watermark(timestamp))

    def on_periodic_emit(self, output: Any) -> None:
        return None


@pytest.mark.parametrize("middle", [False, True])
def test_a_watermark_counts_from_the_end_of_its_epoch_and_never_goes_back(tmp_path: Path, middle: bool) -> None:
    """Records first, then the watermark: what follows a mark in the same epoch is not late."""
    script = [
        ("k", 5), ("mark", 10), ("k", 6), EndOfEpoch(), ("k", 7), ("mark", 8), EndOfEpoch(), ("k", 9), ("mark", 20),
        ("mark", 15), EndOfEpoch(), ("k", 30),
    ]  # fmt: skip
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda item, _: item[1])
    ledger, env = Ledger(uuid4().hex), in_process(1)
    stream = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks() if middle else strategy, "items")
    stamped = stream.assign_timestamps_and_watermarks(strategy) if middle else stream
    stamped.key_by(lambda item: item[0]).process(Late()).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    met = [(item[1], watermark) for kind, item, watermark in ledger.records if kind != "timer"]
    assert met == [
        (5, NEVER), (10, NEVER), (6, NEVER), (7, 10), (8, 10), (9, 10), (20, 10), (15, 10), (30, 20),
    ]  # fmt: skip


def test_every_split_has_a_generator_of_its_own(tmp_path: Path) -> None:
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda item, _: item[1])
    slower = [("k", 1), EndOfEpoch(), ("mark", 5), EndOfEpoch(), ("k", 6)]
    script = {"x": [("mark", 10), EndOfEpoch(), ("k", 11)], "y": slower}
    found = run(ScriptedSource(script), tmp_path, strategy, parallelism=1)
    met = {item[1]: watermark for kind, item, watermark in found if kind != "timer"}
    assert met == {10: NEVER, 1: NEVER, 11: NEVER, 5: NEVER, 6: 5}


def test_after_a_change_of_parallelism_every_generator_goes_on_where_the_slowest_was(tmp_path: Path) -> None:
    strategy = WatermarkStrategy.for_generator(Periodic).with_timestamp_assigner(lambda item, _: item[1])
    ledger, source = Ledger(uuid4().hex), ScriptedSource(ONE_BY_ONE)
    for parallelism, crash_at in ((1, 4), (2, 99)):
        env = in_process(parallelism)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "items").uid("items").set_parallelism(1)
        stamped = stream.rescale().assign_timestamps_and_watermarks(strategy).uid("time")
        stamped.key_by(lambda item: item[0]).process(Late()).uid("late").sink_to(LedgerSink(ledger)).uid("sink")

        def die(step: str, epoch: int, at: int = crash_at) -> None:
            if step == "completed" and epoch == at:
                raise Crash

        assert live(env, tmp_path, on_step=die).failure is None
    met = [record[2] for record in ledger.records if record[0] != "timer"]
    assert met == [NEVER, 10, 20, 30, 40, 40, 50]


# --- timers ----------------------------------------------------------------------------------------------------------


class Alarm(KeyedProcessFunction[Any, Any, Any]):
    """Sets a timer in processing time for each record, and another from each timer."""

    def open(self, runtime_context: Any) -> None:
        self.rings = runtime_context.get_state(ValueStateDescriptor("rings"))

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + value[1])
        timers.register_processing_time_timer(timers.current_processing_time() + value[1])  # one timer, not two

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rings = (self.rings.value() or 0) + 1
        self.rings.update(rings)
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time(), ctx.time_domain().name
        if rings < 3:
            ctx.timer_service().register_processing_time_timer(timestamp + 1_000)


def test_a_processing_time_timer_wakes_an_idle_job_and_nothing_else_does(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(0, until_ms=10_000_000)
    env = in_process(2, flott__epoch__poll_interval="10 min")
    source = ScriptedSource([("a", 60_000), ("b", 90_000)], endless=True)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
    stream.key_by(lambda item: item[0]).process(Alarm()).sink_to(LedgerSink(ledger))

    def stop(step: str, epoch: int) -> None:
        if step == "committed" and len(ledger.records) == 6:
            raise Cancel

    incarnation = live(env, tmp_path, clock=clock, on_step=stop)
    rung = [(key, at) for key, at, now, domain in ledger.records if now >= at and domain == "PROCESSING_TIME"]
    assert rung == [("a", 60_000), ("a", 61_000), ("a", 62_000), ("b", 90_000), ("b", 91_000), ("b", 92_000)]
    assert len(incarnation.history.epochs) == 7, "one for the input, one for each timer"


def test_a_timer_that_is_due_is_not_lost_in_a_crash(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(0, until_ms=10_000_000)
    source = ScriptedSource([("a", 5_000)], endless=True)

    def life(on_step: Any) -> Incarnation:
        env = in_process(1, flott__epoch__poll_interval="10 min")
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "items")
        stream.key_by(lambda item: item[0]).process(Alarm()).sink_to(LedgerSink(ledger))
        return live(env, tmp_path, clock=clock, on_step=on_step)

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("ran", 2):
            raise Crash

    def stop(step: str, epoch: int) -> None:
        if len(ledger.records) == 3:
            raise Cancel

    assert life(die).crashed
    clock.advance(3_600_000)
    life(stop)
    # The epoch that was planned before the crash keeps its clock; the timers after it are overdue and fire at once.
    assert [(at, now) for _, at, now, _ in ledger.records] == [(5_000, 5_000), (6_000, 3_605_000), (7_000, 3_605_000)]


class Snooze(KeyedProcessFunction[Any, Any, Any]):
    """A record of length 0 deletes the timer that the one before set; all others set one, perhaps in the past."""

    def open(self, runtime_context: Any) -> None:
        self.at = runtime_context.get_state(ValueStateDescriptor("at"))

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        if value[1] == 0:
            timers.delete_processing_time_timer(self.at.value())
            return
        self.at.update(timers.current_processing_time() + value[1])
        timers.register_processing_time_timer(self.at.value())

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_processing_time()


def test_a_deleted_timer_wakes_nobody_and_an_overdue_one_fires_at_once_in_order(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(10_000, until_ms=120_000)
    script = [("gone", 5_000), Wait(1_000), ("gone", 0), ("b", -5), ("a", -5), ("c", -700), ("later", 2_000)]
    env = in_process(1)
    stream = env.from_source(ScriptedSource(script, endless=True), WatermarkStrategy.no_watermarks(), "items")
    stream.key_by(lambda item: item[0]).process(Snooze()).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path, clock=clock)
    assert ledger.records == [
        ("c", 10_300, 11_000), ("a", 10_995, 11_000), ("b", 10_995, 11_000), ("later", 13_000, 13_000),
    ]  # fmt: skip
    assert len(incarnation.history.epochs) == 3


class Ordered(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        for at in (30, 10, 20, 10):
            timers.register_event_time_timer(at)
        timers.delete_event_time_timer(20)
        timers.delete_event_time_timer(25)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if timestamp == 10:
            ctx.timer_service().register_event_time_timer(15)
            ctx.timer_service().register_event_time_timer(1_000_000)
        yield ctx.get_current_key(), timestamp, ctx.timestamp()


def test_event_timers_fire_in_order_once_each_and_may_set_others(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    script = [("b", 1), ("a", 2), EndOfEpoch(), ("a", 50), EndOfEpoch(), ("z", 51)]
    stream = env.from_source(ScriptedSource(script), ASCENDING, "items").filter(lambda item: item[1] != 50)
    stream.key_by(lambda item: item[0]).process(Ordered()).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    before_z = [record for record in ledger.records if record[0] != "z" and record[1] < 1_000_000]
    assert before_z == [(key, at, at) for at in (10, 15, 30) for key in ("a", "b")]
    assert sorted(record[:2] for record in ledger.records if record[1] == 1_000_000) == [
        ("a", 1_000_000), ("b", 1_000_000), ("z", 1_000_000),
    ]  # fmt: skip


def test_an_aborted_epoch_fires_its_timers_again_and_only_once_visibly(tmp_path: Path) -> None:
    script = [("k", 1), EndOfEpoch(), ("k", 2), Abort(1), ("k", 3), EndOfEpoch(), ("k", 4)]
    found = run(ScriptedSource(script), tmp_path)
    assert [record[1] for record in found if record[0] == "timer"] == [1, 2, 3, 4]


def test_idleness_in_the_middle_of_a_stream_releases_event_time_too(tmp_path: Path) -> None:
    ledger, clock = Ledger(uuid4().hex), ManualClock(0, until_ms=60_000)
    env = in_process(1)
    strategy = ASCENDING.with_idleness(Duration.of_millis(500))
    streams = [
        env.from_source(ScriptedSource(script, endless=True), WatermarkStrategy.no_watermarks(), name)
        .map(lambda item: item)
        .assign_timestamps_and_watermarks(strategy)
        for name, script in {"busy": [("a", 10), EndOfEpoch(), ("a", 20)], "silent": [("b", 1)]}.items()
    ]
    streams[0].union(streams[1]).key_by(lambda item: item[0]).process(Late()).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path, clock=clock)
    assert incarnation.failure is None
    assert [record[1:] for record in ledger.records if record[0] == "timer"] == [(1, 19), (10, 19)]
    assert len(incarnation.history.epochs) == 3


def test_a_stream_that_wakes_up_holds_event_time_back_again(tmp_path: Path) -> None:
    script = {
        "busy": [("a", 10), Wait(2_000), ("a", 20), Wait(100), ("a", 30), EndOfEpoch(), ("a", 40)],
        "sleepy": [("b", 1), Wait(2_050), ("b", 25), Wait(10), ("b", 26)],
    }
    clock, seen = ManualClock(0), Ledger(uuid4().hex)
    strategy = ASCENDING.with_idleness(Duration.of_millis(500))
    incarnation = run_into(seen, ScriptedSource(script), tmp_path, strategy, clock=clock)
    assert incarnation.failure is None
    met = {record[1][1]: record[2] for record in seen.records if record[0] != "timer"}
    assert met[20] == 9, "idle from 500 to 2000 ms: the furthest is as far as anyone knows"
    assert met[30] <= 25, "b is awake again and holds a back"
    assert [record for record in seen.records if record[0] == "late"] == []
