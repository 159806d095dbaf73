"""Where jobs can be kept, as the tests of the job store see it: one interface to a file system and an object store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from flott.runtime.jobmanager.job_store import JobArchive, JobStore, KeptJobs
from flott.runtime.jobmanager.object_job_store import ObjectJobStore
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.storage.object_head import HEAD, Head, inline
from flott.runtime.storage.object_store import ObjectStorage
from flott.runtime.storage.posix_fence import PosixFence
from tests.unit.runtime.storage.memory_objects import MemoryObjects

HOUR = 3_600_000


class Place(Protocol):
    """Where jobs are kept."""

    def opened(self, capacity: int = 10) -> tuple[KeptJobs, JobArchive]:
        """Open it as a process that starts now."""

    def leading(self, token: int, capacity: int = 10) -> tuple[KeptJobs, JobArchive]:
        """Open it as the leader with this token."""

    def file_of(self, store: KeptJobs, job: JobSubmission, name: str) -> bytes:
        """Return a file of a job as its process sees it."""

    def kept(self) -> list[str]:
        """Return the ids of all jobs of which anything is left."""

    def everything(self, *, but_contents: bool = False) -> list[str]:
        """Return all that is stored; ``but_contents``: without uploads of jobs that were not kept."""

    def damage(self, job_id: str, file: str) -> None:
        """Make what a job or its end is described by unreadable."""


class PosixPlace:
    """A folder of a file system."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir()

    def opened(self, capacity: int = 10) -> tuple[KeptJobs, JobArchive]:
        return JobStore(self.folder / "jobs"), JobArchive(self.folder / "jobs", capacity, HOUR)

    def leading(self, token: int, capacity: int = 10) -> tuple[KeptJobs, JobArchive]:
        fence = PosixFence(str(self.folder / "fence"), token)
        fence.claim()
        return JobStore(self.folder / "jobs", fence), JobArchive(self.folder / "jobs", capacity, HOUR, fence)

    def file_of(self, store: KeptJobs, job: JobSubmission, name: str) -> bytes:
        assert store.contents_of(job.job_id) is None
        return (store.files_of(job.job_id) / name).read_bytes()

    def kept(self) -> list[str]:
        return sorted(os.listdir(self.folder / "jobs"))

    def everything(self, *, but_contents: bool = False) -> list[str]:
        return sorted(str(path) for path in self.folder.rglob("*"))

    def damage(self, job_id: str, file: str) -> None:
        (self.folder / "jobs" / job_id / file).write_text("{")


class ObjectPlace:
    """A folder of an object store. There is always a leader: a process that starts has a higher token."""

    root = "s3://bucket/ha/shop"

    def __init__(self, objects: MemoryObjects, own: Path):
        self.objects = objects
        self.own = own
        self._tokens = 0

    def opened(self, capacity: int = 10) -> tuple[ObjectJobStore, JobArchive]:
        return self.leading(self._tokens + 1, capacity)

    def leading(self, token: int, capacity: int = 10) -> tuple[ObjectJobStore, JobArchive]:
        self._tokens = token
        storage = ObjectStorage(self.root).fenced(token)
        assert isinstance(storage, ObjectStorage)
        assert storage.fence is not None
        storage.fence.claim()
        store = ObjectJobStore(storage, self.own / str(token))
        return store, JobArchive(store, capacity, HOUR)

    def file_of(self, store: KeptJobs, job: JobSubmission, name: str) -> bytes:
        contents = store.contents_of(job.job_id)
        assert contents is not None
        contents.fetch(job.files, store.files_of(job.job_id))
        contents.fetch(job.files, store.files_of(job.job_id))  # a second process of the job
        assert sorted(os.listdir(store.files_of(job.job_id).parent)) == ["files"]
        return (store.files_of(job.job_id) / name).read_bytes()

    def head(self) -> Head:
        """What the cluster publishes."""
        return Head.decode(self.objects.objects[f"ha/shop/{HEAD}"][0], "head")

    def contents(self) -> list[str]:
        """The prefixes of the contents of jobs."""
        return sorted({key.split("/")[3] for key in self.objects.objects if key.startswith("ha/shop/contents/")})

    def kept(self) -> list[str]:
        contents = {name.partition("-")[0] for name in self.contents()}
        return sorted({name.split("/")[1] for name in self.head().files} | contents)

    def everything(self, *, but_contents: bool = False) -> list[str]:
        head = self.head()
        kept = {name.split("/")[1] for name in head.files}
        keys = [key for key in self.objects.objects if not key.endswith(HEAD)]
        if but_contents:
            keys = [k for k in keys if "/contents/" not in k or k.split("/")[3].partition("-")[0] in kept]
        return sorted([*keys, *(f"{name} {entry}" for name, entry in head.files.items())])

    def damage(self, job_id: str, file: str) -> None:
        file = "job.json" if file == "submission.json" else file
        name = f"jobs/{job_id}/{file}"
        head = self.head()
        assert name in head.files
        damaged = Head(head.token, head.owner, "damaged", {**head.files, name: inline(b"{")})
        self.objects.objects[f"ha/shop/{HEAD}"] = damaged.encode(), 1
