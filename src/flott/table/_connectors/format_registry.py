"""All formats by name."""

from __future__ import annotations

from collections.abc import Mapping

from flott.errors import ProgramError
from flott.table._connectors import formats, message_formats
from flott.table._connectors.formats import FormatFactory
from flott.table._sql.errors import nearest

FORMATS: dict[str, FormatFactory] = {
    factory.name: factory for factory in (*formats.FACTORIES, *message_formats.FACTORIES)
}


def format_factory(table: str, name: str, option: str, files: bool) -> FormatFactory:
    """Return the format of a name; ``option`` is where the name stands."""
    factory = FORMATS.get(name)
    known = [each.name for each in FORMATS.values() if (each.files if files else each.messages)]
    if factory is None:
        raise ProgramError(
            f"Table {table}: the option '{option}' names no format that is known, found '{name}'.{nearest(name, known)}"
            f" Formats are {', '.join(sorted(known))}."
        )
    if factory.name not in known:
        raise ProgramError(f"Table {table}: '{name}' is {'no format of files' if files else 'a format of files only'}.")
    return factory


def format_keys(options: Mapping[str, str], option: str) -> list[str]:
    """Return the keys that the format in an option such as 'value.format' knows, with its prefix."""
    name = options.get(option)
    factory = FORMATS.get(name or "")
    if factory is None:
        return [option]
    prefix = option.removesuffix("format") + factory.name
    return [option, *(f"{prefix}.{each.key}" for each in factory.options)]
