"""State files that are written beside processing. Task side.

At a barrier a task only takes aside what has changed, encoded. Files are written, and made durable, while it processes
records again. It reports the checkpoint when they are.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from queue import SimpleQueue
from typing import BinaryIO, Protocol

from flott.runtime.storage import Storage


class FilesAside:
    """Files of a snapshot, in memory. It takes the place of a storage where state is saved."""

    def __init__(self) -> None:
        self.files: list[tuple[str, bytes]] = []

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Take a file that is written in parts."""
        buffer = BytesIO()
        yield buffer
        self.files.append((name, buffer.getvalue()))

    def write(self, name: str, data: bytes) -> None:
        """Take a whole file."""
        self.files.append((name, data))

    def write_to(self, storage: Storage) -> None:
        """Make all files durable."""
        for name, data in self.files:
            storage.write(name, data)


class StateFilesWriter(Protocol):
    """Makes files durable, and continues in the thread of the tasks."""

    def write(self, files: FilesAside, storage: Storage, then: Callable[[], None]) -> None:
        """Write files, then call a function."""


class ImmediateWriter:
    """Writes at once, in the calling thread."""

    def write(self, files: FilesAside, storage: Storage, then: Callable[[], None]) -> None:
        files.write_to(storage)
        then()


class BackgroundWriter:
    """Writes in a thread of its own. The loop of the tasks waits for ``socket`` and then calls ``finish``."""

    def __init__(self) -> None:
        self.socket, self._signal = socket.socketpair()
        self._work: SimpleQueue[tuple[FilesAside, Storage, Callable[[], None]] | None] = SimpleQueue()
        self._done: deque[tuple[BaseException | None, Callable[[], None]]] = deque()
        self._thread = threading.Thread(target=self._run, name="flott-state-files", daemon=True)
        self._thread.start()

    def write(self, files: FilesAside, storage: Storage, then: Callable[[], None]) -> None:
        self._work.put((files, storage, then))

    def finish(self) -> None:
        """Continue with what was written, in the thread of the tasks. Raises what a write raised."""
        with suppress(BlockingIOError):
            self.socket.recv(4096)
        while self._done:
            error, then = self._done.popleft()
            if error is not None:
                raise error
            then()

    def close(self) -> None:
        """End the thread, after what it is writing."""
        self._work.put(None)
        self._thread.join()
        self.socket.close()
        self._signal.close()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            files, storage, then = work
            error: BaseException | None = None
            try:
                files.write_to(storage)
            except BaseException as found:
                error = found
            self._done.append((error, then))
            with suppress(OSError):
                self._signal.send(b"\0")
