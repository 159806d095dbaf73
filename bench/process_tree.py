"""What a process and all that it has started take of the machine, as Linux tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process at one moment."""

    pid: int
    parent: int
    command: str
    resident_bytes: int
    cpu_seconds: float
    ended_cpu_seconds: float = 0.0  #: of processes that it started and that have ended


def tree(root: int) -> list[Process]:
    """A process, and those it has started, and so on."""
    all_processes = [process for entry in Path("/proc").iterdir() if entry.name.isdigit() if (process := _read(entry))]
    known = {root}
    while more := {process.pid for process in all_processes if process.parent in known} - known:
        known |= more
    return [process for process in all_processes if process.pid in known]


def megabytes(processes: list[Process]) -> float:
    """The memory they have in use, in all."""
    return round(sum(process.resident_bytes for process in processes) / 2**20, 1)


def cpu_share(before: list[Process], after: list[Process], seconds: float) -> float:
    """How much of one core they took meanwhile. A process that has ended in between is not in it."""
    began = {process.pid: process.cpu_seconds for process in before}
    return round(sum(process.cpu_seconds - began.get(process.pid, 0.0) for process in after) / seconds, 4)


def _read(entry: Path) -> Process | None:
    with suppress(OSError):  # it has ended meanwhile
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        return Process(int(entry.name), int(fields[1]), command, resident, own / _TICKS, ended / _TICKS)
    return None
