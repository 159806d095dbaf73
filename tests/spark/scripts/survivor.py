"""A job with several stateful operators and two transactional sinks, and a fault that strikes it once.

    python survivor.py '{"folder": "/tmp/x", "fault": "worker", ...}'

Prints one line of JSON at its end: epochs, restarts, and the reasons for them. What it wrote is in ``folder/files``
(the file sink) and ``folder/ledger`` (a sink of its own: JSON files that appear by a rename).

Faults strike on record FATAL of the named operator, or at a step of the protocol in epoch 3; a marker file for each
place makes sure that they do so only once, whoever runs the record again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flott.common import Configuration, Duration, Encoder, WatermarkStrategy
from flott.datastream import OutputTag, StreamExecutionEnvironment
from flott.datastream.connectors.base import CommitPermit, Committer, Sink, SinkWriter, WriterContext
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flott.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from flott.datastream.state import MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener

RECORDS = 3_000
EPOCH_RECORDS = 500
FATAL = 1_234  #: in the third epoch
FATAL_EPOCH = 3
PERIOD_MS = 100

LARGE = OutputTag("large")


class Fault:
    """Strikes once; a value, so that it travels to tasks."""

    def __init__(self, kind: str, place: str, folder: str):
        self.kind, self.place, self.marker, self.driver = kind, place, f"{folder}/struck-{place}", os.getpid()

    def at_record(self, place: str, record: int) -> None:
        if place == self.place and record == FATAL:
            self.strike()

    def strike(self) -> None:
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        match self.kind:
            case "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            case "executor":
                os.kill(executor_of(os.getpid()), signal.SIGKILL)
                time.sleep(60)  # this worker dies with its executor, soon
            case "driver":
                os.kill(self.driver, signal.SIGKILL)
                time.sleep(0.2)
            case "exception":
                raise ValueError(f"record {FATAL} is one too many")


def executor_of(pid: int) -> int:
    """The executor a Python worker belongs to."""
    while pid > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("this worker has no executor of its own")


# --- the program ------------------------------------------------------------------------------------------------------


class Read(MapFunction[int, tuple[int, int]]):
    """Stage 0: record -> (customer, amount)."""

    def __init__(self, fault: Fault):
        self.fault = fault

    def map(self, value: int) -> tuple[int, int]:
        self.fault.at_record("read", value)
        return value % 37, value


class Account(KeyedProcessFunction[int, tuple[int, int], tuple[int, int, int]]):
    """Stage 1: a balance per customer, period totals from timers, large amounts aside."""

    def __init__(self, fault: Fault):
        self.fault = fault

    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance"))
        self.periods = runtime_context.get_map_state(MapStateDescriptor("periods"))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context[int]) -> Iterator[Any]:
        self.fault.at_record("account", value[1])
        balance = (self.balance.value() or 0) + value[1]
        self.balance.update(balance)
        end = value[1] - value[1] % PERIOD_MS + PERIOD_MS
        self.periods.put(end, (self.periods.get(end) or 0) + value[1])
        ctx.timer_service().register_event_time_timer(end - 1)
        if value[1] % 11 == 0:
            yield LARGE, (ctx.get_current_key(), value[1], balance)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[int]) -> Iterator[Any]:
        yield timestamp + 1, ctx.get_current_key(), self.periods.get(timestamp + 1)
        self.periods.remove(timestamp + 1)


class Rank(KeyedProcessFunction[int, tuple[int, int, int], str]):
    """Stage 2: per period, a running total and the number of customers so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b))
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(
        self, value: tuple[int, int, int], ctx: KeyedProcessFunction.Context[int]
    ) -> Iterator[str]:
        self.total.add(value[2])
        self.count.update((self.count.value() or 0) + 1)
        yield f"{value[0]} {self.count.value()} {self.total.get()}"


class LedgerSink(Sink[Any]):
    """Files that appear by a rename; the committer may be struck between two of them."""

    def __init__(self, folder: str, fault: Fault):
        self.folder, self.fault = folder, fault

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return LedgerWriter(f"{self.folder}/{context.epoch}-{context.subtask}-{context.attempt_id}")

    def create_committer(self) -> Committer:
        return LedgerCommitter(self.fault)


