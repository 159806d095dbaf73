"""The files and folders of a JobManager: the only module that composes their paths. Data.

    <shared>/jobs/<job id>/      submission.json  graph.pickle  files/  end.json  untidy
             checkpoints/        of jobs that name no directory
             fence/              of the leader
    <own>/cluster.json           the running JobManager
          jobmanager.lock
          programs/              uploaded programs
          logs/                  of the JobManager
          logs/jobs/<job id>/    job.log  job.out  results/<sink>/

Without high availability both roots are the same folder. With high availability ``shared`` may be a folder of an object
store (``objects``); ``object_job_store`` says what is in it. Then there is also

    <own>/fetched/               files of jobs that this JobManager runs, fetched from the object store
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.logs.log_files import job_folder
from flott.runtime.storage import local_path
from flott.runtime.storage.locations import is_object_location, join, normalized

#: Of the running JobManager, in its own folder.
RUNNING_FILE = "cluster.json"
LOCK_FILE = "jobmanager.lock"
#: Of one job, in its folder.
SUBMISSION_FILE = "submission.json"
GRAPH_FILE = "graph.pickle"
JOB_FILES = "files"  #: the folder of the files that came with the job
END_FILE = "end.json"
FORMER_END_FILE = "end.pickle"  #: written by an earlier version, and still read
UNTIDY_FILE = "untidy"  #: there until nothing of an ended job is left to be deleted
#: Of one job, in the folder of its logs.
OUTPUT_FILE = "job.out"
RESULTS = "results"


def home() -> Path:
    """Return the folder of a user's clusters: ``$FLOTT_HOME``, or ``~/.flott``."""
    return Path(os.environ.get("FLOTT_HOME") or "~/.flott").expanduser()


def folder_of(configuration: Configuration) -> Path:
    """Return the folder of the cluster that a configuration names."""
    folder = options.read(configuration, cluster_options.CLUSTER_DIR)
    if folder:
        return Path(local_path(folder)).expanduser().absolute()
    return home() / "clusters" / options.read(configuration, cluster_options.CLUSTER_ID).strip("/")


@dataclass(frozen=True)
class ClusterFolders:
    """The two roots: ``shared`` holds what one JobManager leaves to the next, ``own`` what concerns only itself."""

    shared: Path
    own: Path
    objects: str | None = None  #: a folder of an object store that holds what is shared; then ``shared`` is ``own``

    @staticmethod
    def of(configuration: Configuration) -> ClusterFolders:
        """Return the configured folders. With high availability ``shared`` is on storage that all JobManagers reach."""
        own = folder_of(configuration)
        storage = options.read(configuration, cluster_options.HA_STORAGE_DIR)
        if options.read(configuration, cluster_options.HA_TYPE) == "none" or storage is None:
            return ClusterFolders(own, own)
        name = options.read(configuration, cluster_options.CLUSTER_ID).strip("/")
        if is_object_location(storage):
            return ClusterFolders(own, own, join(normalized(storage), name))
        return ClusterFolders(Path(local_path(storage)).absolute() / name, own)

    def prepare(self) -> None:
        """Create the folders so that only this user can read them, because jobs may bring along and write secrets."""
        for folder in (self.own, self.shared, self.logs):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                if not os.access(folder, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            except OSError as error:
                raise ConfigurationError(
                    f"A JobManager cannot use the folder {folder}: {error.strerror}. Name another one with"
                    " flott.cluster.dir (with high availability also high-availability.storageDir), or set FLOTT_HOME."
                ) from error

    @property
    def jobs(self) -> Path:
        """Return the folder of all jobs, also of those that have ended."""
        return self.shared / "jobs"

    @property
    def checkpoints(self) -> Path:
        """Return the folder for the checkpoints of jobs that name no directory."""
        return self.shared / "checkpoints"

    @property
    def checkpoint_location(self) -> str:
        """Return where the checkpoints of jobs that name no directory are, in whatever storage."""
        return str(self.checkpoints) if self.objects is None else join(self.objects, "checkpoints")

    @property
    def fetched(self) -> Path:
        """Return the folder for files of jobs that are kept in an object store."""
        return self.own / "fetched"

    @property
    def programs(self) -> Path:
        """Return the folder of uploaded programs."""
        return self.own / "programs"

    @property
    def logs(self) -> Path:
        """Return the folder of the JobManager's logs; those of a job are in ``logs_of_job``."""
        return self.own / "logs"

    def logs_of_job(self, job_id: str) -> Path:
        """Return the folder of the logs and results of one job."""
        return job_folder(self.logs, job_id)


def results_folder(logs_of_job: Path) -> Path:
    """Return the folder of the results that wait to be fetched by the program of a job."""
    return logs_of_job / RESULTS
