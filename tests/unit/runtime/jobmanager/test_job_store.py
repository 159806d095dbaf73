"""Jobs on disk: kept whole or not at all, ended by a rename, forgotten by number and age."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.errors import ClusterError, LeadershipLostError, StorageFullError, SubmissionError
from flott.runtime.jobmanager import whole_folders
from flott.runtime.jobmanager.job_store import JobArchive, JobStore, read_submission
from flott.runtime.jobmanager.submission import JobFile, JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.jobmanager.whole_folders import WholeFolders
from flott.runtime.storage.posix_fence import PosixFence
from tests.unit.runtime.jobmanager.places import ObjectPlace, Place, PosixPlace

ROOT = Path(__file__).parents[4]
HOUR = 3_600_000


def submission(number: int = 1, **changes) -> JobSubmission:
    job = JobSubmission(f"{number:032x}", "payments", {"parallelism.default": "2"}, b"graph", submitted_ms=7)
    return replace(job, **changes)


def ended(job: JobSubmission, end_ms: int = 0) -> tuple[JobView, JobResultView]:
    view = JobView(job.job_id, job.name, JobStatus.FINISHED, start_ms=0, end_ms=end_ms)
    return view, JobResultView(job.job_id, JobStatus.FINISHED, 12)


@pytest.fixture(params=["file system", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where jobs are kept: what every storage promises is tested with each."""
    if request.param == "file system":
        return PosixPlace(tmp_path / "kept")
    return ObjectPlace(request.getfixturevalue("objects"), tmp_path / "own")


def test_a_job_comes_back_as_it_was_kept_with_its_files(place: Place, tmp_path: Path):
    (tmp_path / "upload").write_bytes(b"library")
    job = submission(files=(JobFile("lib.zip", "python"),), batch=True, parallelism=3, program="run.py")
    place.opened()[0].keep(job, {"lib.zip": tmp_path / "upload"})
    store, _ = place.opened()
    assert list(store.jobs()) == [job]
    assert store.get(job.job_id) == job
    assert place.file_of(store, job, "lib.zip") == b"library"
    assert not (tmp_path / "upload").exists(), "it was moved"


def test_a_job_whose_files_are_missing_is_refused_and_leaves_nothing(place: Place):
    store, _ = place.opened()
    with pytest.raises(SubmissionError, match=r"did not come with it: lib\.zip"):
        store.keep(submission(files=(JobFile("lib.zip", "python"),)), {})
    assert place.kept() == []


def test_a_second_job_with_the_same_id_is_refused_and_the_first_stays(place: Place):
    store, _ = place.opened()
    store.keep(submission(), {})
    with pytest.raises(SubmissionError, match="already"):
        store.keep(submission(name="other"), {})
    assert [job.name for job in store.jobs()] == ["payments"]


def test_what_a_crash_left_half_kept_is_no_job(tmp_path: Path):
    store = JobStore(tmp_path)
    store.keep(submission(), {})
    (tmp_path / submission().job_id).rename(tmp_path / f".draft-{submission().job_id}")
    assert list(JobStore(tmp_path).jobs()) == []
    assert os.listdir(tmp_path) == []


def test_a_damaged_job_is_left_where_it_is_and_others_are_read(place: Place, caplog: pytest.LogCaptureFixture):
    store, _ = place.opened()
    for number in (1, 2):
        store.keep(submission(number), {})
    before = place.kept()
    place.damage(f"{1:032x}", "submission.json")
    for _ in range(2):
        assert [job.job_id for job in store.jobs()] == [f"{2:032x}"]
        assert "cannot be read" in caplog.text
        assert place.kept() == before
        store, _ = place.opened()


def test_a_disk_that_refuses_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = JobStore(tmp_path)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match=rf"kept in {tmp_path}: No space left on device\..* free space there"):
        store.keep(submission(), {})
    assert os.listdir(tmp_path) == []


def test_a_job_that_has_ended_is_no_job_that_is_run_again(place: Place):
    store, archive = place.opened()
    job = submission()
    store.keep(job, {})
    archive.put(*ended(job))
    assert list(store.jobs()) == []
    for found in (archive, place.opened()[1]):
        assert [entry.view.name for entry in found.jobs()] == ["payments"]
        assert found.get(job.job_id).result.net_runtime_ms == 12
    assert place.opened()[0].get(job.job_id) == job, "so that its epochs can be replayed"


def test_the_folder_of_a_job_that_has_ended_is_known(tmp_path: Path):
    store, archive = JobStore(tmp_path / "jobs"), JobArchive(tmp_path / "jobs", 10, HOUR)
    store.keep(submission(), {})
    archive.put(*ended(submission()))
    for found in (archive, JobArchive(tmp_path / "jobs", 10, HOUR)):
        assert read_submission(found.get(submission().job_id).folder) == submission()


