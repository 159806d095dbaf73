"""``flott list``: list the jobs of a cluster, in the lines of Flink's client, which scripts parse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from flott.cli.command import command
from flott.cli.drawings.progress import ENDED
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import overview

_WIDTH = 62
_SCHEDULED = frozenset({"CREATED", "INITIALIZING"})


@command("list")
@click.option("-a", "--all", "everything", is_flag=True, help="All jobs, including ended ones.")
@click.option("-r", "--running", is_flag=True, help="Only running and restarting jobs.")
@click.option("-s", "--scheduled", is_flag=True, help="Only scheduled jobs.")
@pass_invocation
def list_jobs(invocation: Invocation, everything: bool, running: bool, scheduled: bool) -> None:
    """List the running and scheduled jobs of a cluster.

    A line is "start time : job id : name (state)".
    """
    jobs = sorted(overview(invocation), key=lambda job: (job["start-time"], job["jid"]))
    wanted = {kind for kind, asked in (("running", running), ("scheduled", scheduled)) if asked or everything}
    kinds = (wanted or {"running", "scheduled"}) | ({"ended"} if everything else set())
    chosen = [job for job in jobs if kind_of(job["state"]) in kinds]
    if invocation.terminal.json:
        invocation.terminal.document({"jobs": chosen})
        return
    for line in lines_of(chosen, kinds):
        invocation.terminal.line(line)


def kind_of(state: str) -> str:
    """Return the title under which Flink lists a job in this state."""
    if state in _SCHEDULED:
        return "scheduled"
    return "ended" if state in ENDED else "running"


def lines_of(jobs: Sequence[Mapping[str, Any]], kinds: set[str]) -> Iterator[str]:
    """Return the lines of jobs under Flink's titles. Pure."""
    titles = (("running", "Running/Restarting"), ("scheduled", "Scheduled"), ("ended", "Terminated"))
    for kind, title in titles:
        if kind not in kinds:
            continue
        found = [job for job in jobs if kind_of(job["state"]) == kind]
        if found:
            yield f" {title} Jobs ".center(_WIDTH, "-")
            yield from map(line_of, found)
            yield "-" * _WIDTH
        elif kind != "ended":
            yield f"No {kind} jobs."


def line_of(job: Mapping[str, Any]) -> str:
    """Return the line of a job as Flink prints it."""
    started = datetime.fromtimestamp(max(0, job["start-time"]) / 1000).strftime("%d.%m.%Y %H:%M:%S")
    return f"{started} : {job['jid']} : {job['name']} ({job['state']})"
