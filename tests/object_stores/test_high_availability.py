"""JobManagers that share an object store on a real server: one leads, another takes over, only a leader changes it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import LeadershipLostError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.dispatcher import Dispatcher
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.leadership.election import Election, Leader, make_election
from flott.runtime.jobmanager.leadership.lease import Lease
from flott.runtime.jobmanager.leadership.lease_object import LeaseObject
from flott.runtime.jobmanager.submission import JobFile, JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from tests.object_stores.conftest import settings_of
from tests.object_stores.test_server import race
from tests.s3_server import S3Server
from tests.unit.runtime.jobmanager.jobs import counting, counts, submission_of, wait_for
from tests.unit.server.standby import Standby

PATIENCE_SECONDS = 120  #: only a watchdog
FILES = (JobFile("lib.zip", "python"), JobFile("empty", "python"))
JOB = JobSubmission("ab" * 16, "payments", {}, b"graph" * 1000, files=FILES)


class Manager:
    """What a JobManager has in the shared storage: its part in the election, and the jobs while it leads."""

    def __init__(self, server: S3Server, place: str, own: Path):
        self.own = own
        self.configuration = Configuration.of({
            **server.options,
            "high-availability.type": "filesystem",
            "high-availability.storageDir": place,
            "high-availability.cluster-id": "shop",
            "flott.ha.lease-timeout": "2 s",
            "flott.ha.lease-renewal": "100 ms",
            "flott.cluster.dir": str(own),
            "execution.target": "in-process",
        })  # fmt: skip
        self.folders = ClusterFolders.of(self.configuration)
        self.folders.prepare()
        self.election: Election = make_election(self.configuration)
        self.dispatcher: Dispatcher | None = None

    def lead(self) -> Leader:
        leader = self.election.await_leadership(f"http://{self.own.name}", threading.Event())
        assert leader is not None
        self.dispatcher = Dispatcher(self.configuration, self.folders, SystemClock(), leader.token, lambda: None)
        return leader

    @property
    def store(self) -> Any:
        assert self.dispatcher is not None
        return self.dispatcher._store


def end(name: str) -> tuple[JobView, JobResultView]:
    view = JobView(JOB.job_id, name, JobStatus.FINISHED, start_ms=0, end_ms=5)
    return view, JobResultView(JOB.job_id, JobStatus.FINISHED, 12)


def uploads(folder: Path) -> dict[str, Path]:
    (folder / "upload").write_bytes(b"library" * 100_000)
    (folder / "nothing").write_bytes(b"")
    return {"lib.zip": folder / "upload", "empty": folder / "nothing"}


def test_of_two_jobmanagers_the_one_that_takes_over_has_the_jobs_and_the_last_word(
    server: S3Server, place: str, tmp_path: Path
) -> None:
    first, second = Manager(server, place, tmp_path / "first"), Manager(server, place, tmp_path / "second")
    token = first.lead().token
    first.store.keep(JOB, uploads(tmp_path))
    assert second.election.leader() == Leader(token, "http://first")
    found: list[Leader] = []
    standby = threading.Thread(target=lambda: found.append(second.lead()))
    standby.start()
    first.election._tenure._ended.set()  # type: ignore[attr-defined]  # it hangs: it renews no more, and does not resign
    standby.join(PATIENCE_SECONDS)
    assert found[0].token > token
    assert first.election.leader() == found[0]

    assert list(second.store.jobs()) == [JOB]
    files = second.store.files_of(JOB.job_id)
    second.store.contents_of(JOB.job_id).fetch(JOB.files, files)
    assert (files / "lib.zip").read_bytes() == b"library" * 100_000
    assert (files / "empty").read_bytes() == b""

    assert first.dispatcher is not None
    with pytest.raises(LeadershipLostError):
        first.dispatcher.archive.put(*end("of the first"))
    with pytest.raises(LeadershipLostError):
        first.store.keep(JobSubmission("cd" * 16, "late", {}, b"graph"), {})
    assert second.dispatcher is not None
    second.dispatcher.archive.put(*end("of the second"))
    second.dispatcher.archive.tidied(JOB.job_id)
    second.dispatcher.close()
    second.election.resign()
    first.dispatcher.close(at_once=True)

    third = Manager(server, place, tmp_path / "third")
    assert third.lead().token > found[0].token, "at once: the second has resigned"
    assert third.dispatcher is not None
    assert third.store.ids() == set()
    assert [job.view.name for job in third.dispatcher.archive.jobs()] == ["of the second"]
    assert third.dispatcher.archive.untidy() == []
    third.store.remove(JOB.job_id)
    third.dispatcher.close()
    third.election.resign()
    kept = [path for path in (server.folder / "bucket" / place.rpartition("/")[2]).rglob("*") if path.is_file()]
    assert sorted(path.name for path in kept) == ["head", "lease"]


def test_of_candidates_that_stand_at_once_one_gets_each_token(server: S3Server, place: str) -> None:
    leases = LeaseObject.of(place, settings_of(server), 15_000)
    for token in range(1, 16):
        before = leases.current()

        def attempt(number: int, token: int = token, before: Lease | None = before) -> None:
            if not leases.take(Lease(token, f"http://{number}", f"{token}-{number}"), before):
                raise LeadershipLostError("another one has it")

        [winner] = race(attempt)
        current = leases.current()
        assert current is not None
        assert (current.token, current.address) == (token, f"http://{winner}")


def test_a_leader_that_was_killed_is_followed_by_a_standby_and_results_are_exact(
    server: S3Server, place: str, tmp_path: Path
) -> None:
    """Real processes that share nothing but the bucket: jobs, checkpoints and the election are there."""
    settings = {**server.options, "high-availability.storageDir": place, "flott.ha.lease-timeout": "3s"}
    managers = [Standby(tmp_path / "first", tmp_path, **settings)]
    try:
        wait_for(managers[0].leads)
        managers.append(Standby(tmp_path / "second", tmp_path, **settings))
        first, second = managers
        assert first.url in second.get("/jobs/overview").json()["errors"][0]
        job = submission_of(counting(tmp_path / "out", records=1500, rate=300), "survivor")
        first.submit(job)
        wait_for(lambda: first.epochs(job.job_id) >= 2)
        first.process.kill()
        wait_for(second.leads)
        wait_for(lambda: second.status(job.job_id) == "FINISHED")
        assert counts(tmp_path / "out") == dict.fromkeys(range(5), 300)
    finally:
        for manager in managers:
            manager.end()
