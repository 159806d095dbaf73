"""A storage in an object store: what is published, what only a leader may do, and what becomes of lost answers."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common._object_store_settings import ObjectStoreSettings
from flott.errors import JobLockedError, LeadershipLostError, StateError, StorageError
from flott.runtime.checkpoint.manifest import Manifest
from flott.runtime.checkpoint.pins import Pin, read_pins
from flott.runtime.checkpoint.store import CheckpointStore, latest_job, open_checkpoint
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.storage import PosixStorage
from flott.runtime.storage.object_head import INLINE_BYTES
from flott.runtime.storage.object_store import SEAL, ObjectStorage
from tests.unit.runtime.storage.memory_objects import MemoryObjects, failure

ROOT = "s3://bucket/jobs/ab12"


def leading(token: int = 0) -> ObjectStorage:
    """A storage whose fence this process has claimed."""
    storage = ObjectStorage(ROOT).fenced(token)
    assert isinstance(storage, ObjectStorage)
    assert storage.fence is not None
    storage.fence.claim()
    return storage


def manifest(checkpoint_id: int) -> Manifest:
    return Manifest("ab12", "job", checkpoint_id, 1000 * checkpoint_id, 1)


def fails_once(objects: MemoryObjects, moment: str, verb: str, after_that: Callable[[], None] = lambda: None) -> None:
    """Let the next request of a kind fail: before it was carried out, or after."""

    def fail(found: str, key: str) -> None:
        if found == verb:
            setattr(objects, moment, lambda verb, key: None)
            after_that()
            raise failure()

    setattr(objects, moment, fail)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, INLINE_BYTES, INLINE_BYTES + 1, 3 << 20])
def test_what_was_written_or_published_is_read_by_every_process(objects: MemoryObjects, size: int) -> None:
    storage = leading()
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    storage.write("state/a", data)
    storage.publish("chk-1/_metadata", b"old")
    storage.publish("chk-1/_metadata", data)
    for reader in (storage, ObjectStorage(ROOT), pickle.loads(pickle.dumps(storage))):
        assert reader.read("state/a") == data
        assert reader.read("chk-1/_metadata") == data
        assert list(reader.list("chk-1")) == ["_metadata"]
        assert {"chk-1", "state"} <= set(reader.list("."))
        assert reader.exists("chk-1/_metadata")
        assert reader.exists("chk-1")
        assert not reader.exists("chk-2/_metadata")
    assert ObjectStorage(f"{ROOT}/chk-1").read("_metadata") == data, "a checkpoint is opened by its own folder"


def test_a_large_file_is_read_by_the_ranges_that_are_asked_for(objects: MemoryObjects) -> None:
    storage = ObjectStorage(ROOT)
    data = bytes(range(256)) * (40 << 10)
    storage.write("large", data)
    with storage.open("large") as file:
        file.seek(-1000, 2)
        assert file.read() == data[-1000:]
        file.seek(5_000_000)
        assert file.read(77) == data[5_000_000:5_000_077]
        assert file.tell() == 5_000_077
    assert sum(request.startswith("get ") for request in objects.requests) == 2


def test_a_file_that_fails_while_it_is_written_is_not_there(objects: MemoryObjects) -> None:
    storage = ObjectStorage(ROOT)
    with contextlib.suppress(ValueError), storage.create("state/a") as file:
        file.write(b"half")
        raise ValueError
    assert not storage.exists("state/a")


def test_a_missing_file_is_a_storage_error_that_says_so(objects: MemoryObjects) -> None:
    with pytest.raises(StorageError, match=r"Cannot read s3://bucket/jobs/ab12/state/a: No such object") as caught:
        ObjectStorage(ROOT).read("state/a")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_files_are_copied_between_kinds_of_storage(objects: MemoryObjects, tmp_path: Path) -> None:
    local, remote = PosixStorage(str(tmp_path)), ObjectStorage(ROOT)
    local.write("a", b"content")
    remote.copy(local.location("a"), "b")
    remote.copy("b", "c")
    assert any(request.startswith("copy") for request in objects.requests)
    local.copy(remote.location("c"), "d")
    assert local.read("d") == local.read(remote.location("b")) == b"content"
    with local.create(remote.location("e")) as file:
        file.write(b"written by a task of a job that keeps its state on a disk")
    assert remote.exists("e")


def test_deleting_a_folder_or_everything_leaves_nothing_published(objects: MemoryObjects) -> None:
    storage = leading()
    storage.write("state/a", b"1")
    storage.publish("plans/epoch-1.json", b"2")
    storage.publish("chk-1/_metadata", b"3" * 10_000)
    storage.delete_folder("plans")
    assert not storage.exists("plans/epoch-1.json")
    storage.delete_root()
    assert set(objects.objects) == {"jobs/ab12/fence/head"}
    assert not ObjectStorage(ROOT).exists("chk-1/_metadata")


def test_no_error_and_no_text_shows_a_secret() -> None:
    settings = ObjectStoreSettings("http://127.0.0.1:1", "r", True, "AKIDEXAMPLE", "hush-hush", "tok-tok", 200, 0)
    storage = ObjectStorage("s3://bucket/x", settings)
    assert "hush" not in repr(storage)
    assert "AKIDEXAMPLE" not in repr(storage)
    assert "tok-tok" not in repr(storage.fenced(3))
    pytest.importorskip("obstore")
    with pytest.raises(StorageError, match=r"Cannot read s3://bucket/x/a: .*Check the object store's") as caught:
        storage.read("a")
    assert "hush" not in str(caught.value)
    assert "AKIDEXAMPLE" not in str(caught.value)


# --- leaders ----------------------------------------------------------------------------------------------------------


def deeds(storage: ObjectStorage) -> dict[str, Callable[[], Any]]:
    return {
        "publish": lambda: storage.publish("chk-2/_metadata", b"late"),
        "publish a large file": lambda: storage.publish("chk-2/_metadata", b"late" * INLINE_BYTES),
        "replace": lambda: storage.publish("chk-1/_metadata", b"late"),
        "delete what is published": lambda: storage.delete("chk-1/_metadata"),
        "delete a folder": lambda: storage.delete_folder("chk-1"),
        "delete everything": lambda: storage.delete_root(),
        "delete a file": lambda: storage.delete("state/a"),
        "complete a savepoint": lambda: storage.at("s3://bucket/savepoint").publish("_metadata", b"late"),
    }


@pytest.mark.parametrize("deed", sorted(deeds(ObjectStorage(ROOT))))
def test_a_leader_that_was_deposed_changes_nothing(objects: MemoryObjects, deed: str) -> None:
    deposed = leading(2)
    deposed.write("state/a", b"kept")
    deposed.publish("chk-1/_metadata", b"kept")
    leading(3)
    before = {key: data for key, (data, _) in objects.objects.items()}
    with pytest.raises(LeadershipLostError, match="taken over"):
        deeds(deposed)[deed]()
    published = {key: data for key, (data, _) in objects.objects.items() if "/published/" not in key}
    assert published == before


@pytest.mark.parametrize("verb", ["replace", "delete", "create", "put"])
@pytest.mark.parametrize("deed", sorted(deeds(ObjectStorage(ROOT))))
def test_a_leader_deposed_between_two_of_its_requests_harms_nothing(
    objects: MemoryObjects, deed: str, verb: str
) -> None:
    deposed = leading(2)
    deposed.write("state/a", b"unreferenced")
    deposed.publish("chk-1/_metadata", b"kept")
    taken_over: list[ObjectStorage] = []

    def take_over(found: str, key: str) -> None:
        if found == verb and not taken_over:
            taken_over.append(ObjectStorage("s3://nowhere"))
            taken_over[0] = leading(3)
            taken_over[0].write("state/b", b"the successor's")
            taken_over[0].publish("chk-2/_metadata", b"the successor's")

    objects.before = take_over
    with contextlib.suppress(LeadershipLostError):
        deeds(deposed)[deed]()
    if taken_over:
        reader = ObjectStorage(ROOT)
        assert reader.read("chk-2/_metadata") == b"the successor's"
        assert reader.read("state/b") == b"the successor's"
        if "everything" not in deed:  # it may have been about to delete what it alone had published
            assert reader.read("chk-1/_metadata") == b"kept"


def test_a_lower_token_is_refused_also_after_the_leader_has_gone(objects: MemoryObjects) -> None:
    leader = leading(7)
    assert leader.fence is not None
    leader.fence.release()
    with pytest.raises(LeadershipLostError, match="token 7 has taken over"):
        leading(6)
    leading(7)
    leading(8)


def test_without_an_election_the_process_that_comes_last_goes_on(objects: MemoryObjects) -> None:
    first, second = leading(), leading()
    second.publish("a", b"2")
    with pytest.raises(LeadershipLostError):
        first.publish("a", b"1")


def test_a_job_that_a_jobmanager_runs_is_not_taken_from_it_by_a_program(objects: MemoryObjects) -> None:
    leading(7)
    with pytest.raises(JobLockedError, match="high availability"):
        leading(0)


def test_a_disposal_does_not_disturb_the_job_that_runs(objects: MemoryObjects) -> None:
    running = CheckpointStore(ObjectStorage(ROOT))
    running.claim("job")
    running.storage.publish("pins/x.json", b"{}")
    other = CheckpointStore(ObjectStorage(ROOT))
    with pytest.raises(JobLockedError):
        other.claim("job", take_over=False)
    ObjectStorage(ROOT).delete("pins/x.json")
    assert not running.storage.exists("pins/x.json")
    running.publish(manifest(1))
    assert running.checkpoint_ids() == [1]


# --- answers that are lost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 2 * INLINE_BYTES])
def test_a_publication_whose_answer_is_lost_is_taken_back_before_anything_is_deleted(
    objects: MemoryObjects, size: int
) -> None:
    storage = leading()
    storage.write("state/a", b"of the attempt that failed")
    fails_once(objects, "after", "replace")
    with pytest.raises(StorageError, match="the test says so"):
        storage.publish("chk-1/_metadata", b"x" * size)
    assert ObjectStorage(ROOT).exists("chk-1/_metadata"), "it was carried out"
    assert not storage.exists("chk-1/_metadata"), "whoever was told that it failed does not see it"
    storage.delete("state/a")
    assert not ObjectStorage(ROOT).exists("chk-1/_metadata")


def test_a_put_that_arrives_after_its_writer_gave_up_is_refused(objects: MemoryObjects) -> None:
    storage = leading()
    late: list[tuple[str, bytes, str]] = []
    replace = objects.replace

    def delayed(key: str, data: bytes, etag: str) -> str:
        late.append((key, data, etag))
        objects.replace = replace  # type: ignore[method-assign]
        raise failure()

    objects.replace = delayed  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        storage.publish("chk-1/_metadata", b"late")
    assert storage.fence is not None
    storage.fence.check()  # what anybody asks before files of the attempt are deleted
    with pytest.raises(Exception, match="changed"):
        replace(*late[0])
    assert not ObjectStorage(ROOT).exists("chk-1/_metadata")


def test_a_replacement_whose_answer_is_lost_leaves_what_was_there(objects: MemoryObjects) -> None:
    storage = leading()
    storage.publish("job.json", b"old")
    fails_once(objects, "after", "replace")
    with pytest.raises(StorageError):
        storage.publish("job.json", b"new")
    assert storage.read("job.json") == b"old"
    storage.publish("chk-1/_metadata", b"1")
    assert ObjectStorage(ROOT).read("job.json") == b"old"


def test_a_change_that_was_carried_out_though_a_retry_was_refused_counts(objects: MemoryObjects) -> None:
    storage = leading()
    replace = objects.replace

    def twice(key: str, data: bytes, etag: str) -> str:
        replace(key, data, etag)  # its answer was lost, so the library sends it again
        return replace(key, data, etag)

    objects.replace = twice  # type: ignore[method-assign]
    storage.publish("chk-1/_metadata", b"1")
    assert storage.read("chk-1/_metadata") == b"1"


def test_claiming_survives_a_lost_answer(objects: MemoryObjects) -> None:
    create = objects.create

    def twice(key: str, data: bytes) -> str:
        create(key, data)
        return create(key, data)

    objects.create = twice  # type: ignore[method-assign]
    leading(3).publish("a", b"1")


# --- savepoints -------------------------------------------------------------------------------------------------------


def test_a_savepoint_of_a_leader_taken_for_dead_cannot_be_completed_any_more(objects: MemoryObjects) -> None:
    deposed = CheckpointStore(ObjectStorage(ROOT), 2)
    deposed.claim("job")
    target = deposed.storage.at("s3://bucket/savepoints/savepoint-ab12-1")
    RetainedCheckpoints(deposed, 1).pin(Pin("x", target.root, frozenset()))
    target.write(f"{'0' * 32}-0.state", b"half")
    successor = CheckpointStore(ObjectStorage(ROOT), 3)
    successor.claim("job")
    RetainedCheckpoints(successor, 1).open()
    assert list(read_pins(successor.storage)) == []
    with pytest.raises(LeadershipLostError):
        target.publish("_metadata", b"complete")
    with pytest.raises(StorageError, match="given it up"):  # also if its check had passed in time
        target.unfenced().publish("_metadata", b"complete")
    assert not ObjectStorage(target.root).exists("_metadata")
    assert [key for key in objects.objects if key.startswith("savepoints/")] == [
        "savepoints/savepoint-ab12-1/_metadata"
    ]
    with pytest.raises(StateError, match="not a completed checkpoint or savepoint"):
        open_checkpoint(target.root, sync=True)


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_savepoint_without_an_answer_is_complete_or_given_up(objects: MemoryObjects, carried_out: bool) -> None:
    target = ObjectStorage("s3://bucket/savepoint")
    fails_once(objects, "after" if carried_out else "before", "create")
    if carried_out:
        target.publish("_metadata", b"complete")
        assert target.read("_metadata") == b"complete"
    else:
        with pytest.raises(StorageError, match="given up"):
            target.publish("_metadata", b"complete")
        assert objects.objects["savepoint/_metadata"][0] == SEAL
        target.delete("_metadata")
        assert objects.objects["savepoint/_metadata"][0] == SEAL, "a seal stays"


# --- the job's directory ----------------------------------------------------------------------------------------------


def test_the_latest_job_of_a_name_is_found(objects: MemoryObjects) -> None:
    for job, checkpoints in (("a", 2), ("b", 1), ("c", 0)):
        store = CheckpointStore(ObjectStorage(f"s3://bucket/jobs/{job}"))
        store.claim("job" if job != "c" else "another")
        for number in range(checkpoints):
            store.publish(manifest(number + 1))
        store.release()
    found = latest_job("s3://bucket/jobs", "job", sync=True)
    assert found is not None
    assert found.root == "s3://bucket/jobs/b"
    assert latest_job("s3://bucket/jobs", "unknown", sync=True) is None


def test_an_epoch_costs_few_requests(objects: MemoryObjects) -> None:
    store = CheckpointStore(ObjectStorage(ROOT))
    store.claim("job")
    retained = RetainedCheckpoints(store, 1)
    store.publish(manifest(1))
    retained.add(manifest(1))
    objects.requests.clear()
    store.publish(manifest(2))
    retained.add(manifest(2))
    retained.subsume()
    assert len(objects.requests) <= 6, objects.requests


def test_what_was_about_to_be_published_in_a_crash_is_deleted_by_the_next_process(objects: MemoryObjects) -> None:
    store = CheckpointStore(ObjectStorage(ROOT))
    store.claim("job")
    fails_once(objects, "before", "replace")
    with pytest.raises(StorageError):
        store.storage.publish("chk-1/_metadata", b"x" * 2 * INLINE_BYTES)
    assert any("/published/" in key for key in objects.objects)
    CheckpointStore(ObjectStorage(ROOT)).claim("job")
    assert not any("/published/" in key for key in objects.objects)
