"""When Python's garbage collector runs in a slot. Task side.

Records come and go by the million and form no cycles. Left to itself, the collector would look at new objects after
every few hundred records, and at all of the state whenever a quarter of it has changed, which takes the longer the more
state there is. So it is switched off while a slot runs. The loop calls it when many more objects were made than
released: either the state has grown, or there are cycles. What was there when the loop began is not looked at again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: The number of objects is looked at after so many pieces of work.
LOOK_EVERY = 64
#: New objects are examined when there are so many of them. Those that live on are old then.
NEW_OBJECTS = 100_000
#: Old objects are examined after so many collections of new ones, and as often as this at least and at most.
FEWEST_COLLECTIONS, MOST_COLLECTIONS = 8, 1024


def collections_before_next(before: int, found: int) -> int:
    """Return after how many collections of new objects the old ones are examined again. Pure.

    ``before``: how many there were; ``found``: how much garbage the examination of old objects has found. If it was
    little of what had become old, the state is growing, and to examine all of it again soon would be in vain.
    """
    if found * 4 >= before * NEW_OBJECTS:
        return FEWEST_COLLECTIONS
    return min(MOST_COLLECTIONS, before * 2)


class GarbageCollection:
    """Calls the collector between pieces of work."""

    def __init__(self) -> None:
        self._steps = 0
        self._collections = 0  #: of new objects, since old ones were examined
        self._collections_before_next = FEWEST_COLLECTIONS

    def spare_present(self) -> None:
        """Never look at what is there now: modules, and the state that was restored. It is released as usual."""
        gc.freeze()

    def after_work(self) -> None:
        """Collect garbage, if it is time."""
        self._steps += 1
        if self._steps % LOOK_EVERY == 0 and gc.get_count()[0] >= NEW_OBJECTS:
            self._collect()

    def _collect(self) -> None:
        self._collections += 1
        if self._collections < self._collections_before_next:
            gc.collect(1)
            return
        found = gc.collect()
        self._collections_before_next = collections_before_next(self._collections, found)
        self._collections = 0


@contextmanager
def garbage_collection() -> Iterator[GarbageCollection]:
    """Let the collector run only when it is called, and as before at the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield GarbageCollection()
    finally:
        gc.unfreeze()  # the process may run other slots later
        if was_enabled:
            gc.enable()
