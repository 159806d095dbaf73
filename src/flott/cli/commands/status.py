"""``flott status``, ``flott top`` and ``flott explain-watermark``: show one job or all jobs, once or continuously."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import command
from flott.cli.drawings.job_panel import JobFacts, ask, jobs_table, panel
from flott.cli.drawings.progress import ENDED
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB, RUNNING_JOB, job_id, overview
from flott.cli.keyboard import Keyboard
from flott.errors import UnreachableError

if TYPE_CHECKING:
    from rich.console import RenderableType

#: The number of samples in the line of records per second.
_SAMPLES = 60


@command("status")
@click.argument("job", type=JOB)
@pass_invocation
def status(invocation: Invocation, job: str) -> None:
    """Show the status of JOB: vertices, throughput, watermark, checkpoints, the last failure."""
    facts = ask(invocation.client, job_id(invocation, job))
    invocation.terminal.show(facts.document(), panel(facts))


@command("top")
@click.argument("job", type=JOB, required=False)
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, metavar="SECONDS",
              help="The refresh interval.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after so many refreshes.")
@pass_invocation
def top(invocation: Invocation, job: str | None, interval: float, count: int | None) -> None:
    """Watch JOB, or all jobs, on a screen that refreshes. q leaves it; the job continues.

    Without a terminal, each refresh is written again; with --json as one document per line.
    """
    view: View = OneJob(invocation, job_id(invocation, job)) if job is not None else AllJobs(invocation)
    terminal = invocation.terminal
    if terminal.json or not terminal.console.is_terminal:
        _write(invocation, view, interval, count)
    else:
        _draw(invocation, view, interval, count)


@command("explain-watermark")
@click.argument("job", type=RUNNING_JOB)
@pass_invocation
def explain_watermark(invocation: Invocation, job: str) -> None:
    """Show the watermarks of JOB, from the sinks up to the splits of its sources, and what holds event time back."""
    report = invocation.client.get(f"/jobs/{job_id(invocation, job)}/flott/watermark")
    document = {key: value for key, value in report.items() if key != "text"}
    invocation.terminal.report(report["text"], document)


class View:
    """A screen of ``top``."""

    def __init__(self, invocation: Invocation):
        self.invocation = invocation

    def look(self) -> tuple[Any, RenderableType, bool]:
        """Return the document, the drawing, and whether nothing more will follow."""
        raise NotImplementedError


class AllJobs(View):
    """All jobs of a cluster."""

    def look(self) -> tuple[Any, RenderableType, bool]:
        jobs = sorted(overview(self.invocation), key=lambda job: (job["state"] in ENDED, -job["start-time"]))
        return {"jobs": jobs}, jobs_table(jobs), False


class OneJob(View):
    """One job."""

    def __init__(self, invocation: Invocation, ident: str):
        super().__init__(invocation)
        self._id = ident
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def look(self) -> tuple[Any, RenderableType, bool]:
        facts = self._sampled(ask(self.invocation.client, self._id))
        return facts.document(), panel(facts), facts.progress.ended

    def _sampled(self, facts: JobFacts) -> JobFacts:
        """Add the rates since the start of the command, and before them those of the last epochs."""
        if not self._rates:
            self._rates.extend(facts.rates)
        if not facts.progress.ended:
            self._rates.append(facts.progress.records_per_second)
        return replace(facts, rates=tuple(self._rates))


def _write(invocation: Invocation, view: View, interval: float, count: int | None) -> None:
    looks = 0
    with Keyboard(None) as keyboard:
        while True:
            document, drawing, over = view.look()
            looks += 1
            if invocation.terminal.json:
                invocation.terminal.document_line(document)
            else:
                invocation.terminal.draw(drawing)
                invocation.terminal.line("")
            if over or looks == count:
                return
            keyboard.wait(interval)


def _draw(invocation: Invocation, view: View, interval: float, count: int | None) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    console, looks, drawing = invocation.terminal.console, 0, None
    with Keyboard.of_terminal() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            trouble, over = "", False
            try:
                _, drawing, over = view.look()
            except UnreachableError as error:
                trouble = str(error)  # it may return, or another JobManager takes over
            looks += 1
            foot = Text(f"\n{trouble}", "yellow") if trouble else Text("\nq quit", "dim")
            live.update(Group(drawing, foot) if drawing is not None else foot, refresh=True)
            if over or looks == count:
                break
            if keyboard.wait(interval) in ("q", "Q", "\x1b", "\x03"):
                break
    if drawing is not None:
        console.print(drawing)  # the last screen remains visible
