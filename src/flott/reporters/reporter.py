"""What a reporter is, and one that does something again and again. JobManager side."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

log = logging.getLogger("flott.reporters")

#: How long a last report may take: the end of a JobManager, and of its jobs, waits for it.
_PATIENCE_SECONDS = 3.0


class Reporter(ABC):
    """Tells somebody outside about the jobs. Neither method raises because of what is outside."""

    name: str  #: as the configuration calls it

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def stop(self) -> None:
        """End, and send what is left."""


class PeriodicReporter(Reporter):
    """Reports in a thread of its own, every so often and at the end."""

    def __init__(self, name: str, interval_ms: int):
        self.name = name
        self._interval_s = interval_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flott-reporter-{name}", daemon=True)
        self._failing = False

    @abstractmethod
    def report(self) -> None:
        """Report once. What it raises is logged."""

    def release(self) -> None:  # nothing to release is a fine answer
        """Called at the end, after the last report."""

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
        """Report once, whatever comes of it. Of failures in a row the first is told, the others are not news."""
        try:
            self.report()
            self._failing = False
        except Exception as error:
            level = logging.DEBUG if self._failing else logging.WARNING
            self._failing = True
            log.log(level, "The reporter %s could not report: %s: %s", self.name, type(error).__name__, error)
