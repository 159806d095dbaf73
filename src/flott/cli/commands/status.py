"""``flott status`` and ``flott top``: a job, or all of them, now and as they go on."""

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

#: How many samples the line of records a second has.
_SAMPLES = 60


@command("status")
@click.argument("job", type=JOB)
@pass_invocation
def status(invocation: Invocation, job: str) -> None:
    """Show JOB once: vertices, throughput, watermark, checkpoints, the last failure."""
    facts = ask(invocation.client, job_id(invocation, job))
    invocation.terminal.show(facts.document(), panel(facts))


@command("top")
@click.argument("job", type=JOB, required=False)
@click.option("-i", "--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, metavar="SECONDS",
              help="How often to look.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Look so many times, then end.")
@pass_invocation
def top(invocation: Invocation, job: str | None, interval: float, count: int | None) -> None:
    """Watch JOB, or all jobs: a screen that renews itself. q leaves it; the job goes on.

    Where there is no terminal, it is written anew each time; with --json as a document per line.
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
    """Show event time all over JOB, from the sinks up to the splits of its sources, and who holds it back."""
    report = invocation.client.get(f"/jobs/{job_id(invocation, job)}/flott/watermark")
    document = {key: value for key, value in report.items() if key != "text"}
    invocation.terminal.report(report["text"], document)


class View:
    """Something to watch."""

    def __init__(self, invocation: Invocation):
        self.invocation = invocation

    def look(self) -> tuple[Any, RenderableType, bool]:
        """As a document, as a drawing, and whether anything more will come."""
        raise NotImplementedError


class AllJobs(View):
    """The jobs of a cluster."""

    def look(self) -> tuple[Any, RenderableType, bool]:
        jobs = sorted(overview(self.invocation), key=lambda job: (job["state"] in ENDED, -job["start-time"]))
        return {"jobs": jobs}, jobs_table(jobs), False


class OneJob(View):
    """One of them."""

    def __init__(self, invocation: Invocation, ident: str):
        super().__init__(invocation)
        self._id = ident
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def look(self) -> tuple[Any, RenderableType, bool]:
        facts = self._sampled(ask(self.invocation.client, self._id))
        return facts.document(), panel(facts), facts.progress.ended

    def _sampled(self, facts: JobFacts) -> JobFacts:
        """With what was seen since this began; until then, with what the last epochs say."""
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
                trouble = str(error)  # it may come back, or another one leads
            looks += 1
            foot = Text(f"\n{trouble}", "yellow") if trouble else Text("\nq quit", "dim")
            live.update(Group(drawing, foot) if drawing is not None else foot, refresh=True)
            if over or looks == count:
                break
            if keyboard.wait(interval) in ("q", "Q", "\x1b", "\x03"):
                break
    if drawing is not None:
        console.print(drawing)  # what was seen last stays
