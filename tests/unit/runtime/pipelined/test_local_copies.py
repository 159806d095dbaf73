"""Copies of state that slots leave behind on a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.managed_state.backends.backend import BackendSettings, database_name
from flott.runtime.managed_state.backends.rocksdb.store import Budget, RocksStore
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.pipelined.local_copies import delete_foreign_copies
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.slot import TaskSlot
from flott.testing.harness import live
from tests.unit.runtime.pipelined.test_slot_processes import program

pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")


class Watched(LocalPipeline):
    """Keeps its slots when the job has ended."""

    def stop(self) -> None:
        self.kept: list[TaskSlot] = self._slots or self.kept
        super().stop()


@pytest.fixture
def slots(tmp_path: Path) -> list[TaskSlot]:
    """The slots of a job that has run on this host."""
    (tmp_path / "out").mkdir()
    settings = TaskSettings(backend=BackendSettings("rocksdb", local_dir=str(tmp_path / "local")))
    pipeline = Watched()
    pipeline.kept = []
    env = program(tmp_path / "out", tmp_path / "mark", None)
    assert live(env, tmp_path / "job", pipeline=pipeline, settings=settings).status is JobStatus.FINISHED
    return pipeline.kept


def copies(slot: TaskSlot) -> set[str]:
    image = slot.settings.image
    folder = image.settings.backend.job_folder(image.job_id)
    return {path.name for path in folder.glob("*") if path.is_dir()}


def delete(slot: TaskSlot, *hosts: str) -> set[str]:
    places = [TaskPlace(host, "1") for host in hosts]
    tasks = [task.task for task in slot.tasks.values()]
    delete_foreign_copies(slot.settings.image, slot.partition, tasks, places)
    return copies(slot)


def name_of(slot: TaskSlot) -> str:
    (operator,) = (
        operator
        for task in slot.tasks.values()
        for subtask in task.task.subtasks
        for operator in subtask.vertex.operators
        if operator.node.is_keyed
    )
    return database_name(operator.id, groups_of(slot.partition, operator.node.max_parallelism, 2))


def test_the_copies_of_slots_of_this_host_stay(slots: list[TaskSlot]) -> None:
    both = {name_of(slot) for slot in slots}
    assert len(both) == 2
    assert delete(slots[0], "here", "here") == both


def test_the_copies_of_a_slot_that_has_moved_to_another_host_are_deleted(slots: list[TaskSlot]) -> None:
    assert delete(slots[1], "there", "here") == {name_of(slots[1])}


def test_only_the_first_slot_of_a_host_deletes(slots: list[TaskSlot]) -> None:
    folder = slots[0].settings.image.settings.backend.job_folder(slots[0].settings.image.job_id)
    store = RocksStore(folder / "of-another-parallelism", Budget(32 << 20))
    store.open()
    store.close()
    before = copies(slots[0])
    assert delete(slots[1], "here", "here") == before
    assert delete(slots[0], "here", "here") == before - {"of-another-parallelism"}


def test_a_copy_that_a_process_has_open_stays(slots: list[TaskSlot]) -> None:
    image = slots[0].settings.image
    folder = image.settings.backend.job_folder(image.job_id)
    store = RocksStore(folder / name_of(slots[0]), Budget(32 << 20))
    store.open()
    assert name_of(slots[0]) in delete(slots[1], "there", "here")
    assert store.version is not None
    store.close()


def test_a_host_without_a_name_keeps_everything(slots: list[TaskSlot]) -> None:
    before = copies(slots[0])
    assert delete(slots[0], "", "there") == before
