"""The display of a job on a terminal: a live line while it runs, plain log lines otherwise. Driver side."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from flott.common import _options as options
from flott.common._sizes import size_text
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.graph.job_graph import JobGraph
from flott.runtime.clock import Clock
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmaster import ledger
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.jobmaster.rescaling import ParallelismChange

#: The rate shown is over this many seconds.
RATE_WINDOW_SECONDS = 5.0
#: An epoch that takes longer shows how many of its tasks are done. The runner is asked at most this often.
LONG_EPOCH_SECONDS = 3.0
PROGRESS_INTERVAL_SECONDS = 1.0


def listener_of(configuration: Configuration, graph: JobGraph, clock: Clock) -> JobListener:
    """Return the configured display; ``auto``: live on a terminal, otherwise problems only."""
    mode = options.read(configuration, options.PROGRESS)
    if mode == "auto":
        mode = "live" if sys.stderr.isatty() else "problems"
    match mode:
        case "live":
            return LiveDisplay(graph.name, clock)
        case "log":
            return LogDisplay(graph.name, clock, every_seconds=5.0)
        case "problems":
            return LogDisplay(graph.name, clock, every_seconds=None)
    return JobListener()


class _Totals(JobListener):
    """Adds up what every display shows."""

    def __init__(self, name: str, clock: Clock):
        self.name = name
        self.clock = clock
        self.started = clock.monotonic()
        self.records = 0
        self.written = 0
        self.epochs = 0
        self.restarts = 0
        self.last: EpochStatistics | None = None
        self.ledger: ledger.Entries = {}
        self._recent: deque[tuple[float, int]] = deque()
        self._running: RunningEpoch | None = None

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        self._running = RunningEpoch(epoch, self.clock, progress)

    def on_checkpoint(self, epoch: int) -> None:
        self._running = RunningEpoch(epoch, self.clock, lambda: None)

    def add(self, statistics: EpochStatistics) -> None:
        """Add an epoch to the totals."""
        now = self.clock.monotonic()
        self.records += statistics.records_in
        self.ledger = ledger.add(self.ledger, statistics.ledger)
        self.written += statistics.records_out
        self.epochs += 1
        self.last = statistics
        self._running = None
        self._recent.append((now, statistics.records_in))
        while self._recent and now - self._recent[0][0] > RATE_WINDOW_SECONDS:
            self._recent.popleft()

    def rate(self) -> float:
        """Return the recent rate in records per second."""
        span = min(RATE_WINDOW_SECONDS, self.clock.monotonic() - self.started)
        return sum(records for _, records in self._recent) / max(span, 0.001)

    def line(self) -> str:
        """Return the state of the job in one line."""
        last = self.last
        running = self._running.text() if self._running is not None else None
        if last is None:
            return f"{self.name}  {running or 'starting'}"
        age = max(0.0, (self.clock.now_ms() - last.completed_at_ms) / 1000)
        parts = [
            self.name,
            f"epoch {last.epoch} ({last.total_ms:,.0f} ms) x{last.parallelism}",
            f"{self.rate():,.0f} records/s",
            f"{self.records:,} in, {self.written:,} out",
            f"watermark {watermark_text(last)}",
            f"checkpoint {age:.1f} s ago, state {size_text(last.state_bytes)}",
        ]
        if running:
            parts.insert(1, running)
        if self.restarts:
            parts.append(f"{self.restarts} restarts")
        return "  ·  ".join(parts)

    def summary(self, status: JobStatus) -> str:
        """Return a summary of the job in one line."""
        seconds = self.clock.monotonic() - self.started
        return (
            f"{self.name} {status.name.lower()}: {self.records:,} records in {seconds:.1f} s"
            f" ({self.records / max(seconds, 0.001):,.0f}/s), {self.written:,} written, {self.epochs} epochs,"
            f" {self.restarts} restarts"
        )

    def late_lines(self) -> list[str]:
        """Return a line for each operator that refused late records."""
        return [ledger.describe(entry) for entry in self.ledger.values() if entry.refused]


class RunningEpoch:
    """The text about an epoch that is not complete yet."""

    def __init__(self, epoch: int, clock: Clock, progress: Callable[[], TaskProgress | None]):
        self._epoch = epoch
        self._clock = clock
        self._progress = progress
        self._started = self._asked = clock.monotonic()
        self._known: TaskProgress | None = None

    def text(self) -> str | None:
        """Return how far the epoch is; None while it has not taken long."""
        now = self._clock.monotonic()
        if now - self._started < LONG_EPOCH_SECONDS:
            return None
        if now - self._asked >= PROGRESS_INTERVAL_SECONDS:
            self._asked, self._known = now, self._progress()
        tasks = f", {self._known.done} of {self._known.total} tasks done" if self._known is not None else ""
        return f"epoch {self._epoch} running for {now - self._started:,.0f} s{tasks}"


class LogDisplay(_Totals):
    """Plain lines on stderr: problems always, progress every few seconds if asked for."""

    def __init__(self, name: str, clock: Clock, every_seconds: float | None):
        super().__init__(name, clock)
        self._every = every_seconds
        self._shown = clock.monotonic()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.add(statistics)
        if self._every is not None and self.clock.monotonic() - self._shown >= self._every:
            self._shown = self.clock.monotonic()
            self._say(self.line())

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        if self._every is not None:
            self._say(f"{self.name}: {rescale_text(epoch, changes)}")

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts += 1
        self._say(f"{self.name}: restart {self.restarts} in {delay_ms} ms, because an epoch failed:\n{_indent(card)}")

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        if status.is_terminal_state():
            if self._every is not None:
                self._say(self.summary(status))
            for line in self.late_lines():
                self._say(line)

    def _say(self, text: str) -> None:
        stamp = datetime.fromtimestamp(self.clock.now_ms() / 1000).strftime("%H:%M:%S")
        self._console.print(Text(f"{stamp} {text}"))


class LiveDisplay(_Totals):
    """One line at the bottom of the terminal that is kept up to date; problems scroll by above it."""

    def __init__(self, name: str, clock: Clock):
        super().__init__(name, clock)
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        if status is JobStatus.RUNNING and self._live is None:
            # The line is drawn on stderr; what the program prints passes above it.
            self._live = Live(
                get_renderable=self._render, console=self._console, refresh_per_second=8,
                redirect_stdout=sys.stdout.isatty(), redirect_stderr=True,
            )  # fmt: skip
            self._live.start()
        elif status.is_terminal_state():
            if self._live is not None:
                self._live.stop()
                self._live = None
            self._console.print(Text(self.summary(status), style="bold"))
            for line in self.late_lines():
                self._console.print(Text(line, style="yellow"))

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.add(statistics)

    def on_rescale(self, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        self._console.print(Text(rescale_text(epoch, changes), style="green"))

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts += 1
        self._console.print(Text(f"Restart {self.restarts} in {delay_ms} ms, because an epoch failed:", style="yellow"))
        self._console.print(Text(_indent(card)))

    def _render(self) -> Text:
        return Text(self.line(), style="cyan", overflow="ellipsis", no_wrap=True)


def rescale_text(epoch: int, changes: Sequence[ParallelismChange]) -> str:
    """Return a change of parallelism as text, once for all operators that changed alike."""
    alike: dict[tuple[int, int], list[str]] = {}
    for change in changes:
        alike.setdefault((change.before, change.after), []).append(change.operator)
    parts = [f"{before} -> {after} ({', '.join(names)})" for (before, after), names in alike.items()]
    return f"Parallelism from epoch {epoch} on: {'; '.join(parts)}"


def watermark_text(statistics: EpochStatistics) -> str:
    """Return a watermark as text."""
    if not statistics.has_watermark:
        return "none"
    if statistics.watermark >= MAX_WATERMARK:
        return "end of input"
    try:
        return datetime.fromtimestamp(statistics.watermark / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(statistics.watermark)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
