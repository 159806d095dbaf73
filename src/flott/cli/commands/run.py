"""``flott run``: run a program on a session, or as an application with its own JobManager and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.programs.application import run_application, start_application
from flott.cli.programs.placement import SESSION, Target, place
from flott.cli.programs.program_command import ProgramCommand, named_program, program_options, program_properties
from flott.cli.programs.session import run_on_session


@click.command("run", cls=ProgramCommand)
@click.argument("program", nargs=-1, type=click.Path(), metavar="PROGRAM [ARGUMENT]...")
@click.option("-t", "--target", type=Target(), metavar="TARGET",
              help="session, or a JobManager and Spark for this program alone: local, local[N],"
                   " local-cluster[W,C,MB], spark://HOST:PORT, yarn, k8s://URL. Default: the session if there is"
                   " one, else local.")  # fmt: skip
@click.option("-d", "--detached", is_flag=True, help="Do not wait for the job.")
@click.option("-s", "--from-savepoint", "--fromSavepoint", "savepoint", metavar="PATH",
              help="Start from this savepoint or checkpoint.")  # fmt: skip
@click.option("--allow-non-restored-state", "--allowNonRestoredState", "allow_non_restored", is_flag=True,
              help="Drop state that no operator of the program claims.")  # fmt: skip
@click.option("--claim-mode", "--claimMode", "claim_mode", type=click.Choice(["NO_CLAIM", "CLAIM"], False),
              help="Whether the job takes over the files it starts from.")  # fmt: skip
@click.option("-n", "--name", metavar="NAME", help="The name of the job.")
@program_options
@pass_invocation
def run(invocation: Invocation, /, program: tuple[str, ...], target: str | None, detached: bool, **flags: Any) -> int:
    """Run a program: a .py file, a folder or archive with a __main__.py, or a module.

    On a session the program runs in this process and submits its jobs. With another target it gets its own JobManager
    and Spark application, which end with it. Progress goes to stderr. After Ctrl-C, choose what happens to the job.

    \b
    flott run word_count.py --input words.txt
    flott run -d -p 4 -m shop.orders
    flott run --target local[4] -s /savepoints/savepoint-1a2b word_count.py
    """
    command = named_program(flags, program)
    if not command:
        raise click.UsageError("Name the program to run: a .py file, a folder, an archive, or -m MODULE.")
    invocation.properties |= {**program_properties(flags), **_properties(flags)}
    where, reason = place(invocation, target)
    invocation.terminal.note(f"Running on {reason}.")
    if where == SESSION:
        return run_on_session(invocation, command, detached)
    master = "local[*]" if where == "local" else where
    return start_application(invocation, command, master) if detached else run_application(invocation, command, master)


def _properties(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of Flott that the flags of this command set."""
    keys = {
        "savepoint": "execution.state-recovery.path",
        "claim_mode": "execution.state-recovery.claim-mode",
        "name": "pipeline.name",
    }
    found = {key: str(flags[flag]) for flag, key in keys.items() if flags[flag] is not None}
    if flags["allow_non_restored"]:
        found["execution.state-recovery.ignore-unclaimed-state"] = "true"
    return found
