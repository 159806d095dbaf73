"""What a process prints past Python's streams, native libraries above all: a file that is bounded from outside.

The process writes to descriptors that it has inherited, and so do the processes it starts, so they cannot be redirected
to another file. It is not read through a pipe either: a reader would delay the process, or be delayed by it, and a
thread in the process itself could not read while a library writes that does not release Python's lock. So the file is
opened for appending, and the process that started it checks its size regularly. A file that has grown too large is
copied, as far as it is kept, and emptied. The process continues to write at its
beginning. What is written between the two is lost.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from flott.runtime.logs.rotation import Rotation

_BLOCK = 256 * 1024


class OutputFile:
    """``job.out``, and ``job.out.1`` with what was in it before: together at most three files' worth after a look."""

    def __init__(self, path: Path, rotation: Rotation):
        self.path = path
        self._limit = rotation.file_bytes
        self._keeps_former = rotation.files > 1

    def open(self) -> int:
        """Return a descriptor for the process. The caller closes its own copy."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def bound(self) -> None:
        """Make room if there is too much. Never raises: it is tried again at the next look."""
        with suppress(OSError):
            size = os.stat(self.path).st_size
            if size <= self._limit:
                return
            with open(self.path, "r+b") as file:
                if self._keeps_former:
                    with suppress(OSError):  # on a full disk it is more important to empty the file
                        self._keep(file, size)
                file.truncate(0)

    def _keep(self, file: IO[bytes], size: int) -> None:
        """Copy the end of the file, with what comes meanwhile."""
        former = self.path.with_name(f"{self.path.name}.1")
        draft = self.path.with_name(f".{former.name}")
        try:
            file.seek(size - self._limit)
            left = 2 * self._limit
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as copy:
                while left > 0 and (block := file.read(min(left, _BLOCK))):
                    copy.write(block)
                    left -= len(block)
            draft.replace(former)
        finally:
            draft.unlink(missing_ok=True)
