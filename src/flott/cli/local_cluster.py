"""A cluster of this machine, found by its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flott.cli import process
from flott.common.configuration import Configuration
from flott.runtime.jobmanager.folders import folder_of
from flott.runtime.jobmanager.running_file import RunningCluster, read_running


@dataclass(frozen=True)
class LocalCluster:
    """A cluster and what its folder contains."""

    folder: Path
    announcement: RunningCluster | None  #: None: it is not running, or it ended regularly

    @staticmethod
    def of(configuration: Configuration) -> LocalCluster:
        """Return the cluster of a configuration."""
        return LocalCluster.at(folder_of(configuration))

    @staticmethod
    def at(folder: Path) -> LocalCluster:
        """Return the cluster with this folder."""
        return LocalCluster(folder, read_running(folder))

    @property
    def running(self) -> RunningCluster | None:
        """Return the address of the JobManager if its process is running."""
        here = self.announcement
        return here if here is not None and process.is_same(here.pid, here.started) else None
