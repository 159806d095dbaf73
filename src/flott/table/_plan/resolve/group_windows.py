"""Windows: TUMBLE, HOP, CUMULATE and SESSION as table functions, and as calls in GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flott.table._expressions.expression import Call, Expression, InputRef, Literal
from flott.table._plan.logical import Window, WindowKind
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.logical import (
    DayTimeIntervalType,
    LocalZonedTimestampType,
    LogicalType,
    TimeAttribute,
    TimestampType,
    is_proctime,
    is_time_attribute,
)

if TYPE_CHECKING:
    from flott.table._plan.resolve.expressions import ExpressionResolver

#: Functions of a group's window: the window's function and what they give.
PROPERTIES: dict[str, tuple[str, str]] = {
    f"{kind}_{asked.upper()}": (kind, asked)
    for kind in ("TUMBLE", "HOP", "SESSION")
    for asked in ("start", "end", "rowtime", "proctime")
}
GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION")
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


@dataclass(frozen=True)
class GroupWindow:
    """TUMBLE(ts, INTERVAL ...) of a GROUP BY."""

    kind: WindowKind
    time: Expression
    size_ms: int
    slide_ms: int = 0
    offset_ms: int = 0
    count: int | None = None
    count_slide: int | None = None

    def over(self, time: int) -> Window:
        """Return the window over a column of the aggregation's input."""
        return Window(
            self.kind,
            time,
            self.size_ms,
            self.slide_ms,
            self.offset_ms,
            proctime=is_proctime(self.time.type),
            count=self.count,
            count_slide=self.count_slide,
        )


def is_group_window(node: object) -> bool:
    """Return whether an item of GROUP BY is a window."""
    return (
        isinstance(node, sql.SqlFunctionCall)
        and len(node.name) == 1
        and node.name[0].upper() in GROUP_WINDOWS
        and node.function is None
    )


def group_window(self: ExpressionResolver, node: sql.SqlFunctionCall) -> GroupWindow:
    """Return the window that a call in GROUP BY describes."""
    kind = WindowKind(node.name[0].upper())
    lengths = 3 if kind is WindowKind.HOP else 2
    if len(node.arguments) not in (lengths, lengths + 1):
        raise SqlError(f"{kind.value} takes a time column and {lengths - 1} intervals here", node.position)
    inner = self.inside(kind.value)
    time = inner.resolve(node.arguments[0])
    if not is_time_attribute(time.type) or not isinstance(time, InputRef | Call):
        raise SqlError(
            f"{kind.value} needs a time attribute (a column with a watermark, or PROCTIME()), found {time.type}",
            node.arguments[0].position or node.position,
        )
    counts = [_rows(inner, one) for one in node.arguments[1:lengths]]
    if all(one is not None for one in counts):  # row-count windows of the Table API
        return GroupWindow(kind, time, 0, count=counts[-1], count_slide=counts[0] if len(counts) == 2 else None)
    given = [interval_ms(inner, one, kind.value) for one in node.arguments[1:]]
    offset = given[lengths - 1] if len(given) == lengths else 0
    if kind is WindowKind.HOP:
        return GroupWindow(kind, time, given[1], given[0], offset)
    return GroupWindow(kind, time, given[0], 0, offset)


def _rows(self: ExpressionResolver, node: sql.SqlExpression) -> int | None:
    """Return the number of rows that the Table API gives as a BIGINT in place of an interval."""
    value = self.resolve(node)
    return (
        value.value
        if isinstance(value, Literal) and isinstance(node, sql.SqlValueLiteral) and (value.type.is_numeric)
        else None
    )


def interval_ms(self: ExpressionResolver, node: sql.SqlNode, what: str, *, least: int = 1) -> int:
    """Return the milliseconds of a constant interval."""
    value = self.resolve(node)
    if not isinstance(value, Literal) or not isinstance(value.type, DayTimeIntervalType) or value.value is None:
        raise SqlError(
            f"{what} needs a constant interval such as INTERVAL '10' MINUTES, found {value.type}", node.position
        )
    if value.value < least:
        raise SqlError(f"{what} needs an interval longer than zero", node.position)
    return int(value.value)


def property_type(asked: str, time: LogicalType) -> LogicalType:
    """Return the type of a property of a group's window."""
    if asked in ("start", "end"):
        return TimestampType(3, nullable=False)
    if asked == "proctime":
        return LocalZonedTimestampType(3, TimeAttribute.PROCTIME, nullable=False)
    assert isinstance(time, TimestampType | LocalZonedTimestampType)
    return replace(time, nullable=False)


def check_lengths(kind: WindowKind, size_ms: int, slide_ms: int, position: sql.Position | None) -> None:
    """Raise ``SqlError`` for lengths that do not fit each other."""
    if kind is WindowKind.CUMULATE and size_ms % slide_ms:
        raise SqlError("CUMULATE needs a size that is a multiple of its step", position)
