"""Where the options of ``flott run`` and ``flott info`` end and those of the program begin. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Options that name the program, so that whatever is not ours after them is for it.
_NAME_THE_PROGRAM = ("-py", "--python", "-pym", "--pyModule")


@dataclass(frozen=True)
class Divided:
    """A command line, divided."""

    own: tuple[str, ...]
    rest: tuple[str, ...]  #: the program and its arguments, or its arguments alone if it was named before


def divide(arguments: Sequence[str], takes_value: Mapping[str, bool]) -> Divided:
    """Divide at the program, at ``--``, behind ``-m MODULE``, or at what is not ours once the program is named.

    ``takes_value``: our options, and whether a value stands behind each.
    """
    index, named = 0, False
    while index < len(arguments):
        argument = arguments[index]
        if argument == "--":
            return Divided(tuple(arguments[:index]), tuple(arguments[index + 1 :]))
        length = _length(argument, takes_value)
        if length == 0:
            if argument.startswith("-") and not named:
                break  # an option nobody knows: the whole line is ours, and refused
            return Divided(tuple(arguments[:index]), tuple(arguments[index:]))
        named = named or argument.partition("=")[0] in _NAME_THE_PROGRAM
        index += length
        if argument == "-m" and index <= len(arguments) and not is_address(arguments[index - 1]):
            return Divided(tuple(arguments[:index]), tuple(arguments[index:]))
    return Divided(tuple(arguments), ())


def names_program(own: Sequence[str]) -> bool:
    """Whether options of ours name the program, so that all that is left are its arguments."""
    is_module = len(own) > 1 and own[-2] == "-m" and not is_address(own[-1])
    return is_module or any(word.partition("=")[0] in _NAME_THE_PROGRAM for word in own)


def is_address(text: str) -> bool:
    """Whether ``-m`` means a JobManager, as in Flink, and not a module, as in Python: no module has a colon."""
    return ":" in text


def _length(argument: str, takes_value: Mapping[str, bool]) -> int:
    """How many words an option of ours takes up; 0: it is none."""
    if argument in takes_value:
        return 2 if takes_value[argument] else 1
    if argument.startswith("-") and takes_value.get(argument.partition("=")[0]):
        return 1
    if not argument.startswith("--") and len(argument) > 2 and takes_value.get(argument[:2]):
        return 1  # a value without a space: -p4, -Dkey=value
    return 0
