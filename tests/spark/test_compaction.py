"""Compaction beside the epochs on real Spark: in jobs of its own, with the program's classes, ended with the job."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import WatermarkStrategy
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.errors import JobCancelledError, WorkerLostError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.entrypoint import executors
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.spark import compactor
from flott.runtime.spark.compactor import SparkCompactor
from flott.runtime.spark.runner import SparkRunner
from flott.runtime.storage import PosixStorage
from tests.spark.conftest import MakeEnvironment

EPOCHS = 36


@dataclass
class Account:
    """What the state holds: a class that only the program knows."""

    count: int = 0


class Count(KeyedProcessFunction[int, int, tuple[int, int]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.account = runtime_context.get_state(ValueStateDescriptor("account"))

    def process_element(self, value: int, ctx: Any) -> Any:
        account = self.account.value() or Account()
        account.count += 1
        self.account.update(account)
        yield ctx.get_current_key(), account.count


class Compactions:
    """Watches the compactions of all runners."""

    def __init__(self, patch: pytest.MonkeyPatch, small: int):
        self.results: list[StateFile] = []
        self.groups: list[tuple[str | None, str | None]] = []  #: as a compaction's own thread, and the epochs', sees it
        self.lengths: list[int] = []
        patch.setattr(compactor, "SMALL_BYTES", small)
        compact, run = SparkCompactor.compact, SparkRunner.run

        def watched_compaction(runner: SparkCompactor, orders: Any, purpose: str) -> list[StateFile]:
            found = compact(runner, orders, purpose)
            self.results += found
            self.groups.append((runner._context.getLocalProperty("spark.jobGroup.id"), None))
            return found

        def watched_run(runner: SparkRunner, plan: Any, on_event: Any) -> None:
            try:
                run(runner, plan, on_event)
            finally:
                self.groups.append((None, runner._context.getLocalProperty("spark.jobGroup.id")))

        patch.setattr(SparkCompactor, "compact", watched_compaction)
        patch.setattr(SparkRunner, "run", watched_run)

    def watch_sequences(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        def look(step: str, epoch: int) -> None:
            if step == "completed":
                (root,) = folder.iterdir()
                manifest = CheckpointStore(PosixStorage(str(root))).completed()[-1]
                sequences = [s.sequence for op in manifest.operators.values() for s in op.subtasks if s.sequence]
                self.lengths.append(max(map(len, sequences)))

        patch.setattr(executors, "step_hook", look)


@pytest.mark.parametrize("small", [0, 1 << 30], ids=["as Spark jobs", "in the driver"])
def test_sequences_are_compacted_beside_the_epochs(
    small: int, environment: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkContext
) -> None:
    compactions = Compactions(monkeypatch, small)
    compactions.watch_sequences(monkeypatch, tmp_path)
    env = environment(
        {
            "execution.checkpointing.dir": tmp_path,
            "flott.epoch.max-records": 20,
            "flott.epoch.initial-records": 20,
            "flott.storage.sync": "false",
        }
    )
    found: list[tuple[int, int]] = []
    numbers = env.from_source(NumberSequenceSource(0, 20 * EPOCHS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % 10).process(Count()).sink_to(CallableSink(found.append))
    env.execute("compacted")
    assert sorted(found) == sorted((n % 10, n // 10 + 1) for n in range(20 * EPOCHS))
    assert len(compactions.results) >= 2
    assert max(compactions.lengths) < EPOCHS - 4
    assert min(compactions.lengths[12:]) <= 8
    epochs = {group for _, group in compactions.groups if group is not None}
    assert len(epochs) == 1, "compactions must not touch the properties of the thread that runs the epochs"
    if small == 0:
        (group,) = {group for group, _ in compactions.groups if group is not None}
        assert group.endswith("-compaction")
        assert not epochs & {group}
        assert not spark.statusTracker().getActiveJobsIds()


def test_a_cancelled_job_ends_the_compaction_at_work(
    environment: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkContext
) -> None:
    monkeypatch.setattr(compactor, "SMALL_BYTES", 0)
    begun = threading.Event()
    compact = SparkCompactor.compact
    failures: list[BaseException] = []

    def slow(runner: SparkCompactor, orders: Any, purpose: str) -> list[StateFile]:
        begun.set()
        many = [replace(order, target=f"{order.target}-{n}") for order in orders for n in range(3000)]
        try:
            return compact(runner, many, purpose)
        except BaseException as error:
            failures.append(error)
            raise

    monkeypatch.setattr(SparkCompactor, "compact", slow)
    env = environment(
        {
            "execution.checkpointing.dir": tmp_path,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "flott.epoch.max-records": 20,
            "flott.epoch.initial-records": 20,
            "flott.storage.sync": "false",
        }
    )
    numbers = env.from_source(NumberSequenceSource(0, 10**7), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % 10).process(Count()).sink_to(CallableSink(lambda pair: None))
    client = env.execute_async("cancelled")
    assert begun.wait(300)
    client.cancel().result()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert [type(error) for error in failures] == [WorkerLostError]
    assert not spark.statusTracker().getActiveJobsIds()
