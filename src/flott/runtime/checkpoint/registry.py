"""Who refers to which state file: counted, so that a file goes when its last owner lets go. Driver side.

Files are shared. A file that one epoch wrote is part of every later checkpoint until it is merged into another; a
compaction reads files while their checkpoints are being discarded; a savepoint may refer to files of checkpoints long
gone. So an owner that no longer needs a file does not delete it: the owner releases it, and files without any owner are
deleted.

The job master, the thread that compacts files and the one that takes a savepoint use it side by side.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable


class SharedRegistry:
    """References from owners (checkpoints, compactions, savepoints) to files: below ``root``, or by absolute name.

    >>> registry = SharedRegistry()
    >>> registry.register("chk-1", ["a", "b"])
    >>> registry.register("chk-2", ["b", "c"])
    >>> registry.release("chk-1")
    ('a',)
    """

    def __init__(self, root: str | None = None) -> None:
        #: A file below it has two names: relative to it, and absolute.
        self._root = "" if root is None else f"{root.rstrip('/')}/"
        self._lock = threading.Lock()
        self._held: dict[str, set[str]] = {}  #: by owner
        self._counts: Counter[str] = Counter()  #: owners by name of a file; never zero

    def register(self, owner: str, names: Iterable[str]) -> None:
        """Let an owner refer to these files, too. They are new, or the caller knows that they are there."""
        with self._lock:
            self._add(owner, names)

    def pin(self, owner: str, names: Iterable[str]) -> bool:
        """Take hold of files that others refer to at present. False, and nothing is held, if one is not among them.

        A file without an owner may be deleted at this very moment: then it is too late.
        """
        wanted = {self._spell(name) for name in names}
        with self._lock:
            if any(name not in self._counts for name in wanted):
                return False
            self._add(owner, wanted)
            return True

    def release(self, owner: str) -> tuple[str, ...]:
        """Forget an owner. Return the files that have no owner any more: the caller deletes them."""
        unreferenced = []
        with self._lock:
            for name in self._held.pop(owner, ()):
                self._counts[name] -= 1
                if not self._counts[name]:
                    del self._counts[name]
                    unreferenced.append(name)
        return tuple(sorted(unreferenced))

    def is_referenced(self, name: str) -> bool:
        """Return whether an owner refers to a file."""
        with self._lock:
            return self._spell(name) in self._counts

    def names_of(self, owner: str) -> frozenset[str]:
        """Return what an owner refers to."""
        with self._lock:
            return frozenset(self._held.get(owner, ()))

    @property
    def owners(self) -> frozenset[str]:
        """Return the owners that refer to anything."""
        with self._lock:
            return frozenset(self._held)

    def _add(self, owner: str, names: Iterable[str]) -> None:
        held = self._held.setdefault(owner, set())
        for name in {self._spell(name) for name in names} - held:
            held.add(name)
            self._counts[name] += 1

    def _spell(self, name: str) -> str:
        return name.removeprefix(self._root)
