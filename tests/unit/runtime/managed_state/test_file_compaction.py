"""Compaction: files in, a file out that means the same; a base names nothing that is gone, needs nothing before it."""

from __future__ import annotations

from typing import Any

import pytest

from flott.errors import CorruptStateError, StorageError
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.files.state_file import open_state_file
from flott.runtime.managed_state.kinds.timers import TimerDelta
from flott.runtime.managed_state.kinds.values import ValueDelta
from flott.runtime.storage import PosixStorage
from tests.unit.runtime.managed_state.keyed_workers import ALL_GROUPS, MemoryStorage, Worker, compacted, fresh, group_of


def written(storage: Any, *epochs: list[tuple[str, Any, int]]) -> tuple[FileSequence, Worker]:
    """A sequence of these epochs, and the worker that wrote it."""
    worker, sequence = Worker(), ()
    for number, steps in enumerate(epochs):
        for step in steps:
            worker.do(*step)
        sequence = worker.state.save(sequence, storage, f"state/f{number}")
    return sequence, worker


EPOCHS = (
    [("set", "a", 1), ("set", "b", 2), ("add", "a", 1), ("put", "a", 1), ("put", "a", 2), ("register", "a", 3)],
    [("clear", "a", 0), ("add", "a", 2), ("remove", "a", 1), ("delete", "a", 3), ("register", "b", 4)],
    [("set", "b", 3), ("clear_list", "a", 0), ("clear_map", "a", 0), ("set", 3, 1)],
)


def deltas(storage: Any, name: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    with open_state_file(storage, name) as reader:
        for _, block in reader.blocks(ALL_GROUPS):
            for table, delta in block.items():
                found.setdefault(table, []).append(delta)
    return found


def test_a_base_holds_what_is_there_and_names_nothing_that_is_gone():
    storage = MemoryStorage()
    sequence, worker = written(storage, *EPOCHS)
    base = compacted(sequence, storage, "base")
    values = {"b": ValueDelta(["b"], [3], []), 3: ValueDelta([3], [1], [])}
    assert deltas(storage, "base") == {
        "value": [values[key] for key in sorted(values, key=group_of)],  # a key group each
        "timers": [TimerDelta([(4, "b", None)], [])],
    }
    assert fresh(base, storage).view() == worker.view()


def test_merged_changes_still_say_what_is_gone():
    storage = MemoryStorage()
    sequence, worker = written(storage, *EPOCHS)
    merged = compacted(sequence, storage, "merged", 1)
    gone = [delta[2] for delta in deltas(storage, "merged")["value"]]
    assert ["a"] in gone
    assert not merged[1].is_base
    assert fresh(merged, storage).view() == worker.view()


def test_a_compaction_is_the_same_bytes_however_often_it_is_made():
    """It may be repeated by another process after the first one died."""
    storage = MemoryStorage()
    sequence, _ = written(storage, *EPOCHS)
    for start in (0, 1):
        compacted(sequence, storage, f"one{start}", start)
        compacted(sequence, storage, f"other{start}", start)
        assert storage.files[f"one{start}"] == storage.files[f"other{start}"]


def test_a_compaction_of_compactions_means_what_the_files_meant():
    storage = MemoryStorage()
    sequence, worker = written(storage, *EPOCHS, *EPOCHS)
    twice = compacted(compacted(sequence, storage, "x", 1, 3), storage, "y", 1, 3)
    thrice = compacted(twice, storage, "z")
    assert [file.name for file in thrice] == ["z"]
    for shorter in (twice, thrice):
        assert fresh(shorter, storage).view() == worker.view()


def test_a_compaction_that_fails_leaves_no_file_and_nothing_else_changes(tmp_path):
    storage = PosixStorage(str(tmp_path), sync=False)
    sequence, _ = written(storage, *EPOCHS)
    damaged = tmp_path / sequence[1].name
    intact = damaged.read_bytes()
    damaged.write_bytes(intact[:20] + bytes([intact[20] ^ 1]) + intact[21:])
    before = sorted(path.name for path in (tmp_path / "state").iterdir())
    with pytest.raises(CorruptStateError, match="state/f1"):
        compacted(sequence, storage, "state/x")
    damaged.unlink()
    with pytest.raises(StorageError, match="state/f1"):
        compacted(sequence, storage, "state/x")
    damaged.write_bytes(intact)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == before
    assert fresh(compacted(sequence, storage, "state/x"), storage).view() == fresh(sequence, storage).view()


def test_an_empty_sequence_compactions_into_a_base_of_nothing():
    storage = MemoryStorage()
    base = compact(CompactionOrder((), (0, 16), "base", whole=True), storage)  # type: ignore[arg-type]
    assert fresh((base,), storage).view() == Worker().view()
