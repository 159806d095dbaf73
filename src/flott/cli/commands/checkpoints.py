"""``flott checkpoints`` and ``flott checkpoint``: show the last checkpoints of a job, and trigger one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB, RUNNING_JOB, job_id
from flott.cli.terminal import duration_text, table, time_text
from flott.client.operations import await_operation, trigger
from flott.common._sizes import size_text
from flott.runtime.orders import TakeCheckpoint

if TYPE_CHECKING:
    from rich.text import Text

#: The phases in their order, with the color of each in the bar: of an epoch, and of the checkpoint of a pipelined job.
PHASES = (("plan", "blue"), ("schedule", "magenta"), ("run", "green"), ("align", "blue"), ("sync", "magenta"),
          ("files", "green"), ("ack", "yellow"), ("commit", "cyan"))  # fmt: skip
_BAR_WIDTH = 24
_COLUMNS = ("id", "type", "status", "started", "duration", "size", "full size", "records", "phases", "path")


@command("checkpoints")
@click.argument("job", type=JOB)
@pass_invocation
def checkpoints(invocation: Invocation, job: str) -> None:
    """Show the last checkpoints and savepoints of JOB with time, duration, size and path.

    "size" is what a checkpoint added, "full size" all that it refers to. The bar shows the phases.
    """
    from rich.text import Text

    found = invocation.client.get(f"/jobs/{job_id(invocation, job)}/checkpoints")
    counts = found["counts"]
    title = ", ".join(f"{counts[kind]} {kind.replace('_', ' ')}" for kind in ("completed", "failed", "in_progress"))
    legend = Text("phases: ", style="dim")
    named = {phase for item in found["history"] for phase in item.get("phases") or {}}
    for index, (phase, color) in enumerate(one for one in PHASES if one[0] in named):
        legend.append(("  " if index else "") + "█ ", color).append(phase, "dim")
    invocation.terminal.show(found, Text(title, style="bold"), "", history(found["history"]), "", legend)


def history(items: Sequence[Mapping[str, Any]]) -> Any:
    """Return the table of checkpoints."""
    longest = max((item["end_to_end_duration"] for item in items), default=0)
    rows = (tuple(_row(item, longest)) for item in items)
    return table(_COLUMNS, rows, {"id", "duration", "size", "full size", "records"})


def _row(item: Mapping[str, Any], longest: int) -> Iterator[object]:
    from rich.text import Text

    done = item["status"] == "COMPLETED"
    style = {"FAILED": "red", "IN_PROGRESS": "yellow"}.get(item["status"], "")
    yield str(item["id"])
    yield "savepoint" if item["is_savepoint"] else "checkpoint"
    yield Text(item["status"].lower().replace("_", " "), style)
    yield time_text(item["trigger_timestamp"])
    yield duration_text(item["end_to_end_duration"]) if item["status"] != "IN_PROGRESS" else None
    yield size_text(item["checkpointed_size"]) if done else None
    yield size_text(item["state_size"]) if done else None
    yield f"{item.get('records', 0):,}" if done else None
    yield phase_bar(item.get("phases") or {}, _BAR_WIDTH * item["end_to_end_duration"] / longest if longest else 0)
    yield Text(item.get("failure_message") or item.get("external_path") or "-", style)


def phase_bar(phases: Mapping[str, float], width: float) -> Text:
    """Return a bar of the phases of an epoch. Its width is relative to the longest epoch."""
    from rich.text import Text

    total = sum(phases.get(phase, 0.0) for phase, _ in PHASES)
    bar = Text()
    if total <= 0:
        return bar
    cells = max(1, round(width))
    reached, filled = 0.0, 0
    for phase, color in PHASES:
        reached += phases.get(phase, 0.0)
        upto = round(cells * reached / total)
        bar.append("█" * (upto - filled), color)
        filled = upto
    return bar


@command("checkpoint")
@click.argument("job", type=RUNNING_JOB)
@click.option(
    "-full", "--full", is_flag=True, help="Accepted without effect: a checkpoint contains what changed."
)
@pass_invocation
def checkpoint(invocation: Invocation, job: str, full: bool) -> None:
    """Complete an epoch of JOB now, with or without input. An epoch is a checkpoint."""
    ident, client = job_id(invocation, job), invocation.client
    kind = "FULL" if full else "CONFIGURED"
    invocation.terminal.note(f"Triggering checkpoint for job {ident}.")
    operation = trigger(client, ident, TakeCheckpoint())
    number = await_operation(client, operation.status_path)["checkpointId"]
    done = f"Checkpoint({kind}) {number} for job {ident} completed."
    invocation.terminal.report(done, {"jid": ident, "checkpoint": number})
