"""Commands and groups of click with the global options, and a help text that lists these separately."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from flott.cli.command_list import COMMANDS
from flott.cli.invocation import Invocation
from flott.cli.options import GlobalOption, global_options


class FlottCommand(click.Command):
    """A command with the global options. Its return value is the exit code; None means 0."""

    def __init__(self, *arguments: Any, **attributes: Any):
        super().__init__(*arguments, **attributes)
        self.params.extend(global_options({name for param in self.params for name in param.opts}))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with _usage_errors_as_json(ctx, args):
            return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                (shared if isinstance(param, GlobalOption) else own).append(record)
        for title, records in (("Options", own), ("Options of every command", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class FlottGroup(FlottCommand, click.Group):
    """A group of commands, all of them in the module of the group."""

    command_class = FlottCommand
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            with _usage_errors_as_json(ctx, args):
                return super().resolve_command(ctx, args)
        except click.UsageError as error:
            nearest = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not nearest:
                raise
            raise click.UsageError(f"{error.message} Did you mean {nearest[0]!r}?", error.ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class RootGroup(FlottGroup):
    """The commands of the table ``COMMANDS``. A module is imported when its command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = entry.place.partition(":")
        command: click.Command = getattr(import_module(f"flott.cli.commands.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list for ``--help`` from the table. Importing all commands would take a second."""
        for title in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            rows = [(name, entry.help) for name, entry in COMMANDS.items() if entry.section == title]
            with formatter.section(title):
                formatter.write_dl(rows)


def command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], FlottCommand]:
    """Make a function a command. Its docstring is the help text, and ``COMMANDS`` must list it."""
    return click.command(name, cls=FlottCommand, **attributes)


def group(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], FlottGroup]:
    """Make a function a group. ``@that_group.command("name")`` adds commands to it."""
    return click.group(name, cls=FlottGroup, **attributes)


@contextmanager
def _usage_errors_as_json(ctx: click.Context, args: Sequence[str]) -> Iterator[None]:
    """Report usage errors as JSON if the command line contains ``--json``, also after the error."""
    before = tuple(args)
    try:
        yield
    except click.UsageError:
        if "--json" in before[: before.index("--") if "--" in before else None]:
            ctx.ensure_object(Invocation).terminal.json = True
        raise
