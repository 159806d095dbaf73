"""How clients on the same machine find a JobManager: ``cluster.json`` in its folder. JobManager and client.

It is written when the JobManager answers requests, and removed when it ends in good order.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

_FILE = "cluster.json"


@dataclass(frozen=True)
class Announcement:
    """A JobManager that runs, or ran and had no time to say goodbye."""

    pid: int
    url: str  #: of its REST API, without a path
    started: int  #: epoch milliseconds


def announce(folder: Path, announcement: Announcement) -> None:
    """Let clients find the JobManager of this folder. Only for the user who started it."""
    partial = folder / f".{_FILE}.{announcement.pid}"
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(announcement), file)
    partial.replace(folder / _FILE)


def announcement_in(folder: Path) -> Announcement | None:
    """Who was last there; None if nobody is known."""
    try:
        found = json.loads((folder / _FILE).read_bytes())
        return Announcement(int(found["pid"]), str(found["url"]), int(found["started"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def withdraw(folder: Path, pid: int) -> None:
    """The JobManager with this process id ends. Another one's announcement stays."""
    found = announcement_in(folder)
    if found is not None and found.pid == pid:
        (folder / _FILE).unlink(missing_ok=True)
