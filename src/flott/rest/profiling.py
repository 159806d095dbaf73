"""Stacks of the processes that run a job's subtasks, sampled by py-spy if it is installed. JobManager side.

py-spy reads the memory of a running process and does not stop it. It can do so on the same machine only, for processes
of the same user, and where the system allows it (in containers often ``SYS_PTRACE`` is needed). One sample is taken at
a time.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from flott.errors import UnreachableError
from flott.rest.security import is_loopback
from flott.rest.shapes.vertex.stacks import FlameGraphNode, StackThread, folded_tree, stack_threads
from flott.runtime.jobmanager.views.job_view import VertexView

#: How long a flame graph is sampled, and how often in a second.
SAMPLE_SECONDS = 2
SAMPLES_PER_SECOND = 50
#: So many processes are sampled for one answer.
MAX_PROCESSES = 4
#: How much longer than the samples py-spy may take, in seconds.
_GRACE_SECONDS = 15.0
#: Parts of the command lines of processes that run subtasks.
_COMMANDS = (b"pyspark", b"flott")

Run = Callable[[Sequence[str], float], bytes]


class UnreadableProcess(Exception):
    """py-spy cannot read a process: it has ended, or the system does not allow it."""


_one_at_a_time = threading.Lock()


def sampler() -> str | None:
    """Return the path of py-spy; None: it is not installed."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def workers_here(vertices: Iterable[VertexView], subtask: int | None = None) -> dict[int, list[str]]:
    """Return the processes on this machine that ran these subtasks last, and which ones, as "Map (1/2)"."""
    names = {socket.gethostname().lower(), socket.getfqdn().lower()}
    found: dict[int, list[str]] = {}
    for vertex in vertices:
        for one in vertex.subtasks:
            is_local = is_loopback(one.host) or one.host.lower() in names
            if one.worker and is_local and subtask in (None, one.index) and runs_subtasks(one.worker):
                found.setdefault(one.worker, []).append(f"{vertex.name} ({one.index + 1}/{vertex.parallelism})")
    return dict(list(found.items())[:MAX_PROCESSES])


def runs_subtasks(pid: int) -> bool:
    """Return whether a process is of this user and runs subtasks. The number of one that ended may be used again."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return os.stat(f"/proc/{pid}").st_uid == os.getuid() and any(part in command for part in _COMMANDS)
    except OSError:
        return False


def sample_flame_graph(pids: Iterable[int], *, idle: bool, run: Run | None = None) -> FlameGraphNode:
    """Return where processes spend their time. ``idle``: threads that wait count, too."""
    spy, run = _spy(), run or _run
    with _alone(), tempfile.TemporaryDirectory(prefix="flott-stacks-") as folder:
        texts = []
        for pid in pids:
            target = Path(folder, str(pid))
            more = ["--idle"] if idle else []
            run(
                [
                    spy, "record", "--pid", str(pid), "--duration", str(SAMPLE_SECONDS), "--rate",
                    str(SAMPLES_PER_SECOND), "--format", "raw", "--nonblocking", "--output", str(target), *more,
                ],
                SAMPLE_SECONDS + _GRACE_SECONDS,
            )  # fmt: skip
            texts.append(target.read_text(encoding="utf-8", errors="replace") if target.exists() else "")
    return folded_tree("\n".join(texts))


def sample_threads(pid: int, *, run: Run | None = None) -> list[StackThread]:
    """Return the stack of each thread of a process."""
    with _alone():
        printed = (run or _run)([_spy(), "dump", "--pid", str(pid), "--json", "--nonblocking"], _GRACE_SECONDS)
    found: Any = json.loads(printed)
    return stack_threads(found)


def _spy() -> str:
    found = sampler()
    if found is None:
        raise UnreachableError("py-spy is not installed beside the JobManager: pip install 'flott[profiling]'.")
    return found


class _alone:
    """Holds the lock of the sampler, and refuses if another sample is being taken."""

    def __enter__(self) -> None:
        if not _one_at_a_time.acquire(blocking=False):
            raise UnreachableError("Stacks are being sampled already: ask again in a few seconds.")

    def __exit__(self, *_: object) -> None:
        _one_at_a_time.release()


def _run(command: Sequence[str], timeout_s: float) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise UnreadableProcess(f"py-spy took longer than {timeout_s:g} s, and was ended.") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise UnreadableProcess(f"py-spy could not read the process: {(said or ['it said nothing'])[0][:500]}")
    return done.stdout
