"""``flott list``: the jobs of a cluster, in the lines that Flink's client prints and scripts read."""

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
@click.option("-a", "--all", "everything", is_flag=True, help="All jobs, ended ones too.")
@click.option("-r", "--running", is_flag=True, help="Only jobs that run or are being restarted.")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that are about to start.")
@pass_invocation
def list_jobs(invocation: Invocation, everything: bool, running: bool, scheduled: bool) -> None:
    """List the jobs of a cluster: those that run and those that are about to.

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
    """Under which title Flink lists a job in this state."""
    if state in _SCHEDULED:
        return "scheduled"
    return "ended" if state in ENDED else "running"


def lines_of(jobs: Sequence[Mapping[str, Any]], kinds: set[str]) -> Iterator[str]:
    """Jobs under Flink's titles. Pure."""
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
    """A job as Flink prints it."""
    started = datetime.fromtimestamp(max(0, job["start-time"]) / 1000).strftime("%d.%m.%Y %H:%M:%S")
    return f"{started} : {job['jid']} : {job['name']} ({job['state']})"
