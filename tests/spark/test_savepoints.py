"""Savepoints on Spark: taken under load, in both formats, and continued with another parallelism and exact results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.common import JobClient, SavepointFormatType, Types, WatermarkStrategy
from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.checkpoint.store import open_checkpoint
from flott.runtime.entrypoint import executors
from flott.runtime.spark import compactor
from flott.state import dispose_savepoint, export_savepoint
from tests.programs.runner import lines_to, output
from tests.spark.conftest import MakeEnvironment, Recorder

RECORDS, PER_EPOCH, KEYS = 60_000, 3_000, 2_000


class Count(KeyedProcessFunction[int, int, str]):
    """Numbers the records of a key: any loss or repetition shows."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value % KEYS} {count}"


def counting(env: StreamExecutionEnvironment, folder: Path) -> StreamExecutionEnvironment:
    numbers = env.from_source(NumberSequenceSource(0, RECORDS - 1), WatermarkStrategy.no_watermarks(), "n").uid("n")
    counted = numbers.key_by(lambda n: n % KEYS).process(Count(), Types.STRING()).uid("count")
    counted.sink_to(lines_to(str(folder), "lines")).uid("sink")
    return env


EXPECTED = Counter(f"lines\t{key} {number}" for key in range(KEYS) for number in range(1, RECORDS // KEYS + 1))


class Asking(Recorder):
    """Asks while an epoch runs, from outside the job."""

    def __init__(self) -> None:
        super().__init__()
        self.client: CompletableFuture[JobClient] = CompletableFuture()
        self.requests: dict[int, Any] = {}
        self.answers: list[CompletableFuture[str]] = []

    def on_start(self, epoch: int, progress: Any) -> None:
        if epoch in self.requests:
            self.answers.append(self.requests[epoch](self.client.result(300)))


@pytest.fixture
def asking() -> Iterator[Asking]:
    listener = Asking()
    executors.extra_listeners.append(listener)
    yield listener
    executors.extra_listeners.remove(listener)


@pytest.mark.parametrize("format_type", list(SavepointFormatType))
@pytest.mark.parametrize("compaction", ["on the driver", "in a Spark job"])
def test_a_job_is_stopped_with_a_savepoint_and_continued_by_another(
    environment: MakeEnvironment,
    asking: Asking,
    format_type: SavepointFormatType,
    compaction: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if compaction == "in a Spark job":
        monkeypatch.setattr(compactor, "SMALL_BYTES", 0)
    options = {
        "flott.epoch.max-records": PER_EPOCH,
        "flott.epoch.initial-records": PER_EPOCH,
        "execution.checkpointing.dir": tmp_path / "chk",
        "execution.checkpointing.savepoint-dir": tmp_path / "sp",
    }
    asking.requests = {
        4: lambda client: client.trigger_savepoint(format_type=format_type),
        9: lambda client: client.stop_with_savepoint(False, None, format_type),
    }
    client = counting(environment(options), tmp_path).execute_async("first")
    asking.client.set_result(client)
    client.get_job_execution_result().result(300)
    taken, stopped = (answer.result(300) for answer in asking.answers)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert [open_checkpoint(path, False)[1].checkpoint_id for path in (taken, stopped)] == [4, 9]
    if format_type is SavepointFormatType.NATIVE:
        moved = export_savepoint(stopped, str(tmp_path / "elsewhere"))
        dispose_savepoint(stopped)
        stopped = moved
    dispose_savepoint(taken)
    assert os.listdir(tmp_path / "chk") == []
    again = environment({
        **options, "parallelism.default": 3, "execution.state-recovery.path": stopped,
        "execution.state-recovery.claim-mode": "CLAIM",
    })  # fmt: skip
    counting(again, tmp_path).execute("second")
    assert Counter(output(tmp_path)) == EXPECTED
    assert os.listdir(tmp_path / "chk") == []
    assert not Path(stopped).exists()
