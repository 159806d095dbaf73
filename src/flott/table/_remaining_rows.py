"""The rows that are left of a changelog, for readers that want a table and not its changes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Any

from flott.common.types import Row, RowKind


class RemainingRows:
    """The rows of a changelog as they stand now, in the order in which they came. A change costs constant time.

    >>> rows = RemainingRows()
    >>> for row in (Row("a", 1), Row("b", 2), Row.of_kind(RowKind.DELETE, "a", 1)):
    ...     rows.apply(row)
    >>> rows.rows()
    [<Row('b', 2)>]
    """

    def __init__(self) -> None:
        #: By the number of the change that brought them.
        self._rows: dict[int, Row] = {}
        #: The numbers of equal rows, the latest last.
        self._numbers: dict[Hashable, list[int]] = {}
        #: How many rows were retracted before they came: changes of different subtasks have no order.
        self._owed: dict[Hashable, int] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, row: Row) -> None:
        """Add a row, or remove the latest one that is equal to it."""
        self.changes += 1
        values = comparable(row)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            self._add(values, row)
        else:
            self._remove(values)

    def _add(self, values: Hashable, row: Row) -> None:
        owed = self._owed.pop(values, 0)
        if owed:
            if owed > 1:
                self._owed[values] = owed - 1
            return
        self._rows[self.changes] = row
        self._numbers.setdefault(values, []).append(self.changes)

    def _remove(self, values: Hashable) -> None:
        numbers = self._numbers.get(values)
        if numbers is None:
            self._owed[values] = self._owed.get(values, 0) + 1
            return
        del self._rows[numbers.pop()]
        if not numbers:
            del self._numbers[values]

    def rows(self) -> list[Row]:
        """Return all rows, each as often as it is there."""
        return list(self._rows.values())

    def latest(self, count: int) -> list[Row]:
        """Return the rows that came last."""
        return list(islice(reversed(self._rows.values()), count))[::-1]


def remaining(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that are left after all changes, in the order in which they came."""
    folded = RemainingRows()
    for row in rows:
        folded.apply(row)
    return folded.rows()


def comparable(value: Any) -> Hashable:
    """Return a value that is equal for equal values of SQL, also for nested ones and for NaN.

    >>> comparable([1, {"a": float("nan")}]) == comparable([1, {"a": float("nan")}])
    True
    """
    match value:
        case Row() | list() | tuple():
            return tuple([comparable(one) for one in value])
        case dict():
            return frozenset((comparable(key), comparable(one)) for key, one in value.items())
        case float() if value != value:
            return "NaN"
        case bytearray():
            return bytes(value)
    return value  # type: ignore[no-any-return]
