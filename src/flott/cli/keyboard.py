"""Reads single keys from a terminal."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import Any, Self

from flott.runtime.clock import SystemClock


class Keyboard:
    """Reads keys without Enter and without echo. ``descriptor`` is None if there is no terminal."""

    def __init__(self, descriptor: int | None):
        self._descriptor = descriptor
        self._before: list[Any] | None = None

    @staticmethod
    def of_terminal() -> Keyboard:
        """Return the keyboard of this process, if it has one."""
        return Keyboard(sys.stdin.fileno() if sys.stdin.isatty() else None)

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            import termios
            import tty

            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._descriptor is not None and self._before is not None:
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str | None:
        """Return the key that is pressed within this time, or None."""
        if self._descriptor is None:
            SystemClock().wait(threading.Event(), int(seconds * 1000))
            return None
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return None
        pressed = os.read(self._descriptor, 16)
        return pressed.decode(errors="replace")[:1] if pressed else "q"  # the terminal was closed
