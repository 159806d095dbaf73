"""A driver program in a process of its own, with all that Spark starts for it: run, watch and kill it, find leftovers.

Every process of the tree carries a mark in its environment, which children inherit. So the JVM, executors and Python
workers are found again even when their parents are dead, and nothing else is ever killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).resolve().parent / "scripts"

#: The variable that marks the processes of a tree.
MARK = "FLOTT_TEST_TREE"
#: How long a JVM may take to notice that its driver is gone.
FAREWELL_SECONDS = 120.0


@dataclass(frozen=True)
class Ended:
    """A driver that has ended: by itself, or by a signal (then the code is negative)."""

    code: int
    stdout: str
    stderr: str

    def expect_success(self) -> Ended:
        """Itself, if it ended well."""
        assert self.code == 0, f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        return self


class DriverProcess:
    """A running driver program."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        python_path: str | None = str(ROOT / "src"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = uuid.uuid4().hex
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
        inherited.pop("PYTHONPATH", None)
        own = {MARK: self.mark, "PYTHONUNBUFFERED": "1", **({"PYTHONPATH": python_path} if python_path else {})}
        self._stdout, self._stderr = folder / f"{self.mark[:8]}.out", folder / f"{self.mark[:8]}.err"
        with open(self._stdout, "wb") as out, open(self._stderr, "wb") as err:
            self._process = subprocess.Popen(
                [python, *command],
                cwd=folder,
                env={**inherited, **own, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        """What it has printed so far."""
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        """What it has complained about so far."""
        return self._stderr.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """The driver itself."""
        return self._process.pid

    def wait(self, timeout: float) -> Ended:
        """Its end; a tree that takes longer is killed and the test fails."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill_tree()
            raise AssertionError(f"Not done after {timeout} s.\n{self.stdout}\n{self.stderr}") from None
        return Ended(code, self.stdout, self.stderr)

    def wait_for_line(self, text: str, timeout: float) -> None:
        """Return as soon as the output holds the text."""
        deadline = time.monotonic() + timeout
        while text not in self.stdout:
            ended = self._process.poll() is not None
            if (ended and text not in self.stdout) or time.monotonic() > deadline:
                self.kill_tree()
                raise AssertionError(f"{text!r} never came.\n{self.stdout}\n{self.stderr}")
            time.sleep(0.02)

    def kill(self) -> Ended:
        """SIGKILL for the driver alone: what it started is left to notice by itself."""
        self._process.kill()
        return self.wait(300)

    def kill_tree(self) -> None:
        """SIGKILL for the driver, its JVM, executors and Python workers."""
        deadline = time.monotonic() + 60
        while (alive := self.processes()) and time.monotonic() < deadline:
            for pid in alive:
                _kill(pid)
            time.sleep(0.05)
        self._process.wait(300)

    def processes(self) -> dict[int, str]:
        """Everything alive of this tree: process id and command line."""
        return marked_processes(self.mark)

    def expect_no_leftovers(self, within: float = FAREWELL_SECONDS) -> None:
        """Everything the driver started goes with it, however it died."""
        deadline = time.monotonic() + within
        while (alive := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in alive:
            _kill(pid)
        assert not alive, f"still there {within:.0f} s after the driver: {alive}"


def marked_processes(mark: str) -> dict[int, str]:
    """Process id and command line of every living process that carries the mark."""
    needle = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if needle in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
            except OSError:
                continue  # it ended while we looked, or belongs to somebody else
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
