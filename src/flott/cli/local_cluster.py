"""A cluster that was started on this machine, by its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flott.cli import process
from flott.common.configuration import Configuration
from flott.runtime.jobmanager.announcement import Announcement, announcement_in
from flott.runtime.jobmanager.folders import folder_of


@dataclass(frozen=True)
class LocalCluster:
    """What its folder says of it."""

    folder: Path
    announcement: Announcement | None  #: None: nobody is there, or it has ended in good order

    @staticmethod
    def of(configuration: Configuration) -> LocalCluster:
        """The one a configuration means."""
        return LocalCluster.at(folder_of(configuration))

    @staticmethod
    def at(folder: Path) -> LocalCluster:
        """The one with this folder."""
        return LocalCluster(folder, announcement_in(folder))

    @property
    def running(self) -> Announcement | None:
        """How its JobManager is reached, if its process is there."""
        here = self.announcement
        return here if here is not None and process.is_same(here.pid, here.started) else None
