"""The time that the windows of a plan's rows are made of: it says when they end, and by which clock."""

from __future__ import annotations

from flott.table._plan.logical import Node, WindowAggregate, WindowTable
from flott.table._types.logical import LocalZonedTimestampType, LogicalType, is_proctime


def window_time_type(node: Node) -> LogicalType | None:
    """Return the type of the time column that the windows of a plan's rows were assigned by, if they have windows."""
    if isinstance(node, WindowTable):
        return node.input.schema.types[node.window.time]
    if isinstance(node, WindowAggregate) and node.window is not None:
        return node.input.schema.types[node.window.time]
    return window_time_type(node.inputs[0]) if node.inputs else None


def is_zoned(node: Node) -> bool:
    """Return whether the bounds of windows are local times: those over a TIMESTAMP_LTZ column."""
    return isinstance(window_time_type(node), LocalZonedTimestampType)


def ends_by_clock(node: Node) -> bool:
    """Return whether windows end by processing time."""
    time = window_time_type(node)
    return time is not None and is_proctime(time)
