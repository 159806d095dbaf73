"""A file that travels with a job. Data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JobFile:
    """A file that travels with a job, by what it is for."""

    name: str  #: without folders; unique within the submission
    role: str  #: "python" (on the path of driver and workers), "requirements", "cached-packages", or "archive"
    target: str = ""  #: the folder an archive is unpacked into, as the job's functions see it
