"""Follows the jobs of a program: a live line on a terminal, plain lines otherwise. Has its own thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from flott.cli.drawings.progress import Progress, read_progress
from flott.cli.terminal import Terminal
from flott.errors import FlottError, JobNotFoundError
from flott.runtime.clock import Clock, SystemClock

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from flott.client.rest_client import RestClient

_LOOK_MS = 500
#: The interval of plain lines, in seconds.
_LINE_SECONDS = 5.0


class JobWatch:
    """Shows the last submitted job, and reports the submission and the end of each job.

    ``discovers``: the jobs are not reported by ``job_submitted``; all jobs of the JobManager belong to the program.
    """

    def __init__(
        self, terminal: Terminal, client: RestClient, *, discovers: bool = False, detached: bool = False,
        clock: Clock | None = None,
    ):  # fmt: skip
        self._terminal = terminal
        self._client = client
        self._discovers = discovers
        self._detached = detached
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._asked = threading.Event()  #: set while the user is asked; nothing is drawn meanwhile
        self._seen: dict[str, str] = {}
        self._ended: dict[str, Progress] = {}
        self._latest: dict[str, Progress] = {}
        self._trouble = ""
        self._live: Live | None = None
        self._said = self._clock.monotonic()
        self._thread: threading.Thread | None = None
        if discovers:
            self._begin()

    @property
    def running(self) -> str | None:
        """Return the last submitted job that has not ended, as far as is known."""
        with self._lock:
            return next((job_id for job_id in reversed(self._seen) if job_id not in self._ended), None)

    @property
    def jobs(self) -> list[Progress]:
        """Return all jobs in the order of their submission, with their last known state."""
        with self._lock:
            unknown = {job_id: Progress(job_id, name, "UNKNOWN") for job_id, name in self._seen.items()}
            return list({**unknown, **self._latest}.values())

    def job_submitted(self, job_id: str, name: str) -> None:
        """Register a job that the program has submitted."""
        with self._lock:
            self._seen[job_id] = name
        self._terminal.line(f"Job has been submitted with JobID {job_id}")
        if not self._detached:
            self._begin()

    def finish(self) -> None:
        """Poll a last time, and end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._look()
        self._erase()

    def pause(self) -> None:
        """Remove the live line while the user is asked."""
        self._asked.set()
        self._erase()

    def resume(self) -> None:
        """Show the live line again."""
        self._asked.clear()

    def _erase(self) -> None:
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _draw(self) -> None:
        with self._lock:
            if self._live is None and not self._asked.is_set() and not self._stop.is_set():
                from rich.live import Live

                self._live = Live(
                    get_renderable=self._line, console=self._terminal.notes, refresh_per_second=4, transient=True,
                    redirect_stdout=self._terminal.console.is_terminal, redirect_stderr=True,
                )  # fmt: skip
                self._live.start()

    def _begin(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="job-watch", daemon=True)
            thread.start()  # Ctrl-C may interrupt this, and then there is no thread to join
            self._thread = thread

    def _run(self) -> None:
        while not self._stop.is_set():
            self._look()
            self._clock.wait(self._stop, _LOOK_MS)

    def _look(self) -> None:
        try:
            if self._discovers:
                self._discover()
            for job_id in [job_id for job_id in self._seen if job_id not in self._ended]:
                self._take(read_progress(self._client, job_id))
            self._trouble = ""
        except JobNotFoundError:
            pass  # submitted, but not known to the JobManager yet
        except FlottError as error:
            self._trouble = str(error)
        if self.running is None:
            self._erase()
        elif self._terminal.notes.is_terminal:
            self._draw()
        elif self._clock.monotonic() - self._said >= _LINE_SECONDS:
            self._said = self._clock.monotonic()
            self._terminal.note(self._line().plain)

    def _discover(self) -> None:
        jobs = self._client.get("/jobs/overview")["jobs"]
        for job in sorted(jobs, key=lambda job: int(job["start-time"])):
            if job["jid"] not in self._seen:
                self.job_submitted(job["jid"], job["name"])

    def _take(self, progress: Progress) -> None:
        with self._lock:
            self._latest[progress.job_id] = progress
            if not progress.ended:
                return
            self._ended[progress.job_id] = progress
        style = {"FINISHED": "bold", "FAILED": "bold red"}.get(progress.state, "bold yellow")
        self._terminal.note(progress.summary(), style)

    def _line(self) -> Text:
        from rich.text import Text

        job_id = self.running
        if self._trouble:
            return Text(self._trouble, style="yellow", overflow="ellipsis", no_wrap=True)
        shown = self._latest.get(job_id or "")
        text = shown.line() if shown is not None else f"{self._seen.get(job_id or '', '')}  starting"
        return Text(text, style="cyan", overflow="ellipsis", no_wrap=True)
