"""A simulation of a pipelined job: tasks take their steps in any order, and the job crashes at any step.

A seed decides the program's shape, how small buffers and channels are, in which order tasks of all slots work, how far
they get before the driver looks, whether the source is followed or read in rounds, and when the job crashes or is
continued with another parallelism or in epochs: by another driver, or by an order to the one that runs. It also decides
when state files become durable or cannot be written, and how long a checkpoint may take: checkpoints are given up at
any step, and the tasks run on. The output must be that of a model. What a sink has committed is all that counts.

All shapes end with an exchange by key, a counter and windows. Before them records come from the source directly,
through a rebalanced edge, on two ways that are united, from two sources through one function, or by a broadcast edge.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from flott.common import Duration, Time, WatermarkStrategy
from flott.common._ids import EpochId
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import Watermark, WatermarkGenerator
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.functions import (
    AggregateFunction,
    CoMapFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.jobmaster.execution_mode import ADAPTIVE, JobMode
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import JobFailure, JobListener, ModeChange
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.managed_state.files.channel_file import QueueEnd
from flott.runtime.orders import RescaleJob, TakeCheckpoint, TakeSavepoint
from flott.runtime.pipelined.control import SlotEvent
from flott.runtime.pipelined.file_writing import FilesAside, ImmediateWriter, Then
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.slot import TaskSlot
from flott.runtime.storage import Storage
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Faults, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource
from tests.programs.slow_pipeline import buffers_saved
from tests.simulation.simulation import SeedFailed

MAX_LIVES = 40
MAX_ORDERS = 30
WINDOW_MS = 40
BOUND_MS = 8


class Shape(Enum):
    """How records come from their source to the exchange by key."""

    DIRECT = "direct"
    REBALANCED = "rebalanced"
    DIAMOND = "diamond"
    TWO_INPUTS = "two inputs"
    BROADCAST = "broadcast"


#: Subtasks of the vertex behind a broadcast edge: each record comes so many times.
COPIES = 2


class ShuffledPipeline(LocalPipeline):
    """Lets tasks of all slots take their steps in a random order, and some steps only before the driver looks."""

    follows_splits = True

    def __init__(
        self,
        random: Random,
        clock: ManualClock,
        crash_rate: float,
        slow_stage: int | None = None,
        interfere: Callable[[], None] = lambda: None,
    ):
        super().__init__(clock, lambda: LateWriter(random))
        #: Its tasks work one time in ten at first, so that buffers wait before them.
        self._slow_stage = slow_stage
        self._slow_looks = 0 if slow_stage is None else random.randint(20, 200)
        self._random = random
        self._manual = clock
        self._crash_rate = crash_rate
        self._interfere = interfere  #: called whenever the driver looks
        self.steps = 0
        self.most_waiting = 0  #: messages in a channel, over all channels and steps
        self.saved: Counter[QueueEnd] = Counter()  #: buffers that became part of checkpoints

    def events(self) -> list[SlotEvent]:
        """Take random steps; fail as a whole now and then."""
        self._interfere()
        self._slow_looks = max(0, self._slow_looks - 1)
        places = [(slot, stage) for slot in self.slots for stage in range(self._stages)]
        for _ in range(self._random.randint(1, 30)):
            if self._random.random() < self._crash_rate:
                raise Crash
            slot, stage = self._random.choice(places)
            if self._slow_looks and stage == self._slow_stage and self._random.random() < 0.9:
                continue
            for _ in range(self._random.choice((1, 1, 2, 8))):
                if not slot.work_in_stage(stage):
                    break
                self.steps += 1
            self._look(slot)
            slot.finish_writing()
        if self._random.random() < 0.3:
            self._manual.advance(self._random.randint(1, 20))
        happened = list(self._events)
        self._events.clear()
        self.saved.update(buffers_saved(happened))
        return happened

    def _look(self, slot: TaskSlot) -> None:
        for task in slot.tasks.values():
            for channel in task.inputs.channels.values():
                self.most_waiting = max(self.most_waiting, len(channel.queue))


class LateWriter(ImmediateWriter):
    """Makes files durable at some later time, and in their order."""

    def __init__(self, random: Random):
        super().__init__()
        self._random = random
        self._waiting: deque[tuple[FilesAside, Storage, Then]] = deque()

    def write(self, files: FilesAside, storage: Storage, then: Then) -> None:
        self._waiting.append((files, storage, then))
        if self._random.random() < 0.5:
            self.finish()

    def finish(self) -> None:
        """Write some of what waits."""
        while self._waiting and self._random.random() < 0.5:
            super().write(*self._waiting.popleft())


class Restless:
    """Lets an adaptive job want the other mode at any time, not only after a while with or without a backlog."""

    def __init__(self, random: Random, rate: float):
        self._random = random
        self._rate = rate
        self._wants = False

    @property
    def is_leaving(self) -> Callable[[JobMode, int, bool], bool]:
        """Return what takes the place of the method."""

        def is_leaving(mode: JobMode, now_ms: int, backlog: bool) -> bool:
            self._wants = self._wants or self._random.random() < self._rate
            return self._wants and mode.name == ADAPTIVE

        return is_leaving

    @property
    def change(self) -> Callable[[JobMode], str]:
        """Return what takes the place of the method."""

        def change(mode: JobMode) -> str:
            mode.is_pipelined, self._wants = not mode.is_pipelined, False
            return "it is restless"

        return change


class Punctuated(WatermarkGenerator):
    """Emits for every third record, at once."""

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        if value[0] % 3 == 0:
            output.emit_watermark(Watermark(timestamp - BOUND_MS))

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Either(CoMapFunction[Any, Any, Any]):
    """Passes the records of both inputs on."""

    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


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


class PipelinedSeedFailed(SeedFailed):
    """A seed gave an output that the model does not have."""

    def __init__(self, what: str):
        AssertionError.__init__(self, what)


@dataclass
class PipelinedSimulation:
    """One seed."""

    seed: int
    exactly_once: bool = True
    unaligned: bool = False
    shape: Shape | None = None  #: None: the seed decides
    saved: Counter[QueueEnd] = field(init=False, default_factory=Counter)
    random: Random = field(init=False)
    ledger: Ledger = field(init=False)
    lives: int = field(init=False, default=0)
    most_waiting: int = field(init=False, default=0)
    counted_twice: bool = field(init=False, default=False)
    given_up: int = field(init=False, default=0)  #: checkpoints that failed while tasks ran on
    mode_changes: int = field(init=False, default=0)
    orders: int = field(init=False, default=0)  #: to have another parallelism, a checkpoint or a savepoint
    rescaled: int = field(init=False, default=0)  #: times that the job got another parallelism

    def __post_init__(self) -> None:
        self.random = Random(f"pipelined:{self.seed}")
        self.ledger = Ledger(f"pipelined-{self.seed}-{uuid4().hex}")
        splits, per_split = self.random.randint(1, 4), self.random.randint(1, 120)
        self.script = {
            f"split {split}": [(split * 1000 + n, n * 3 + self.random.randint(0, 5)) for n in range(per_split)]
            for split in range(splits)
        }
        self.keys = self.random.randint(1, 9)
        self.shape = self.shape or Random(f"shape:{self.seed}").choice((Shape.DIRECT, Shape.DIRECT, *Shape))
        first = 500_000
        self.other_script = {"other": [(first + number, at) for number, at in self.script["split 0"]]}
        bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND_MS))
        strategy = self.random.choice((bounded, WatermarkStrategy.for_generator(Punctuated)))
        self.strategy = strategy.with_timestamp_assigner(lambda record, _: record[1])
        #: A round of many small batches takes so many random steps that it would exceed the short ones every time.
        self.timeouts_ms = (10, 30, 100_000) if strategy is bounded else (100_000,)
        if self.shape is not Shape.DIRECT and strategy is bounded:
            self.timeouts_ms = (500, 100_000)  # more tasks need more steps, or the job does nothing but restart

    def __str__(self) -> str:
        guarantee = "unaligned" if self.unaligned else "aligned" if self.exactly_once else "at least once"
        return f"pipelined seed {self.seed} ({guarantee}, {self.shape.value if self.shape else ''})"

    def run(self) -> None:
        """Live until a life ends by itself, then compare."""
        with tempfile.TemporaryDirectory() as folder:
            crash_rate = self.random.choice((0.0, 0.001, 0.004, 0.02))
            while self.lives < MAX_LIVES:
                self.lives += 1
                if self._live(folder, crash_rate if self.lives < MAX_LIVES // 2 else 0.0):
                    self._compare()
                    return
        raise PipelinedSeedFailed(f"{self}: no life of {MAX_LIVES} came to its end")

    def _live(self, folder: str, crash_rate: float) -> bool:
        random, clock = self.random, ManualClock(1_000_000 + self.lives * 100_000)
        mode = random.choice(("pipelined", "pipelined", "adaptive", "epochs"))
        slow_stage = random.choice((None, 1, 2, 3)) if self.unaligned else None
        restless = Restless(random, random.choice((0.0, 0.01, 0.1)))
        masters: list[JobMaster] = []
        ordering = random.choice((0.0, 0.02, 0.1))

        def order() -> None:
            if masters and random.random() < ordering and self.orders < MAX_ORDERS:
                self.orders += 1
                rescale, savepoint = RescaleJob(random.randint(1, 4)), TakeSavepoint(f"{folder}/savepoints")
                masters[0].submit(random.choice((rescale, rescale, savepoint, TakeCheckpoint())))

        pipeline = ShuffledPipeline(random, clock, crash_rate, slow_stage, order)
        steps_left = random.randint(3, 30) if random.random() < 0.5 else -1

        def on_step(step: str, epoch: int) -> None:
            nonlocal steps_left
            steps_left -= 1
            if steps_left == 0:
                raise Crash

        settings = TaskSettings(
            buffer_records=random.choice((1, 2, 7, 1024)), input_memory_bytes=random.choice((1, 1 << 20))
        )
        failing = random.choice((0.0, 0.0, 0.05, 0.15))
        # Not what the driver writes: a checkpoint that cannot be published restarts the tasks.
        faults = Faults(lambda verb, name: verb == "write" and "state/" in name and random.random() < failing)
        with patch.object(JobMode, "is_leaving", restless.is_leaving), patch.object(JobMode, "change", restless.change):
            life = live(
                self._program(mode), folder, clock=clock, on_step=on_step, pipeline=pipeline, settings=settings,
                storage=UnreliableStorage(folder, sync=False, faults=faults), listeners=[_Told(self)],
                on_start=masters.append,
            )  # fmt: skip
        self.most_waiting = max(self.most_waiting, pipeline.most_waiting)
        self.saved += pipeline.saved
        if not life.crashed and life.status is not JobStatus.FINISHED:
            raise PipelinedSeedFailed(f"{self}, life {self.lives}: {life.status.name}, {life.failure}")
        return not life.crashed

    def _program(self, mode: str) -> StreamExecutionEnvironment:
        random = self.random
        env = in_process(
            random.randint(1, 4),
            execution__mode=mode,
            execution__checkpointing__interval=f"{random.choice((1, 5, 30))} ms",
            execution__checkpointing__mode="EXACTLY_ONCE" if self.exactly_once else "AT_LEAST_ONCE",
            flott__epoch__max_records=str(random.choice((3, 20, 1000))),
            execution__checkpointing__timeout=f"{random.choice(self.timeouts_ms)} ms",
            execution__checkpointing__tolerable_failed_checkpoints=str(
                random.choice((3, 1000) if self.shape is Shape.DIRECT else (1000, 1000))
            ),
            restart_strategy__type="fixed-delay",
            restart_strategy__fixed_delay__attempts="10000",
            restart_strategy__fixed_delay__delay="1 ms",
        )
        if self.unaligned:
            env.get_checkpoint_config().enable_unaligned_checkpoints()
            timeout = Duration.of_millis(random.choice((0, 0, 1, 5, 20)))
            env.get_checkpoint_config().set_aligned_checkpoint_timeout(timeout)
        env.set_max_parallelism(12)
        keys = self.keys
        source = ScriptedSource(self.script, followed=random.random() < 0.5)
        records = self._shaped(env, env.from_source(source, self.strategy, "records").uid("records"))
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

    def _shaped(self, env: StreamExecutionEnvironment, records: DataStream[Any]) -> DataStream[Any]:
        match self.shape:
            case Shape.REBALANCED:
                return records.rebalance().map(lambda record: record).uid("rebalanced")
            case Shape.DIAMOND:
                odd = records.filter(lambda record: record[0] % 2 == 1).uid("odd")
                even = records.rebalance().filter(lambda record: record[0] % 2 == 0).uid("even")
                return odd.union(even)
            case Shape.TWO_INPUTS:
                source = ScriptedSource(self.other_script, followed=self.random.random() < 0.5)
                others = env.from_source(source, self.strategy, "others").uid("others")
                return records.rebalance().connect(others.rebalance()).map(Either()).uid("either")
            case Shape.BROADCAST:
                return records.broadcast().map(lambda record: record).uid("copies").set_parallelism(COPIES)
            case _:
                return records

    def _records(self) -> list[Any]:
        """Return the records that come to the exchange by key."""
        records = [record for split in self.script.values() for record in split]
        if self.shape is Shape.TWO_INPUTS:
            records += self.other_script["other"]
        return records * (COPIES if self.shape is Shape.BROADCAST else 1)

    def _compare(self) -> None:
        records = self._records()
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
                f"{self}, {self.lives} lives: missing {list((expected - found).items())[:5]},"
                f" too much {list((found - expected).items())[:5]}"
            )

    @staticmethod
    def _at_least(records: Counter[Any]) -> Counter[Any]:
        """Return the highest number of each key, and the number of records in each window."""
        highest: Counter[Any] = Counter()
        for kind, key, *numbers in records:
            place = (kind, key) if kind == "count" else (kind, key, numbers[0])
            highest[place] = max(highest[place], numbers[-1])
        return highest


class _Told(JobListener):
    """Counts checkpoints that were given up, and changes of the mode and of the parallelism."""

    def __init__(self, simulation: PipelinedSimulation):
        self._simulation = simulation

    def on_epoch_failed(self, epoch: EpochId, failure: JobFailure, tolerated: bool) -> None:
        self._simulation.given_up += tolerated

    def on_mode(self, change: ModeChange) -> None:
        self._simulation.mode_changes += 1

    def on_rescale(self, epoch: EpochId, changes: Sequence[ParallelismChange]) -> None:
        self._simulation.rescaled += 1


def run_pipelined_seed(
    seed: int, exactly_once: bool = True, unaligned: bool = False, shape: Shape | None = None
) -> PipelinedSimulation:
    """Run one seed; raises if its output is not that of the model."""
    simulation = PipelinedSimulation(seed, exactly_once, unaligned, shape)
    simulation.run()
    return simulation


def run_pipelined_variant(seed: int) -> PipelinedSimulation:
    """Run one seed, which also decides how checkpoints are taken."""
    try:
        return run_pipelined_seed(seed, exactly_once=seed % 5 != 4, unaligned=seed % 5 in (1, 3))
    except Exception as error:
        again = f"python -m tests.simulation --pipelined-seed {seed}"
        raise PipelinedSeedFailed(f"{error}\nSee it again: {again}") from error
