"""``flott explain-watermark``: who holds event time back."""

from __future__ import annotations

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import RUNNING_JOB, job_id


@command("explain-watermark")
@click.argument("job", type=RUNNING_JOB)
@pass_invocation
def explain_watermark(invocation: Invocation, job: str) -> None:
    """Show event time all over JOB, from the sinks up to the splits of its sources, and who holds it back."""
    report = invocation.client.get(f"/jobs/{job_id(invocation, job)}/flott/watermark")
    document = {key: value for key, value in report.items() if key != "text"}
    invocation.terminal.report(report["text"], document)
