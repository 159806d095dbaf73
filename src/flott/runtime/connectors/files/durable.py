"""The few file system steps a sink is made of. Driver and task side; each either happens or does not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

from flott.runtime.storage import sync_folder


def make_folder(folder: str, base: str) -> None:
    """Make a folder below ``base``, and make that last: every new entry on the way is flushed."""
    if os.path.isdir(folder):
        return
    os.makedirs(folder, exist_ok=True)
    while len(folder) > len(base):
        folder = os.path.dirname(folder)
        sync_folder(folder)


def sync_file(path: str) -> int:
    """Flush a file's content; its size."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def concatenate(header: bytes, parts: Sequence[str], target: str) -> None:
    """Write the files one after the other into a new file, and flush it."""
    with open(target, "wb") as output:
        output.write(header)
        for part in parts:
            with open(part, "rb") as content:
                shutil.copyfileobj(content, output, 1024 * 1024)
        output.flush()
        os.fsync(output.fileno())


def remove(path: str) -> None:
    """Delete a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(path)
