"""Folders that appear whole and disappear whole; with a fence, only by the hand of the leader. JobManager side.

A folder is filled as a draft that is not read, and gets its name by one rename; it loses its name by one rename, and is
deleted then. With a fence, drafts and what is being deleted are in the leader's folder of the fence
(``runtime.storage.posix_fence``), so for a leader that was deposed both renames fail, whenever it was stopped. Without
a fence they are beside the others, under names that are ignored, and the next process deletes what a crash has left.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from flott.errors import LeadershipLostError
from flott.runtime.storage import DRAFT, sync_folder
from flott.runtime.storage.posix_fence import PosixFence


class WholeFolders:
    """The folders in one folder."""

    def __init__(self, root: Path, fence: PosixFence | None = None):
        self.root = root
        self._fence = fence
        root.mkdir(parents=True, exist_ok=True)
        if fence is None:
            for left in root.glob(f"{DRAFT}*"):
                shutil.rmtree(left, ignore_errors=True)

    def draft(self, name: str) -> Path:
        """Make a new, empty folder that is not read."""
        draft = self._place(name)
        draft.mkdir(mode=0o700)  # without its parents: a leader's folder that is gone is not made again
        return draft

    def publish(self, draft: Path, name: str) -> None:
        """Give a draft its name. Raises ``FileExistsError``, or another ``OSError``, if the name is taken."""
        draft.rename(self.root / name)

    def flush(self) -> None:
        """Make all names durable."""
        sync_folder(self.root)

    def remove(self, name: str) -> None:
        """Delete a folder, if it is there."""
        removed = self._place(name)
        try:
            (self.root / name).rename(removed)
        except FileNotFoundError:
            if self._fence is not None:
                self._fence.check()  # it was not there
        else:
            shutil.rmtree(removed, ignore_errors=True)  # what is left goes when the next process cleans up

    def check(self, draft: Path | None) -> None:
        """After an error with a draft, or with making one: raises ``LeadershipLostError`` if that is the reason."""
        if self._fence is None:
            return
        self._fence.check()
        if draft is not None and not draft.exists():
            raise LeadershipLostError(
                f"Another JobManager is taking over {self._fence.home}: it has deleted what was about to be kept."
            )

    def _place(self, name: str) -> Path:
        if self._fence is not None:
            return Path(self._fence.place(name))
        return self.root / f"{DRAFT}{name}-{uuid4().hex[:8]}"
