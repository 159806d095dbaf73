"""State files that are written beside processing. Task side.

At a barrier a task only takes aside what has changed, encoded. Files are written, and made durable, while it processes
records again. It reports the checkpoint when they are.

A file that cannot be written fails its checkpoint, not the task. The next file of the same state builds on it, so it is
kept and written again before all later ones. What is kept is limited (``MOST_WAITING_BYTES``).
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

from flott.errors import StorageError
from flott.runtime.storage import Storage

#: If more bytes than these wait to be written, the tasks fail: their storage does not keep up, or is full.
MOST_WAITING_BYTES = 256 << 20

#: Called in the thread of the tasks when files are durable, or with the reason why they are not.
Then = Callable[[StorageError | None], None]


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

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Open a file that was taken."""
        yield BytesIO(next(data for known, data in self.files if known == name))


class FileBacklog:
    """Files that wait to be written, in their order. ``accept`` and ``write`` may be called by two threads."""

    def __init__(self) -> None:
        self._files: deque[tuple[str, bytes]] = deque()
        self._accepted_bytes = 0
        self._written_bytes = 0

    def accept(self, files: FilesAside) -> None:
        """Count files that are going to be written. Raises StorageError if too much waits already."""
        waiting_bytes = self._accepted_bytes - self._written_bytes
        if waiting_bytes > MOST_WAITING_BYTES:
            raise StorageError(
                f"{waiting_bytes} bytes of state files wait to be written, and at most {MOST_WAITING_BYTES} may. The"
                " storage is full, or slower than the state changes. Check it, or increase the checkpoint interval."
            )
        self._accepted_bytes += sum(len(data) for _, data in files.files)

    def write(self, files: FilesAside, storage: Storage) -> None:
        """Make files durable, those first that could not be written before. An error leaves the rest for next time."""
        self._files += files.files
        while self._files:
            name, data = self._files[0]
            storage.write(name, data)
            self._files.popleft()
            self._written_bytes += len(data)


class StateFilesWriter(Protocol):
    """Makes files durable, and continues in the thread of the tasks."""

    def write(self, files: FilesAside, storage: Storage, then: Then) -> None:
        """Write files after those that could not be written before, then call a function."""

    def finish(self) -> None:
        """Continue with what was written, in the thread of the tasks."""


class ImmediateWriter:
    """Writes at once, in the calling thread."""

    def __init__(self) -> None:
        self._backlog = FileBacklog()

    def write(self, files: FilesAside, storage: Storage, then: Then) -> None:
        self._backlog.accept(files)
        try:
            self._backlog.write(files, storage)
        except StorageError as error:
            then(error)
        else:
            then(None)

    def finish(self) -> None:
        """There is nothing that waits."""


class BackgroundWriter:
    """Writes in a thread of its own. The loop of the tasks waits for ``socket`` and then calls ``finish``."""

    def __init__(self) -> None:
        self.socket, self._signal = socket.socketpair()
        self._backlog = FileBacklog()
        self._work: SimpleQueue[tuple[FilesAside, Storage, Then] | None] = SimpleQueue()
        self._done: deque[tuple[BaseException | None, Then]] = deque()
        self._begun = self._finished = 0
        self._thread = threading.Thread(target=self._run, name="flott-state-files", daemon=True)
        self._thread.start()

    def write(self, files: FilesAside, storage: Storage, then: Then) -> None:
        self._backlog.accept(files)
        self._begun += 1
        self._work.put((files, storage, then))

    def finish(self) -> None:
        """Continue with what was written, in the thread of the tasks. Raises what is no failure of the storage."""
        with suppress(BlockingIOError):
            self.socket.recv(4096)
        while self._done:
            error, then = self._done.popleft()
            self._finished += 1
            if error is not None and not isinstance(error, StorageError):
                raise error
            then(error)

    @property
    def oldest(self) -> int | None:
        """Return the number of the oldest write that the tasks have not continued from."""
        return self._finished if self._finished < self._begun else None

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
                self._backlog.write(files, storage)
            except BaseException as found:
                error = found
            self._done.append((error, then))
            with suppress(OSError):
                self._signal.send(b"\0")
