"""A job as a client submits it and as the JobManager keeps it: everything needed to run it again. Data.

The graph is pickled by the client. Only the job's own process unpickles it: two jobs may bring different modules of the
same name, and the JobManager imports none of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from flott.common import _options as options
from flott.common._ids import JobId
from flott.errors import SubmissionError
from flott.runtime.dependencies.job_dependencies import JobFile as JobFile  # re-exported

#: How the keys of options begin that belong to the JobManager or say how to reach it, secrets among them. The client
#: does not send them with a job, and the JobManager does not hand its own to the processes of jobs.
_CLUSTER_PREFIXES = (
    "rest.", "flott.rest.", "security.", "web.", "high-availability", "flott.ha.", "flott.cluster.", "jobstore.",
    "metrics.", "client.",
)  # fmt: skip
#: How some begin all the same that belong to the tasks of a job: what they measure, and how they connect to each other.
_JOB_PREFIXES = ("metrics.latency.", "security.ssl.internal.")


def belongs_to_cluster(key: str) -> bool:
    """Return whether an option is the JobManager's and not a job's."""
    return key.startswith(_CLUSTER_PREFIXES) and not key.startswith(_JOB_PREFIXES)


@dataclass(frozen=True)
class JobSubmission:
    """What a client sends. ``files`` are named here; their bytes travel beside it."""

    job_id: JobId
    name: str
    configuration: Mapping[str, str]
    graph: bytes = field(repr=False)  #: pickled: see ``flott.client.packaging``
    files: tuple[JobFile, ...] = ()
    program: str = ""  #: what the user started, for people
    batch: bool = False
    parallelism: int = 1
    submitted_ms: int = 0

    def description(self) -> bytes:
        """Return everything but the graph as JSON."""
        described = asdict(replace(self, graph=b""))
        del described["graph"]
        return json.dumps({"version": 1, **described}, indent=1).encode()

    @staticmethod
    def of(description: bytes, graph: bytes) -> JobSubmission:
        """Return the submission with this description; refuse what a client could have got wrong."""
        try:
            found: dict[str, Any] = json.loads(description)
            if found.pop("version") != 1:
                raise SubmissionError("The job was submitted by another version of Flott: use the JobManager's own.")
            files = tuple(_checked(JobFile(**file)) for file in found.pop("files"))
            configuration = {str(key): str(value) for key, value in found.pop("configuration").items()}
            _check_types(found)
            made = JobSubmission(graph=graph, files=files, configuration=configuration, **found)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SubmissionError(f"This is not the description of a job: {type(error).__name__}: {error}.") from error
        if not is_job_id(made.job_id):
            raise SubmissionError(f"A job id has 32 hexadecimal digits, found {made.job_id!r}.")
        if len({file.name for file in files}) < len(files):
            raise SubmissionError("Two files of the job have the same name.")
        return made


def submission_from(former: JobSubmission, savepoint: str, allow_non_restored_state: bool) -> JobSubmission:
    """Return the submission of a new job with the same program, which starts from a savepoint and does not own it."""
    keys = (options.RECOVERY_PATH, options.RECOVERY_CLAIM_MODE, options.IGNORE_UNCLAIMED_STATE,
            options.RECOVER_FROM_LATEST)  # fmt: skip
    known = {name for option in keys for name in option.spellings()}
    kept = {key: value for key, value in former.configuration.items() if key not in known}
    recovery = {
        options.RECOVERY_PATH.key: savepoint,
        options.IGNORE_UNCLAIMED_STATE.key: str(allow_non_restored_state).lower(),
    }
    return replace(former, job_id=JobId(uuid4().hex), configuration={**kept, **recovery}, submitted_ms=0)


def is_job_id(text: object) -> bool:
    """Return whether a text has the form of a job id."""
    return isinstance(text, str) and len(text) == 32 and set(text) <= set("0123456789abcdef")


#: Of what a description has beside files and configuration.
_TYPES = {"job_id": str, "name": str, "program": str, "batch": bool, "parallelism": int, "submitted_ms": int}


def _check_types(found: Mapping[str, object]) -> None:
    for name, kind in _TYPES.items():
        value = found.get(name, kind())
        if type(value) is not kind:
            raise SubmissionError(f"The {name} of a job is of type {kind.__name__}, found {str(value)[:80]!r}.")


def _checked(file: JobFile) -> JobFile:
    if not file.name or "/" in file.name or "\\" in file.name or file.name.startswith(".") or "\0" in file.name:
        raise SubmissionError(f"A file of a job has a plain name without folders, found {file.name!r}.")
    if file.role not in ("python", "requirements", "cached-packages", "archive"):
        raise SubmissionError(f"Files are for python, requirements, cached-packages or archive, found {file.role!r}.")
    return file
