"""Finds where a Python worker runs: its host, and the executor that started it. Task side.

Spark does not tell it to the worker. An executor's id is in the environment that workers inherit on Kubernetes and on a
standalone cluster (also ``local-cluster``), and everywhere in the command line of the executor, which is an ancestor of
the worker. In local mode there is no executor but the driver.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from flott.runtime.epoch.report import TaskPlace

#: What Spark calls the driver where it lists executors.
DRIVER = "driver"


@cache
def worker_place() -> TaskPlace:
    """Return the place of this process, which never changes."""
    return TaskPlace(_host(), executor_in(os.environ) or executor_above(os.getpid()) or DRIVER)


def executor_in(environment: Mapping[str, str]) -> str | None:
    """Return the id of the executor that the environment names."""
    if ident := environment.get("SPARK_EXECUTOR_ID"):  # Kubernetes
        return ident
    found = re.search(r"[?&]executorId=(\w+)", environment.get("SPARK_LOG_URL_STDERR", ""))  # standalone
    return found[1] if found else None


def executor_above(process: int, processes: Path = Path("/proc")) -> str | None:
    """Return the id of the executor that started a process, from the command lines of its ancestors."""
    for words in _ancestors(process, processes):
        if "--executor-id" in words[:-1]:
            return words[words.index("--executor-id") + 1]
    return None


def _ancestors(process: int, processes: Path) -> Iterator[list[str]]:
    with suppress(OSError, ValueError, IndexError):  # another operating system, or a process of another user
        while process > 1:
            yield (processes / str(process) / "cmdline").read_text(errors="replace").split("\0")
            # The second field is a name in parentheses, which may contain anything. The parent is two fields after it.
            process = int((processes / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _host() -> str:
    try:
        return socket.gethostname()
    except OSError:
        return ""
