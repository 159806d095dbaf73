"""What becomes of input that is not what its format says. Task side."""

from __future__ import annotations

import logging

from flott.datastream.connectors.file_system._formats import OnError
from flott.errors import TypeMismatchError

_log = logging.getLogger(__name__)
_SHOWN = 120


class BadRecords:
    """Fails, or counts and keeps a sample: one object for each slice."""

    def __init__(self, path: str, on_error: OnError):
        self.count = 0
        self._path = path
        self._on_error = on_error
        self._sample = ""

    def report(self, offset: int, content: bytes, reason: str) -> None:
        """Report that something at this byte cannot be read."""
        message = f"{self._path}, byte {offset}: {reason}. Found {shortened(content)}."
        if self._on_error == "fail":
            raise TypeMismatchError(message + " Repair the file or name the right format.")
        self.count += 1
        self._sample = self._sample or message

    def log(self) -> None:
        """Say what was left out, once for the slice."""
        if self.count:
            _log.warning("Left out %d unreadable records; the first: %s", self.count, self._sample)


def shortened(content: bytes) -> str:
    """Return the beginning of something long, for a message."""
    return repr(content) if len(content) <= _SHOWN else f"{content[:_SHOWN]!r}… ({len(content)} bytes)"
