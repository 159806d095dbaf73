"""Flame graphs: none are drawn, which Flink's dashboard knows how to say. Pure."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

#: What an end timestamp below zero means to the dashboard.
DISABLED = -2


class FlameGraphNode(TypedDict):
    name: str
    value: int
    children: list[FlameGraphNode]


class FlameGraph(TypedDict):
    endTimestamp: int
    data: NotRequired[FlameGraphNode]


def no_flame_graph() -> FlameGraph:
    """That there is none to be had."""
    return {"endTimestamp": DISABLED}
