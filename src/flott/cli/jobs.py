"""How a command is told which job: by id, by the beginning of one, or by name; completed from the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from flott.cli.invocation import Invocation
from flott.errors import FlottError, JobNotFoundError

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter


class JobType(_TextType):
    """A job of the cluster, as an argument: ``@click.argument("job", type=JOB)``. Resolve it with ``job_id``."""

    name = "job"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            jobs = overview(ctx.ensure_object(Invocation))
        except FlottError:  # a shell that completes has nobody to tell
            return []
        return [
            CompletionItem(job["jid"], help=f"{job['name']} ({job['state']})")
            for job in jobs
            if job["jid"].startswith(incomplete)
        ]


JOB = JobType()


def overview(invocation: Invocation) -> Sequence[Mapping[str, Any]]:
    """All jobs the JobManager knows, as its REST API shows them."""
    jobs: Sequence[Mapping[str, Any]] = invocation.client.get("/jobs/overview")["jobs"]
    return jobs


def job_id(invocation: Invocation, text: str) -> str:
    """The id of the job somebody means; raises ``JobNotFoundError`` if there is none, or more than one."""
    if len(text) == 32 and set(text.lower()) <= set("0123456789abcdef"):
        return text.lower()
    return choose_job(overview(invocation), text)


def choose_job(jobs: Sequence[Mapping[str, Any]], text: str) -> str:
    """The one job whose id begins with the text, or that has it as its name; of several, the one that has not ended."""
    found = [job for job in jobs if job["jid"].startswith(text.lower()) or job["name"] == text]
    running = [job for job in found if job["state"] not in ("FINISHED", "CANCELED", "FAILED")]
    chosen = running if len(found) > 1 and running else found
    if len(chosen) == 1:
        return str(chosen[0]["jid"])
    if not chosen:
        raise JobNotFoundError(f"No job has the id or the name {text!r}. `flott list --all` shows all of them.")
    listed = ", ".join(f"{job['jid']} ({job['name']}, {job['state']})" for job in chosen[:5])
    raise JobNotFoundError(f"{text!r} may be any of {len(chosen)} jobs: {listed}. Give more of the id.")
