"""The workloads of large state as one Flott program, and what they have in common: settings, and a log of epochs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from bench import state
from bench.runners import command
from bench.workloads import digest, key_of
from flott.common import Configuration, JobClient, Types, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.checkpoint import paths
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.jobmaster.rescaling import ParallelismChange

#: By the variant of the runner.
BACKENDS = {"": "hashmap", "rocksdb": "rocksdb", "pipelined": "hashmap"}
#: How often the pipelined variant takes checkpoints; the others do at the end of each epoch.
INTERVALS = {"full": "1 s", "smoke": "50 ms"}
PATIENCE_SECONDS = 600


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


def environment(request: command.Request, epoch_records: int, **more: str) -> StreamExecutionEnvironment:
    """Epochs of just so many records, on the backend that the variant names, with checkpoints that a crash survives.

    The request's settings come last: a test runs in this process, without Spark.
    """
    configuration = Configuration()
    settings = {
        "state.backend.type": BACKENDS[request.variant],
        "taskmanager.memory.managed.size": state.MANAGED_MEMORY,
        "state.backend.rocksdb.localdir": str(request.scratch / "local"),
        "execution.checkpointing.dir": str(checkpoints(request)),
        "flott.epoch.initial-records": str(epoch_records),
        "flott.epoch.max-records": str(epoch_records),
        "flott.epoch.target-duration": "1 h",  # so that no epoch is made smaller because it took long
        "flott.progress": "off",
    }
    if request.variant == "pipelined":
        interval = INTERVALS["full" if request.shrink == 1 else "smoke"]
        settings |= {"execution.mode": "pipelined", "execution.checkpointing.interval": interval}
    for name, value in (settings | more | request.settings).items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(request.cores)
    return env


def checkpoints(request: command.Request) -> Path:
    """Where jobs keep their checkpoints."""
    return request.scratch / "checkpoints"


def totals(env: StreamExecutionEnvironment, stream: state.Stream) -> DataStream:
    """The running sums. Key and state have declared types, as PyFlink wants them: that is how they are saved."""
    source = NumberSequenceSource(0, stream.records - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    return numbers.map(stream.maker()).key_by(key_of, Types.LONG()).process(RunningSum()).uid("totals")


def submit(env: StreamExecutionEnvironment, stream: state.Stream, name: str) -> JobClient:
    """Run the program beside this thread; results go nowhere."""
    totals(env, stream).sink_to(DiscardSink())
    return env.execute_async(name)


def check(request: command.Request) -> float:
    """Check the results on a small input; the seconds this took hold the start of Spark."""
    started = time.perf_counter()
    stream = state.check_stream(request.cores)
    with totals(environment(request, stream.epoch_records), stream).execute_and_collect() as rows:
        found = digest("keyed_sum", rows)
    command.check(request.workload, found, state.expected(stream))
    return time.perf_counter() - started


# --- epochs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Epoch:
    """A completed epoch."""

    number: int
    ended: float  #: by ``time.perf_counter()``
    records: int
    written_bytes: int  #: state files of this epoch: what its checkpoint added
    state_bytes: int  #: of all files that the checkpoint consists of


class EpochLog(JobListener):
    """Notes every epoch of a job, and lets another thread wait for them."""

    def __init__(self, directory: Path) -> None:
        self.epochs: list[Epoch] = []
        self.rescaled: list[int] = []  #: the first epochs in another parallelism
        self._directory = directory
        self._changed = threading.Condition()
        self._ended = False

    def on_epoch(self, statistics: EpochStatistics) -> None:
        ended = time.perf_counter()
        written = self._written(statistics.epoch)
        epoch = Epoch(statistics.epoch, ended, statistics.records_in, written, statistics.state_bytes)
        with self._changed:
            self.epochs.append(epoch)
            self._changed.notify_all()

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        self.rescaled.append(epoch)

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        with self._changed:
            self._ended = self._ended or status.is_terminal_state()
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Until so many epochs are complete; an error if the job ends before."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.epochs) >= count or self._ended, PATIENCE_SECONDS)
            if len(self.epochs) < count:
                raise RuntimeError(f"{len(self.epochs)} of {count} epochs, and the job has ended or takes too long")

    def periods(self) -> dict[int, float]:
        """Seconds from the end of one epoch to the end of the next, by the number of that next."""
        following = zip(self.epochs, self.epochs[1:], strict=False)
        return {after.number: after.ended - before.ended for before, after in following}

    def _written(self, epoch: int) -> int:
        files = self._directory.glob(f"*/{paths.STATE}/*")
        own = [path for path in files if paths.epoch_of_state_file(path.name) == epoch and "-fold-" not in path.name]
        return sum(path.stat().st_size for path in own)


@contextmanager
def watched(request: command.Request) -> Iterator[EpochLog]:
    """A log of the epochs of the job that runs meanwhile."""
    log = EpochLog(checkpoints(request))
    executors.extra_listeners.append(log)
    try:
        yield log
    finally:
        executors.extra_listeners.remove(log)


def stretch_rates(epochs: Sequence[Epoch], stretches: int) -> list[float]:
    """Records a second of equal stretches; the first epoch only says when the first stretch begins."""
    length = (len(epochs) - 1) // stretches
    edges = [epochs[n * length] for n in range(stretches + 1)]
    records = [sum(epoch.records for epoch in epochs[n * length + 1 : (n + 1) * length + 1]) for n in range(stretches)]
    return [
        round(amount / (after.ended - before.ended), 1)
        for amount, before, after in zip(records, edges, edges[1:], strict=False)
    ]


def behind(epochs: Sequence[Epoch], records: int) -> list[Epoch]:
    """The epochs, or checkpoints, that begin after so many records; the last one also ends the job."""
    totals = accumulate(epoch.records for epoch in epochs)
    return [epoch for epoch, total in zip(epochs, totals, strict=True) if total >= records][:-1]


def median_written(epochs: Sequence[Epoch]) -> int:
    """The bytes that a checkpoint added."""
    return int(statistics.median(epoch.written_bytes for epoch in epochs))
