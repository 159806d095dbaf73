"""Options: key, type, default and meaning of a setting, as frozen values."""

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
    """A setting. ``ConfigOptions`` creates it, ``Configuration.get`` reads it.

    Durations are read as milliseconds and memory sizes as bytes.
    """

    key: str
    value_type: ValueType[Any]
    #: None: the option has no default, and T is optional.
    default: T
    description: str = ""
    #: Older spellings, used in this order if the key itself is not set.
    fallback_keys: tuple[str, ...] = ()
    #: The smallest value of a number, a duration or a size.
    minimum: float | None = None

    def parse(self, text: str) -> T:
        """Return the typed value of a text. Raise ``ConfigurationError`` if it is invalid."""
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
        """Return the key and its older spellings."""
        return (self.key, *self.fallback_keys)

    def with_description(self, description: str) -> ConfigOption[T]:
        return replace(self, description=description)

    def with_fallback_keys(self, *keys: str) -> ConfigOption[T]:
        return replace(self, fallback_keys=keys)

    def at_least(self, minimum: float) -> ConfigOption[T]:
        return replace(self, minimum=minimum)


class ConfigOptions:
    """Creates options.

    >>> ConfigOptions.key("application.parallelism").int_type().default_value(100).default
    100
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start an option."""
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
            """Set the type to durations, read as milliseconds. The default is also in milliseconds."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.DURATION)

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Set the type to memory sizes, read as bytes. The default is also in bytes."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.MEMORY)

        def list_type(self) -> ConfigOptions.TypedConfigOptionBuilder[list[str]]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.LIST)

        def map_type(self) -> ConfigOptions.TypedConfigOptionBuilder[dict[str, str]]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.MAP)

        def enum_type(
            self, allowed: Sequence[str], aliases: dict[str, str] | None = None
        ) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Set the type to one of the allowed words, in any case."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, value_types.choice(allowed, aliases))

    class TypedConfigOptionBuilder(Generic[T]):
        """An option that has a type and no default yet."""

        def __init__(self, key: str, value_type: ValueType[T]):
            self._key = key
            self._value_type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[T | None]:
            return ConfigOption(self._key, self._value_type, None)
