"""Jobs in an object store: whole or not at all, whichever request is the last one, and changed by the leader only."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flott.common.configuration import Configuration
from flott.errors import ClusterError, FlottError, LeadershipLostError, StorageError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.dispatcher import Dispatcher
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.processes.channel import Assignment
from flott.runtime.jobmanager.processes.job_process import JobProcessListener
from flott.runtime.jobmanager.processes.result_spool import ResultSpool
from flott.runtime.jobmanager.submission import JobFile
from tests.unit.runtime.jobmanager.places import HOUR, ObjectPlace
from tests.unit.runtime.jobmanager.test_job_store import ended, submission
from tests.unit.runtime.storage.memory_objects import MemoryObjects, failure

#: Too large to stand in the head.
LARGE = {"pipeline.name": "x" * 9000}


class Crash(BaseException):
    """The process is killed: nothing of it runs any more."""


@pytest.fixture
def place(objects: MemoryObjects, tmp_path: Path) -> ObjectPlace:
    return ObjectPlace(objects, tmp_path / "own")


def upload(folder: Path) -> dict[str, Path]:
    (folder / "upload").write_bytes(b"library")
    return {"lib.zip": folder / "upload"}


JOB = submission(files=(JobFile("lib.zip", "python"),))


def crashes_after(objects: MemoryObjects, requests: int) -> None:
    left = itertools.count(requests, -1)

    def crash(verb: str, key: str) -> None:
        if next(left) <= 0:
            raise Crash

    objects.before = crash


def lives(objects: MemoryObjects) -> None:
    objects.before = objects.after = lambda verb, key: None


@pytest.mark.parametrize("configuration", [{}, LARGE], ids=["in the head", "beside the head"])
def test_a_job_is_kept_whole_or_not_at_all_wherever_the_process_is_killed(
    place: ObjectPlace, objects: MemoryObjects, tmp_path: Path, configuration: dict[str, str]
) -> None:
    kept = []
    job = submission(files=JOB.files, configuration=configuration)
    for requests in itertools.count():
        objects.objects.clear()
        store, _ = place.opened()
        answered = False
        crashes_after(objects, requests)
        with suppress(Crash):
            store.keep(job, upload(tmp_path))
            answered = True
        lives(objects)
        store, _ = place.opened()
        found = list(store.jobs())
        assert found in ([], [job])
        assert not answered or found == [job], "what was answered for is kept"
        if found:
            assert place.file_of(store, job, "lib.zip") == b"library"
        else:
            assert place.everything() == [], "the next leader deletes what is left"
        kept.append(bool(found))
        if answered:
            break
    assert kept == sorted(kept)
    assert kept.count(False) > 4


def test_a_job_is_running_or_ended_or_forgotten_wherever_the_process_is_killed(
    place: ObjectPlace, objects: MemoryObjects, tmp_path: Path
) -> None:
    for requests in itertools.count():
        objects.objects.clear()
        store, archive = place.opened()
        store.keep(JOB, upload(tmp_path))
        answered, told = False, False
        crashes_after(objects, requests)
        with suppress(Crash):
            archive.put(*ended(JOB))
            told = True
            assert archive.forget_old(now_ms=HOUR + 1) == [JOB.job_id]
            answered = True
        lives(objects)
        store, archive = place.opened()
        running, over = sorted(store.ids()), [job.view.job_id for job in archive.jobs()]
        assert len(running + over) <= 1
        assert not (told and running), "that it has ended is not lost"
        assert over == [job.view.job_id for job in archive.untidy()]
        if not running and not over:
            assert place.everything() == [], "nothing of it is left"
        assert running or told or over
        if answered:
            assert not over
            break
    assert requests > 5


def takeovers(objects: MemoryObjects, requests: int, take_over: Callable[[], None]) -> None:
    """Let another leader take over before the request of this number."""
    left = itertools.count(requests, -1)

    def before(verb: str, key: str) -> None:
        if next(left) == 0:
            lives(objects)
            take_over()

    objects.before = before


@pytest.mark.parametrize("deed", ["keep", "end", "tidy", "forget"])
def test_of_two_leaders_only_the_successor_keeps_ends_and_forgets_wherever_the_first_is_stopped(
    place: ObjectPlace, objects: MemoryObjects, tmp_path: Path, deed: str
) -> None:
    """The first is stopped before each of its requests in turn; what the second finds then is what stays."""
    refused = 0
    for requests in itertools.count():
        objects.objects.clear()
        store, archive = place.leading(1, capacity=0)
        if deed != "keep":
            store.keep(JOB, upload(tmp_path))
        if deed in ("tidy", "forget"):
            archive.put(*ended(JOB))
        found: list[list[str]] = []

        def take_over(found: list[list[str]] = found) -> None:
            place.leading(2)
            found.append([f"{name} {entry}" for name, entry in place.head().files.items()])

        takeovers(objects, requests, take_over)
        try:
            match deed:
                case "keep":
                    store.keep(JOB, upload(tmp_path))
                case "end":
                    archive.put(*ended(JOB))
                case "tidy":
                    archive.tidied(JOB.job_id)
                case "forget":
                    archive.forget_old(now_ms=0)
        except LeadershipLostError:
            refused += 1
        if not found:
            break
        assert [f"{name} {entry}" for name, entry in place.head().files.items()] == found[0]
        store, archive = place.leading(3)
        if store.ids():
            assert place.file_of(store, store.get(JOB.job_id), "lib.zip") == b"library", "with all its contents"
        if deed == "end" and store.ids():  # the successor runs it, and its word counts
            archive.put(*ended(JOB, end_ms=77))
            assert place.opened()[1].get(JOB.job_id).view.end_ms == 77
    assert requests >= 2
    assert deed in ("tidy", "forget") or refused


def test_a_job_that_the_store_gave_no_answer_for_is_refused_and_not_found_later(
    place: ObjectPlace, objects: MemoryObjects, tmp_path: Path
) -> None:
    store, _ = place.opened()

    def lost(verb: str, key: str) -> None:
        if verb == "replace":
            lives(objects)
            raise failure()

    for moment in ("before", "after"):
        setattr(objects, moment, lost)
        with pytest.raises(ClusterError, match=r"could not be kept in s3://bucket/ha/shop/jobs: .*the test says so"):
            store.keep(JOB, upload(tmp_path))
        assert list(store.jobs()) == []
        assert place.everything() == [], "nothing of it is left"
    store.keep(JOB, upload(tmp_path))
    assert list(store.jobs()) == [JOB]


def test_jobs_are_not_passed_over_because_the_store_does_not_answer(
    place: ObjectPlace, objects: MemoryObjects, tmp_path: Path
) -> None:
    place.opened()[0].keep(JOB, upload(tmp_path))
    store, _ = place.opened()

    def silent(verb: str, key: str) -> None:
        if key.endswith("graph.pickle"):
            raise failure()

    objects.before = silent
    with pytest.raises(StorageError):
        list(store.jobs())


def test_a_job_whose_graph_was_deleted_hides_no_other(
    place: ObjectPlace, objects: MemoryObjects, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = place.opened()
    for number in (1, 2):
        store.keep(submission(number), {})
    [key] = [key for key in objects.objects if f"{1:032x}" in key]
    del objects.objects[key]
    assert [job.job_id for job in place.opened()[0].jobs()] == [f"{2:032x}"]
    assert "part of the job is missing" in caplog.text


def test_files_that_were_fetched_are_deleted_with_their_job(place: ObjectPlace, tmp_path: Path) -> None:
    store, archive = place.opened(capacity=0)
    store.keep(JOB, upload(tmp_path))
    place.file_of(store, JOB, "lib.zip")
    fetched = store.files_of(JOB.job_id)
    archive.put(*ended(JOB))
    assert fetched.exists()
    archive.forget_old(now_ms=0)
    assert not fetched.parent.exists()


def test_results_are_sent_by_one_process_of_the_job_whichever_jobmanager_runs_it(
    place: ObjectPlace, tmp_path: Path
) -> None:
    place.opened()[0].keep(JOB, upload(tmp_path))
    for number in range(2):
        store, _ = place.opened()
        store.get(JOB.job_id)
        spool = ResultSpool(tmp_path / str(number), marks=store.contents_of(JOB.job_id).mark)
        if number == 0:
            spool.begin("0")
            spool.begin("0")
        else:
            with pytest.raises(FlottError, match="process of the job was lost"):
                spool.begin("0")


def test_a_cluster_whose_storage_is_an_object_store_keeps_its_own_files_locally(tmp_path: Path) -> None:
    folders = ClusterFolders.of(
        Configuration.of({
            "high-availability.type": "zookeeper",
            "high-availability.storageDir": "s3://bucket/ha/",
            "high-availability.cluster-id": "/shop",
            "flott.cluster.dir": str(tmp_path / "own"),
        })
    )  # fmt: skip
    assert folders.objects == "s3://bucket/ha/shop"
    assert folders.checkpoint_location == "s3://bucket/ha/shop/checkpoints"
    folders.prepare()
    assert {folder.parent for folder in (folders.logs, folders.fetched, folders.programs)} == {tmp_path / "own"}


class Idle:
    """A process of a job that does nothing."""

    def __init__(self, assignment: Assignment, listener: JobProcessListener):
        self.assignment = assignment
        started.append(assignment)

    def order(self, order: Any) -> Future[Any]:
        return Future()

    def kill(self) -> None:
        pass

    def wait(self, timeout: float) -> bool:
        return True


started: list[Assignment] = []


def test_a_dispatcher_goes_on_with_the_jobs_of_its_predecessor_and_their_files(
    objects: MemoryObjects, tmp_path: Path
) -> None:
    def dispatcher(token: int) -> Dispatcher:
        folders = ClusterFolders(tmp_path / str(token), tmp_path / str(token), ObjectPlace.root)
        folders.prepare()
        start: Any = Idle
        cluster = Configuration.of({"execution.target": "in-process"})
        return Dispatcher(cluster, folders, SystemClock(), token, lambda: None, start_process=start)

    started.clear()
    first = dispatcher(1)
    first.submit(JOB, upload(tmp_path)).result(60)
    second = dispatcher(2)
    assert second.recover() == 1
    assert [assignment.token for assignment in started] == [1, 2]
    for assignment in map(pickle.loads, map(pickle.dumps, started)):
        assert assignment.configuration["execution.checkpointing.dir"] == f"{ObjectPlace.root}/checkpoints"
        assignment.contents.fetch(assignment.submission.files, assignment.files)
        assert (assignment.files / "lib.zip").read_bytes() == b"library"
        assert assignment.files.is_relative_to(tmp_path / str(assignment.token) / "fetched")
    with pytest.raises(LeadershipLostError):
        first.submit(submission(2), {}).result(60)
    with pytest.raises(LeadershipLostError):
        first.archive.put(*ended(JOB))
    assert [view.job_id for view in second.jobs()] == [JOB.job_id]
    for each in (first, second):
        each.close(at_once=True)
