"""Writes docs/reference/cli.md from the commands themselves: ``make docs``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from flott.cli.command_list import COMMANDS
from flott.cli.options import GlobalOption
from flott.cli.root import flott
from flott.client.exit_codes import ExitCode

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

HEAD = """# The command line

`flott` communicates with the JobManager of a session, or runs a program with its own JobManager. Results go to stdout,
all other output to stderr. With `--json`, before or after the command, stdout is one JSON document (one per line for
continuous commands), and errors are JSON on stderr. A job is identified by its id, a prefix of its id, or its name.
`flott completion bash|zsh|fish` prints a script that completes commands, options and job ids.

`make docs` generates this page.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_list(), *_global_options(), *_exit_codes(), *_commands()]).rstrip() + "\n"


def _list() -> Iterator[str]:
    for section in dict.fromkeys(listed.section for listed in COMMANDS.values()):
        yield f"| {section.lower()} | |"
        yield "| --- | --- |"
        for name, listed in COMMANDS.items():
            if listed.section == section:
                yield f"| [`flott {name}`](#flott-{name}) | {listed.help} |"
        yield ""


def _global_options() -> Iterator[str]:
    yield "## Options of every command\n"
    yield from _table(param for param in flott.params if isinstance(param, GlobalOption))


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | meaning |"
    yield "| --- | --- |"
    for code in ExitCode:
        yield f"| {code.value} | {code.meaning} |"
    yield ""


def _commands() -> Iterator[str]:
    root = click.Context(flott, info_name="flott")
    for name in COMMANDS:
        command = flott.get_command(root, name)
        assert command is not None, f"{name} is listed and not there"
        yield from _command(command, click.Context(command, info_name=name, parent=root), 2)


def _command(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {context.command_path}\n"
    yield f"    {' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n"
    yield _prose(command.help or "")
    yield from _table(param for param in command.params if isinstance(param, click.Option) and not _is_global(param))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context), depth + 1)


def _is_global(param: click.Parameter) -> bool:
    return isinstance(param, GlobalOption)


def _table(options: Iterator[click.Option]) -> Iterator[str]:
    rows = [_row(option) for option in options if not option.hidden]
    if rows:
        yield "| option | meaning |"
        yield "| --- | --- |"
        yield from rows
        yield ""


def _row(option: click.Option) -> str:
    names = sorted([*option.opts, *option.secondary_opts], key=lambda name: (name.startswith("--"), len(name)))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(click.Context(flott))}"
    cells = [*names[:-1], f"{names[-1]}{value}"]
    spelled = ", ".join(f"`{cell}`" for cell in cells).replace("|", "\\|")
    return f"| {spelled} | {option.help or ''} |"


def _prose(text: str) -> str:
    """A docstring: paragraphs as they are, those behind a \\b as examples."""
    parts = []
    for paragraph in text.split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            lines = paragraph.replace("\b", "", 1).strip().splitlines()
            parts.append("\n".join(f"    {line.strip()}" for line in lines))
        else:
            parts.append("\n".join(textwrap.wrap(" ".join(paragraph.split()), 120, break_long_words=False)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
