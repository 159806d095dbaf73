"""What becomes of input that is not what its format says. Task side."""

from __future__ import annotations

import logging

from flott.datastream.connectors.base import BadRecord, OnError
from flott.errors import BadRecordError

_log = logging.getLogger(__name__)
_SHOWN = 120


class BadRecords:
    """Fails, or counts and keeps them for the dead letters: one object for each slice."""

    def __init__(self, path: str, on_error: OnError):
        self.count = 0
        self._path = path
        self._on_error = on_error
        self._rejected: list[BadRecord] = []
        self._sample = ""

    def report(self, offset: int, content: bytes, reason: str) -> None:
        """Report that something at this byte cannot be read."""
        place = f"{self._path}, byte {offset}"
        if not self._on_error.keeps_going:
            raise BadRecordError(place, reason, content)
        self.count += 1
        self._rejected.append(BadRecord(place, reason, content))
        self._sample = self._sample or f"{place}: {reason}. Found {shortened(content)}."

    def take(self) -> list[BadRecord] | None:
        """Return what was reported since the last call."""
        if not self._rejected:
            return None
        taken, self._rejected = self._rejected, []
        return taken

    def log(self) -> None:
        """Say what was left out, once for the slice."""
        if self.count:
            _log.warning("Left out %d unreadable records; the first: %s", self.count, self._sample)


def shortened(content: bytes) -> str:
    """Return the beginning of something long, for a message."""
    return repr(content) if len(content) <= _SHOWN else f"{content[:_SHOWN]!r}… ({len(content)} bytes)"
