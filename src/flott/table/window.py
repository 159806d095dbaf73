"""Windows: ``Tumble``, ``Slide`` and ``Session`` for groups, ``Over`` for aggregates that look back from each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flott.errors import ProgramError
from flott.table._sql import nodes as ast
from flott.table.expression import Expression, node_of

__all__ = ["GroupWindow", "Over", "OverWindow", "Session", "Slide", "Tumble"]


@dataclass(frozen=True)
class GroupWindow:
    """A window that groups rows by time. Methods of ``Tumble``, ``Slide`` and ``Session`` make it step by step."""

    function: str  #: TUMBLE, HOP or SESSION
    size: ast.SqlExpression  #: the gap of a session
    slide: ast.SqlExpression | None = None
    time_column: str = ""
    name: str = ""

    def relation(self, source: ast.SqlRelation, keys: tuple[ast.SqlExpression, ...]) -> ast.SqlRelation:
        """Return the rows of a relation with the start and the end of their windows."""
        partition = keys if self.function == "SESSION" else ()
        table = ast.SqlTableArgument(source, partition)
        time = ast.SqlDescriptor((ast.SqlDescriptorColumn(self.time_column),))
        sizes = (self.size,) if self.slide is None else (self.slide, self.size)
        return ast.SqlFunctionRelation(ast.SqlFunctionCall((self.function,), (table, time, *sizes)))


def _length(size: Any, method: str) -> ast.SqlExpression:
    node = node_of(size)
    if isinstance(node, ast.SqlFunctionCall) and node.name == ("$ROW_INTERVAL",):
        raise ProgramError(f"{method} has a number of rows, expected an interval such as lit(10).minutes")
    return node


def _column(time_field: Any) -> str:
    node = node_of(time_field)
    if not isinstance(node, ast.SqlColumnReference):
        raise ProgramError(f"on() has {time_field}, expected the time attribute of the table: on(col('ts'))")
    return node.parts[-1]


@dataclass(frozen=True)
class WindowOnTime:
    """A window that lacks its alias."""

    window: GroupWindow

    def alias(self, alias: str) -> GroupWindow:
        """Return the window under the name by which ``group_by`` and ``select`` refer to it."""
        return replace(self.window, name=alias)


@dataclass(frozen=True)
class WindowWithSize:
    """A window that lacks its time attribute."""

    window: GroupWindow

    def on(self, time_field: Expression[Any]) -> WindowOnTime:
        """Return the window over a time attribute of the table."""
        return WindowOnTime(replace(self.window, time_column=_column(time_field)))


class Tumble:
    """Windows of one size, each beginning where the one before ends."""

    @classmethod
    def over(cls, size: Expression[Any]) -> WindowWithSize:
        """Return windows of a size, such as ``lit(10).minutes``."""
        return WindowWithSize(GroupWindow("TUMBLE", _length(size, "Tumble.over()")))


class Session:
    """Windows that end when no row has come for a while."""

    @classmethod
    def with_gap(cls, gap: Expression[Any]) -> WindowWithSize:
        """Return windows between which a gap of at least this length is."""
        return WindowWithSize(GroupWindow("SESSION", _length(gap, "Session.with_gap()")))


@dataclass(frozen=True)
class SlideWithSize:
    """Sliding windows that lack their distance."""

    size: ast.SqlExpression

    def every(self, slide: Expression[Any]) -> WindowWithSize:
        """Return windows that begin at this distance from each other."""
        return WindowWithSize(GroupWindow("HOP", self.size, _length(slide, "every()")))


class Slide:
    """Windows of one size that overlap."""

    @classmethod
    def over(cls, size: Expression[Any]) -> SlideWithSize:
        """Return windows of a size."""
        return SlideWithSize(_length(size, "Slide.over()"))


# --- over windows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverWindow:
    """A window that an aggregate of each row looks back on, under a name."""

    name: str
    specification: ast.SqlWindowSpecification


@dataclass(frozen=True)
class OverWindowPartitionedOrdered:
    """An over window with its keys and its order. Without ``preceding`` it begins with the first row."""

    partition_by: tuple[ast.SqlExpression, ...]
    order_by: ast.SqlOrderItem
    start: ast.SqlExpression | None = None
    end: ast.SqlExpression | None = None

    def preceding(self, preceding: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Return the window from so many rows or so long before each row."""
        return replace(self, start=node_of(preceding))

    def following(self, following: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Return the window up to so many rows or so long after each row."""
        return replace(self, end=node_of(following))

    def alias(self, alias: str) -> OverWindow:
        """Return the window under the name by which ``over`` refers to it."""
        frame = None if self.start is None else _frame(self.start, self.end)
        return OverWindow(alias, ast.SqlWindowSpecification(None, self.partition_by, (self.order_by,), frame))


@dataclass(frozen=True)
class OverWindowPartitioned:
    """An over window that lacks its order."""

    partition_keys: tuple[ast.SqlExpression, ...]

    def order_by(self, order_by: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Return the window with rows ordered by a time attribute or another column."""
        return OverWindowPartitionedOrdered(self.partition_keys, order_by.order or ast.SqlOrderItem(order_by.node))


class Over:
    """Makes over windows."""

    @classmethod
    def order_by(cls, order_by: Expression[Any]) -> OverWindowPartitionedOrdered:
        """Return a window over all rows in an order."""
        return OverWindowPartitioned(()).order_by(order_by)

    @classmethod
    def partition_by(cls, *partition_by: Expression[Any]) -> OverWindowPartitioned:
        """Return a window over the rows of each key."""
        return OverWindowPartitioned(tuple(key.node for key in partition_by))


def _frame(start: ast.SqlExpression, end: ast.SqlExpression | None) -> ast.SqlFrame:
    mode, first = _bound(start, "PRECEDING")
    last = ast.SqlFrameBound("CURRENT ROW") if end is None else _bound(end, "FOLLOWING")[1]
    return ast.SqlFrame(mode, first, last)


def _bound(node: ast.SqlExpression, side: str) -> tuple[str, ast.SqlFrameBound]:
    marker = node.name[0] if isinstance(node, ast.SqlFunctionCall) else ""
    match marker:
        case "$UNBOUNDED_ROW" | "$UNBOUNDED_RANGE":
            return marker.rpartition("_")[2].replace("ROW", "ROWS"), ast.SqlFrameBound(f"UNBOUNDED {side}")
        case "$CURRENT_ROW" | "$CURRENT_RANGE":
            return marker.rpartition("_")[2].replace("ROW", "ROWS"), ast.SqlFrameBound("CURRENT ROW")
        case "$ROW_INTERVAL":
            assert isinstance(node, ast.SqlFunctionCall)
            return "ROWS", ast.SqlFrameBound(side, node.arguments[0])
    return "RANGE", ast.SqlFrameBound(side, node)
