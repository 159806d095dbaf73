"""Job arguments of commands: an id, a prefix of an id, or a name, with completion from the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from flott.cli.drawings.progress import ENDED
from flott.cli.invocation import Invocation
from flott.client.operations import Asks
from flott.common import _cluster_options as cluster_options
from flott.errors import FlottError, JobNotFoundError

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter

#: The maximum time for completions; a slower JobManager is ignored.
_AT_ONCE_MS = 1000


class JobType(_TextType):
    """A job of the cluster as an argument: ``@click.argument("job", type=JOB)``. Resolve it with ``job_id``.

    ``running``: excludes jobs that have ended. ``words``: other accepted values. ``files``: a path is also accepted.
    """

    name = "job"

    def __init__(self, *, running: bool = False, words: Sequence[str] = (), files: bool = False):
        self._running = running
        self._words = words
        self._files = files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(word) for word in self._words if word.startswith(incomplete)]
        for job in _jobs_at_once(ctx.ensure_object(Invocation)):
            if job["jid"].startswith(incomplete) and not (self._running and job["state"] in ENDED):
                found.append(CompletionItem(job["jid"], help=f"{job['name']} ({job['state']})"))
        return [*found, CompletionItem(incomplete, type="file")] if self._files else found


JOB = JobType()
RUNNING_JOB = JobType(running=True)
JOB_OR_PATH = JobType(files=True)


def _jobs_at_once(invocation: Invocation) -> Sequence[Mapping[str, Any]]:
    """Return the jobs, or none if the JobManager does not answer at once, because a shell waits for the completion."""
    from flott.client.rest_client import RestClient

    try:
        configuration = invocation.client_configuration
        for option in (cluster_options.REST_CONNECTION_TIMEOUT, cluster_options.REST_ANSWER_TIMEOUT):
            configuration.set(option, _AT_ONCE_MS)
        configuration.set(cluster_options.REST_AWAIT_LEADER, 0)
        with RestClient(configuration, first_patience_ms=0) as client:
            return _jobs(client)
    except FlottError:
        return []


def overview(invocation: Invocation) -> Sequence[Mapping[str, Any]]:
    """Return all jobs of the JobManager as its REST API shows them."""
    return _jobs(invocation.client)


def _jobs(client: Asks) -> Sequence[Mapping[str, Any]]:
    jobs: Sequence[Mapping[str, Any]] = client.get("/jobs/overview")["jobs"]
    return jobs


def job_id(invocation: Invocation, text: str) -> str:
    """Return the id of a job. Raise ``JobNotFoundError`` if no job or several jobs match."""
    if len(text) == 32 and set(text.lower()) <= set("0123456789abcdef"):
        return text.lower()
    return choose_job(overview(invocation), text)


def choose_job(jobs: Sequence[Mapping[str, Any]], text: str) -> str:
    """Return the job with this name or id prefix. If several match, return the one that has not ended."""
    found = [job for job in jobs if job["jid"].startswith(text.lower()) or job["name"] == text]
    running = [job for job in found if job["state"] not in ENDED]
    chosen = running if len(found) > 1 and running else found
    if len(chosen) == 1:
        return str(chosen[0]["jid"])
    if not chosen:
        raise JobNotFoundError(f"No job has the id or the name {text!r}. `flott list --all` shows all of them.")
    listed = ", ".join(f"{job['jid']} ({job['name']}, {job['state']})" for job in chosen[:5])
    raise JobNotFoundError(f"{text!r} may be any of {len(chosen)} jobs: {listed}. Name one by its id.")
