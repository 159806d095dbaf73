"""What commands that order a savepoint have in common: its format, and how its end is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from flott.cli.invocation import Invocation
from flott.client.operations import await_operation

_FORMATS = click.Choice(["CANONICAL", "NATIVE"], case_sensitive=False)


def format_option(help: str = "The savepoint's format.") -> Callable[[Any], Any]:
    """The option ``--type`` of a command, its argument ``format_type``."""
    return click.option("-type", "--type", "format_type", type=_FORMATS, default="CANONICAL", help=help)


def conclude_savepoint(
    invocation: Invocation, job: str, trigger: str, *, done: str = "Savepoint completed. Path: {path}",
    detached: str | None = None,
) -> None:  # fmt: skip
    """Say where the savepoint is once it is taken; ``detached``: a sentence for who does not wait."""
    if detached is not None:
        invocation.terminal.report(f"{detached}, triggerId: {trigger}", {"jid": job, "trigger": trigger})
        return
    path = await_operation(invocation.client, f"/jobs/{job}/savepoints/{trigger}")["location"]
    invocation.terminal.report(done.format(path=path), {"jid": job, "savepoint": path})
