"""Where a JobManager keeps its things. Data."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.storage import local_path


def home() -> Path:
    """The folder of a user's clusters: ``$FLOTT_HOME``, or ``~/.flott``."""
    return Path(os.environ.get("FLOTT_HOME") or "~/.flott").expanduser()


def folder_of(configuration: Configuration) -> Path:
    """The folder of the cluster a configuration names."""
    folder = options.read(configuration, cluster_options.CLUSTER_DIR)
    if folder:
        return Path(local_path(folder)).expanduser().absolute()
    return home() / "clusters" / options.read(configuration, cluster_options.CLUSTER_ID).strip("/")


@dataclass(frozen=True)
class ClusterFolders:
    """Two roots: what one JobManager leaves to the next one is shared, what it says about itself is its own."""

    shared: Path
    own: Path

    @staticmethod
    def of(configuration: Configuration) -> ClusterFolders:
        """As configured. With high availability the shared part is on storage that all JobManagers reach."""
        own = folder_of(configuration)
        storage = options.read(configuration, cluster_options.HA_STORAGE_DIR)
        if options.read(configuration, cluster_options.HA_TYPE) == "none" or storage is None:
            return ClusterFolders(own, own)
        name = options.read(configuration, cluster_options.CLUSTER_ID).strip("/")
        return ClusterFolders(Path(local_path(storage)).absolute() / name, own)

    def prepare(self) -> None:
        """Make them, for this user alone: what jobs bring along and say is nobody else's business."""
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
        """Jobs, those that have ended among them."""
        return self.shared / "jobs"

    @property
    def checkpoints(self) -> Path:
        """Of jobs that name no directory."""
        return self.shared / "checkpoints"

    @property
    def programs(self) -> Path:
        """What was uploaded."""
        return self.own / "programs"

    @property
    def logs(self) -> Path:
        """Of the JobManager; in a folder each, those of its jobs."""
        return self.own / "logs"

    def logs_of_job(self, job_id: str) -> Path:
        """Return the folder of the logs and results of one job."""
        return self.logs / "jobs" / job_id
