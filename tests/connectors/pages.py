"""Runs the programs on a page about a connector, against the server of a test."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from flott.datastream import StreamExecutionEnvironment

_PAGES = Path(__file__).parents[2] / "docs" / "connectors"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: A watchdog for programs that never end by themselves.
LIMIT_SECONDS = 120


def run_page(
    page: str,
    replacements: dict[str, str],
    until: Callable[[], bool] | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the blocks of a page as one program, with other addresses in it; return its variables.

    A job that does not end by itself is cancelled when ``until`` holds. Jobs run in this process, without a JVM: what
    the connector does is the same. The program finds the variables that are ``given``.
    """
    text = (_PAGES / page).read_text("utf-8")
    program = "\n".join(block[1] for block in _BLOCK.finditer(text))
    for old, new in replacements.items():
        assert old in program, f"{page} does not contain {old!r}"
        program = program.replace(old, new)
    scope: dict[str, Any] = {"__name__": "__main__", **(given or {})}
    if until is not None:
        program = program.replace("env.execute(", "execute_until(env, ")
        scope["execute_until"] = partial(_execute_until, until)
    with mock.patch.dict(os.environ, {"FLOTT_EXECUTION_TARGET": "in-process", "FLOTT_PROGRESS": "off"}):
        exec(compile(program, page, "exec"), scope)
    return scope


def _execute_until(holds: Callable[[], bool], env: StreamExecutionEnvironment, job_name: str) -> None:
    job = env.execute_async(job_name)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not job.get_job_status().result().is_globally_terminal_state():
        if holds():
            job.cancel().result()
            return
        assert time.monotonic() < deadline, f"not within {LIMIT_SECONDS} s"
        time.sleep(0.05)
    job.get_job_execution_result().result()  # raises if the job failed
