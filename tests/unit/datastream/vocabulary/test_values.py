"""Slot sharing groups, memory sizes, checkpoint storages and state backends: plain values."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from flott.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from flott.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from flott.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from flott.errors import ConfigurationError


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1000, "1000 bytes"), (1025, "1025 bytes"), (3 * 2**20, "3 mb"), (2**30, "1 gb"), (2**40, "1 tb")],
)
def test_a_memory_size_is_written_with_the_largest_exact_unit(size: int, text: str) -> None:
    assert str(MemorySize(bytes_size=size)) == text


def test_a_memory_size_is_read_in_every_unit_and_compared() -> None:
    size = MemorySize.of_mebi_bytes(3 * 1024 * 1024)
    assert size.get_bytes() == 3 * 2**40
    assert size.get_kibi_bytes() == 3 * 2**30
    assert size.get_mebi_bytes() == 3 * 2**20
    assert size.get_gibi_bytes() == 3 * 2**10
    assert size.get_tebi_bytes() == 3
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
    assert len({MemorySize(1024), MemorySize(1024)}) == 1


def test_a_negative_memory_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        MemorySize(-1)


def test_a_group_without_resources_has_only_a_name() -> None:
    group = SlotSharingGroup.builder("g").build()
    assert group.get_name() == "g"
    assert group.get_cpu_cores() is None
    assert group.get_managed_memory() is None
    assert group.get_external_resources() == {}


def test_a_group_with_resources_knows_them_all() -> None:
    def build() -> SlotSharingGroup:
        return (
            SlotSharingGroup.builder("g")
            .set_cpu_cores(1.5)
            .set_task_heap_memory_mb(100)
            .set_task_off_heap_memory_mb(50)
            .set_managed_memory_mb(20)
            .set_external_resource("gpu", 1.0)
            .build()
        )

    group = build()
    assert group.get_cpu_cores() == 1.5
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(100)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(50)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(20)
    assert group.get_external_resources() == {"gpu": 1.0}
    assert group == build() == pickle.loads(pickle.dumps(group))
    assert hash(group) == hash(build())


def test_what_a_group_does_not_ask_for_is_zero_once_it_asks_for_something() -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(1).build()
    assert group.get_managed_memory() == group.get_task_off_heap_memory() == MemorySize(0)


def test_a_group_that_asks_for_something_asks_for_cpu_and_heap() -> None:
    with pytest.raises(ConfigurationError, match="set_cpu_cores and set_task_heap_memory too"):
        SlotSharingGroup.builder("g").set_managed_memory_mb(1).build()
    with pytest.raises(ConfigurationError, match="positive"):
        SlotSharingGroup.builder("g").set_cpu_cores(0)
    with pytest.raises(ConfigurationError, match="positive"):
        SlotSharingGroup.builder("g").set_task_heap_memory_mb(0)


def test_file_system_storage_is_a_value_with_flinks_defaults() -> None:
    storage = FileSystemCheckpointStorage("file:///checkpoints")
    assert storage.get_checkpoint_path() == "file:///checkpoints"
    assert storage.get_savepoint_path() is None
    assert storage.get_min_file_size_threshold() == 20 * 1024
    assert storage.get_write_buffer_size() == 4096
    assert storage == pickle.loads(pickle.dumps(storage)) != FileSystemCheckpointStorage("file:///other")
    assert FileSystemCheckpointStorage(Path("/checkpoints")).get_checkpoint_path() == "/checkpoints"
    assert FileSystemCheckpointStorage("/c", 0, 10).get_min_file_size_threshold() == 0
    assert isinstance(storage, CheckpointStorage)


@pytest.mark.parametrize("arguments", [(), ("",), ("/c", 2**20 + 1), ("/c", -2)])
def test_file_system_storage_refuses_what_flink_refuses(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        FileSystemCheckpointStorage(*arguments)


def test_job_manager_storage_is_a_value_with_flinks_defaults() -> None:
    storage = JobManagerCheckpointStorage()
    assert storage.get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    assert storage.get_checkpoint_path() is None
    assert storage == pickle.loads(pickle.dumps(storage)) != JobManagerCheckpointStorage(max_state_size=1)
    with pytest.raises(ConfigurationError):
        JobManagerCheckpointStorage(max_state_size=0)


def test_state_backends_are_values() -> None:
    rocksdb = EmbeddedRocksDBStateBackend(True)
    rocksdb.set_db_storage_paths("/a", "/b")
    rocksdb.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    rocksdb.set_number_of_transfer_threads(2)
    assert rocksdb.get_db_storage_paths() == ["/a", "/b"]
    assert rocksdb.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert rocksdb.get_number_of_transfer_threads() == 2
    assert rocksdb == pickle.loads(pickle.dumps(rocksdb)) != EmbeddedRocksDBStateBackend(True)
    assert HashMapStateBackend() == HashMapStateBackend() != rocksdb
    assert isinstance(rocksdb, StateBackend)


def test_rocksdb_refuses_settings_that_make_no_sense() -> None:
    with pytest.raises(TypeError, match="enable_incremental_checkpointing is True, False or None"):
        EmbeddedRocksDBStateBackend("yes")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="at least one thread"):
        EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(0)
