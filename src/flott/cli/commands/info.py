"""``flott info``: show the graph of a program, without running it, or of a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flott.cli.drawings.plan_drawing import drawing, vertices_of
from flott.cli.drawings.plan_svg import plan_svg
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import JOB_OR_PATH, job_id
from flott.cli.programs.environment import environment_of
from flott.cli.programs.program_arguments import Divided, names_program
from flott.cli.programs.program_command import (
    ProgramCommand,
    looks_like_program,
    named_program,
    program_options,
    program_properties,
)
from flott.errors import ProgramError

if TYPE_CHECKING:
    from rich.text import Text

_TITLE = " Execution Plan ".center(62, "-")
_RULE = "-" * 62


class InfoCommand(ProgramCommand):
    """A job has no arguments, so options of the command may follow it."""

    def divide(self, ctx: click.Context, args: list[str]) -> Divided:
        divided = super().divide(ctx, args)
        if not divided.rest or names_program(divided.own) or looks_like_program(divided.rest[0]):
            return divided
        return Divided(tuple(args), ())


@click.command("info", cls=InfoCommand)
@click.argument("words", nargs=-1, type=JOB_OR_PATH, metavar="PROGRAM|JOB [ARGUMENT]...")
@click.option("--plan", "as_plan", is_flag=True, help="Print the plan as JSON between the lines of Flink's client.")
@click.option("--svg", type=click.Path(dir_okay=False, writable=True), metavar="FILE", help="Also write a picture.")
@program_options
@pass_invocation
def info(invocation: Invocation, /, words: tuple[str, ...], as_plan: bool, svg: str | None, **flags: Any) -> None:
    """Show the graph of PROGRAM, whose main runs only up to its first execute(), or that of JOB.

    On a terminal the graph is drawn; otherwise the plan is printed as JSON.
    """
    invocation.properties |= program_properties(flags)
    found = _plan(invocation, flags, words)
    plan = found["plan"]
    vertices = vertices_of(plan)
    if svg is not None:
        Path(svg).write_text(plan_svg(plan["name"], vertices), encoding="utf-8")
        invocation.terminal.note(f"The picture is in {svg}.")
    shown = found.get("execution-plan", plan)
    if invocation.terminal.json:
        invocation.terminal.document(shown)
    elif as_plan or not invocation.terminal.console.is_terminal:
        for line in (_TITLE, json.dumps(shown, indent=2), _RULE):
            invocation.terminal.line(line)
    else:
        invocation.terminal.console.print(drawn(plan))


def _plan(invocation: Invocation, flags: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    names_program = any(flags[name] for name in ("module", "python", "py_module"))
    if names_program or (words and looks_like_program(words[0])):
        return plan_of_program(invocation, named_program(flags, words))
    if len(words) != 1:
        raise click.UsageError("Name a program, or one job.")
    return {"plan": invocation.client.get(f"/jobs/{job_id(invocation, words[0])}/plan")["plan"]}


def drawn(plan: dict[str, Any]) -> Text:
    """Return the graph for a terminal."""
    from rich.text import Text

    vertices = vertices_of(plan)
    subtasks = sum(vertex.parallelism for vertex in vertices)
    text = Text(f"{plan['name']}", style="bold")
    text.append(f"  {plan['type'].lower()}, {len(vertices)} vertices, {subtasks} subtasks\n\n", "dim not bold")
    for line in drawing(vertices):
        text.append(f"{line.lanes} ", "cyan not bold")
        text.append(line.text, "bold" if line.is_vertex else "not bold")
        text.append(
            f"  {line.note}" if line.is_vertex else line.note, "yellow not bold" if line.is_vertex else "dim not bold"
        )
        text.append("\n")
    text.rstrip()
    return text


def plan_of_program(invocation: Invocation, words: Sequence[str]) -> dict[str, Any]:
    """Run a program's main in a separate process up to its first job, and return the plan of that job."""
    from flott.client.program import ended_without_job, program_of
    from flott.execution import PLAN_VARIABLE

    with tempfile.TemporaryDirectory(prefix="flott-plan-") as folder:
        file = Path(folder, "plan.json")
        passed_settings = environment_of(invocation, invocation.properties)
        environment = {**os.environ, **passed_settings, PLAN_VARIABLE: str(file)}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flott.client.program", *words], env=environment, check=False,
            stdout=sys.stderr.fileno() if _has_descriptor() else subprocess.DEVNULL,
        )  # fmt: skip
        if not file.exists():
            if done.returncode:
                raise ProgramError(f"{program_of(words)} ended with exit code {done.returncode} before it ran a job.")
            raise ProgramError(ended_without_job(words))
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def _has_descriptor() -> bool:
    """Redirect the program's output to stderr, because it is not part of the plan."""
    try:
        sys.stderr.fileno()
    except (OSError, ValueError):
        return False
    return True
