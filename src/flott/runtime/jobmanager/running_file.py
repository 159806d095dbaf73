"""The files by which a running JobManager marks its folder. JobManager and client.

``cluster.json`` lets clients on the same machine find the JobManager: it is written when REST answers, and removed when
the JobManager ends in good order. ``jobmanager.lock`` refuses a second JobManager in the folder: the operating system
releases the lock when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from flott.errors import ClusterError
from flott.runtime.jobmanager.folders import LOCK_FILE, RUNNING_FILE


@dataclass(frozen=True)
class RunningCluster:
    """A JobManager that runs, or that died before it could remove its file."""

    pid: int
    url: str  #: of its REST API, without a path
    started: int  #: epoch milliseconds


def write_running(folder: Path, running: RunningCluster) -> None:
    """Let clients find the JobManager of this folder. Only the user who started it can read the file."""
    partial = folder / f".{RUNNING_FILE}.{running.pid}"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(running), file)
    partial.replace(folder / RUNNING_FILE)


def read_running(folder: Path) -> RunningCluster | None:
    """Return the JobManager that was last in a folder; None if there is no file."""
    try:
        found = json.loads((folder / RUNNING_FILE).read_bytes())
        return RunningCluster(int(found["pid"]), str(found["url"]), int(found["started"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def remove_running(folder: Path, pid: int) -> None:
    """Remove the file of the JobManager with this process id, which ends. The file of another one stays."""
    found = read_running(folder)
    if found is not None and found.pid == pid:
        (folder / RUNNING_FILE).unlink(missing_ok=True)


class FolderLock:
    """The lock on a folder that belongs to this process until it is released."""

    def __init__(self, folder: Path):
        self._file = open(folder / LOCK_FILE, "a+")  # noqa: SIM115  # held until release()
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

    def release(self) -> None:
        """Let another JobManager use the folder."""
        self._file.close()
