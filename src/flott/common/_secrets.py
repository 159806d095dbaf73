"""Hides secrets in configuration values, in properties of connectors, and in texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

HIDDEN = "******"

#: A key that contains one of these words holds a secret. This is Flink's list, and "credential".
_SECRET_WORDS = (
    "password",
    "secret",
    "token",
    "credential",
    "apikey",
    "api-key",
    "api.key",
    "access-key",
    "access.key",
    "account.key",
    "private-key",
    "service-key",
    "auth-params",
    "authparams",
    "basic-auth",
    "jaas.config",
    "http-headers",
)


#: Secrets inside a value: ``…password=x`` in an address or a map, and the password in a URL.
_WORD = "|".join(map(re.escape, _SECRET_WORDS))
_INSIDE = re.compile(rf"((?:{_WORD})[\w.-]*[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)", re.IGNORECASE)
_LOGIN = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def is_secret(key: str) -> bool:
    """Return whether the value of this key must be hidden."""
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def shown_value(key: str, value: str) -> str:
    """Return a value with secrets hidden."""
    return HIDDEN if is_secret(key) else without_secrets(value)


def without_secrets(text: str, *secrets: str | None) -> str:
    """Return a text, such as the message of a client library, with secrets hidden: these, and what looks like one.

    >>> without_secrets("cannot connect to amqp://guest:guest@broker, password=x", "broker-secret")
    'cannot connect to amqp://guest:******@broker, password=******'
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    return _LOGIN.sub(rf"\g<1>{HIDDEN}", _INSIDE.sub(rf"\g<1>{HIDDEN}", text))


def shown(values: Mapping[str, str]) -> dict[str, str]:
    """Return all values in the order of their keys, with secrets hidden."""
    return {key: shown_value(key, values[key]) for key in sorted(values)}


class Properties(Mapping[str, str]):
    """The properties of a client, such as those of a Kafka consumer. Immutable; its text hides secrets.

    >>> Properties({"sasl.password": "x", "group.id": "orders"}) | {"client.id": "a"}
    Properties({'client.id': 'a', 'group.id': 'orders', 'sasl.password': '******'})
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None):
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __or__(self, other: Mapping[str, str]) -> Properties:
        return Properties({**self._values, **other})

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return Properties, (self._values,)

    def __repr__(self) -> str:
        return f"Properties({shown(self._values)})"

    def secrets(self) -> tuple[str, ...]:
        """Return the values that must not appear in any text, to be passed to :func:`without_secrets`."""
        return tuple(value for key, value in self._values.items() if is_secret(key))
