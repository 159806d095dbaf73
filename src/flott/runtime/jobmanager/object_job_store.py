"""Jobs that were taken in, and those that have ended, in an object store that several JobManagers share.

    published through the head (``runtime.storage.object_head``), and so only by the leader:
        jobs/<job id>/job.json      {"version": 1, "contents": "contents/<...>", "submission": {...}}
        jobs/<job id>/end.json      once it has ended: how
        jobs/<job id>/tidy          once nothing of an ended job is left to be deleted

    objects of their own, below a prefix that is never used twice:
        contents/<job id>-<random>/graph.pickle
        contents/<job id>-<random>/files/<name>
        contents/<job id>-<random>/delivers-<name>      the process of the job has begun to send results to a program

A job appears by one replacement of the head, when its contents are uploaded. It ends by one, and is forgotten by one;
then its contents are deleted. So there is no moment in which it is half there, and a leader that was deposed can do
none of this, whenever it was stopped (decision 0023). Contents that no job refers to were left by a process that died;
the next leader deletes them before it takes jobs in.

The files of a job are fetched by the process that runs it, into a local folder.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from flott.errors import ClusterError, FlottError, StorageError, SubmissionError
from flott.runtime.dependencies.job_dependencies import JobFile
from flott.runtime.jobmanager.ended_job_file import decode_end, encode_end
from flott.runtime.jobmanager.folders import END_FILE, GRAPH_FILE, JOB_FILES
from flott.runtime.jobmanager.job_store import EndedJob, refuse_missing
from flott.runtime.jobmanager.submission import JobSubmission, is_job_id
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.storage import DRAFT
from flott.runtime.storage.object_client import ObjectMissing
from flott.runtime.storage.object_head import Entry
from flott.runtime.storage.object_store import ObjectStorage

log = logging.getLogger("flott.cluster")

VERSION = 1
JOBS = "jobs"
CONTENTS = "contents"
JOB_FILE = "job.json"
TIDY_FILE = "tidy"
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class JobContents:
    """What belongs to one job beside its description. A value: it travels to the process of the job."""

    storage: ObjectStorage  #: without a fence: what is written here is under names of its own
    folder: str

    def upload(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        """Write everything."""
        self.storage.write(f"{self.folder}/{GRAPH_FILE}", submission.graph)
        for file in submission.files:
            with (
                open(files[file.name], "rb") as original,
                self.storage.create(f"{self.folder}/{JOB_FILES}/{file.name}") as uploaded,
            ):
                shutil.copyfileobj(original, uploaded, _COPY_BYTES)

    def graph(self) -> bytes:
        """Return the graph."""
        return self.storage.read(f"{self.folder}/{GRAPH_FILE}")

    def fetch(self, files: Sequence[JobFile], folder: Path) -> None:
        """Fetch the files that came with the job into a folder that appears whole, unless they are there already."""
        if folder.is_dir():
            return
        draft = folder.parent / f"{DRAFT}{uuid4().hex}"
        draft.mkdir(parents=True, mode=0o700)
        try:
            for file in files:
                with (
                    self.storage.open(f"{self.folder}/{JOB_FILES}/{file.name}") as original,
                    open(draft / file.name, "wb") as fetched,
                ):
                    shutil.copyfileobj(original, fetched, _COPY_BYTES)
            try:
                draft.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process of the job was faster
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # it is not there any more if it was renamed

    def mark(self, name: str) -> bool:
        """Create a mark that every JobManager sees; return False if another process of the job has."""
        return self.storage.create_if_absent(f"{self.folder}/{name}", uuid4().hex.encode())


class ObjectJobStore:
    """All jobs of a cluster, those that have not ended (``KeptJobs``) and those that have (``EndedJobs``).

    ``storage`` has a fence that this process has claimed. Changes that depend on what is there are made under one lock:
    beside this process, no leader changes anything.
    """

    def __init__(self, storage: ObjectStorage, fetched: Path):
        self.folder = storage.location(JOBS)
        self._storage = storage
        self._bare = ObjectStorage(storage.root, storage.settings)  #: without the fence, for contents
        self._fetched = fetched
        self._contents: dict[str, str] = {}  #: of jobs, by their id
        self._lock = threading.Lock()
        self._sweep()

    # --- jobs that have not ended -------------------------------------------------------------------------------------

    def keep(self, submission: JobSubmission, files: Mapping[str, Path]) -> None:
        """Keep a job durably; its files are moved here. What is refused leaves nothing behind."""
        refuse_missing(submission, files)
        job_id = submission.job_id
        contents = JobContents(self._bare, f"{CONTENTS}/{job_id}-{uuid4().hex}")
        try:
            self._refuse_existing(job_id)
            contents.upload(submission, files)
            with self._lock:
                self._refuse_existing(job_id)
                self._storage.publish(_name(job_id, JOB_FILE), _encode(submission, contents.folder))
                self._contents[job_id] = contents.folder
        except SubmissionError:
            self._discard(contents.folder)
            raise
        except (StorageError, OSError) as error:
            self._discard(contents.folder)  # settles first whether the job was published
            raise ClusterError(f"The job could not be kept in {self.folder}: {error}") from error
        for file in submission.files:
            files[file.name].unlink(missing_ok=True)

    def _refuse_existing(self, job_id: str) -> None:
        if self._entries(job_id):
            raise SubmissionError(f"There is a job {job_id} already.")

    def jobs(self) -> Iterator[JobSubmission]:
        """Yield the jobs that have not ended. A job that cannot be read is logged, and is left as it is.

        If the store does not answer that is an error, or jobs would be forgotten until the next leader looks.
        """
        entries = self._storage.published(JOBS)
        for job_id in sorted(_ids(entries)):
            try:
                yield self._submission(job_id, entries)
            except SubmissionError as error:
                log.error("The job %s kept in %s cannot be read, and is not run: %s", job_id, self.folder, error)

    def ids(self) -> set[str]:
        """Return the ids of the jobs that have not ended."""
        return _ids(self._storage.published(JOBS))

    def get(self, job_id: str) -> JobSubmission:
        """Return one of the jobs, whether it has ended or not."""
        return self._submission(job_id, self._entries(job_id))

    def _submission(self, job_id: str, entries: Mapping[str, Entry]) -> JobSubmission:
        try:
            if (entry := entries.get(_name(job_id, JOB_FILE))) is None:
                raise SubmissionError(f"There is no job {job_id}.")
            description, folder = _decode(self._storage.content_of(entry))
            self._contents[job_id] = folder
            return JobSubmission.of(description, JobContents(self._bare, folder).graph())
        except StorageError as error:
            if isinstance(error.__cause__, ObjectMissing):
                raise SubmissionError(f"A part of the job is missing: {error}") from error
            raise

    def files_of(self, job_id: str) -> Path:
        """Return the local folder for the files that came with a job."""
        return self._fetched / os.path.basename(self._contents[job_id]) / JOB_FILES

    def contents_of(self, job_id: str) -> JobContents:
        """Return where the process of a job fetches its files from."""
        return JobContents(self._bare, self._contents[job_id])

    # --- jobs that have ended -----------------------------------------------------------------------------------------

    def ended(self) -> Iterator[EndedJob]:
        """Yield the jobs that have ended and can be read."""
        entries = self._storage.published(JOBS)
        for name in sorted(entries):
            if name.endswith(f"/{END_FILE}") and (found := self._read_end(name, entries)) is not None:
                yield found

    def end_of(self, job_id: str) -> EndedJob | None:
        """Return how a job has ended; None if it has not, or that cannot be read."""
        return self._read_end(_name(job_id, END_FILE), self._entries(job_id))

    def _read_end(self, name: str, entries: Mapping[str, Entry]) -> EndedJob | None:
        if name not in entries:
            return None
        data = self._storage.content_of(entries[name])
        try:
            return EndedJob(*decode_end(data))
        except Exception as error:
            log.warning("The ended job in %s cannot be read, and is not shown: %s", self._storage.location(name), error)
            return None

    def write_end(self, view: JobView, result: JobResultView) -> EndedJob:
        """Write down how a job ended."""
        self._storage.publish(_name(view.job_id, END_FILE), encode_end(view, result))
        return EndedJob(view, result)

    def has_ended(self, job_id: str) -> bool:
        """Return whether a job has ended, even if nothing more is known of it."""
        return _name(job_id, END_FILE) in self._entries(job_id)

    def mark_tidy(self, job_id: str) -> None:
        """Note that nothing of a job is left to be deleted."""
        with self._lock:
            if self._entries(job_id):  # it may have been forgotten meanwhile
                self._storage.publish(_name(job_id, TIDY_FILE), b"")

    def untidy(self, jobs: Sequence[EndedJob]) -> list[EndedJob]:
        """Return those jobs of which files may be left."""
        entries = self._storage.published(JOBS)
        return [
            job for job in jobs
            if _name(job.view.job_id, JOB_FILE) in entries and _name(job.view.job_id, TIDY_FILE) not in entries
        ]  # fmt: skip

    def remove(self, job_id: str) -> None:
        """Forget a job that has ended, and delete its contents."""
        with self._lock:
            entries = self._entries(job_id)
            folder = self._contents.pop(job_id, None) or self._folder_in(entries, job_id)
            self._storage.delete_all(entries or [_name(job_id, JOB_FILE)])
        if folder is not None:
            self._discard(folder)

    # --- contents -----------------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Delete contents that no job refers to. No job is being kept at this time.

        They are listed before the head is read: what a successor uploads is not among them.
        """
        found = [f"{CONTENTS}/{name}" for name in self._storage.list(CONTENTS)]
        drafts = list(self._storage.drafts([JOBS]))
        entries = self._storage.published(JOBS)
        used, unreadable = set(), set()
        for name in entries:
            job_id = name.split("/")[1]
            if name.endswith(f"/{JOB_FILE}"):
                folder = self._folder_in(entries, job_id)
                used.add(folder)
                if folder is None:
                    unreadable.add(job_id)
        for folder in found:
            if folder not in used and os.path.basename(folder).partition("-")[0] not in unreadable:
                self._discard(folder)
        self._storage.delete_all(drafts)
        if not self._fetched.is_dir():
            return
        for local in self._fetched.iterdir():
            if f"{CONTENTS}/{local.name}" not in used:
                shutil.rmtree(local, ignore_errors=True)

    def _folder_in(self, entries: Mapping[str, Entry], job_id: str) -> str | None:
        """Return the folder of a job's contents, if its description can be read."""
        entry = entries.get(_name(job_id, JOB_FILE))
        if entry is None:
            return None
        data = self._storage.content_of(entry)
        with suppress(SubmissionError):
            return _decode(data)[1]
        return None

    def _discard(self, folder: str) -> None:
        """Delete contents. Those that cannot be deleted now are deleted by the next leader."""
        with suppress(FlottError):
            self._storage.delete_folder(folder)
        shutil.rmtree(self._fetched / os.path.basename(folder), ignore_errors=True)

    def _entries(self, job_id: str) -> dict[str, Entry]:
        return self._storage.published(f"{JOBS}/{job_id}")


