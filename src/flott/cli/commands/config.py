"""``flott config``: show every option with its value, default, origin and meaning."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flott.cli.command import command
from flott.cli.invocation import Invocation, pass_invocation
from flott.cli.terminal import FittingTable, Terminal, pairs, table
from flott.client.exit_codes import ExitCode
from flott.common import _options as options
from flott.common import _settings as settings
from flott.common._secrets import shown_value
from flott.common.config_options import ConfigOption
from flott.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class OptionRow:
    """An option in the output."""

    key: str
    value: str | None  #: None: not set, and no default
    default: str | None
    origin: settings.Origin | None  #: None: the default
    option: ConfigOption[Any] | None  #: None: one of Spark's, or without effect

    @property
    def meaning(self) -> str:
        if self.option is not None:
            return self.option.description
        return "Spark's own." if self.key.startswith("spark.") else "Has no effect in Flott, which has no such part."

    def document(self) -> dict[str, Any]:
        option = self.option
        return {
            "key": self.key,
            "value": self.value,
            "default": self.default,
            "origin": None if self.origin is None else {"kind": self.origin.kind, "place": self.origin.place},
            "type": None if option is None else option.value_type.name,
            "expected": None if option is None else option.value_type.expected,
            "variable": None if option is None else settings.variable_of(option.key),
            "older-keys": [] if option is None else list(option.fallback_keys),
            "meaning": self.meaning,
        }


@command("config")
@click.argument("words", nargs=-1, metavar="[KEY|WORD]... | check [FILE]")
@click.option("--changed", is_flag=True, help="Only options that are set, in a file or otherwise.")
@pass_invocation
def config(invocation: Invocation, words: tuple[str, ...], changed: bool) -> int:
    """Show options with value, default, origin and meaning.

    Without arguments, show all options. With keys, show these. With words, show those whose key or meaning contains all
    the words.

    \b
    flott config --changed
    flott config rest.port
    flott config checkpoint directory
    flott config check flott.yaml     check a file: exit code 2 if it has errors
    """
    if words[:1] == ("check",):
        return _check(invocation, words[1:])
    chosen = select(rows(invocation.settings), words)
    if words and not chosen:
        nearest = options.suggestion(words[0]) if len(words) == 1 else "."
        raise ConfigurationError(f"No option has {' and '.join(map(repr, words))} in its key or meaning{nearest}")
    chosen = [row for row in chosen if row.origin is not None or not changed]
    if len(chosen) == 1 and words == (chosen[0].key,):
        invocation.terminal.show([chosen[0].document()], _details(chosen[0]))
    else:
        invocation.terminal.show([row.document() for row in chosen], _listing(chosen))
        if not chosen:
            invocation.terminal.note("Nothing is set: every option has its default.")
    return ExitCode.OK


def rows(found: settings.Settings) -> list[OptionRow]:
    """Return every option and all other keys that are set, sorted by key."""
    values = found.configuration.to_dict()
    listed = {option.key: option for option in options.ALL_OPTIONS}
    return [_row(key, listed.get(key), values.get(key), found.origins.get(key)) for key in sorted({*listed, *values})]


def _row(key: str, option: ConfigOption[Any] | None, text: str | None, origin: settings.Origin | None) -> OptionRow:
    default = None if option is None or option.default is None else options.default_text(option)
    return OptionRow(key, default if text is None else shown_value(key, text), default, origin, option)


def select(all_rows: list[OptionRow], words: tuple[str, ...]) -> list[OptionRow]:
    """Return the options with one of these keys, or those whose key or meaning contains all the words."""
    wanted = {option.key if (option := options.option_of(word)) is not None else word for word in words}
    exact = [row for row in all_rows if row.key in wanted]
    if words and len(exact) == len(wanted):
        return exact
    return [row for row in all_rows if all(word.lower() in f"{row.key} {row.meaning}".lower() for word in words)]


def _listing(chosen: list[OptionRow]) -> FittingTable:
    return table(
        ("option", "value", "default", "from", "meaning"),
        [(row.key, row.value, row.default, row.origin or "default", row.meaning) for row in chosen],
    )


def _details(row: OptionRow) -> Table:
    lines: list[tuple[str, object]] = [
        ("option", row.key),
        ("value", row.value),
        ("default", row.default),
        ("from", row.origin or "default"),
        ("meaning", row.meaning),
    ]
    if row.option is not None:
        lines.insert(4, ("variable", settings.variable_of(row.key)))
        lines.insert(5, ("expected", row.option.value_type.expected))
        if row.option.fallback_keys:
            lines.append(("older keys", ", ".join(row.option.fallback_keys)))
    return pairs(lines)


def _check(invocation: Invocation, files: tuple[str, ...]) -> int:
    if len(files) > 1:
        raise click.UsageError(f"`flott config check` takes one file, found {len(files)}.")
    path = Path(files[0]) if files else settings.find_file(os.environ)
    if path is None:
        raise ConfigurationError("There is no flott.yaml, neither here nor in ~/.flott: name the file to check.")
    found = settings.findings(path)
    wrong = sum(finding.wrong for finding in found)
    document = {
        "file": str(path),
        "valid": wrong == 0,
        "findings": [
            {"place": finding.place, "key": finding.key, "message": finding.message, "wrong": finding.wrong}
            for finding in found
        ],
    }
    invocation.terminal.show(document, *(_finding(finding) for finding in found))
    _conclude(invocation.terminal, path, wrong)
    return ExitCode.USAGE if wrong else ExitCode.OK


def _finding(finding: settings.Finding) -> Any:
    from rich.text import Text

    text = finding.message if finding.wrong else f"{finding.key}: {finding.message}"
    return Text(f"{finding.place}: {text}", style="red" if finding.wrong else "yellow")


def _conclude(terminal: Terminal, path: Path, wrong: int) -> None:
    if wrong:
        terminal.note(f"{path}: {wrong} {'entry is' if wrong == 1 else 'entries are'} wrong.", "red")
    else:
        terminal.note(f"{path} is in order.", "green")
