"""Jobs that were taken in, and those that have ended: kept on disk, so that a JobManager's death loses neither.

    jobs/<job id>/      submission.json  graph.pickle  files/...         until the job has ended
    archive/<job id>/   the same, and view.pickle  result.pickle         then, as many and as long as configured
                        and untidy, until its checkpoints are deleted

A job is in the first folder from before it is started until its end is durable. Its folder then moves to the second: a
rename, so there is no moment in which it is in neither or in both. Where several JobManagers share the folders, a fence
(``runtime.fence``) tells a deposed one to leave them alone.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from flott.errors import ClusterError, FlottError, SubmissionError
from flott.runtime.cluster.job_view import JobResultView, JobView
from flott.runtime.cluster.submission import JobSubmission, is_job_id
from flott.runtime.fence import Fence
from flott.runtime.storage import sync_folder

log = logging.getLogger("flott.cluster")

T = TypeVar("T")

_SUBMISSION = "submission.json"
_GRAPH = "graph.pickle"
_FILES = "files"
_VIEW = "view.pickle"
_RESULT = "result.pickle"
_UNTIDY = "untidy"
_DRAFT = ".draft-"


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended."""

    view: JobView
    result: JobResultView
    folder: Path


class JobStore:
    """Jobs that have not ended."""

    def __init__(self, folder: Path, fence: Fence | None = None):
        self.folder = folder
        self._fence = fence
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(f"{_DRAFT}*"):
            shutil.rmtree(draft, ignore_errors=True)  # somebody was handing it over when the process died

    def keep(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        """Keep a job durably; its files are moved here."""
        if missing := [file.name for file in submission.files if file.name not in files]:
            raise SubmissionError(f"Files that the job names did not come with it: {', '.join(missing)}.")
        folder = self.folder / submission.job_id
        draft: Path | None = None
        try:
            draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=self.folder))
            self._write(draft, submission, files)
            if self._fence is not None:
                self._fence.check()
            draft.rename(folder)
        except (OSError, FlottError) as error:
            if draft is not None:
                shutil.rmtree(draft, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            if folder.exists():
                raise SubmissionError(f"There is a job {submission.job_id} already.") from error
            raise self._refusal(error) from error
        try:
            sync_folder(self.folder)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)  # nobody may find what the client was told did not happen
            raise self._refusal(error) from error

    def _write(self, draft: Path, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        (draft / _FILES).mkdir()
        for file in submission.files:
            shutil.move(files[file.name], draft / _FILES / file.name)
            _sync(draft / _FILES / file.name)
        _write(draft / _GRAPH, submission.graph)
        _write(draft / _SUBMISSION, submission.description())
        sync_folder(draft / _FILES)
        sync_folder(draft)

    def _refusal(self, error: OSError) -> ClusterError:
        return ClusterError(f"The job could not be kept in {self.folder}: {error.strerror}.")

    def jobs(self) -> Iterator[JobSubmission]:
        """All that are kept; one that cannot be read is told, and left where it is."""
        for folder in sorted(self.folder.iterdir()):
            if is_job_id(folder.name):
                try:
                    yield read_submission(folder)
                except (OSError, SubmissionError) as error:
                    log.error("The job kept in %s cannot be read, and is not run: %s", folder, error)

    def ids(self) -> set[str]:
        """The ids of all that are kept."""
        return {name for name in os.listdir(self.folder) if is_job_id(name)}

    def get(self, job_id: str) -> JobSubmission:
        """One of them."""
        return read_submission(self.folder / job_id)

    def folder_of(self, job_id: str) -> Path:
        """Where a job is kept."""
        return self.folder / job_id

    def files_of(self, job_id: str) -> Path:
        """The folder of the files that came with a job."""
        return self.folder / job_id / _FILES


class JobArchive:
    """Jobs that have ended, the newest of them."""

    def __init__(self, folder: Path, capacity: int, keep_ms: int, fence: Fence | None = None):
        self.folder = folder
        self._capacity = capacity
        self._keep_ms = keep_ms
        self._fence = fence
        folder.mkdir(parents=True, exist_ok=True)
        found = [ended for entry in folder.iterdir() if is_job_id(entry.name) if (ended := _read(entry)) is not None]
        self._ended = {job.view.job_id: job for job in sorted(found, key=lambda job: job.view.end_ms)}

    def put(self, kept: Path, view: JobView, result: JobResultView) -> EndedJob:
        """Take a job over from where it was kept. When this returns its end is durable.

        Another JobManager may have been here before: then it is as that one found it.
        """
        folder = self.folder / view.job_id
        ended = None if kept.is_dir() else _read(folder)
        if ended is None:
            self._move(kept, folder, view, result)
            ended = EndedJob(view, result, folder)
        self._ended[view.job_id] = ended
        return ended

    def _move(self, kept: Path, folder: Path, view: JobView, result: JobResultView) -> None:
        kept.mkdir(exist_ok=True)
        _write(kept / _VIEW, pickle.dumps(view, protocol=5))
        _write(kept / _RESULT, pickle.dumps(result, protocol=5))
        _write(kept / _UNTIDY, b"")
        sync_folder(kept)
        if self._fence is not None:
            self._fence.check()
        if folder.exists():  # what is left of a job by the same id that cannot be read any more
            shutil.rmtree(folder)
        kept.rename(folder)
        sync_folder(self.folder)
        sync_folder(kept.parent)

    def tidied(self, job_id: str) -> None:
        """Nothing is left to be deleted of a job."""
        with suppress(OSError):  # then it is looked at again by the next JobManager
            (self.folder / job_id / _UNTIDY).unlink(missing_ok=True)

    def untidy(self) -> list[EndedJob]:
        """Those of which something may be left."""
        return [job for job in self.jobs() if (job.folder / _UNTIDY).exists()]

    def has(self, job_id: str) -> bool:
        """Whether such a job has ended, even if nothing more is known of it."""
        return job_id in self._ended or (self.folder / job_id).exists()

    def jobs(self) -> list[EndedJob]:
        """The ended jobs, oldest first."""
        return list(self._ended.values())

    def get(self, job_id: str) -> EndedJob | None:
        """One of them."""
        return self._ended.get(job_id)

    def forget_old(self, now_ms: int) -> list[str]:
        """Delete those that are too many or too old; their ids."""
        ended = self.jobs()
        beyond = max(0, len(ended) - self._capacity)
        gone = [job for number, job in enumerate(ended) if number < beyond or now_ms - job.view.end_ms > self._keep_ms]
        for job in gone:
            self._ended.pop(job.view.job_id, None)
            shutil.rmtree(job.folder, ignore_errors=True)
        return [job.view.job_id for job in gone]


def read_submission(folder: Path) -> JobSubmission:
    """The job kept in a folder, of either kind."""
    return JobSubmission.of((folder / _SUBMISSION).read_bytes(), (folder / _GRAPH).read_bytes())


def _read(folder: Path) -> EndedJob | None:
    """A job of the archive; None if it cannot be read."""
    try:
        return EndedJob(_load(folder / _VIEW, JobView), _load(folder / _RESULT, JobResultView), folder)
    except Exception as error:  # of a pickle anything may come
        log.warning("The ended job kept in %s cannot be read, and is not shown: %s", folder, error)
        return None


def _load(path: Path, kind: type[T]) -> T:
    found = pickle.loads(path.read_bytes())
    if not isinstance(found, kind):
        raise TypeError(f"{path} holds {type(found).__name__}")
    return found


def _write(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
