"""``flott cancel``, ``flott stop`` and ``flott rescale``: orders to a running job."""

from __future__ import annotations

import click

from flott.cli.command import command
from flott.cli.commands.savepoint import conclude_savepoint, format_option
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import RUNNING_JOB, job_id
from flott.client.operations import await_operation, trigger
from flott.common._savepoint_format import SavepointFormatType
from flott.runtime.orders import CancelWithSavepoint, RescaleJob, StopWithSavepoint

#: Stands for "with a savepoint, in the configured directory".
_DEFAULT = ""


@command("cancel")
@click.argument("job", type=RUNNING_JOB, required=False)
@click.option("-s", "--with-savepoint", "--withSavepoint", "directory", is_flag=False, flag_value=_DEFAULT,
              metavar="[DIR]", help="Take a savepoint first. Better: flott stop.")  # fmt: skip
@format_option()
@pass_invocation
def cancel(invocation: Invocation, job: str | None, directory: str | None, format_type: str) -> None:
    """Cancel JOB. It ends immediately, and uncommitted results are dropped."""
    if job is None:  # cancel -s JOB: the value of -s is the job, as in Flink
        job, directory = directory, _DEFAULT
    if not job:
        raise click.UsageError("Name the job to cancel.")
    ident, client, terminal = job_id(invocation, job), invocation.client, invocation.terminal
    if directory is None:
        terminal.note(f"Cancelling job {ident}.")
        client.patch(f"/jobs/{ident}", mode="cancel")
        terminal.report(f"Cancelled job {ident}.", {"jid": ident})
        return
    terminal.note(f"Cancelling job {ident} with a savepoint. Prefer `flott stop`, which ends the job regularly.")
    order = CancelWithSavepoint(directory or None, SavepointFormatType[format_type.upper()])
    operation = trigger(client, ident, order)
    conclude_savepoint(invocation, ident, operation, done=f"Cancelled job {ident}. Savepoint stored in {{path}}.")


@command("stop")
@click.argument("job", type=RUNNING_JOB)
@click.option("-p", "--savepoint-path", "--savepointPath", "directory", metavar="DIR",
              help="The directory of the savepoint (default: execution.checkpointing.savepoint-dir).")  # fmt: skip
@click.option("-d", "--drain", is_flag=True, help="Advance event time to its end first: all windows and timers fire.")
@format_option()
@click.option("-detached", "--detached", is_flag=True, help="Do not wait until it is done.")
@pass_invocation
def stop(
    invocation: Invocation, job: str, directory: str | None, drain: bool, format_type: str, detached: bool
) -> None:
    """End JOB with a savepoint from which it can be continued.

    With --drain it cannot be continued, because all windows and timers have fired.
    """
    ident, client, terminal = job_id(invocation, job), invocation.client, invocation.terminal
    verb = "Draining" if drain else "Suspending"
    terminal.note(f'{verb} job "{ident}" with a {format_type.upper()} savepoint.')
    order = StopWithSavepoint(drain, directory, SavepointFormatType[format_type.upper()])
    message = "Successfully trigger stop-with-savepoint in detached mode" if detached else None
    conclude_savepoint(invocation, ident, trigger(client, ident, order), detached=message)


@command("rescale")
@click.argument("job", type=RUNNING_JOB)
@click.argument("parallelism", type=click.IntRange(1))
@click.option("--operator", metavar="UID", help="Only this operator, by its uid, id or name.")
@click.option("-detached", "--detached", is_flag=True, help="Do not wait for the first epoch with it.")
@pass_invocation
def rescale(invocation: Invocation, job: str, parallelism: int, operator: str | None, detached: bool) -> None:
    """Change the parallelism of JOB while it runs, between two epochs."""
    ident, client, terminal = job_id(invocation, job), invocation.client, invocation.terminal
    whom = f"operator {operator} of job {ident}" if operator else f"job {ident}"
    terminal.note(f"Rescaling {whom} to parallelism {parallelism}.")
    operation = trigger(client, ident, RescaleJob(parallelism, operator))
    document = {"jid": ident, "parallelism": parallelism, "operator": operator, "trigger": operation.ident}
    if detached:
        terminal.report(f"Rescaling triggered, triggerId: {operation.ident}", document)
    else:
        await_operation(client, operation.status_path)
        terminal.report(f"Rescaled {whom} to parallelism {parallelism}.", document)