class LedgerWriter(SinkWriter[Any]):
    def __init__(self, name: str):
        self.name = name
        self.values: list[Any] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self.values.extend(values)

    def prepare_commit(self) -> list[Any]:
        Path(f"{self.name}.draft").write_text(json.dumps(self.values))
        return [self.name]


class LedgerCommitter(Committer):
    def __init__(self, fault: Fault):
        self.fault = fault

    def commit(self, permit: CommitPermit, committables: Sequence[Any]) -> None:
        for index, name in enumerate(committables):
            if self.fault.place == "commit" and permit.checkpoint_id == FATAL_EPOCH and index == 1:
                self.fault.strike()
            if not os.path.exists(f"{name}.json"):
                os.rename(f"{name}.draft", f"{name}.json")

    def discard(self, live_attempts: frozenset[str]) -> None:
        pass


class Diary(JobListener):
    """What the job went through."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.retried: list[int] = []
        self.restarts: list[str] = []

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.epochs.append(statistics.epoch)
        if statistics.attempt:
            self.retried.append(statistics.epoch)
        print(f"epoch {statistics.epoch}", flush=True)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts.append(card)


class StateRefused:
    """Makes a file of the state folder for three attempts at epoch 3: nothing can be written there, even by root."""

    def __init__(self, checkpoints: Path):
        self.checkpoints = checkpoints
        self.attempts = 0

    def __call__(self, step: str, epoch: int) -> None:
        if epoch != FATAL_EPOCH or step != "planned":
            return
        (job,) = self.checkpoints.iterdir()
        self.attempts += 1
        if self.attempts == 1:
            (job / "state").rename(job / "state.away")
            (job / "state").touch()
        if self.attempts == 4:
            (job / "state").unlink()
            (job / "state.away").rename(job / "state")


def build(env: StreamExecutionEnvironment, folder: str, fault: Fault, files_at: str) -> None:
    """The program; both sinks get every result exactly once."""
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20)).with_timestamp_assigner(
        lambda value, _: value
    )
    source = DataGeneratorSource(lambda index: index, count=RECORDS)
    accounts = (
        env.from_source(source, in_event_time, "amounts")
        .map(Read(fault)).uid("read")
        .key_by(lambda pair: pair[0])
        .process(Account(fault)).uid("account")
    )  # fmt: skip
    ranked = accounts.key_by(lambda row: row[0]).process(Rank()).uid("rank")
    files = (
        FileSink.for_row_format(files_at, Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    ranked.sink_to(files).uid("files")
    accounts.get_side_output(LARGE).sink_to(LedgerSink(f"{folder}/ledger", fault)).uid("ledger")


def run(settings: dict[str, Any]) -> dict[str, Any]:
    """Run the job to its end and return what it went through."""
    folder = settings["folder"]
    os.makedirs(f"{folder}/ledger", exist_ok=True)
    fault = Fault(settings.get("fault", "none"), settings.get("place", ""), folder)
    options = {
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "flott.epoch.max-records": EPOCH_RECORDS,
        "flott.epoch.initial-records": EPOCH_RECORDS,
        "flott.epoch.target-duration": "10 min",
        "flott.progress": "off",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "100 ms",
        **settings.get("options", {}),
    }
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, str(value))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    build(env, folder, fault, settings.get("files", f"{folder}/files"))
    diary = Diary()
    executors.extra_listeners.append(diary)
    if fault.kind == "storage":
        executors.step_hook = StateRefused(Path(folder, "checkpoints"))
    elif fault.kind == "driver" and fault.place not in ("read", "account", "commit"):
        executors.step_hook = lambda step, epoch: (
            fault.strike() if (step, epoch) == (fault.place, FATAL_EPOCH) else None
        )
    try:
        env.execute("survivor")
    finally:
        executors.extra_listeners.remove(diary)
        executors.step_hook = None
    return {"epochs": diary.epochs, "retried": diary.retried, "restarts": diary.restarts}


if __name__ == "__main__":
    own = json.loads(sys.argv[1])
    print(json.dumps(run({**own, "options": {"spark.master": "local[2]", **own.get("options", {})}})))
