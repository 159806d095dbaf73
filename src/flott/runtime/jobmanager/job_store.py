"""Jobs that were taken in, and those that have ended: kept on disk, so that a JobManager's death loses neither.

    jobs/<job id>/      submission.json  graph.pickle  files/...     from before the job is started
                        end.json                                     once it has ended: how
                        untidy                                       until its checkpoints are deleted, too

A job appears by one rename of its whole folder, ends by one rename of one file, and is forgotten by one rename of its
folder. So there is no moment in which it is half there, or ended and about to be run. Where several JobManagers share
the folder, all three renames are to or from the leader's folder in the fence (``runtime.storage.posix_fence``): a
deposed leader fails to do any of them, whenever it was stopped. Decision 0020 says who else writes to the storage that
JobManagers share. In an object store it is otherwise: ``object_job_store``.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flott.errors import ClusterError, FlottError, StorageFullError, SubmissionError
from flott.runtime.jobmanager.ended_job_file import decode_end, decode_former_end, encode_end
from flott.runtime.jobmanager.folders import (
    END_FILE,
    FORMER_END_FILE,
    GRAPH_FILE,
    JOB_FILES,
    SUBMISSION_FILE,
    UNTIDY_FILE,
)
from flott.runtime.jobmanager.submission import JobSubmission, is_job_id
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.jobmanager.whole_folders import WholeFolders
from flott.runtime.storage import PosixStorage, is_full, sync_folder
from flott.runtime.storage.posix_fence import PosixFence

if TYPE_CHECKING:
    from flott.runtime.jobmanager.object_job_store import JobContents

log = logging.getLogger("flott.cluster")


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended."""

    view: JobView
    result: JobResultView
    folder: Path | None = None  #: where it is kept, if that is in a file system


