"""Runs a program on a session: in this process, which submits its jobs to the JobManager of a running cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from flott.cli.invocation import Invocation
from flott.cli.programs.environment import passed_settings
from flott.cli.programs.interruption import Interruption
from flott.cli.programs.job_watch import JobWatch
from flott.cli.programs.placement import session_address
from flott.client.exit_codes import ExitCode


def run_on_session(invocation: Invocation, command: Sequence[str], detached: bool) -> int:
    """Run the program in this process and submit its jobs."""
    from flott.client.program import main as run_program
    from flott.client.remote_executor import watched

    client = invocation.client
    client.get("/overview")  # fails before the program spends time on reading its input
    properties = {**invocation.properties, "execution.target": "remote"}
    if detached:
        properties["execution.attached"] = "false"
    watch = JobWatch(invocation.terminal, client, detached=detached)
    output = sys.stderr if invocation.terminal.json else sys.stdout
    with (
        passed_settings(invocation, {**properties, **session_address(invocation)}),
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
        invocation.terminal.note(f"The job {left.job_id} continues: `flott cancel {left.job_id}` ends it.")
        code = ExitCode.INTERRUPTED if left.interrupted else ExitCode.OK
    elif code == ExitCode.INTERRUPTED:
        invocation.terminal.note("Interrupted.")
    return conclude(invocation, watch, code)


def conclude(invocation: Invocation, watch: JobWatch, code: int) -> int:
    """Report the jobs and return the exit code."""
    if invocation.terminal.json:
        jobs = [progress.document() for progress in watch.jobs]
        invocation.terminal.document({"jobs": jobs, "exit-code": int(code)})
    return code
