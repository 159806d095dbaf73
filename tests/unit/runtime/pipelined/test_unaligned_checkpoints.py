"""Unaligned checkpoints: they complete under back pressure, hold what barriers have overtaken, and nothing is lost."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.common import Duration
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.errors import CorruptStateError, ProgramError, StateError
from flott.graph.chain import chain
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.restoring import ClaimMode, begin_with, open_snapshot
from flott.runtime.checkpoint.savepoint_files import export_savepoint
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.restored_state import restorable
from flott.runtime.orders import RescaleJob, TakeSavepoint
from flott.runtime.pipelined.links import FEWEST_CREDITS, WAITING_BUFFERS
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.messages import TaskAddress
from flott.runtime.storage import PosixStorage
from flott.snapshots.editing import edit
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, Incarnation, live
from flott.testing.sinks import Ledger
from flott.testing.sources import ScriptedSource
from tests.unit.runtime.pipelined.test_pipelined_jobs import NO_WATERMARKS, counting, expected_counts, pipelined

RECORDS = 300
ROUND = 20
LAST_STAGE = 1
#: Every record is a buffer, and a channel takes few of them.
SMALL = TaskSettings(buffer_records=1, input_memory_bytes=1)


class Stalled(LocalPipeline):
    """Tasks of the last stage process nothing, as if a function never returned, but they take their snapshots."""

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self._manual = clock
        self.looks = 0
        self.most_waiting = 0

    def _work(self) -> bool:
        self.looks += 1
        if self.looks > 1000:
            raise Crash
        self._manual.advance(1)
        worked = False
        for slot in self.slots:
            while slot.work_in_stage(0):
                worked = True
            last = slot.tasks.get(TaskAddress(LAST_STAGE, slot.partition))
            if last is not None and (last.inputs.alignment.is_due or last.saving.unreported is not None):
                worked |= slot.work_in_stage(LAST_STAGE)
            for task in slot.tasks.values():
                waiting = [len(channel.queue) for channel in task.inputs.channels.values()]
                self.most_waiting = max(self.most_waiting, task.outputs.waiting_buffers, *waiting, 0)
        return worked


def unaligned(parallelism: int, ledger: Ledger, timeout_ms: int = 0, **options: str) -> StreamExecutionEnvironment:
    env = pipelined(parallelism, "5 ms", flott__epoch__max_records=str(ROUND), **options)
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    env.get_checkpoint_config().set_aligned_checkpoint_timeout(Duration.of_millis(timeout_ms))
    counting(env, ScriptedSource({split: list(range(RECORDS)) for split in "ab"}), ledger)
    return env


def expected() -> Counter[Any]:
    return Counter({(key, n) for key, _ in expected_counts(RECORDS) for n in range(1, 2 * RECORDS // 3 + 1)})


def stall(env: StreamExecutionEnvironment, folder: Path, after: int = 1) -> tuple[Incarnation, Stalled]:
    """Run a job whose last stage is stalled until a checkpoint is committed, or until it is clear that none will be."""
    clock = ManualClock(1000)
    pipeline = Stalled(clock)

    def on_step(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", after):
            raise Crash

    return live(env, folder, clock=clock, pipeline=pipeline, settings=SMALL, on_step=on_step), pipeline


def latest(folder: Path) -> Manifest | None:
    completed = CheckpointStore(PosixStorage(str(folder), sync=False)).completed()
    return completed[-1] if completed else None


def in_flight(folder: Path) -> Manifest:
    """Leave a checkpoint with records on their way behind."""
    life, _ = stall(unaligned(2, Ledger(f"stalled-{folder}")), folder)
    manifest = latest(folder)
    assert life.crashed
    assert manifest is not None
    assert sum(file.buffers for file in manifest.channels) > 0
    return manifest


# --- back pressure ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout_ms", [0, 50])
def test_a_checkpoint_completes_while_a_task_processes_nothing(timeout_ms: int, tmp_path: Path) -> None:
    _, pipeline = stall(unaligned(2, Ledger(f"unaligned-{timeout_ms}"), timeout_ms), tmp_path, after=3)
    found = latest(tmp_path)
    assert found is not None
    assert found.checkpoint_id == 3
    assert found.channels
    assert pipeline.looks < 1000
    # At most what fits anyway, and one round for each checkpoint, which is read whatever waits.
    assert pipeline.most_waiting <= max(FEWEST_CREDITS + 4, WAITING_BUFFERS + 4 * ROUND)


def test_an_aligned_checkpoint_waits_for_that_task(tmp_path: Path) -> None:
    env = pipelined(2, "5 ms", flott__epoch__max_records=str(ROUND))
    counting(env, ScriptedSource({split: list(range(RECORDS)) for split in "ab"}), Ledger("aligned"))
    stall(env, tmp_path)
    assert latest(tmp_path) is None


def test_a_checkpoint_that_does_not_take_long_stays_aligned(tmp_path: Path) -> None:
    ledger = Ledger("in-time")
    life = live(unaligned(2, ledger, timeout_ms=60_000), tmp_path)
    assert life.status is JobStatus.FINISHED
    parts = [part.checkpoint for epoch in life.history.epochs for part in epoch.subtasks]
    assert all(part is not None and not part.unaligned for part in parts)
    assert Counter(ledger.records) == expected()


@pytest.mark.parametrize(
    ("mode", "parallelism"), [("pipelined", 2), ("pipelined", 3), ("pipelined", 1), ("epochs", 2), ("epochs", 3)]
)
def test_what_was_on_its_way_is_processed_once_after_a_restore(mode: str, parallelism: int, tmp_path: Path) -> None:
    ledger = Ledger(f"restored-{mode}-{parallelism}")
    stall(unaligned(2, ledger), tmp_path, after=2)
    life = live(unaligned(parallelism, ledger, execution__mode=mode), tmp_path, clock=ManualClock(9000))
    assert life.status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected()


def test_an_epoch_that_is_repeated_processes_what_was_on_its_way_again(tmp_path: Path) -> None:
    ledger = Ledger("repeated")
    stall(unaligned(2, ledger), tmp_path)
    for step in ("planned", "ran", "acknowledged"):

        def on_step(found: str, epoch: int, step: str = step) -> None:
            if found == step:
                raise Crash

        again = unaligned(3, ledger, execution__mode="epochs")
        assert live(again, tmp_path, clock=ManualClock(9000), on_step=on_step).crashed
    life = live(unaligned(3, ledger, execution__mode="epochs"), tmp_path, clock=ManualClock(9000))
    assert life.status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected()


def test_an_epoch_is_due_for_what_was_on_its_way_without_other_input(tmp_path: Path) -> None:
    manifest = in_flight(tmp_path)
    committed: list[int] = []

    def on_step(step: str, epoch: int) -> None:
        if step == "committed":
            committed.append(epoch)
            raise Crash

    ledger = Ledger("no-other-input")
    env = pipelined(2, execution__mode="epochs")
    silent = ScriptedSource({split: list(range(RECORDS)) for split in "ab"}, endless=True)
    counting(env, silent, ledger)
    live(env, tmp_path, clock=ManualClock(9000), on_step=on_step)
    assert committed == [manifest.checkpoint_id + 1]


# --- what the checkpoint consists of ---------------------------------------------------------------------------------


def test_files_of_channel_state_are_counted_and_deleted_with_their_checkpoint(tmp_path: Path) -> None:
    env = unaligned(2, Ledger("files"))
    life, _ = stall(env, tmp_path, after=2)
    manifest = latest(tmp_path)
    assert manifest is not None
    stored = {f"state/{path.name}" for path in Path(tmp_path, "state").iterdir() if path.name.endswith("-channels")}
    assert stored == {file.name for file in manifest.channels}  # those of checkpoint 1 are gone
    statistics = life.history.epochs[0]
    assert statistics.state_bytes >= sum(part.persisted_bytes for part in statistics.subtasks) > 0
    assert statistics.written_bytes >= sum(part.persisted_bytes for part in statistics.subtasks)
    assert any(part.checkpoint is not None and part.checkpoint.unaligned for part in statistics.subtasks)


def test_a_damaged_file_of_channel_state_is_refused(tmp_path: Path) -> None:
    file = in_flight(tmp_path).channels[0]
    path = Path(tmp_path, file.name)
    content = bytearray(path.read_bytes())
    content[file.sections[-1].offset + 5] ^= 1
    path.write_bytes(bytes(content))
    ledger = Ledger("damaged")
    life = live(unaligned(2, ledger, restart_strategy__type="none"), tmp_path, clock=ManualClock(9000))
    assert life.status is JobStatus.FAILED
    assert "channel-state file" in str(life.failure)


@pytest.mark.parametrize("mode", ["NO_CLAIM", "CLAIM"])
def test_another_job_can_begin_with_an_unaligned_checkpoint(mode: str, tmp_path: Path) -> None:
    ledger = Ledger(f"claimed-{mode}")
    first, second = tmp_path / "first", tmp_path / "second"
    stall(unaligned(2, ledger), first)
    snapshot = open_snapshot(str(first / "chk-1"), sync=False)
    store = CheckpointStore(PosixStorage(str(second), sync=False))
    store.claim("job")
    begin_with(snapshot, store, "job", ClaimMode[mode])
    store.release()
    begun = latest(second)
    assert begun is not None
    assert begun.channels
    assert live(unaligned(3, ledger), second, clock=ManualClock(9000)).status is JobStatus.FINISHED
    assert Counter(ledger.records) == expected()


def test_an_unaligned_checkpoint_can_be_exported_and_not_edited(tmp_path: Path) -> None:
    in_flight(tmp_path / "job")
    path = export_savepoint(str(tmp_path / "job" / "chk-1"), str(tmp_path / "exported"), sync=False)
    exported = open_snapshot(path, sync=False)
    assert exported.manifest.channels
    with pytest.raises(StateError, match="unaligned"):
        edit(str(tmp_path / "job" / "chk-1"))


def test_a_missing_file_of_channel_state_is_found_before_anything_runs(tmp_path: Path) -> None:
    manifest = in_flight(tmp_path)
    Path(tmp_path, manifest.channels[0].name).unlink()
    with pytest.raises(StateError, match="incomplete"):
        open_snapshot(str(tmp_path / "chk-1"), sync=False)
    Path(tmp_path, manifest.channels[0].name).write_bytes(b"short")
    with pytest.raises(CorruptStateError, match="has 5 bytes"):
        open_snapshot(str(tmp_path / "chk-1"), sync=False)


# --- what a program, and orders, do about it -------------------------------------------------------------------------


def test_a_program_without_the_edge_is_refused_or_leaves_the_records_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = in_flight(tmp_path)
    env = pipelined(2)
    numbers = env.from_source(ScriptedSource({"a": [1]}), NO_WATERMARKS, "numbers").uid("numbers")
    numbers.map(lambda n: n).uid("between").key_by(lambda n: n % 3).map(lambda n: n).uid("counted").print()
    graph = chain(env.get_stream_graph(clear_transformations=True))
    storage = PosixStorage(str(tmp_path), sync=False)
    kept = {ident: value for ident, value in manifest.operators.items() if ident in graph.operators}
    reduced = replace(manifest, operators=kept)
    with pytest.raises(ProgramError, match=r"on their way from 'Source: numbers' to .* take a savepoint"):
        restorable(reduced, graph, storage, ignore_unclaimed=False)
    with caplog.at_level(logging.WARNING, logger="flott.job"):
        assert restorable(reduced, graph, storage, ignore_unclaimed=True).channels == ()
    assert any("does not have this edge" in record.getMessage() for record in caplog.records)


def test_a_savepoint_waits_until_nothing_is_on_its_way(tmp_path: Path) -> None:
    ledger, savepoints = Ledger("savepoint"), []
    masters: list[JobMaster] = []

    def on_step(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 2):
            savepoints.append(masters[0].submit(TakeSavepoint(str(tmp_path / "savepoints"))))

    class Slow(Stalled):
        def _work(self) -> bool:
            worked = super()._work()
            for slot in self.slots:  # stalled no more, but slow
                worked |= slot.work_in_stage(LAST_STAGE)
            return False if self.looks % 3 else worked

    clock = ManualClock(1000)
    pipeline = Slow(clock)
    pipeline.looks = -10_000
    life = live(
        unaligned(2, ledger), tmp_path / "job", clock=clock, pipeline=pipeline, settings=SMALL, on_step=on_step,
        on_start=masters.append,
    )  # fmt: skip
    assert life.status is JobStatus.FINISHED
    assert any(
        part.checkpoint is not None and part.checkpoint.persisted_bytes
        for epoch in life.history.epochs
        for part in epoch.subtasks
    )
    snapshot = open_snapshot(savepoints[0].result(), sync=False)
    assert snapshot.manifest.channels == ()
    assert Counter(ledger.records) == expected()


def test_a_job_is_rescaled_when_nothing_is_on_its_way(tmp_path: Path) -> None:
    ledger = Ledger("rescaled")
    stall(unaligned(2, ledger), tmp_path)
    answers: list[Any] = []
    life = live(
        unaligned(2, ledger), tmp_path, clock=ManualClock(9000),
        on_start=lambda master: answers.append(master.submit(RescaleJob(3))),
    )  # fmt: skip
    assert life.status is JobStatus.FINISHED
    assert answers[0].done()
    first, second, *_ = life.history.epochs
    assert (first.parallelism, second.parallelism) == (2, 3)
    assert Counter(ledger.records) == expected()


def test_at_least_once_checkpoints_are_never_unaligned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="flott.job"):
        stall(unaligned(2, Ledger("at-least"), execution__checkpointing__mode="AT_LEAST_ONCE"), tmp_path)
    assert any("has no effect with execution.checkpointing.mode" in record.getMessage() for record in caplog.records)
    assert latest(tmp_path) is None
