"""The thread that reads from a connection on the driver, keeps what has arrived, and connects again.

When as many messages wait as there is room for, it does not read. The server is then held back by TCP.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.pushed.stream import Pushed, PushedStream, StreamEnded

log = logging.getLogger("flott.connectors")

#: Delays before the next attempt to connect; the last one is repeated.
RECONNECT_SECONDS = (0.1, 0.3, 1.0, 3.0)
#: The job is told about a lost connection when it could not be made again for so long.
PATIENCE_SECONDS = 30.0
#: How long closing waits for the thread.
CLOSE_SECONDS = 5.0


class PushedReceiver:
    """Receives messages in the background. Never blocks the thread that takes them."""

    def __init__(self, create: Callable[[], PushedStream], label: str, capacity: int):
        self._create = create
        self._label = label
        self._capacity = capacity
        self._lock = threading.Condition()
        self._waiting: deque[Pushed] = deque()
        self._stream: PushedStream | None = None
        self._resume: str | None = None  #: after which message the next connection continues
        self._ended = False
        self._error: BaseException | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it was opened."""
        return self._thread is not None

    @property
    def waiting(self) -> int:
        """Return how many messages were received and not taken."""
        return len(self._waiting)

    def open(self, resume: str | None) -> None:
        """Connect, and begin to receive. Raises what the first connection raises."""
        self._resume = resume
        self._stream = self._connect()
        self._thread = threading.Thread(target=self._run, name=f"flott-pushed-{self._label}", daemon=True)
        self._thread.start()

    def take(self, count: int) -> tuple[list[Pushed], bool]:
        """Return at most ``count`` messages, and whether the stream has ended after them."""
        with self._lock:
            if self._error is not None and not self._waiting:
                raise self._error
            taken = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
            self._lock.notify_all()
            return taken, self._ended and not self._waiting

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._stopping = True
            stream = self._stream
            self._lock.notify_all()
        if stream is not None:
            stream.abort()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _connect(self) -> PushedStream:
        stream = self._create()
        try:
            stream.open(self._resume)
        except BaseException:
            stream.close()
            raise
        return stream

    def _run(self) -> None:
        lost_at: float | None = None
        attempt = 0
        while not self._stopping:
            asked_ms = None
            try:
                if self._stream is None:
                    self._adopt(self._connect())
                    log.info("%s: connected again.", self._label)
                lost_at, attempt = None, 0
                self._receive()
            except StreamEnded:
                with self._lock:
                    self._ended = True
                break
            except ProgramError as error:
                self._fail(error)
                break
            except Exception as error:
                now = time.monotonic()
                if lost_at is None:
                    lost_at = now
                    if not self._stopping:
                        log.warning("%s: the connection is lost (%s). Connecting again.", self._label, error)
                asked_ms = None if self._stream is None else self._stream.reconnect_ms
                if now - lost_at > PATIENCE_SECONDS:
                    self._fail(ConnectorError(f"{self._label} does not answer for {PATIENCE_SECONDS:g} s: {error}"))
                    lost_at = now
            self._drop()
            delay = RECONNECT_SECONDS[min(attempt, len(RECONNECT_SECONDS) - 1)]
            attempt += 1
            with self._lock:
                self._lock.wait_for(lambda: self._stopping, max(delay, min(asked_ms or 0, 60_000) / 1000))
        self._drop()

    def _receive(self) -> None:
        """Receive until the connection is lost."""
        stream = self._stream
        assert stream is not None
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._stopping or len(self._waiting) < self._capacity)
                if self._stopping:
                    return
            found = stream.receive()
            with self._lock:
                self._waiting.extend(found)
                self._resume = next((one.id for one in reversed(found) if one.id is not None), self._resume)
                if found:
                    self._error = None

    def _adopt(self, stream: PushedStream) -> None:
        with self._lock:
            self._stream = stream
            stopping = self._stopping
        if stopping:
            stream.abort()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = error

    def _drop(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
