"""One JobManager in a folder: whoever comes second is refused. The lock goes with the process. JobManager side."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from flott.errors import ClusterError

_FILE = "jobmanager.lock"


class Occupation:
    """A folder that belongs to this process until it is left."""

    def __init__(self, folder: Path):
        self._file = open(folder / _FILE, "a+")  # noqa: SIM115  # held until leave()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            other = self._file.read(20).strip()
            self._file.close()
            raise ClusterError(
                f"Another JobManager{f' (process {other})' if other else ''} uses {folder}. Stop it first (`flott"
                " cluster stop`), or give this one a folder of its own (flott.cluster.dir) or another name (flott"
                " --cluster)."
            ) from error
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def leave(self) -> None:
        """Let another one have it."""
        self._file.close()
