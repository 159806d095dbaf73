"""One seed of the job store with high availability: leaders that take jobs in, end and forget them, and are deposed.

Leaders with growing tokens work in the same folder of jobs, each in a thread of its own, and a seed decides who goes on
at every call any of them makes to the file system: one may be stopped between its last look and its deed, be deposed,
and come to again when its successor runs the job, has ended it, or has another one by the same id. Some die. Clients
that were not answered look whether their job has arrived, and hand it over again.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from flott.common.job_status import JobStatus
from flott.errors import LeadershipLostError, StorageError, SubmissionError
from flott.runtime.jobmanager import whole_folders
from flott.runtime.jobmanager.job_store import EndedJob, JobArchive, JobStore, has_ended, read_submission
from flott.runtime.jobmanager.submission import JobFile, JobSubmission, is_job_id
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.storage import posix_fence as fence
from flott.runtime.storage.posix_fence import PosixFence
from flott.testing.harness import Crash
from tests.simulation.baton import Baton, Runner, anyone
from tests.simulation.simulation import SeedFailed, _quiet

LEADERS = 4
#: Ended jobs that are kept: few, so that some are forgotten.
CAPACITY = 1
HOUR = 3_600_000
#: What a process can be stopped before.
CALLS = ("rename", "replace", "mkdir", "rmdir", "unlink", "open", "listdir", "scandir", "stat", "fsync")
CHANGES = ("rename", "replace", "mkdir", "rmdir", "unlink")


@dataclass
class JobLeader:
    """One JobManager, as far as the job store is concerned."""

    token: int
    deeds: int
    left: int  #: moments until it dies; 0: it does not
    running: dict[str, str] = field(default_factory=dict)  #: by id the names of the jobs it has begun
    dead: bool = False
    stopped_until: int = 0
    fence: PosixFence | None = None

    @property
    def name(self) -> str:
        return f"leader {self.token}"


class JobTakeover:
    """One seed. A job's name tells apart those that were handed over by the same id."""

    def __init__(self, seed: int, folder: Path):
        self.random = Random(seed)
        self.folder, self.jobs = folder, folder / "jobs"
        self.jobs.mkdir()
        self.trace: list[str] = []
        self.baton = Baton(self._choose)
        self.leaders: dict[str, JobLeader] = {}
        self.rate = self.random.choice([0.003, 0.01, 0.05, 0.3])  #: how often somebody else's turn comes
        self.takeover_rate = self.random.choice([0.003, 0.01, 0.03])
        self.moments = 0
        self.highest = 0  #: of the leaders that have claimed the folder
        self.clock = 0
        self.handed_over = 0
        self.broken: list[str] = []
        self.unanswered: list[str] = []  #: ids of jobs of which the client does not know whether they were taken in
        self.accepted: dict[str, str] = {}  #: by name the ids of jobs a client was told are kept
        self.ended: dict[str, str] = {}  #: by name of a job: whose word it is that it has ended
        self.forgotten: set[str] = set()  #: names

    # --- who goes on -------------------------------------------------------------------------------------------------

    def _choose(self, left: list[Runner]) -> Runner | None:
        self.moments += 1
        awake = [runner for runner in left if self.leaders[runner.name].stopped_until <= self.moments]
        return anyone(awake or left, self.baton.current, self.random, self.rate)

    def moment(self, what: str) -> None:
        """Before a call to the file system: a takeover, a death, or somebody else's turn may come."""
        leader = self._current()
        if leader is None:
            return
        self.trace.append(f"{leader.name}: {what}")
        danger = 20 if what.startswith(("rename", "replace")) else 4 if what.startswith(CHANGES) else 1
        if len(self.leaders) < LEADERS and self.random.random() < self.takeover_rate * danger:
            self._new_leader()
            leader.stopped_until = self.moments + self.random.choice([0, 60, 200, 600])
        leader.left -= 1
        if leader.left == 0:
            self.trace.append(f"{leader.name} dies")
            leader.dead = True
        if leader.dead:
            raise Crash
        self.baton.moment()

    def changed(self, what: str, *paths: str) -> None:
        """After a call that has changed something: among the jobs, only the leader can."""
        leader = self._current()
        if leader is not None and leader.token < self.highest and any("jobs/" in path for path in paths):
            self.broken.append(f"{leader.name}, deposed by {self.highest}: {what}")

    def _current(self) -> JobLeader | None:
        runner = self.baton.current
        return self.leaders[runner.name] if runner is not None and runner.thread is threading.current_thread() else None

    def _new_leader(self) -> JobLeader:
        token = max((leader.token for leader in self.leaders.values()), default=0) + self.random.randint(1, 3)
        dies = self.random.choice([0, 0, self.random.randint(1, 100)])
        leader = JobLeader(token, self.random.randint(2, 14), dies)
        self.trace.append(f"{leader.name} takes over")
        self.leaders[leader.name] = leader
        self.baton.add(leader.name, lambda: self._lead(leader))
        return leader

    # --- what a leader does: the Dispatcher's part, without processes -----------------------------------------------

    def _lead(self, leader: JobLeader) -> None:
        try:
            self._lead_on(leader)
        except LeadershipLostError:
            self.trace.append(f"{leader.name} finds that it leads no more")
        except Crash:
            pass

    def _lead_on(self, leader: JobLeader) -> None:
        leader.fence = PosixFence(str(self.folder / fence.FOLDER), leader.token, sync=False)
        leader.fence.claim()
        self.highest = max(self.highest, leader.token)
        store = JobStore(self.jobs, leader.fence)
        archive = JobArchive(self.jobs, CAPACITY, HOUR, leader.fence)
        leader.running = {job.job_id: job.name for job in store.jobs()}
        deeds: list[Callable[[JobLeader, JobStore, JobArchive], None]] = [
            self._submit, self._submit, self._end, self._end, self._tidy, self._forget, self._forget
        ]  # fmt: skip
        for _ in range(leader.deeds):
            self._check_what_it_runs(leader, archive)
            self.random.choice(deeds)(leader, store, archive)
        self._check_what_it_runs(leader, archive)
        leader.fence.release()

    def _submit(self, leader: JobLeader, store: JobStore, archive: JobArchive) -> None:
        job_id = self._id_of_next()
        if job_id in leader.running or archive.has(job_id):
            self._answer(job_id)  # so it has arrived
            return
        self.handed_over += 1
        name = f"{job_id[-2:]} number {self.handed_over}"
        upload = self.folder / f"upload-{self.handed_over}"
        with self._unseen():
            upload.write_bytes(name.encode())
        job = JobSubmission(job_id, name, {}, name.encode(), files=(JobFile("lib.zip", "python"),))
        self.unanswered.append(job_id)
        self.trace.append(f"{leader.name}: keep {name}")
        try:
            store.keep(job, {"lib.zip": upload})
        except SubmissionError:
            assert leader.token < self.highest, f"nobody but {leader.name} can have kept {job_id}"
            return
        self.trace.append(f"{leader.name}: kept {name}")
        self.accepted[name] = job_id
        self._answer(job_id)
        leader.running[job_id] = name

    def _answer(self, job_id: str) -> None:
        self.unanswered = [other for other in self.unanswered if other != job_id]

    def _id_of_next(self) -> str:
        """A new one, or that of a client that tries again, or of a job that is there, or was and is forgotten."""
        known = [*self.unanswered * 4, *self.accepted.values()]
        if known and self.random.random() < 0.4:
            return self.random.choice(known)
        return f"{self.handed_over + 1:032x}"

    def _end(self, leader: JobLeader, store: JobStore, archive: JobArchive) -> None:
        if not leader.running:
            return
        job_id = self.random.choice(sorted(leader.running))
        name = leader.running[job_id]
        self.clock += 1
        view = JobView(job_id, f"{name} by {leader.name}", JobStatus.FINISHED, start_ms=0, end_ms=self.clock)
        self.trace.append(f"{leader.name}: end {name}")
        ended = _tried_again(lambda: archive.put(view, JobResultView(job_id, JobStatus.FINISHED, 1)))
        self.trace.append(f"{leader.name}: ended {ended.view.name}")
        del leader.running[job_id]
        said = self.ended.setdefault(name, ended.view.name)
        assert said == ended.view.name or leader.token < self.highest, f"{said}, and {ended.view.name}"

    def _tidy(self, leader: JobLeader, store: JobStore, archive: JobArchive) -> None:
        for job in archive.untidy():
            archive.tidied(job.view.job_id)

    def _forget(self, leader: JobLeader, store: JobStore, archive: JobArchive) -> None:
        names = {job.view.job_id: job.view.name.partition(" by ")[0] for job in archive.jobs()}
        for job_id in archive.forget_old(now_ms=0):
            self.trace.append(f"{leader.name}: forgot {names[job_id]}")
            self.forgotten.add(names[job_id])

    # --- what must be true -------------------------------------------------------------------------------------------

    def _check_what_it_runs(self, leader: JobLeader, archive: JobArchive) -> None:
        """Who leads runs what is kept and has not ended, and knows what has."""
        with self._unseen():
            if leader.token < self.highest:
                return
            kept = {path.name: path for path in self.jobs.iterdir()}
            running = {job_id: read_submission(path).name for job_id, path in kept.items() if not has_ended(path)}
            assert running == leader.running, f"{leader.name} runs {leader.running}; kept are {running}"
            ended = {job_id for job_id, path in kept.items() if has_ended(path)}
            assert ended == {job.view.job_id for job in archive.jobs()}, f"{leader.name}: ended are {ended}"

    def run(self) -> None:
        """Until nobody is left who could do anything; then one more looks what there is."""
        while len(self.leaders) < LEADERS:
            self._new_leader()
            self.baton.run()
            self.baton.current = None
            assert not self.broken, self.broken[0]
        last = JobLeader(self.highest + 10, 0, 0)
        self._lead_on(last)
        self._check_the_end(last)

    def _check_the_end(self, last: JobLeader) -> None:
        for path in self.jobs.iterdir():
            assert is_job_id(path.name), f"left behind: {path.name}"
            name = read_submission(path).name
            assert (path / "files" / "lib.zip").read_bytes() == name.encode(), "kept whole"
        kept = {read_submission(path).name for path in self.jobs.iterdir()}
        for name in self.accepted:
            assert name in kept or (name in self.ended or name in self.forgotten), f"{name} was accepted, and is lost"
            assert (name in last.running.values()) == (name in kept and not self._is_over(name)), name
        assert os.listdir(self.folder / fence.FOLDER) == [str(last.token)], "left in the fence"

    def _is_over(self, name: str) -> bool:
        return name in self.ended or has_ended(self.jobs / self.accepted[name])

    # --- the file system, as leaders see it --------------------------------------------------------------------------

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        """What the test itself does is no step of anybody."""
        current, self.baton.current = self.baton.current, None
        yield
        self.baton.current = current

    def shown(self, path: object) -> str:
        """A path in the trace."""
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else "there"
        return str(text).replace(f"{self.folder}/", "").replace(str(self.folder), "the folder")

    def stepped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """A call that others may have a turn before."""

        def call(*arguments: Any, **options: Any) -> Any:
            paths = [self.shown(path) for path in arguments[: 2 if name in ("rename", "replace") else 1]]
            what = f"{name} {' to '.join(paths)}"
            self.moment(what)
            result = real(*arguments, **options)
            if name in CHANGES:
                self.changed(what, *paths)
            return sorted(result) if name == "listdir" else result

        return call

    def token(self) -> Any:
        """In the place of a random name."""
        return SimpleNamespace(hex=f"{self.random.getrandbits(64):016x}")


def _tried_again(put: Callable[[], EndedJob]) -> EndedJob:
    """As the Dispatcher does: while another takes over, a draft may be gone before the leader folder is."""
    for _ in range(100):
        with suppress(StorageError):
            return put()
    raise AssertionError("it fails again and again, and has not lost its leader folder")


def run_job_takeover(seed: int) -> JobTakeover:
    """Run one seed; raises SeedFailed if anything is not as it should be."""
    folder, real_open = Path(tempfile.mkdtemp(prefix=f"flott-job-takeover-{seed}-")), open
    takeover = JobTakeover(seed, folder)
    try:
        with _quiet(), ExitStack() as patches:
            for module in (fence, whole_folders):
                patches.enter_context(mock.patch.object(module, "uuid4", takeover.token))
            for name in CALLS:
                real = getattr(os, name) if name != "fsync" else lambda descriptor: None
                patches.enter_context(mock.patch.object(os, name, takeover.stepped(name, real)))
            for module in (builtins, io):
                patches.enter_context(mock.patch.object(module, "open", takeover.stepped("open", real_open)))
            takeover.run()
    except Exception as error:
        raise SeedFailed(f"Job takeover {seed}", error, takeover.trace[-25:], f"--job-takeover {seed}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return takeover
