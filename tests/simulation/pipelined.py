"""A simulation of a pipelined job: tasks take their steps in any order, and the job crashes at any step.

A seed decides the program's shape, how small buffers and channels are, in which order tasks of all slots work, how far
they get before the driver looks, and when the job crashes or is continued with another parallelism or in epochs. The
output must be that of a model. What a sink has committed is all that counts.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import uuid4

from flott.common import Duration, Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.pipelined.control import SlotEvent
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.slot import TaskSlot
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource

MAX_LIVES = 40
WINDOW_MS = 40


class PipelinedSeedFailed(AssertionError):
    """A seed gave an output that the model does not have."""


class ShuffledPipeline(LocalPipeline):
    """Lets tasks of all slots take their steps in a random order, and some steps only before the driver looks."""

    def __init__(self, random: Random, clock: ManualClock, crash_rate: float):
        super().__init__(clock)
        self._random = random
        self._manual = clock
        self._crash_rate = crash_rate
        self.steps = 0
        self.most_waiting = 0  #: messages in a channel, over all channels and steps

    def events(self) -> list[SlotEvent]:
        """Take random steps; fail as a whole now and then."""
        places = [(slot, stage) for slot in self.slots for stage in range(self._stages)]
        for _ in range(self._random.randint(1, 30)):
            if self._random.random() < self._crash_rate:
                raise Crash
            slot, stage = self._random.choice(places)
            for _ in range(self._random.choice((1, 1, 2, 8))):
                if not slot.work_in_stage(stage):
                    break
                self.steps += 1
            self._look(slot)
        if self._random.random() < 0.3:
            self._manual.advance(self._random.randint(1, 20))
        happened = list(self._events)
        self._events.clear()
        return happened

    def _look(self, slot: TaskSlot) -> None:
        for task in slot.tasks.values():
            for channel in task.inputs.channels.values():
                self.most_waiting = max(self.most_waiting, len(channel.queue))


class CountOfKey(KeyedProcessFunction[int, Any, Any]):
    """Numbers the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield "count", ctx.get_current_key(), self.count.value()


class _Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


class _Named(ProcessWindowFunction[int, Any, int, Any]):
    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterator[Any]:
        yield "window", key, context.window().start, *elements


@dataclass
class PipelinedSimulation:
    """One seed."""

    seed: int
    exactly_once: bool = True
    random: Random = field(init=False)
    ledger: Ledger = field(init=False)
    lives: int = field(init=False, default=0)
    most_waiting: int = field(init=False, default=0)
    counted_twice: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.random = Random(f"pipelined:{self.seed}")
        self.ledger = Ledger(f"pipelined-{self.seed}-{uuid4().hex}")
        splits, per_split = self.random.randint(1, 4), self.random.randint(1, 120)
        self.script = {
            f"split {split}": [(split * 1000 + n, n * 3 + self.random.randint(0, 5)) for n in range(per_split)]
            for split in range(splits)
        }
        self.keys = self.random.randint(1, 9)

    def run(self) -> None:
        """Live until a life ends by itself, then compare."""
        with tempfile.TemporaryDirectory() as folder:
            crash_rate = self.random.choice((0.0, 0.001, 0.004, 0.02))
            while self.lives < MAX_LIVES:
                self.lives += 1
                if self._live(folder, crash_rate if self.lives < MAX_LIVES // 2 else 0.0):
                    self._compare()
                    return
        raise PipelinedSeedFailed(f"seed {self.seed}: no life of {MAX_LIVES} came to its end")

    def _live(self, folder: str, crash_rate: float) -> bool:
        random, clock = self.random, ManualClock(1_000_000 + self.lives * 100_000)
        mode = random.choice(("pipelined", "pipelined", "pipelined", "epochs"))
        pipeline = ShuffledPipeline(random, clock, crash_rate)
        steps_left = random.randint(3, 30) if random.random() < 0.5 else -1

        def on_step(step: str, epoch: int) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0:
                raise Crash

        settings = TaskSettings(
            buffer_records=random.choice((1, 2, 7, 1024)), input_memory_bytes=random.choice((1, 1 << 20))
        )
        life = live(
            self._program(mode), folder, clock=clock, on_step=on_step, pipeline=pipeline, settings=settings
        )
        self.most_waiting = max(self.most_waiting, pipeline.most_waiting)
        if not life.crashed and life.status is not JobStatus.FINISHED:
            raise PipelinedSeedFailed(f"seed {self.seed}, life {self.lives}: {life.status.name}, {life.failure}")
        return not life.crashed

    def _program(self, mode: str) -> StreamExecutionEnvironment:
        random = self.random
        env = in_process(
            random.randint(1, 4),
            execution__mode=mode,
            execution__checkpointing__interval=f"{random.choice((1, 5, 30))} ms",
            execution__checkpointing__mode="EXACTLY_ONCE" if self.exactly_once else "AT_LEAST_ONCE",
            flott__epoch__max_records=str(random.choice((3, 20, 1000))),
        )
        env.set_max_parallelism(12)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(8)).with_timestamp_assigner(
            lambda record, _: record[1]
        )
        keys = self.keys
        records = env.from_source(ScriptedSource(self.script), strategy, "records").uid("records")
        counted = records.key_by(lambda record: record[0] % keys).process(CountOfKey()).uid("counted")
        counted.key_by(lambda found: found[1]).map(lambda found: found).uid("again").sink_to(
            LedgerSink(self.ledger)
        ).uid("counts")
        windows = (
            records.key_by(lambda record: record[0] % keys)
            .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
            .aggregate(_Count(), _Named())
            .uid("windows")
        )
        windows.sink_to(LedgerSink(self.ledger)).uid("sums")
        return env

    def _compare(self) -> None:
        records = [record for split in self.script.values() for record in split]
        per_key = Counter(number % self.keys for number, _ in records)
        expected: Counter[Any] = Counter(
            ("count", key, n) for key, count in per_key.items() for n in range(1, count + 1)
        )
        windows = Counter((number % self.keys, at // WINDOW_MS * WINDOW_MS) for number, at in records)
        expected.update(("window", key, start, count) for (key, start), count in windows.items())
        found = Counter(tuple(record) for record in self.ledger.records)
        if not self.exactly_once:
            self.counted_twice = found != expected
            # Every record was counted, perhaps twice: all numbers of a key were given, and windows are not smaller.
            expected, found = self._at_least(expected), self._at_least(found)
            found = Counter({place: min(count, expected[place]) for place, count in found.items()})
        if found != expected:
            raise PipelinedSeedFailed(
                f"seed {self.seed}, {self.lives} lives: missing {list((expected - found).items())[:5]}, too much"
                f" {list((found - expected).items())[:5]}"
            )


    @staticmethod
    def _at_least(records: Counter[Any]) -> Counter[Any]:
        """Return the highest number of each key, and the number of records in each window."""
        highest: Counter[Any] = Counter()
        for kind, key, *numbers in records:
            place = (kind, key) if kind == "count" else (kind, key, numbers[0])
            highest[place] = max(highest[place], numbers[-1])
        return highest


def run_pipelined_seed(seed: int, exactly_once: bool = True) -> PipelinedSimulation:
    """Run one seed; raises if its output is not that of the model."""
    simulation = PipelinedSimulation(seed, exactly_once)
    simulation.run()
    return simulation
