"""``flott run``: run a program on a session, or as an application with its own JobManager and Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.local_cluster import LocalCluster
from flott.cli.programs.application import run_application, start_application
from flott.cli.programs.program_command import ProgramCommand, named_program, program_options, program_properties
from flott.cli.programs.session import run_on_session

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter

#: The value of --target for a running cluster.
SESSION = "session"
_MASTER = re.compile(r"local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
#: If one of these is set, the session is configured and used even if it does not answer.
_NAME_A_SESSION = ("rest.address", "rest.port", "high-availability.type", "high-availability.cluster-id")


class Target(_TextType):
    """The target of a program: the session, or a Spark master."""

    name = "target"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = {"remote": SESSION, "spark": "local"}.get(str(value), str(value))
        if text != SESSION and not _MASTER.fullmatch(text):
            self.fail(
                f"found {text!r}, expected session, local, local[N], local-cluster[WORKERS,CORES,MB], spark://HOST:PORT,"
                " yarn or k8s://URL.", param, ctx,
            )  # fmt: skip
        return text

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        known = (SESSION, "local", "local[2]", "local-cluster[2,1,1024]", "spark://", "yarn", "k8s://")
        return [click.shell_completion.CompletionItem(text) for text in known if text.startswith(incomplete)]


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
    where, reason = _place(invocation, target)
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


def _place(invocation: Invocation, target: str | None) -> tuple[str, str]:
    """Return the session or a Spark master, with a text that says which one and why."""
    configuration = invocation.configuration
    master = configuration.get_string("spark.master", "")
    if target is None and "spark.master" in invocation.properties:
        target = master
    configured = configuration.get_string("execution.target", "")
    named = [key for key in _NAME_A_SESSION if configuration.contains_key(key)]
    if target == SESSION or (target is None and (configured == "remote" or named)):
        return SESSION, f"the session at {invocation.client.url}"
    if target is not None:
        return target, f"{target}, with a JobManager of its own"
    here = LocalCluster.of(configuration)
    # A running session is used even if it refuses to answer, so that the user sees the error.
    if here.announcement is not None and (here.running is not None or invocation.is_answered()):
        url = here.announcement.url
        return SESSION, f"the session at {url}, which runs on this machine (--target local: without it)"
    if master:
        return master, f"{master}, as configured, with a JobManager of its own"
    none = "no session runs" if here.announcement is None else f"the session at {here.announcement.url} has died"
    return "local", f"this machine, with a JobManager of its own ({none}; `flott cluster start` starts one)"