def _name(job_id: str, file: str) -> str:
    return f"{JOBS}/{job_id}/{file}"


def _ids(entries: Mapping[str, Entry]) -> set[str]:
    """Return the ids of the jobs that have not ended."""
    parts = [name.split("/") for name in entries]
    ended = {job_id for _, job_id, file in parts if file == END_FILE}
    return {job_id for _, job_id, file in parts if file == JOB_FILE and is_job_id(job_id)} - ended


def _encode(submission: JobSubmission, folder: str) -> bytes:
    described = json.loads(submission.description())
    return json.dumps({"version": VERSION, "contents": folder, "submission": described}).encode()


def _decode(data: bytes) -> tuple[bytes, str]:
    """Return the description of a job, and the folder of its contents."""
    try:
        found: dict[str, Any] = json.loads(data)
        if found["version"] != VERSION:
            raise SubmissionError(f"It has format version {found['version']}; this version of Flott reads {VERSION}.")
        if not isinstance(found["contents"], str) or not found["contents"].startswith(f"{CONTENTS}/"):
            raise SubmissionError("It does not say where its contents are.")
        return json.dumps(found["submission"]).encode(), found["contents"]
    except (ValueError, LookupError, TypeError) as error:
        raise SubmissionError(f"This is not the description of a job: {type(error).__name__}: {error}.") from error
