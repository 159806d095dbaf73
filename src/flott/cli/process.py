"""Processes of this machine: existence, start time, memory, termination, and the end of their output."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

#: The signals that end a process, and the time after each.
PATIENCE_SECONDS = {signal.SIGTERM: 15.0, signal.SIGKILL: 5.0}
#: The resolution of the kernel's clock; the boot time is known to a second.
_INACCURACY_MS = 2000
#: The number of output lines that are shown of a failed process.
_LAST_LINES = 25


def started_ms(pid: int) -> int | None:
    """Return the start time of a process in epoch milliseconds, or None if it does not exist or is a zombie."""
    if Path("/proc/stat").exists():
        return _started_by_proc(pid)
    return _started_by_ps(pid)


def is_same(pid: int, announced_ms: int) -> bool:
    """Return whether the process exists and was started before that time: a later one may have its id."""
    began = started_ms(pid)
    return began is not None and began <= announced_ms + _INACCURACY_MS


def memory_bytes(pid: int) -> int | None:
    """Return the resident memory of a process, if the system reports it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def end(pid: int, announced_ms: int, await_end: Callable[[float], bool]) -> str:
    """Ask a process to end, then kill it. Return the signal that ended it. ``await_end`` waits for its end."""
    for number, patience in PATIENCE_SECONDS.items():
        if not is_same(pid, announced_ms):
            break
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            break
        if await_end(patience):
            return number.name
    return "" if not is_same(pid, announced_ms) else "nothing"


def output_tail(folder: Path, *names: str) -> str:
    """Return the end of the first of these files that is not empty."""
    for file in (folder / name for name in names):
        try:
            lines = file.read_text(errors="replace").rstrip().splitlines()
        except OSError:
            continue
        if lines:
            return f" The end of {file}:\n" + "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
    return f" It has written nothing to {folder}."


def _started_by_proc(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    if fields[0] in "ZX":
        return None
    return int(boot.split()[1]) * 1000 + int(fields[19]) * 1000 // os.sysconf("SC_CLK_TCK")


def _started_by_ps(pid: int) -> int | None:
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    state, _, began = found.stdout.strip().partition(" ")
    if not began or state.startswith("Z"):
        return None
    return int(datetime.strptime(began.strip(), "%a %b %d %H:%M:%S %Y").timestamp() * 1000)
