"""Settings as keys and texts. Driver side. ``_options`` defines the keys."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Set
from typing import Any, TypeVar

from flott.common._value_types import BOOLEAN, FLOAT, INTEGER, LIST, ValueType, to_text
from flott.common.config_options import ConfigOption
from flott.errors import ConfigurationError

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Keys and values. Values are kept as text, as in a configuration file.

    >>> configuration = Configuration.of({"parallelism.default": 4})
    >>> configuration.get_integer("parallelism.default", 1)
    4
    """

    def __init__(self, other: Configuration | None = None):
        self._values: dict[str, str] = {} if other is None else dict(other._values)
        #: Values that are no text, as they were set. Flink's configuration hands these out in ``add_all_to_dict``.
        self._typed: dict[str, Any] = {} if other is None else dict(other._typed)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Configuration:
        """Create a configuration from any mapping. Numbers, booleans, durations and lists are accepted."""
        configuration = cls()
        for key, value in values.items():
            configuration._set(key, value)
        return configuration

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:  # PyFlink's parameter name, which hides a builtin
        """Create a configuration from a mapping: ``of`` under PyFlink's name."""
        return cls.of(map)

    def get(self, option: ConfigOption[T], default: T | None = None) -> T:
        """Return the typed value of an option: its own, that of an older key, ``default``, or the option's default."""
        for key in option.spellings():
            if key in self._values:
                return option.parse(self._values[key])
        return option.default if default is None else default

    def set(self, option: ConfigOption[Any], value: Any) -> Configuration:
        """Set an option. The value is checked immediately."""
        checked = Configuration()._set(option.key, value)
        checked.get(option)
        return self.add_all(checked)

    def _set(self, key: str, value: Any) -> Configuration:
        if not isinstance(key, str):
            raise ConfigurationError(f"A configuration key is a text, found {key!r}.")
        try:
            self._values[key] = to_text(value)
        except ValueError as error:
            raise ConfigurationError(f"Option {key}: {error}. Give a text, a number, a duration or a list.") from None
        self._typed.pop(key, None)
        if isinstance(value, bool | int | float):
            self._typed[key] = value
        return self

    def _get(self, key: str, value_type: ValueType[T], default: T) -> T:
        return self.get(ConfigOption(key, value_type, default))

    def get_string(self, key: str, default_value: str) -> str:
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        return self._set(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        return self._get(key, INTEGER, default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._set(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return self._get(key, BOOLEAN, default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._set(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        return self._get(key, FLOAT, float(default_value))

    def set_float(self, key: str, value: float) -> Configuration:
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        text = self._values.get(key)
        return default_value if text is None else bytearray(base64.b64decode(text))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        self._set(key, base64.b64encode(value).decode("ascii"))
        self._typed[key] = bytearray(value)
        return self

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Parse ``a;b`` and ``[a, b]``."""
        return LIST.parse(value) if value else []

    def key_set(self) -> Set[str]:
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        return key in self._values

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Return whether the option is set, under its key or an older one."""
        return any(key in self._values for key in option.spellings())

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Add all entries of ``other``, each key with ``prefix``."""
        for key, value in other._values.items():
            own = (prefix or "") + key
            self._values[own] = value
            self._typed.pop(own, None)
            if key in other._typed:
                self._typed[own] = other._typed[key]
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Add all entries to a dict. Numbers, booleans and bytes have the type with which they were set."""
        target_dict.update(self._values)
        target_dict.update(self._typed)

    def to_dict(self) -> dict[str, str]:
        """Return all entries as texts."""
        return dict(self._values)

    def remove_config(self, key: str) -> bool:
        """Remove the key, and return whether it was set."""
        self._typed.pop(key, None)
        return self._values.pop(key, None) is not None

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __deepcopy__(self, memodict: dict[int, Any]) -> Configuration:
        return Configuration(self)

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in sorted(self._values.items())) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self})"
