"""``flott rescale``: change the parallelism of a running job."""

from __future__ import annotations

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import RUNNING_JOB, job_id
from flott.client.operations import await_operation


@command("rescale")
@click.argument("job", type=RUNNING_JOB)
@click.argument("parallelism", type=click.IntRange(1))
@click.option("--operator", metavar="UID", help="Only this operator, by its uid, id or name.")
@click.option("-detached", "--detached", is_flag=True, help="Do not wait for the first epoch with it.")
@pass_invocation
def rescale(invocation: Invocation, job: str, parallelism: int, operator: str | None, detached: bool) -> None:
    """Give JOB another PARALLELISM while it runs, between two epochs."""
    ident, client, terminal = job_id(invocation, job), invocation.client, invocation.terminal
    whom = f"operator {operator} of job {ident}" if operator else f"job {ident}"
    terminal.note(f"Rescaling {whom} to parallelism {parallelism}.")
    trigger = client.patch(f"/jobs/{ident}/rescaling", parallelism=parallelism, operator=operator)["request-id"]
    document = {"jid": ident, "parallelism": parallelism, "operator": operator, "trigger": trigger}
    if detached:
        terminal.report(f"Rescaling triggered, triggerId: {trigger}", document)
    else:
        await_operation(client, f"/jobs/{ident}/rescaling/{trigger}")
        terminal.report(f"Rescaled {whom} to parallelism {parallelism}.", document)
