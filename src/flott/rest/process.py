"""Facts and metrics of the JobManager's own process. Reads the process, decides nothing."""

from __future__ import annotations

import gc
import os
import platform
import resource
import sys
import threading
from collections.abc import Mapping

from flott.rest.shapes.cluster.job_manager import ProcessFacts
from flott.rest.shapes.cluster.threads import ThreadDump, ThreadFacts, thread_dump


def process_facts() -> ProcessFacts:
    """Return the platform of the process."""
    python = f"Python {platform.python_version()} ({platform.python_implementation()})"
    return ProcessFacts(python, platform.machine(), sys.orig_argv[1:], [path for path in sys.path if path])


def process_metrics() -> Mapping[str, int | float]:
    """Return memory, CPU time and threads of the process. The names are Flott's; Flink has none for Python."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    collected = gc.get_stats()
    return {
        "Status.Python.Memory.Used": _resident_bytes(usage.ru_maxrss),
        "Status.Python.Memory.Peak": _in_bytes(usage.ru_maxrss),
        "Status.Python.CPU.Time": round((usage.ru_utime + usage.ru_stime) * 1000),
        "Status.Python.Threads.Count": threading.active_count(),
        "Status.Python.GarbageCollector.Count": sum(generation["collections"] for generation in collected),
        "Status.Python.GarbageCollector.Collected": sum(generation["collected"] for generation in collected),
    }


def own_threads() -> ThreadDump:
    """Return the current stack of each thread."""
    threads = [ThreadFacts(one.ident, one.name, one.daemon) for one in threading.enumerate() if one.ident is not None]
    return thread_dump(threads, sys._current_frames())


def _resident_bytes(peak: int) -> int:
    """Return the resident memory. Linux reports the current value; elsewhere the peak is used."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return _in_bytes(peak)


def _in_bytes(peak: int) -> int:
    """Return the peak in bytes. The kernel reports KiB, macOS bytes."""
    return peak if sys.platform == "darwin" else peak * 1024
