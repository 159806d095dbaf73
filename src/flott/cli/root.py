"""The command ``flott``, which converts every exception to a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from flott import __version__
from flott.cli.command import RootGroup
from flott.cli.invocation import Invocation
from flott.client.exit_codes import ExitCode, exit_code_of
from flott.errors import FlottError

#: If set, the traceback of an error is printed.
DEBUG_VARIABLE = "FLOTT_DEBUG"


class CommandLine(RootGroup):
    """The program ``flott``."""

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **extra: Any) -> Any:
        """Run a command line and end the process with its exit code."""
        invocation = extra.setdefault("obj", Invocation())
        extra["standalone_mode"] = False  # errors are handled here, not by click
        run = super().main
        sys.exit(_exit_code(invocation, lambda: run(args, *arguments, **extra)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Click would handle a closed pipe itself, with the exit code of any failure."""
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
            return outcome
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # prevents an error message of the interpreter when it ends
            return ExitCode.PIPE_CLOSED


def _exit_code(invocation: Invocation, run: Callable[[], Any]) -> int:
    try:
        outcome = run()
        return outcome if isinstance(outcome, int) else ExitCode.OK
    except (click.Abort, KeyboardInterrupt):
        if invocation.terminal.json:
            return _report_error(invocation, ExitCode.INTERRUPTED, "Interrupted", "Interrupted.")
        invocation.terminal.note("Interrupted.")
        return ExitCode.INTERRUPTED
    except click.ClickException as error:
        if invocation.terminal.json:
            return _report_error(invocation, error.exit_code, "UsageError", error.format_message())
        with suppress(BrokenPipeError):
            error.show()
        return error.exit_code
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        return _report_error(invocation, exit_code_of(error), type(error).__name__, _message(error))


def _report_error(invocation: Invocation, code: int, kind: str, message: str) -> int:
    """Write an error message, unless stderr is closed."""
    with suppress(BrokenPipeError):
        invocation.terminal.error(message, kind, code)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, FlottError | OSError):  # for example a full disk or a missing folder: no internal error
        return str(error)
    return (
        f"{type(error).__name__}: {error}\nThis should not have happened. Set {DEBUG_VARIABLE}=1 to see where, and"
        " report it."
    )


@click.command(
    cls=CommandLine, name="flott", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.version_option(__version__, prog_name="flott", message="%(prog)s %(version)s")
def flott() -> None:
    """Flott: Apache Flink's programming model on Apache Spark.

    Start a session with `flott cluster start`, submit programs with `flott run program.py`, list jobs with `flott
    list`. `flott COMMAND --help` explains a command; options are also read from flott.yaml and the environment.
    """
