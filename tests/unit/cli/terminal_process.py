"""A command line in a process of its own, on a terminal or without one."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

#: Makes the terminal on stdin the process's own, so that a typed Ctrl-C is a signal to it.
_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.executable, [sys.executable, '-m', 'flott.cli', *sys.argv[1:]])"
)
PATIENCE_SECONDS = 120.0


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of this process's settings."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("FLOTT_")}
    return {**kept, "FLOTT_HOME": str(home), "TERM": "xterm", "COLUMNS": "200", **more}


class TerminalProcess:
    """``flott`` on a terminal."""

    def __init__(self, arguments: list[str], folder: Path, variables: Mapping[str, str]):
        self._terminal, other = os.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *arguments], stdin=other, stdout=other, stderr=other,
            start_new_session=True, cwd=folder, env=dict(variables),
        )  # fmt: skip
        os.close(other)
        self.shown = ""

    def expect(self, pattern: str) -> None:
        """Read until it is shown, after what was expected before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self.shown)):
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{pattern!r} was not shown; what was:\n{self.shown}")
        self.shown = self.shown[found.end() :]

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self) -> int:
        """Its exit code; what it still shows is kept."""
        while self._read():
            pass
        code = self.process.wait(PATIENCE_SECONDS)
        os.close(self._terminal)
        return code

    def _read(self) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], PATIENCE_SECONDS)
        try:
            data = os.read(self._terminal, 65536) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        self.shown += data.decode(errors="replace")
        return bool(data)
