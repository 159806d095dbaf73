"""The interface of reporters, and a reporter that works at an interval. JobManager side."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

log = logging.getLogger("flott.reporters")

#: How long the last report may take. The end of the JobManager and its jobs waits for it.
_PATIENCE_SECONDS = 3.0


class Reporter(ABC):
    """Sends metrics or traces of jobs. Its methods do not raise because of failures of the receiver."""

    name: str  #: as the configuration calls it

    @abstractmethod
    def start(self) -> None:
        """Start reporting."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and send what was not sent yet."""


class PeriodicReporter(Reporter):
    """Reports in a thread of its own, at an interval and at the end."""

    def __init__(self, name: str, interval_ms: int):
        self.name = name
        self._interval_s = interval_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flott-reporter-{name}", daemon=True)
        self._failing = False

    @abstractmethod
    def report(self) -> None:
        """Report once. Exceptions are logged."""

    def release(self) -> None:  # not abstract: most have nothing to release
        """Release resources after the last report."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            if self._thread.is_alive():
                self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self.try_report()
        self.try_report()
        try:
            self.release()
        except Exception as error:
            log.warning("The reporter %s did not end well: %s: %s", self.name, type(error).__name__, error)

    def try_report(self) -> None:
        """Report once, and log a failure. Of consecutive failures only the first is a warning."""
        try:
            self.report()
            self._failing = False
        except Exception as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            self._failing = True
            log.log(level, "The reporter %s could not report: %s: %s", self.name, type(error).__name__, error)
