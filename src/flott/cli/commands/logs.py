"""``flott logs``: show the log of a job, the JobManager or a task manager."""

from __future__ import annotations

import threading
from typing import Any

import click

from flott.cli.command import command
from flott.cli.drawings.progress import ENDED
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JobType, job_id
from flott.errors import ClusterError
from flott.runtime.clock import SystemClock

_CURSOR = "X-Flott-Log-Cursor"
_PAUSE_MS = 500
_JOB_MANAGER, _TASK_MANAGER = "jobmanager", "taskmanager"
_SOURCE = JobType(words=(_JOB_MANAGER, _TASK_MANAGER))


@command("logs")
@click.argument("source", type=_SOURCE, metavar="JOB|jobmanager|taskmanager[:ID]")
@click.option("-f", "--follow", is_flag=True, help="Continue with new lines until the job ends.")
@click.option("-n", "--tail", type=click.IntRange(0, 100_000), metavar="N", help="Only the last N lines.")
@click.option("--level", type=click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], False),
              help="Only this level and those above it.")  # fmt: skip
@click.option("--operator", metavar="UID", help="Only lines of this operator, by name or uid.")
@click.option("--subtask", type=click.IntRange(0), metavar="N", help="Only lines of this subtask.")
@pass_invocation
def logs(
    invocation: Invocation, source: str, follow: bool, tail: int | None, level: str | None, operator: str | None,
    subtask: int | None,
) -> None:  # fmt: skip
    """Show the log of a job, the JobManager or a task manager. That of a job includes the output of its functions."""
    place, _, name = source.partition(":")
    wanted = {"level": level.upper() if level else None, "operator": operator, "subtask": subtask}
    if place in (_JOB_MANAGER, _TASK_MANAGER):
        if follow or any(value is not None for value in wanted.values()):
            raise click.UsageError("--follow, --level, --operator and --subtask are for the log of a job.")
        path = "/jobmanager/log" if place == _JOB_MANAGER else f"/taskmanagers/{_task_manager(invocation, name)}/log"
        _say(invocation, last_lines(invocation.client.text(path), tail))
        return
    _of_job(invocation, job_id(invocation, source), follow, tail, wanted)


def _of_job(invocation: Invocation, ident: str, follow: bool, tail: int | None, wanted: dict[str, Any]) -> None:
    client, clock, never = invocation.client, SystemClock(), threading.Event()
    path = f"/jobs/{ident}/log"
    if not follow and tail is None and invocation.terminal.json:
        _say(invocation, client.text(path, **wanted))
        return
    if not follow and tail is None:
        with client.stream_text(path, **wanted) as pieces:
            for piece in pieces:
                _say(invocation, piece)
        return
    text, cursor = client.text_with_header(path, _CURSOR, tail=10 if tail is None else tail, **wanted)
    _say(invocation, text)
    while follow:
        ended = client.get(f"/jobs/{ident}/status")["status"] in ENDED
        text, after = client.text_with_header(path, _CURSOR, offset=cursor, **wanted)
        _say(invocation, text)
        if ended and (after is None or after == cursor):
            return
        if after == cursor:
            clock.wait(never, _PAUSE_MS)
        cursor = after or cursor


def _task_manager(invocation: Invocation, name: str) -> str:
    found = [str(entry["id"]) for entry in invocation.client.get("/taskmanagers")["taskmanagers"]]
    matching = [ident for ident in found if ident.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    raise ClusterError(
        f"{'Several task managers begin' if matching else 'No task manager begins'} with {name!r}. There are"
        f" {', '.join(found) or 'none'}: name one as taskmanager:ID."
    )


def last_lines(text: str, count: int | None) -> str:
    """Return the last lines of a text."""
    return text if count is None else "".join(text.splitlines(keepends=True)[-count:] if count else [])


def _say(invocation: Invocation, text: str) -> None:
    if not text:
        return
    if invocation.terminal.json:
        for line in text.splitlines():
            invocation.terminal.document_line({"line": line})
    else:
        click.echo(text, nl=False)
