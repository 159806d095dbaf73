"""Hides secrets in configuration values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
    if is_secret(key):
        return HIDDEN
    return _LOGIN.sub(rf"\g<1>{HIDDEN}", _INSIDE.sub(rf"\g<1>{HIDDEN}", value))


def shown(values: Mapping[str, str]) -> dict[str, str]:
    """Return all values in the order of their keys, with secrets hidden."""
    return {key: shown_value(key, values[key]) for key in sorted(values)}
