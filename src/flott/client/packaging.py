"""Packs a job for a JobManager: the pickled graph, its settings, and the files it needs. Client side."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common._ids import JobId
from flott.common.configuration import Configuration
from flott.errors import SubmissionError
from flott.graph.stream_graph import StreamGraph
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.dependencies.job_dependencies import job_dependencies, names_of, without_paths
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph
from flott.runtime.jobmanager.submission import JobSubmission, belongs_to_cluster

#: Names of files and folders that mean something where the program runs.
_PATHS = (options.CHECKPOINT_DIR, options.SAVEPOINT_DIR, options.RECOVERY_PATH)

#: How the keys of other options begin that do not belong to a job: what the cluster runs on.
_NOT_OF_THE_JOB = ("spark.", options.TARGET.key, cluster_options.ATTACHED.key)

#: A graph is functions, not data: a list of millions of elements belongs into a file.
GRAPH_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class Package:
    """A job ready to be sent."""

    submission: JobSubmission
    files: Mapping[str, Path]  #: where the bytes of the submission's files are


def package(
    graph: StreamGraph, configuration: Configuration, program: str = "", clock: Clock | None = None
) -> Package:
    """Return everything that another process needs to run the job; refuse what cannot travel."""
    options.validate(configuration)
    dependencies = job_dependencies(configuration, with_program=True)
    pickled = pickle_graph(graph)
    if len(pickled) > GRAPH_LIMIT_BYTES:
        raise SubmissionError(
            f"The job {graph.job_name!r} has {len(pickled) >> 20} MB with all that its functions and collections hold,"
            f" and {GRAPH_LIMIT_BYTES >> 20} MB can be sent. Read data from files instead of from_collection() or"
            " captured variables."
        )
    submission = JobSubmission(
        job_id=JobId(uuid4().hex),
        name=graph.job_name,
        configuration=_portable(configuration).to_dict(),
        graph=pickled,
        files=names_of(dependencies),
        program=program or program_name(),
        batch=graph.batch,
        parallelism=max((node.parallelism for node in graph.nodes), default=1),
        submitted_ms=(clock or SystemClock()).now_ms(),
    )
    return Package(submission, {item.file.name: item.path for item in dependencies})


def program_name() -> str:
    """Return the name of the program that the user started, for people."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return f"-m {spec.name.removesuffix('.__main__')}"
    return os.path.basename(getattr(main, "__file__", "") or "")


def _portable(configuration: Configuration) -> Configuration:
    """Return the settings so that they mean the same in another working directory."""
    portable = without_paths(configuration)
    for key in portable.key_set():
        if belongs_to_cluster(key) or key.startswith(_NOT_OF_THE_JOB):
            portable.remove_config(key)
    for option in _PATHS:
        path = portable.get(option)
        if path and "://" not in path and not os.path.isabs(path):
            portable.set(option, os.path.abspath(os.path.expanduser(path)))
    return portable