class KeptJobs(Protocol):
    """Jobs that have not ended, in whatever storage."""

    def keep(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        """Keep a job durably; its files are moved here. What is refused leaves nothing behind."""

    def jobs(self) -> Iterator[JobSubmission]:
        """Yield the jobs that have not ended. A job that cannot be read is logged, and is left as it is."""

    def ids(self) -> set[str]:
        """Return the ids of the jobs that have not ended."""

    def get(self, job_id: str) -> JobSubmission:
        """Return one of the jobs."""

    def files_of(self, job_id: str) -> Path:
        """Return the local folder of the files that came with a job."""

    def contents_of(self, job_id: str) -> JobContents | None:
        """Return where the process of a job fetches its files from; None: they are in their folder."""


class EndedJobs(Protocol):
    """Where it is written how jobs have ended."""

    def ended(self) -> Iterable[EndedJob]:
        """Return the jobs that have ended and can be read."""

    def end_of(self, job_id: str) -> EndedJob | None:
        """Return how a job has ended; None if it has not, or that cannot be read."""

    def write_end(self, view: JobView, result: JobResultView) -> EndedJob:
        """Write down how a job ended. When this returns that is durable."""

    def has_ended(self, job_id: str) -> bool:
        """Return whether a job has ended, even if nothing more is known of it."""

    def mark_tidy(self, job_id: str) -> None:
        """Note that nothing of a job is left to be deleted."""

    def untidy(self, jobs: Sequence[EndedJob]) -> list[EndedJob]:
        """Return those jobs of which files may be left."""

    def remove(self, job_id: str) -> None:
        """Forget a job."""


def refuse_missing(submission: JobSubmission, files: Mapping[str, Path]) -> None:
    """Refuse a job that names files which did not come with it."""
    if missing := [file.name for file in submission.files if file.name not in files]:
        raise SubmissionError(f"Files that the job names did not come with it: {', '.join(missing)}.")


class JobStore:
    """Jobs that have not ended, in a file system."""

    def __init__(self, folder: Path, fence: PosixFence | None = None):
        self.folder = folder
        self._folders = WholeFolders(folder, fence)

    def keep(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        """Keep a job durably; its files are moved here. What is refused leaves nothing behind."""
        refuse_missing(submission, files)
        draft: Path | None = None
        try:
            draft = self._folders.draft(submission.job_id)
            self._write(draft, submission, files)
            self._folders.publish(draft, submission.job_id)
        except OSError as error:
            if (self.folder / submission.job_id).exists():
                raise SubmissionError(f"There is a job {submission.job_id} already.") from error
            self._folders.check(draft)
            raise self._refusal(error) from error
        finally:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)  # it is not there any more if it was published
        try:
            self._folders.flush()
        except OSError as error:
            self._folders.remove(submission.job_id)  # the client is told that it was not kept
            raise self._refusal(error) from error

    def _write(self, draft: Path, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        (draft / JOB_FILES).mkdir()
        for file in submission.files:
            shutil.move(files[file.name], draft / JOB_FILES / file.name)
            _sync(draft / JOB_FILES / file.name)
        _write(draft / GRAPH_FILE, submission.graph)
        _write(draft / SUBMISSION_FILE, submission.description())
        (draft / UNTIDY_FILE).touch()
        sync_folder(draft / JOB_FILES)
        sync_folder(draft)

    def _refusal(self, error: OSError) -> ClusterError:
        if is_full(error):
            return StorageFullError(
                f"The job could not be kept in {self.folder}: {error.strerror}. Nothing of it was kept: free space"
                " there and submit it again."
            )
        return ClusterError(f"The job could not be kept in {self.folder}: {error.strerror}.")

    def jobs(self) -> Iterator[JobSubmission]:
        """Yield the jobs that have not ended. A job that cannot be read is logged, and its folder is left as it is."""
        for job_id in sorted(self.ids()):
            try:
                yield self.get(job_id)
            except (OSError, SubmissionError) as error:
                log.error("The job kept in %s cannot be read, and is not run: %s", self.folder / job_id, error)

    def ids(self) -> set[str]:
        """Return the ids of the jobs that have not ended."""
        return {name for name in os.listdir(self.folder) if is_job_id(name) and not has_ended(self.folder / name)}

    def get(self, job_id: str) -> JobSubmission:
        """Return one of the jobs."""
        return read_submission(self.folder / job_id)

    def files_of(self, job_id: str) -> Path:
        """Return the folder of the files that came with a job."""
        return self.folder / job_id / JOB_FILES


    def contents_of(self, job_id: str) -> JobContents | None:
        """Return None: the files are in their folder."""
        return None


class JobArchive:
    """Jobs that have ended, the newest of them."""

    def __init__(self, place: Path | EndedJobs, capacity: int, keep_ms: int, fence: PosixFence | None = None):
        self._kept: EndedJobs = EndFiles(place, fence) if isinstance(place, Path) else place
        self._capacity = capacity
        self._keep_ms = keep_ms
        found = sorted(self._kept.ended(), key=lambda job: job.view.end_ms)
        self._ended = {job.view.job_id: job for job in found}

    def put(self, view: JobView, result: JobResultView) -> EndedJob:
        """Write down how a job ended. When this returns that is durable.

        Another JobManager may have been here before: then it is as that one found it.
        """
        ended = self._kept.end_of(view.job_id)
        if ended is None:
            ended = self._kept.write_end(view, result)
        self._ended[view.job_id] = ended
        return ended

    def tidied(self, job_id: str) -> None:
        """Note that nothing of a job is left to be deleted."""
        try:
            self._kept.mark_tidy(job_id)
        except FlottError as error:  # then it is looked at again by the next JobManager
            log.warning("Job %s is cleaned up, which could not be written down: %s", job_id, error)

    def untidy(self) -> list[EndedJob]:
        """Return the jobs of which files may be left."""
        return self._kept.untidy(self.jobs())

    def has(self, job_id: str) -> bool:
        """Return whether such a job has ended, even if nothing more is known of it."""
        return job_id in self._ended or self._kept.has_ended(job_id)

    def jobs(self) -> list[EndedJob]:
        """Return the ended jobs, the oldest first."""
        return list(self._ended.values())

    def get(self, job_id: str) -> EndedJob | None:
        """Return one of the jobs."""
        return self._ended.get(job_id)

    def forget_old(self, now_ms: int) -> list[str]:
        """Delete those that are too many or too old; the ids of those that are gone."""
        ended = self.jobs()
        beyond = max(0, len(ended) - self._capacity)
        due = [job for number, job in enumerate(ended) if number < beyond or now_ms - job.view.end_ms > self._keep_ms]
        return [job.view.job_id for job in due if self._forget(job.view.job_id)]

    def _forget(self, job_id: str) -> bool:
        try:
            self._kept.remove(job_id)
        except (OSError, FlottError):  # later, or by another JobManager
            return False
        self._ended.pop(job_id, None)
        return True


class EndFiles:
    """How jobs have ended, in the folders of a file system that keep them."""

    def __init__(self, folder: Path, fence: PosixFence | None):
        self.folder = folder
        self._folders = WholeFolders(folder, fence)
        self._storage = PosixStorage(fence.home if fence is not None else str(folder), fence=fence)

    def ended(self) -> list[EndedJob]:
        """Return the jobs that have ended and can be read."""
        found = (_read(entry) for entry in self.folder.iterdir() if is_job_id(entry.name))
        return [ended for ended in found if ended is not None]

    def end_of(self, job_id: str) -> EndedJob | None:
        """Return how a job has ended; None if it has not, or that cannot be read."""
        return _read(self.folder / job_id)

    def write_end(self, view: JobView, result: JobResultView) -> EndedJob:
        """Write down how a job ended."""
        self._storage.publish(self._name(view.job_id, END_FILE), encode_end(view, result))
        return EndedJob(view, result, self.folder / view.job_id)

    def has_ended(self, job_id: str) -> bool:
        """Return whether a job has ended, even if nothing more is known of it."""
        return has_ended(self.folder / job_id)

    def mark_tidy(self, job_id: str) -> None:
        """Note that nothing of a job is left to be deleted."""
        self._storage.delete(self._name(job_id, UNTIDY_FILE))

    def untidy(self, jobs: Sequence[EndedJob]) -> list[EndedJob]:
        """Return those jobs of which files may be left."""
        return [job for job in jobs if (self.folder / job.view.job_id / UNTIDY_FILE).exists()]

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        self._folders.remove(job_id)

    def _name(self, job_id: str, file: str) -> str:
        return os.path.relpath(self.folder / job_id / file, self._storage.root)


def has_ended(folder: Path) -> bool:
    """Return whether the job kept in a folder has ended."""
    return (folder / END_FILE).exists() or (folder / FORMER_END_FILE).exists()


def read_submission(folder: Path) -> JobSubmission:
    """Return the job kept in a folder, whether it has ended or not."""
    return JobSubmission.of((folder / SUBMISSION_FILE).read_bytes(), (folder / GRAPH_FILE).read_bytes())


def _read(folder: Path) -> EndedJob | None:
    """Return a job that has ended; None if it has not ended, or cannot be read."""
    try:
        if (folder / END_FILE).exists():
            return EndedJob(*decode_end((folder / END_FILE).read_bytes()), folder)
        return EndedJob(*decode_former_end((folder / FORMER_END_FILE).read_bytes()), folder)
    except FileNotFoundError:
        return None
    except Exception as error:  # reading a pickle may raise anything
        log.warning("The ended job kept in %s cannot be read, and is not shown: %s", folder, error)
        return None


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
