"""What objects in memory weigh: an estimate that costs next to nothing, made by looking at a few now and then."""

from __future__ import annotations

from flott.runtime.managed_state.backends.rocksdb.paging import PagedItems


class Weighing:
    """Estimates what items cost in memory, by looking at a few now and then."""

    __slots__ = ("_item_bytes", "_looked_at")

    def __init__(self) -> None:
        self._item_bytes = 512
        self._looked_at = 0

    def of(self, items: PagedItems) -> int:
        """What a dict of items takes."""
        held = len(items)
        if held < self._looked_at // 2 or held > self._looked_at * 5 // 4:
            self._looked_at = held
            if sizes := items.sample():
                self._item_bytes = (self._item_bytes + max(sizes)) // 2
        return items.weight(self._item_bytes)
