"""A program on a session: it runs in this process and hands its jobs to the JobManager of a cluster that is there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from flott.cli.exit_codes import ExitCode
from flott.cli.interruption import Interruption
from flott.cli.invocation import Invocation
from flott.cli.job_watch import JobWatch
from flott.cli.options import set_jobmanager
from flott.common import _settings


def run_on_session(invocation: Invocation, command: Sequence[str], detached: bool) -> int:
    """Run the program in this process; it hands its jobs over."""
    from flott.client.handover import watched
    from flott.client.program import main as run_program

    client = invocation.client
    client.get("/overview")  # better now than after minutes of reading the program's input
    properties = {**invocation.properties, "execution.target": "remote"}
    if detached:
        properties["execution.attached"] = "false"
    watch = JobWatch(invocation.terminal, client, detached=detached)
    output = sys.stderr if invocation.terminal.json else sys.stdout
    with (
        handed_on(invocation, {**properties, **_address(invocation)}),
        Interruption(invocation.terminal, client, watch, can_detach=True) as interruption,
        watched(watch.job_submitted),
        redirect_stdout(output),
    ):
        try:
            code = run_program(command)
        finally:
            watch.finish()
    left = interruption.detached
    if left is not None:
        invocation.terminal.note(f"The job {left.job_id} goes on: `flott cancel {left.job_id}` ends it.")
        code = ExitCode.INTERRUPTED if left.interrupted else ExitCode.OK
    return conclude(invocation, watch, code)


def _address(invocation: Invocation) -> dict[str, str]:
    """Where the session is, for the program. With high availability it has to look for the leader itself."""
    if invocation.configuration.get_string("high-availability.type", "none").lower() != "none":
        return {}
    found = Invocation()
    set_jobmanager(found, invocation.client.url)
    return found.properties


@contextmanager
def handed_on(invocation: Invocation, properties: Mapping[str, str]) -> Iterator[None]:
    """The environment by which a program learns its settings."""
    made = environment_of(invocation, properties)
    before = {name: os.environ.get(name) for name in made}
    os.environ |= made
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def environment_of(invocation: Invocation, properties: Mapping[str, str]) -> dict[str, str]:
    """The variables that hand settings on."""
    before = json.loads(os.environ.get(_settings.PROPERTIES) or "{}")
    made = {_settings.PROPERTIES: json.dumps({**before, **properties})}
    if invocation.config_file is not None:
        made[_settings.CONF_FILE] = str(Path(invocation.config_file).absolute())
    return made


def conclude(invocation: Invocation, watch: JobWatch, code: int) -> int:
    """Say how it ended; the exit code."""
    if invocation.terminal.json:
        jobs = [progress.document() for progress in watch.jobs]
        invocation.terminal.document({"jobs": jobs, "exit-code": int(code)})
    return code
