"""The options of a table: what a connector and its formats know, checked before anything is made.

An unknown option is refused with the nearest known one, a missing one is named. No value of an option is shown that may
be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from flott.common.config_options import ConfigOption, ConfigOptions
from flott.errors import ConfigurationError, ProgramError
from flott.table._sql.errors import nearest

T = TypeVar("T")

#: Parts of a key that say that its value is not to be shown.
_SECRET = ("password", "secret", "token", "credential", "jaas", "apikey", "api-key", "private")

CONNECTOR = ConfigOptions.key("connector").string_type().no_default_value().with_description("The connector's name.")


def key(name: str) -> ConfigOptions.OptionBuilder:
    """Start an option."""
    return ConfigOptions.key(name)


def described(options: Iterable[ConfigOption[Any]]) -> dict[str, str]:
    """Return options as a connector lists them: a line about each, by key."""
    return {option.key: option.description for option in options}


def is_secret(option: str) -> bool:
    """Return whether the value of an option is not to be shown."""
    lowered = option.lower()
    return any(part in lowered for part in _SECRET)


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options with secrets replaced, for messages and SHOW CREATE TABLE."""
    return {name: "****" if is_secret(name) else value for name, value in options.items()}


class TableOptions:
    """The options of one table, read by their types. ``prefix`` is that of a format, such as ``json.``."""

    def __init__(self, table: str, options: Mapping[str, str], prefix: str = ""):
        self.table = table
        self.options = options
        self.prefix = prefix

    def under(self, prefix: str) -> TableOptions:
        """Return the options whose keys begin with a prefix."""
        return TableOptions(self.table, self.options, prefix)

    def text_of(self, option: ConfigOption[Any]) -> str | None:
        """Return the text of an option, if it is set."""
        for spelling in option.spellings():
            if (found := self.options.get(self.prefix + spelling)) is not None:
                return found
        return None

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option, or its default."""
        text = self.text_of(option)
        if text is None:
            return option.default
        try:
            return option.parse(text)
        except ConfigurationError:
            found = "a value that is not shown" if is_secret(option.key) else repr(text)
            least = "" if option.minimum is None else f" of at least {option.minimum:g}"
            raise ProgramError(
                f"Table {self.table}: the option '{self.prefix}{option.key}' is {option.value_type.expected}{least},"
                f" found {found}."
            ) from None

    def required(self, option: ConfigOption[T | None]) -> T:
        """Return the value of an option that must be set."""
        value = self.get(option)
        if value is None:
            raise missing_option(self.table, self.prefix + option.key, option.description)
        return value

    def chosen(self, option: ConfigOption[Any], choices: Sequence[str]) -> str:
        """Return the value of an option that is one of some words, in their spelling here."""
        found: Any = self.get(option)
        for choice in choices:
            if str(found).lower() == choice.lower():
                return choice
        raise ProgramError(
            f"Table {self.table}: the option '{self.prefix}{option.key}' is one of {', '.join(choices)}, found"
            f" {found!r}.{nearest(str(found), choices)}"
        )

    def character(self, option: ConfigOption[T]) -> str | None:
        r"""Return the value of an option that is one character; ``\t`` and ``\u0001`` are understood."""
        text = self.get(option)
        if text is None:
            return None
        found = str(text)
        if found.startswith("\\") and len(found) > 1:
            found = found.encode("latin-1", "backslashreplace").decode("unicode_escape")
        if len(found) != 1:
            raise ProgramError(
                f"Table {self.table}: the option '{self.prefix}{option.key}' is one character, found {text!r}."
            )
        return found


def missing_option(table: str, option: str, description: str) -> ProgramError:
    """Return the error for an option that must be set."""
    return ProgramError(f"Table {table} needs the option '{option}', which is not set. {description}")


def check_options(table: str, options: Mapping[str, str], known: Iterable[str], what: str) -> None:
    """Refuse options that neither the connector nor a format knows."""
    names = list(known)
    exact = {name for name in names if not name.endswith("*")}
    patterns = [name.split("*")[0] for name in names if name.endswith(".*") or "#" in name]
    patterns += [name.split("#")[0] for name in names if "#" in name]
    for option in options:
        if option in exact or any(option.startswith(pattern) and option != pattern for pattern in patterns):
            continue
        raise ProgramError(
            f"Table {table}: {what} has no option '{option}'.{nearest(option, exact)}"
            f" It knows {', '.join(sorted(names))}."
        )
