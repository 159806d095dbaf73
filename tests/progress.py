"""Tells how far a run of the tests has come: ``pytest --progress``, which the recipes of the Makefile use.

     37%   4:05  3120 of 8411 passed; running: tests/unit/server/test_failover.py::test_a_standby_takes_over (12 s)

Such a line comes every fifteen seconds, also while one test takes long, and after every test that took longer than
five. It needs no terminal. A failure is told at once. At the end the files that took longest are listed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

#: A line comes at least this often, in seconds.
INTERVAL = 15.0
#: A test that took longer has a line of its own, in seconds.
LONG = 5.0


class Progress:
    """Prints lines in place of dots."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self._began = time.monotonic()
        self._told = self._began
        self._total = 0
        self._outcomes: Counter[str] = Counter()
        self._running: dict[str, float] = {}
        self._seconds: Counter[str] = Counter()  # by test
        self._lock = threading.Lock()
        self._ended = threading.Event()

    # --- what pytest tells -------------------------------------------------------------------------------------------

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = self._total or len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._total = len(ids)

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._tell_regularly, name="progress", daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        with self._lock:
            self._running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        with self._lock:
            self._seconds[report.nodeid] += report.duration
            if report.when == "call" or report.outcome != "passed":
                self._outcomes[report.outcome] += 1
        if report.outcome == "failed":
            self._tell(f"FAILED {report.nodeid} ({report.when})")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        with self._lock:
            self._running.pop(nodeid, None)
        if (seconds := self._seconds[nodeid]) >= LONG:
            self._tell(f"{nodeid} ({seconds:.1f} s)")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Show no dots: only passed tests are concerned, the rest keeps its letter for the summary."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            return "passed", "", ""
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        files: Counter[str] = Counter()
        for nodeid, seconds in self._seconds.items():
            files[nodeid.partition("::")[0]] += seconds  # type: ignore[assignment]
        terminalreporter.section("files that took longest")
        for file, seconds in files.most_common(10):
            terminalreporter.write_line(f"{seconds:8.1f} s  {file}")

    # --- what it tells -----------------------------------------------------------------------------------------------

    def _tell_regularly(self) -> None:
        while not self._ended.wait(1.0):
            if time.monotonic() - self._told >= INTERVAL:
                with self._lock:
                    now = time.monotonic()
                    running = [f"{nodeid} ({now - since:.0f} s)" for nodeid, since in self._running.items()]
                self._tell(f"running: {', '.join(running)}" if running else "")

    def _tell(self, what: str) -> None:
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return
        with self._lock:
            self._told = time.monotonic()
            reporter.ensure_newline()
            reporter.write_line(line(self._total, self._outcomes, int(self._told - self._began), what), flush=True)


def line(total: int, outcomes: Counter[str], seconds: int, what: str) -> str:
    """Return a line of progress.

    >>> line(200, Counter(passed=99, failed=1), 65, "running: a test")
    ' 50%   1:05  100 of 200, 1 failed; running: a test'
    """
    done = sum(outcomes.values())
    share = f"{100 * done // total:3}%" if total else "    "
    counted = f"{done} of {total}" if total else "collecting"
    failed = f", {outcomes['failed']} failed" if outcomes["failed"] else ""
    return f"{share} {seconds // 60:3}:{seconds % 60:02}  {counted}{failed}" + (f"; {what}" if what else "")
