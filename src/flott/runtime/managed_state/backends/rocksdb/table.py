"""What the backend needs of a table over the database, besides what every table has."""

from __future__ import annotations

from typing import Protocol

from flott.runtime.managed_state.kinds.tables import Delta, Table


class PagedTable(Table, Protocol):
    """A table whose changes can be put aside when memory is short, and are then given out key group by key group."""

    def put_aside(self) -> None:
        """Write the changes of the running epoch to rows of their own and keep nothing in memory."""

    def drain_group(self, group: int) -> Delta | None:
        """The changes of a key group, all of which were put aside."""

    def weight(self) -> int:
        """About how many bytes of memory it takes."""
