"""Configuration as it may be shown: values that are secrets are hidden. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "******"

#: A key that contains one of these holds a secret. Flink's list, and "credential".
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


#: Secrets inside a value: ``…password=x`` in an address or a map, and what stands between the name and the host.
_WORD = "|".join(map(re.escape, _SECRET_WORDS))
_INSIDE = re.compile(rf"((?:{_WORD})[\w.-]*[\"']?\s*[:=]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"']+)", re.IGNORECASE)
_LOGIN = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def is_secret(key: str) -> bool:
    """Whether the value of this key must not be shown."""
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def shown_value(key: str, value: str) -> str:
    """A value as it may be shown."""
    if is_secret(key):
        return HIDDEN
    return _LOGIN.sub(rf"\g<1>{HIDDEN}", _INSIDE.sub(rf"\g<1>{HIDDEN}", value))


def shown(values: Mapping[str, str]) -> dict[str, str]:
    """All values, in the order of their keys, the secret ones hidden."""
    return {key: shown_value(key, values[key]) for key in sorted(values)}
