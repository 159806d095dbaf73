"""Ends calls of drivers that have no time-out of their own. Task and driver side.

A statement time-out of the server does not help when the network stalls: the server has never seen the statement. So a
thread of this process shuts the socket down when the time is over, and the driver finds its connection lost.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ROUND_SECONDS = 0.25
_IDLE_ROUNDS = 40


class Watchdog:
    """Shuts down sockets whose calls take too long. One thread serves all of them, as long as there are some."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[int, float]] = {}  # by call: file descriptor and deadline
        self._thread: threading.Thread | None = None
        self._calls = 0

    @contextmanager
    def limit(self, descriptor: int, seconds: float) -> Iterator[None]:
        """Shut the socket down if the block takes longer."""
        if self._process != os.getpid():
            self.__init__()  # type: ignore[misc]  # after a fork: the thread is the parent's
        with self._changed:
            self._calls += 1
            call = self._calls
            self._watched[call] = (descriptor, time.monotonic() + seconds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="flott-database-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(call, None)

    def _watch(self) -> None:
        idle_rounds = 0
        with self._changed:
            while idle_rounds < _IDLE_ROUNDS:
                idle_rounds = 0 if self._watched else idle_rounds + 1
                now = time.monotonic()
                for call, (descriptor, deadline) in list(self._watched.items()):
                    if deadline <= now:
                        del self._watched[call]
                        _shut_down(descriptor)
                # Looks again often enough: a call that begins later has a later deadline, or is seen in time.
                self._changed.wait(_ROUND_SECONDS)
            self._thread = None


def _shut_down(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
        found.shutdown(socket.SHUT_RDWR)


WATCHDOG = Watchdog()
