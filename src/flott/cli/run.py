"""``flott run``: run a program, handing its jobs to a session, or with a JobManager and Spark of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flott.cli.application import run_application, start_application
from flott.cli.command import FlottCommand
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.options import set_jobmanager
from flott.cli.program_arguments import divide, is_address
from flott.cli.session import run_on_session
from flott.runtime.cluster.announcement import announcement_in
from flott.runtime.cluster.folders import folder_of

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # click before 8.4 has no type parameter

#: The value of --target for a cluster that runs already.
SESSION = "session"
_MASTER = re.compile(r"local|local\[.+\]|local-cluster\[.+\]|yarn|(spark|k8s)://.+")
#: Any of these set: the session was configured, and is meant even if it does not answer.
_NAME_A_SESSION = ("rest.address", "rest.port", "high-availability.type", "high-availability.cluster-id")


class RunCommand(FlottCommand):
    """Takes its own options up to the program; the rest are the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        takes_value = {name: not (option.is_flag or option.count) for option in options for name in option.opts}
        divided = divide(args, takes_value)
        return super().parse_args(ctx, [*divided.own, "--", *divided.rest] if divided.rest else list(divided.own))


class Target(_TextType):
    """Where a program runs: the session, or a master of Spark's."""

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


@click.command("run", cls=RunCommand)
@click.argument("program", nargs=-1, type=click.Path(), metavar="PROGRAM [ARGUMENT]...")
@click.option("-t", "--target", type=Target(), metavar="TARGET",
              help="session, or a JobManager and Spark for this program alone: local, local[N],"
                   " local-cluster[W,C,MB], spark://HOST:PORT, yarn, k8s://URL. Default: the session if there is"
                   " one, else local.")  # fmt: skip
@click.option("-d", "--detached", is_flag=True, help="Do not wait for the job.")
@click.option("-p", "--parallelism", type=click.IntRange(1), metavar="N", help="The default parallelism.")
@click.option("-s", "--from-savepoint", "--fromSavepoint", "savepoint", metavar="PATH",
              help="Start from this savepoint or checkpoint.")  # fmt: skip
@click.option("--allow-non-restored-state", "--allowNonRestoredState", "allow_non_restored", is_flag=True,
              help="Leave state behind that no operator of the program claims.")  # fmt: skip
@click.option("--claim-mode", "--claimMode", "claim_mode", type=click.Choice(["NO_CLAIM", "CLAIM"], False),
              help="Whether the job takes over the files it starts from.")  # fmt: skip
@click.option("-n", "--name", metavar="NAME", help="The name of the job.")
@click.option("-m", "module_or_address", metavar="MODULE",
              help="Run a module, as python -m does: what follows is for it. (HOST:PORT: the JobManager,"
                   " as in Flink.)")  # fmt: skip
@click.option("-py", "--python", "python", metavar="FILE", help="The program, as PyFlink names it.")
@click.option("-pym", "--pyModule", "py_module", metavar="MODULE", help="The module to run, as PyFlink names it.")
@click.option("--pyfs", "-pyfs", "--pyFiles", "pyfs", metavar="FILES",
              help="Modules, folders and archives that the job imports, separated by commas.")  # fmt: skip
@click.option("--pyreq", "-pyreq", "--pyRequirements", "pyreq", metavar="FILE[#DIR]",
              help="A requirements.txt to install for the job; from the packages in DIR, if given.")  # fmt: skip
@click.option("--pyarch", "-pyarch", "--pyArchives", "pyarch", metavar="FILES",
              help="Archives to unpack for the job, separated by commas; FILE#NAME names the folder.")  # fmt: skip
@pass_invocation
def run(
    invocation: Invocation, /, program: tuple[str, ...], target: str | None, detached: bool,
    module_or_address: str | None, python: str | None, py_module: str | None, **flags: Any,
) -> int:  # fmt: skip
    """Run a program: a .py file, a folder or archive with a __main__.py, or a module.

    On a session the program runs here and hands its jobs over; with another target it gets a JobManager and a Spark
    application of its own, which end with it. Progress goes to stderr; Ctrl-C asks what is to become of the job.

    \b
    flott run word_count.py --input words.txt
    flott run -d -p 4 -m shop.orders
    flott run --target local[4] -s /savepoints/savepoint-1a2b word_count.py
    """
    if module_or_address is not None and is_address(module_or_address):
        set_jobmanager(invocation, module_or_address)
        module_or_address = None
    command = _command(module_or_address or py_module, python, program)
    invocation.properties |= _properties(flags)
    where, reason = _place(invocation, target)
    invocation.terminal.note(f"Running on {reason}.")
    if where == SESSION:
        return run_on_session(invocation, command, detached)
    master = "local[*]" if where == "local" else where
    return start_application(invocation, command, master) if detached else run_application(invocation, command, master)


# ------------------------------------------------------------------------------------------------- what, and where to


def _command(module: str | None, file: str | None, words: Sequence[str]) -> list[str]:
    """The program and its arguments, as ``python -m flott.client.program`` takes them."""
    if module and file:
        raise click.UsageError("Name a module or a file, not both.")
    if module:
        return ["-m", module, *words]
    named = [file, *words] if file else list(words)
    if not named:
        raise click.UsageError("Name the program to run: a .py file, a folder, an archive, or -m MODULE.")
    if not Path(named[0]).exists():
        raise click.UsageError(f"There is no program at {named[0]}.")
    return named


def _properties(flags: Mapping[str, Any]) -> dict[str, str]:
    """Options given by flags of their own."""
    keys = {
        "parallelism": "parallelism.default",
        "savepoint": "execution.state-recovery.path",
        "claim_mode": "execution.state-recovery.claim-mode",
        "name": "pipeline.name",
        "pyfs": "python.files",
        "pyreq": "python.requirements",
        "pyarch": "python.archives",
    }
    found = {keys[flag]: str(value) for flag, value in flags.items() if flag in keys and value is not None}
    if flags["allow_non_restored"]:
        found["execution.state-recovery.ignore-unclaimed-state"] = "true"
    return found


def _place(invocation: Invocation, target: str | None) -> tuple[str, str]:
    """The session or a master of Spark's, and in words which one and why."""
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
    announced = announcement_in(folder_of(configuration))
    if announced is not None and invocation.is_answered():
        return SESSION, f"the session at {announced.url}, which runs on this machine (--target local: without it)"
    if master:
        return master, f"{master}, as configured, with a JobManager of its own"
    return "local", "this machine, with a JobManager of its own (no session runs; `flott cluster start` starts one)"
