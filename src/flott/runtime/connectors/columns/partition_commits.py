"""Marks partitions of files that are complete, by an empty file. Driver side.

What waits to be marked follows from the folders: after a restart they are listed, and a partition counts from the time
its folder was changed last. So there is nothing to store, and marking a partition twice does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from flott.datastream.connectors.base import CommitPermit, Committer, Json
from flott.runtime.connectors.files.discovery import is_hidden
from flott.runtime.storage import sync_folder
from flott.table._connectors.file_tables import TableFileSink


class PartitionCommitter(Committer):
    """Publishes files, and then marks the partitions that are due."""

    def __init__(self, sink: TableFileSink, files: Committer):
        self._base = sink.base_path
        self._name = sink.success_file or "_SUCCESS"
        self._delay_ms = sink.commit_delay_ms
        self._files = files
        self._waiting: dict[str, int] | None = None  # folders below the base path, and since when they have rows

    @property
    def takes_several_epochs(self) -> bool:
        return self._files.takes_several_epochs

    def open(self, job_id: str, operator_id: str) -> None:
        self._files.open(job_id, operator_id)

    def commit(self, permit: CommitPermit, committables: Sequence[Json]) -> None:
        if self._waiting is None:
            self._waiting = self._unmarked()
        self._files.commit(permit, committables)
        for committable in committables:
            self._waiting.setdefault(committable["bucket"], committable["time_ms"])
        due = [folder for folder, since in self._waiting.items() if permit.now_ms - since >= self._delay_ms]
        for folder in list(self._waiting) if permit.final else due:
            self._mark(folder)
            del self._waiting[folder]

    def discard(self, live_attempts: frozenset[str]) -> None:
        self._files.discard(live_attempts)

    def close(self) -> None:
        self._files.close()

    def _mark(self, folder: str) -> None:
        path = os.path.join(self._base, folder)
        if os.path.isdir(path):
            with open(os.path.join(path, self._name), "wb"):
                pass
            sync_folder(path)

    def _unmarked(self) -> dict[str, int]:
        """Return the folders with files that were not marked, and when each was changed."""
        found = {}
        for folder, _, names in os.walk(self._base):
            if folder != self._base and self._name not in names and any(not is_hidden(name) for name in names):
                found[os.path.relpath(folder, self._base)] = int(os.path.getmtime(folder) * 1000)
        return found
