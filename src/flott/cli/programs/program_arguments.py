"""Separates the options of ``flott run`` and ``flott info`` from those of the program. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Options that name the program. After them, the first unknown argument belongs to the program.
_NAME_THE_PROGRAM = ("-py", "--python", "-pym", "--pyModule")


@dataclass(frozen=True)
class Divided:
    """A divided command line."""

    own: tuple[str, ...]
    rest: tuple[str, ...]  #: the program and its arguments, or only the arguments if an option names the program


def divide(arguments: Sequence[str], takes_value: Mapping[str, bool]) -> Divided:
    """Divide a command line into the options of Flott and the program with its arguments.

    The program part starts at the program, after ``--``, after ``-m MODULE``, or at the first argument that is not an
    option of Flott once the program is named. ``takes_value``: Flott's options, and whether each has a value.
    """
    index, named = 0, False
    while index < len(arguments):
        argument = arguments[index]
        if argument == "--":
            return Divided(tuple(arguments[:index]), tuple(arguments[index + 1 :]))
        length = _length(argument, takes_value)
        if length == 0:
            if argument.startswith("-") and not named:
                break  # an unknown option: click will refuse the whole line
            return Divided(tuple(arguments[:index]), tuple(arguments[index:]))
        named = named or argument.partition("=")[0] in _NAME_THE_PROGRAM
        index += length
        if argument == "-m" and index <= len(arguments) and not is_address(arguments[index - 1]):
            return Divided(tuple(arguments[:index]), tuple(arguments[index:]))
    return Divided(tuple(arguments), ())


def names_program(own: Sequence[str]) -> bool:
    """Return whether Flott's options name the program, so that the rest are its arguments."""
    is_module = len(own) > 1 and own[-2] == "-m" and not is_address(own[-1])
    return is_module or any(word.partition("=")[0] in _NAME_THE_PROGRAM for word in own)


def is_address(text: str) -> bool:
    """Return whether ``-m`` has an address, as in Flink, and not a module, as in Python. No module name has a colon."""
    return ":" in text


def _length(argument: str, takes_value: Mapping[str, bool]) -> int:
    """Return how many arguments an option of Flott takes, and 0 if it is not one."""
    if argument in takes_value:
        return 2 if takes_value[argument] else 1
    if argument.startswith("-") and takes_value.get(argument.partition("=")[0]):
        return 1
    if not argument.startswith("--") and len(argument) > 2 and takes_value.get(argument[:2]):
        return 1  # a value without a space: -p4, -Dkey=value
    return 0