def test_the_archive_forgets_the_oldest_beyond_its_capacity_and_all_that_are_too_old(place: Place):
    store, archive = place.opened(capacity=3)
    for number in range(1, 6):
        job = submission(number)
        store.keep(job, {})
        archive.put(*ended(job, end_ms=number))
    assert archive.forget_old(now_ms=10) == [f"{1:032x}", f"{2:032x}"]
    assert archive.forget_old(now_ms=HOUR + 4) == [f"{3:032x}"]
    assert place.kept() == [f"{4:032x}", f"{5:032x}"]


def test_an_ended_job_that_cannot_be_read_hides_no_other_and_is_not_run_again(place: Place):
    store, archive = place.opened()
    for number in (1, 2):
        store.keep(submission(number), {})
        archive.put(*ended(submission(number)))
    place.damage(f"{1:032x}", "end.json")
    store, archive = place.opened()
    assert [job.view.job_id for job in archive.jobs()] == [f"{2:032x}"]
    assert archive.has(f"{1:032x}")
    assert list(store.jobs()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"job_id": "../../etc"}, "32 hexadecimal"),
        ({"files": (JobFile("../lib.zip", "python"),)}, "plain name"),
        ({"files": (JobFile("lib.zip", "virus"),)}, "found 'virus'"),
        ({"files": (JobFile("a", "python"), JobFile("a", "archive"))}, "same name"),
    ],
)
def test_a_description_that_would_reach_elsewhere_is_refused(change, message):
    with pytest.raises(SubmissionError, match=message):
        JobSubmission.of(submission(**change).description(), b"")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"version": 2}', b'{"version": 1, "files": 3}', b"\xff"])
def test_a_description_that_is_none_is_refused(text):
    with pytest.raises(SubmissionError):
        JobSubmission.of(text, b"")


# --- crashes ---------------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is killed: nothing of it runs any more."""


