"""The columns that hold the window of each row: known behind a window table function, and followed through a plan."""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._expressions.expression import InputRef
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind
from flott.table._plan.traits import equal_columns
from flott.table._types.logical import LogicalType


@dataclass(frozen=True)
class WindowColumns:
    """The positions at which a plan has the bounds of a window; several if a column was listed twice."""

    start: frozenset[int]
    end: frozenset[int]
    time: frozenset[int] = frozenset()  #: the event time of the window: its last millisecond
    time_type: LogicalType | None = None

    def moved(self, positions: dict[int, list[int]]) -> WindowColumns | None:
        """Return them where a projection puts them; None if it drops a bound."""

        def to(columns: frozenset[int]) -> frozenset[int]:
            return frozenset(new for old in columns for new in positions.get(old, ()))

        found = WindowColumns(to(self.start), to(self.end), to(self.time), self.time_type)
        return found if found.start and found.end else None

    def bounds_among(self, columns: tuple[int, ...]) -> tuple[int, int] | None:
        """Return the first start and the first end among some columns; None if they lack one of them."""
        start = next((column for column in columns if column in self.start), None)
        end = next((column for column in columns if column in self.end), None)
        return None if start is None or end is None else (start, end)


def window_columns_of(plan: logical.Node) -> WindowColumns | None:
    """Return where a plan's rows have the bounds of their window; None if they have none."""
    match plan:
        case logical.WindowTable():
            first = len(plan.input.schema)
            time_type = plan.schema.types[first + 2]
            return WindowColumns(frozenset((first,)), frozenset((first + 1,)), frozenset((first + 2,)), time_type)
        case logical.Project():
            inner = window_columns_of(plan.input)
            places: dict[int, list[int]] = {}
            for new, expression in enumerate(plan.expressions):
                if isinstance(expression, InputRef):
                    places.setdefault(expression.index, []).append(new)
            return None if inner is None else inner.moved(places)
        case logical.WindowAggregate():
            first = len(plan.schema) - len(plan.properties)
            at = {name: frozenset((first + i,)) for i, name in enumerate(plan.properties)}
            if "start" not in at or "end" not in at or plan.legacy:
                return None
            time = at.get("rowtime", at.get("proctime", frozenset()))
            return WindowColumns(at["start"], at["end"], time, plan.time_type)
        case (
            logical.Filter()
            | logical.OverAggregate()
            | logical.Rank()
            | logical.Deduplicate()
            | logical.Correlate()
            | logical.LookupJoin()
        ):
            return window_columns_of(plan.inputs[0])
        case logical.WindowJoin():
            return _of_join(
                plan.kind, len(plan.left.schema), window_columns_of(plan.left), window_columns_of(plan.right)
            )
        case logical.Join():
            # A rule turns it into a WindowJoin later, if it compares the windows of both sides.
            left, right, width = window_columns_of(plan.left), window_columns_of(plan.right), len(plan.left.schema)
            if compared_windows(equal_columns(plan.condition, width), left, right) is None:
                return None
            return _of_join(plan.kind, width, left, right)
        case logical.Expand():
            inner = window_columns_of(plan.input)
            kept = {i for i in range(len(plan.input.schema)) if i not in plan.keys or all(i in s for s in plan.sets)}
            return None if inner is None else inner.moved({i: [i] for i in kept})
    return None


def compared_windows(
    pairs: list[tuple[int, int]], left: WindowColumns | None, right: WindowColumns | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the pairs (left column, right column) that compare the starts and the ends of windows; None without both.

    >>> windows = WindowColumns(start=frozenset([1]), end=frozenset([2]))
    >>> compared_windows([(0, 0), (1, 1), (2, 2)], windows, windows)
    ((1, 1), (2, 2))
    """
    if left is None or right is None:
        return None
    start = next((pair for pair in pairs if pair[0] in left.start and pair[1] in right.start), None)
    end = next((pair for pair in pairs if pair[0] in left.end and pair[1] in right.end), None)
    return None if start is None or end is None else (start, end)


def _of_join(
    kind: JoinKind, width: int, left: WindowColumns | None, right: WindowColumns | None
) -> WindowColumns | None:
    """Return the windows of joined rows: those of the sides whose columns an outer join does not fill with NULL."""
    if left is None or right is None:
        return None
    if kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.LEFT):
        return left
    moved = right.moved({column: [column + width] for column in right.start | right.end | right.time})
    if kind is JoinKind.RIGHT or moved is None:
        return moved
    if kind is JoinKind.FULL:
        return None
    return WindowColumns(
        left.start | moved.start, left.end | moved.end, left.time | moved.time, left.time_type or moved.time_type
    )
