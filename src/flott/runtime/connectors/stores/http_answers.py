"""What the status and the headers of an HTTP answer say about sending a request again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

#: The request may succeed later: the server is overloaded, starting, or behind a proxy that cannot reach it.
PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return the delay that the server asks for, in milliseconds; a date instead of seconds is not used.

    >>> retry_after_ms({"retry-after": "2"})
    2000
    """
    said = headers.get("retry-after", "")
    return int(float(said) * 1000) if said.replace(".", "", 1).isdigit() else None
