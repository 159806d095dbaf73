"""``flott savepoint``: take, dispose of and export savepoints, also with the syntax of Flink's client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import click

from flott.cli.command import FlottGroup
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.jobs import RUNNING_JOB, job_id
from flott.client.operations import TriggeredOperation, await_operation, trigger
from flott.common._savepoint_format import SavepointFormatType
from flott.errors import UnreachableError
from flott.runtime.orders import TakeSavepoint

_DISPOSE = ("-d", "--dispose")
_FORMATS = click.Choice(["CANONICAL", "NATIVE"], case_sensitive=False)


def format_option(help: str = "The savepoint's format.") -> Callable[[Any], Any]:
    """Return the option ``--type``, whose parameter is ``format_type``."""
    return click.option("-type", "--type", "format_type", type=_FORMATS, default="CANONICAL", help=help)


def conclude_savepoint(
    invocation: Invocation, job: str, operation: TriggeredOperation, *, done: str = "Savepoint completed. Path: {path}",
    detached: str | None = None,
) -> None:  # fmt: skip
    """Report the path of the savepoint when it is complete. ``detached``: the message without waiting."""
    if detached is not None:
        ident = operation.ident
        invocation.terminal.report(f"{detached}, triggerId: {ident}", {"jid": job, "trigger": ident})
        return
    path = await_operation(invocation.client, operation.status_path)["location"]
    invocation.terminal.report(done.format(path=path), {"jid": job, "savepoint": path})


class SavepointGroup(FlottGroup):
    """Also accepts ``savepoint JOB [DIR]`` and ``savepoint --dispose PATH``, as Flink's client does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, own_spelling(args, self.commands))


def own_spelling(args: list[str], commands: Collection[str]) -> list[str]:
    """Convert Flink's arguments to those of the group's commands. Pure."""
    if not args or any(arg in commands or arg in ("-h", "--help") for arg in args):
        return args
    if any(arg in _DISPOSE for arg in args):
        return ["dispose", *(arg for arg in args if arg not in _DISPOSE)]
    return ["create", *args]


@click.group("savepoint", cls=SavepointGroup)
def savepoint() -> None:
    """Take, dispose of and export savepoints.

    \b
    flott savepoint JOB [DIR]           as flott savepoint create
    flott savepoint --dispose PATH      as flott savepoint dispose
    """


@savepoint.command("create")
@click.argument("job", type=RUNNING_JOB)
@click.argument("directory", required=False)
@format_option("CANONICAL is self-contained; NATIVE is quick and refers to the job's own files.")
@click.option("-detached", "--detached", is_flag=True, help="Do not wait until it is done.")
@pass_invocation
def create(invocation: Invocation, job: str, directory: str | None, format_type: str, detached: bool) -> None:
    """Take a savepoint of JOB, which continues to run.

    The savepoint is written below DIR (default: execution.checkpointing.savepoint-dir).
    """
    ident, client, terminal = job_id(invocation, job), invocation.client, invocation.terminal
    terminal.note(f"Triggering savepoint for job {ident}.")
    order = TakeSavepoint(directory, SavepointFormatType[format_type.upper()])
    message = "Successfully trigger manual savepoint" if detached else None
    conclude_savepoint(invocation, ident, trigger(client, ident, order), detached=message)
    if not detached:
        terminal.note("You can resume your program from this savepoint with flott run -s PATH.")


@savepoint.command("dispose")
@click.argument("path")
@pass_invocation
def dispose(invocation: Invocation, path: str) -> None:
    """Delete the savepoint at PATH with all files that only it needs; by the JobManager, if there is one."""
    terminal = invocation.terminal
    terminal.note(f"Disposing savepoint '{path}'.")
    try:
        ident = invocation.client.post("/savepoint-disposal", json={"savepoint-path": path})["request-id"]
        await_operation(invocation.client, f"/savepoint-disposal/{ident}")
    except UnreachableError:
        from flott.runtime.storage import initialize_object_stores
        from flott.state import dispose_savepoint

        initialize_object_stores(invocation.configuration)
        terminal.note("No JobManager answers: this command deletes it.")
        dispose_savepoint(path)
    terminal.report(f"Savepoint '{path}' disposed.", {"savepoint": path})


@savepoint.command("export")
@click.argument("path")
@click.argument("directory")
@pass_invocation
def export(invocation: Invocation, path: str, directory: str) -> None:
    """Copy the savepoint or retained checkpoint at PATH into a new folder below DIRECTORY.

    The copy is self-contained and can be moved. It needs no JobManager.
    """
    from flott.runtime.storage import initialize_object_stores
    from flott.state import export_savepoint

    initialize_object_stores(invocation.configuration)
    copied = export_savepoint(path, directory)
    invocation.terminal.report(f"Savepoint exported. Path: {copied}", {"savepoint": copied})
