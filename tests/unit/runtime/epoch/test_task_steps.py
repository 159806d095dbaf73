"""The steps of a task can be called at other times than those of an epoch, as a continuous mode would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flott.common import WatermarkStrategy
from flott.common._ids import EpochId
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flott.runtime.epoch.gate import InputGate
from flott.runtime.epoch.plan import EpochPlan, SubtaskState
from flott.runtime.epoch.report import OperatorReport
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.task import run_task
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.epoch.task_steps import advance_time, begin, read_input, restore_state, save_state
from flott.runtime.epoch.wire import DATA, Row, decode_batch
from flott.runtime.operators.watermarks import TimeProgress
from flott.testing.harness import in_process
from flott.testing.sources import ScriptedSource
from tests.unit.runtime.epoch.test_task import SMALL, Bench

CHUNKS = 4
RECORDS = 40


class Count(KeyedProcessFunction[int, int, Any]):
    """Counts the records of a key, and tells the count later, by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        ctx.timer_service().register_event_time_timer(value + 9)
        yield value, self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp, ctx.get_current_key(), self.count.value(), list(self.seen.get())


def program() -> StreamExecutionEnvironment:
    """Return a job of three stages with one task each: a source, the count, and a sink."""
    env = in_process(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    script = {"even": list(range(0, RECORDS, 2)), "odd": list(range(1, RECORDS, 2))}
    numbers = env.from_source(ScriptedSource(script), strategy, "numbers")
    counted = numbers.key_by(lambda n: n % 3).process(Count())
    counted.key_by(lambda item: str(item[0])).map(lambda item: item).sink_to(CallableSink(print))
    return env


class Continuous:
    """A task of stage 1 that is restored once and then only fed."""

    def __init__(self, bench: Bench, states: dict[Any, tuple[SubtaskState, ...]], name: str):
        self.name = name
        self.task = StageTask.build(bench.image, bench.image.topology.stages[1], 0)
        self.sent: list[Any] = []
        restore_state(self.task, EpochPlan("run", EpochId(1), 0, 1000, 7, {}, states), name)
        begin(self.task)

    def feed(self, rows: Sequence[Row], ends: bool = True) -> None:
        gate = InputGate(1 << 20)
        for row in rows:
            gate.add(row)
        for _ in read_input(self.task, gate, {}):
            self._send()
        if ends:
            advance_time(self.task, gate)
        self._send()

    def _send(self) -> None:
        while self.task.outbox:
            row = self.task.outbox.popleft()
            assert row[2] == DATA
            self.sent += decode_batch(row[6])[0].values

    def checkpoint(self, number: int) -> dict[Any, tuple[SubtaskState, ...]]:
        """Save the state between two batches, and go on."""
        reports: dict[Any, OperatorReport] = {}
        for saved in save_state(self.task, f"{self.name}-{number}"):
            reports |= saved.operators
        begin(self.task)
        return {
            ident: (SubtaskState(report.watermark, report.sequence or (), report.progress or TimeProgress()),)
            for ident, report in reports.items()
        }


def test_a_task_saves_its_state_between_any_two_batches_and_goes_on(tmp_path: Path) -> None:
    bench = Bench(program(), tmp_path, SMALL)
    size = RECORDS // 2 // CHUNKS
    chunks: list[list[Row]] = []
    for number in range(CHUNKS):
        plan = bench.plan(number + 1, number * size, (number + 1) * size)
        rows = [row for _, row in run_task(TaskCache(), bench.image, plan, 0, 0, f"source-{number}", [])]
        chunks.append([row for row in rows if row[0] == 1])
    whole = Continuous(bench, {}, "whole")
    for chunk in chunks:
        whole.feed(chunk)
    timers = [record for record in whole.sent if record[0] == "timer"]
    assert len(timers) > 20
    assert sorted(record[0] for record in whole.sent if record[0] != "timer") == list(range(RECORDS))

    task = Continuous(bench, {}, "first")
    task.feed(chunks[0])
    task.checkpoint(1)
    task.feed(chunks[1])
    data = [row for row in chunks[2] if row[2] == DATA]
    assert len(data) > 1
    task.feed(data[:1], ends=False)
    states = task.checkpoint(2)  # in the middle of a chunk: event time has not advanced
    before = list(task.sent)
    rest = [row for row in chunks[2] if row is not data[0]]
    recovered = Continuous(bench, states, "second")
    for after in (task, recovered):
        after.feed(rest)
        after.feed(chunks[3])
    assert task.sent == whole.sent
    assert before + recovered.sent == whole.sent
