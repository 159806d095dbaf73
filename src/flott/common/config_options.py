"""Options: the key, the kind of value, the default and the meaning of a setting, as frozen values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from flott.common import _value_types as value_types
from flott.common._value_types import ValueType
from flott.errors import ConfigurationError

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A setting. Built by ``ConfigOptions``; read by ``Configuration.get``.

    Durations are read as milliseconds and sizes of memory as bytes.
    """

    key: str
    value_type: ValueType[Any]
    #: None: the option has no default, and T says so.
    default: T
    description: str = ""
    #: Older spellings, used in this order when the key itself is not set.
    fallback_keys: tuple[str, ...] = ()
    #: The smallest value a number, a duration or a size may have.
    minimum: float | None = None

    def parse(self, text: str) -> T:
        """The typed value of a text; raises ``ConfigurationError`` with what was found and what is expected."""
        try:
            value: T = self.value_type.parse(text)
        except ValueError:
            raise ConfigurationError(
                f"Option {self.key}: found {text!r}, expected {self.value_type.expected}."
            ) from None
        if self.minimum is not None and isinstance(value, (int, float)) and not value >= self.minimum:
            raise ConfigurationError(
                f"Option {self.key}: found {text!r}, expected {self.value_type.expected} of at least {self.minimum:g}."
            )
        return value

    def spellings(self) -> tuple[str, ...]:
        """The key and its older spellings."""
        return (self.key, *self.fallback_keys)

    def with_description(self, description: str) -> ConfigOption[T]:
        return replace(self, description=description)

    def with_fallback_keys(self, *keys: str) -> ConfigOption[T]:
        return replace(self, fallback_keys=keys)

    def at_least(self, minimum: float) -> ConfigOption[T]:
        return replace(self, minimum=minimum)


class ConfigOptions:
    """Builds options.

    >>> ConfigOptions.key("application.parallelism").int_type().default_value(100).default
    100
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Starts an option."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option that has a key and no type yet."""

        def __init__(self, key: str):
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.BOOLEAN)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.INTEGER)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.INTEGER)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.FLOAT)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.FLOAT)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.STRING)

        def duration_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Read as milliseconds; the default is given in milliseconds too."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.DURATION)

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Read as bytes; the default is given in bytes too."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.MEMORY)

        def list_type(self) -> ConfigOptions.TypedConfigOptionBuilder[list[str]]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.LIST)

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder[dict[str, str]]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.MAP)

        def enum_type(
            self, allowed: Sequence[str], aliases: dict[str, str] | None = None
        ) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """One of the allowed words, in any case."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.choice(allowed, aliases))

    class TypedConfigOptionBuilder(Generic[T]):
        """An option that lacks nothing but its default."""

        def __init__(self, key: str, value_type: ValueType[T]):
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T | None]:
            return ConfigOption(self._key, self._value_type, None)
