"""The storage of a replay: it reads from the job's directory and writes to a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flott.runtime.storage import PosixStorage


@dataclass(frozen=True)
class OverlayStorage(PosixStorage):
    """``root`` is the folder of the replay. What is not in it is read from ``base``, where nothing is written."""

    base: str = ""

    def read(self, name: str) -> bytes:
        return PosixStorage(self._place(name), self.sync).read(name)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        with PosixStorage(self._place(name), self.sync).open(name) as file:
            yield file

    def list(self, folder: str) -> Iterator[str]:
        roots = (self.root, self.base)
        yield from sorted({name for root in roots for name in PosixStorage(root, self.sync).list(folder)})

    def exists(self, name: str) -> bool:
        return super().exists(name) or PosixStorage(self.base, self.sync).exists(name)

    def _place(self, name: str) -> str:
        return self.root if super().exists(name) else self.base

    def hold(self, names: Iterable[str], elsewhere: str | None = None) -> None:
        """Keep files readable though the job, which may be running, deletes them: they get a second name here.

        They are in ``base``, or were held ``elsewhere`` before. Where the file system does not let one, they are read
        where they are for as long as they are there.
        """
        sources = [self.base] if elsewhere is None else [elsewhere, self.base]
        for name in names:
            if not os.path.isabs(name):
                Path(self.root, name).parent.mkdir(parents=True, exist_ok=True)
                for source in sources:
                    with suppress(OSError):
                        os.link(Path(source, name), Path(self.root, name))
                        break
