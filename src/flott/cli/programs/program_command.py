"""Commands that take a program with its arguments: ``flott run`` and ``flott info``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flott.cli.command import FlottCommand
from flott.cli.invocation import Invocation
from flott.cli.options import set_jobmanager
from flott.cli.programs.program_arguments import Divided, divide, is_address

#: Flags that set an option of Flott.
_KEYS = {
    "parallelism": "parallelism.default",
    "pyfs": "python.files",
    "pyreq": "python.requirements",
    "pyarch": "python.archives",
}
_PROGRAM_SUFFIXES = (".py", ".zip", ".whl", ".egg", ".jar")


class ProgramCommand(FlottCommand):
    """A command that takes its own options up to the program; the rest belongs to the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        divided = self.divide(ctx, args)
        return super().parse_args(ctx, [*divided.own, "--", *divided.rest] if divided.rest else list(divided.own))

    def divide(self, ctx: click.Context, args: list[str]) -> Divided:
        """Return the arguments of the command and those of the program."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        takes_value = {name: not (option.is_flag or option.count) for option in options for name in option.opts}
        return divide(args, takes_value)


def program_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a program and its dependencies; ``program_properties`` reads the flags."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def program_properties(flags: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of Flott that the flags of ``program_options`` set."""
    return {key: str(flags[flag]) for flag, key in _KEYS.items() if flags[flag] is not None}


def named_program(flags: Mapping[str, Any], words: Sequence[str]) -> list[str]:
    """Return the program and its arguments for ``python -m flott.client.program``, or an empty list."""
    module, file = flags["module"] or flags["py_module"], flags["python"]
    if module and file:
        raise click.UsageError("Name a module or a file, not both.")
    if module:
        return ["-m", module, *words]
    named = [file, *words] if file else list(words)
    if named and not Path(named[0]).exists():
        raise click.UsageError(f"There is no program at {named[0]}.")
    return named


def looks_like_program(word: str) -> bool:
    """Return whether a word is a program, existing or not, and not the id or name of a job."""
    return Path(word).exists() or "/" in word or word.endswith(_PROGRAM_SUFFIXES)


def _module_or_address(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is None or not is_address(text):
        return text
    set_jobmanager(context.ensure_object(Invocation), text)
    return None


_OPTIONS = (
    click.option("-p", "--parallelism", type=click.IntRange(1), metavar="N", help="The default parallelism."),
    click.option("-m", "module", metavar="MODULE", callback=_module_or_address,
                 help="The program is a module, as for python -m: what follows is for it. (HOST:PORT: the"
                      " JobManager, as in Flink.)"),
    click.option("-py", "--python", "python", metavar="FILE", help="The program, as in PyFlink."),
    click.option("-pym", "--pyModule", "py_module", metavar="MODULE", help="The module, as in PyFlink."),
    click.option("--pyfs", "-pyfs", "--pyFiles", "pyfs", metavar="FILES",
                 help="Modules, folders and archives that the job imports, separated by commas."),
    click.option("--pyreq", "-pyreq", "--pyRequirements", "pyreq", metavar="FILE[#DIR]",
                 help="A requirements.txt to install for the job; from the packages in DIR, if given."),
    click.option("--pyarch", "-pyarch", "--pyArchives", "pyarch", metavar="FILES",
                 help="Archives to unpack for the job, separated by commas; FILE#NAME sets the folder."),
)  # fmt: skip