@contextmanager
def crashing_after(deeds: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let so many changes of names and flushes happen, then none; what is handled as an error is not: it is a crash."""
    left = deeds

    def counted(original):
        def deed(*arguments, **options):
            nonlocal left
            if left <= 0:
                raise Crash
            left -= 1
            return original(*arguments, **options)

        return deed

    with monkeypatch.context() as patch:
        for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "open"):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield


def test_a_job_is_kept_whole_or_not_at_all_wherever_the_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = []
    for deeds in itertools.count():
        folder = tmp_path / str(deeds)
        store = JobStore(folder)
        (tmp_path / "upload").write_bytes(b"library")
        job = submission(files=(JobFile("lib.zip", "python"),))
        answered = False
        with suppress(Crash), crashing_after(deeds, monkeypatch):
            store.keep(job, {"lib.zip": tmp_path / "upload"})
            answered = True
        found = list(JobStore(folder).jobs())
        assert found in ([], [job])
        assert not answered or found == [job], "what was answered for is kept"
        if found:
            assert (store.files_of(job.job_id) / "lib.zip").read_bytes() == b"library"
        assert os.listdir(folder) == [job.job_id for job in found], "and nothing else"
        kept.append(bool(found))
        if answered:
            break
    assert kept == sorted(kept)
    assert kept.count(False) > 5


def test_a_job_is_running_or_ended_wherever_the_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    job = submission()
    for deeds in itertools.count():
        folder = tmp_path / str(deeds)
        store, archive = JobStore(folder / "jobs"), JobArchive(folder / "jobs", 10, HOUR)
        store.keep(job, {})
        answered = False
        with suppress(Crash), crashing_after(deeds, monkeypatch):
            archive.put(*ended(job))
            answered = True
        running = [found.job_id for found in JobStore(folder / "jobs").jobs()]
        archive = JobArchive(folder / "jobs", 10, HOUR)
        over = [found.view.job_id for found in archive.jobs()]
        assert sorted(running + over) == [job.job_id], "in one place, and in one only"
        assert [found.view.job_id for found in archive.untidy()] == over
        if running:  # it is run again, and ends again
            archive.put(*ended(job))
            assert archive.has(job.job_id)
        if answered:
            assert over
            break
    assert deeds > 3


def test_a_job_whose_name_cannot_be_made_durable_is_refused_and_not_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = JobStore(tmp_path)

    def full(folder: Path) -> None:
        if Path(folder) == tmp_path:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(whole_folders, "sync_folder", full)
    with pytest.raises(ClusterError, match="Input/output"):
        store.keep(submission(), {})
    assert os.listdir(tmp_path) == []


def test_of_two_that_are_handed_over_by_one_id_at_once_one_is_kept_whole(place: Place):
    store, _ = place.opened()
    barrier, refused = threading.Barrier(8), []

    def keep(number: int) -> None:
        barrier.wait()
        try:
            store.keep(submission(name=f"number {number}", graph=bytes([number]) * 1000), {})
        except SubmissionError:
            refused.append(number)

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [job] = store.jobs()
    assert len(refused) == 7
    assert job.graph == bytes([int(job.name.split()[1])]) * 1000
    assert place.kept() == [job.job_id]


def test_a_job_is_ended_or_forgotten_wherever_the_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    job = submission()
    for deeds in itertools.count():
        folder = tmp_path / str(deeds)
        store, archive = JobStore(folder), JobArchive(folder, 10, HOUR)
        (tmp_path / "upload").write_bytes(b"library")
        store.keep(replace(job, files=(JobFile("lib.zip", "python"),)), {"lib.zip": tmp_path / "upload"})
        archive.put(*ended(job))
        answered = False
        with suppress(Crash), crashing_after(deeds, monkeypatch):
            assert archive.forget_old(now_ms=HOUR + 1) == [job.job_id]
            answered = True
        assert list(JobStore(folder).jobs()) == [], "it has ended"
        over = [found.view.job_id for found in JobArchive(folder, 10, HOUR).jobs()]
        assert os.listdir(folder) == over, "and nothing of it is left if it was forgotten"
        if answered:
            assert not over
            break
    assert deeds > 3


def test_how_a_job_ended_is_written_again_if_it_cannot_be_read_any_more(tmp_path: Path):
    store, archive = JobStore(tmp_path), JobArchive(tmp_path, 10, HOUR)
    store.keep(submission(), {})
    (tmp_path / submission().job_id / "end.pickle").write_bytes(b"torn")
    archive.put(*ended(submission()))
    assert len(JobArchive(tmp_path, 10, HOUR).jobs()) == 1


def test_a_job_is_untidy_until_it_is_said_to_be_tidied(place: Place):
    store, archive = place.opened()
    store.keep(submission(), {})
    archive.put(*ended(submission()))
    assert [job.view.job_id for job in archive.untidy()] == [submission().job_id]
    archive = place.opened()[1]
    assert [job.view.job_id for job in archive.untidy()] == [submission().job_id]
    archive.tidied(submission().job_id)
    assert archive.untidy() == []
    assert place.opened()[1].untidy() == []


def test_a_job_that_was_forgotten_does_not_come_back_because_somebody_cleans_up_after_it(place: Place):
    store, archive = place.opened()
    store.keep(submission(), {})
    archive.put(*ended(submission()))
    archive.forget_old(now_ms=HOUR + 1)
    archive.tidied(submission().job_id)
    assert place.kept() == []


def test_the_end_of_a_job_is_kept_even_if_somebody_has_deleted_the_job(place: Place):
    place.opened()[1].put(*ended(submission()))
    assert place.opened()[1].get(submission().job_id).view.name == "payments"


# --- several JobManagers ---------------------------------------------------------------------------------------------


def test_a_deposed_leader_keeps_ends_tidies_and_forgets_no_job(place: Place):
    store, archive = place.leading(1, capacity=0)
    for number in (1, 2):
        store.keep(submission(number), {})
    archive.put(*ended(submission(2)))
    place.leading(2)
    before = place.everything()
    for deed in (lambda: store.keep(submission(3), {}), lambda: archive.put(*ended(submission(1)))):
        with pytest.raises(LeadershipLostError):
            deed()
    archive.tidied(f"{2:032x}")
    assert archive.forget_old(now_ms=0) == []
    assert place.everything(but_contents=True) == before


def test_what_a_leader_was_handing_over_when_it_was_deposed_is_deleted_by_its_successor(tmp_path: Path):
    deposed = PosixFence(str(tmp_path / "fence"), 1)
    deposed.claim()
    draft = WholeFolders(tmp_path / "jobs", deposed).draft("job")
    (draft / "files").mkdir()
    (draft / "files" / "lib.zip").write_bytes(b"library")
    PosixFence(str(tmp_path / "fence"), 2).claim()
    assert os.listdir(tmp_path / "jobs") == []
    assert sorted(name.partition("-")[0] for name in os.listdir(tmp_path / "fence")) == ["2", "2"], "mark and seat"


KEEPER = """
import sys
from pathlib import Path
from flott.errors import LeadershipLostError
from flott.runtime.jobmanager.job_store import JobStore
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.storage.posix_fence import PosixFence
fence = PosixFence(str(Path(sys.argv[1], "fence")), 1)
fence.claim()
store = JobStore(Path(sys.argv[1], "jobs"), fence)
number = 0
try:
    while True:
        number += 1
        store.keep(JobSubmission(f"{number:032x}", "job", {}, b"graph"), {})
        print("kept", number, flush=True)
except LeadershipLostError:
    print("lost", number, flush=True)
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps jobs until it leads no more."""
    command = [sys.executable, "-c", KEEPER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_process_that_was_stopped_and_deposed_keeps_no_job_when_it_goes_on(
    tmp_path: Path, keeper: subprocess.Popen[str]
):
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "kept 1\n"
    os.kill(keeper.pid, signal.SIGSTOP)
    leader = PosixFence(str(tmp_path / "fence"), 2)
    leader.claim()
    found = [job.job_id for job in JobStore(tmp_path / "jobs", leader).jobs()]
    os.kill(keeper.pid, signal.SIGCONT)
    *kept, lost = keeper.stdout.read().splitlines()
    assert lost.split()[0] == "lost"
    assert len(kept) + 1 <= len(found) <= len(kept) + 2, "all it has told of, and perhaps one more"
    assert [job.job_id for job in JobStore(tmp_path / "jobs", leader).jobs()] == found
