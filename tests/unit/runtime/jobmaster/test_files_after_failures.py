"""A failure after a checkpoint was published must not cost the checkpoint its files."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.errors import StorageError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Faults, UnreliableStorage, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource

WORDS = [f"w{i % 4}" for i in range(40)]


def counting_job(ledger: Ledger) -> StreamExecutionEnvironment:
    env = in_process(
        flott__epoch__max_records="5",
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="1000",
    )
    words = env.from_source(ScriptedSource({"s": WORDS}), WatermarkStrategy.no_watermarks(), "words")
    words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).reduce(
        lambda a, b: (a[0], a[1] + b[1])
    ).sink_to(LedgerSink(ledger))
    return env


def missing_files(folder: Path) -> set[str]:
    storage = PosixStorage(str(folder))
    return {
        f"chk-{done.checkpoint_id}: {file}"
        for done in CheckpointStore(storage).completed()
        for file in done.files
        if not storage.exists(file)
    }


@pytest.mark.parametrize("failing_step", ["completed", "acknowledged"])
def test_checkpoints_keep_their_files_when_an_epoch_fails_between_publication_and_commit(tmp_path, failing_step):
    failed: set[int] = set()

    def on_step(step: str, epoch: int) -> None:
        assert missing_files(tmp_path) == set(), f"{step} {epoch}"
        if step == failing_step and epoch not in failed:
            failed.add(epoch)
            raise StorageError("The test says so.")

    ledger = Ledger(uuid4().hex)
    ended = live(counting_job(ledger), tmp_path, on_step=on_step)
    assert ended.status is JobStatus.FINISHED, ended.failure
    assert len(failed) > 3
    assert sorted(ledger.records) == sorted((f"w{i}", n) for i in range(4) for n in range(1, 11))


def test_a_checkpoint_that_could_not_be_deleted_keeps_its_files_until_it_can(tmp_path):
    faults = Faults(lambda verb, name: verb == "delete" and name.endswith("_metadata"))

    def on_step(step: str, epoch: int) -> None:
        assert missing_files(tmp_path) == set(), f"{step} {epoch}"
        if epoch == 6:
            faults.fails = lambda verb, name: False

    ledger = Ledger(uuid4().hex)
    storage = UnreliableStorage(str(tmp_path), sync=False, faults=faults)
    ended = live(counting_job(ledger), tmp_path, storage=storage, on_step=on_step)
    assert ended.status is JobStatus.FINISHED, ended.failure
    assert faults.refused > 2
    assert len(CheckpointStore(storage).completed()) == 1
    assert sorted(ledger.records) == sorted((f"w{i}", n) for i in range(4) for n in range(1, 11))
