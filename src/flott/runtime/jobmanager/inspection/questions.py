"""What can be asked of an inspector: one frozen value per question. Data; JobManager and inspector.

The JobManager sends a question as a pickle. An answer is JSON: the inspector imports the job's classes, and the
JobManager never unpickles what comes from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flott.runtime.jobmanager.object_job_store import JobContents
from flott.runtime.jobmanager.submission import JobSubmission


@dataclass(frozen=True)
class InspectionSubject:
    """The job that is asked about, and where its files are."""

    job_id: str
    checkpoint_directory: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    submission: JobSubmission | None = None  #: None: it is not kept any more, so its classes are not known
    files: Path | None = None  #: those that came with the job
    contents: JobContents | None = None


@dataclass(frozen=True)
class Question:
    """A question about a job."""


@dataclass(frozen=True)
class ListCheckpoints(Question):
    """Which checkpoints can be read at present."""


@dataclass(frozen=True)
class ListStates(Question):
    """Which operators and states a checkpoint has."""

    checkpoint: int | None = None  #: None: the latest


@dataclass(frozen=True)
class CountKeys(Question):
    """How many keys a state has, by key group."""

    operator: str  #: its uid, id or name
    state: str
    checkpoint: int | None = None


@dataclass(frozen=True)
class PageRows(Question):
    """A page of the rows of a state."""

    operator: str
    state: str
    checkpoint: int | None = None
    limit: int = 50
    after: str | None = None  #: where the former page ended
    prefix: str | None = None  #: of the text of a key


@dataclass(frozen=True)
class FindKey(Question):
    """What a state has for a key."""

    operator: str
    state: str
    key: str  #: a Python literal, or a text
    checkpoint: int | None = None


@dataclass(frozen=True)
class TraceKey(Question):
    """What a state had for a key in all checkpoints that can be read."""

    operator: str
    state: str
    key: str


@dataclass(frozen=True)
class CompareStates(Question):
    """What is different between two checkpoints."""

    before: int
    after: int | None = None
    operator: str | None = None
    state: str | None = None
    limit: int = 20  #: so many changes of each state are shown


@dataclass(frozen=True)
class PreviewRecords(Question):
    """The records of an operator in an epoch, which is run again without side effects of sinks."""

    operator: str
    side: str = "emitted"  #: or received
    epoch: int | None = None  #: None: the latest that completed
    limit: int = 100
