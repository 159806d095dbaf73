"""What type checkers know about state and its descriptors. Checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

from flott.common import Types
from flott.datastream.functions import ReduceFunction, RuntimeContext
from flott.datastream.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)


class Longest(ReduceFunction[str]):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


def add(a: int, b: int) -> int:
    return a + b


def ask(context: RuntimeContext) -> None:
    # a hint tells what is inside
    assert_type(context.get_state(ValueStateDescriptor("a", int)), ValueState[int])
    assert_type(context.get_state(ValueStateDescriptor("a", tuple[str, int])), ValueState[tuple[str, int]])
    assert_type(context.get_list_state(ListStateDescriptor("a", str)), ListState[str])
    assert_type(context.get_map_state(MapStateDescriptor("a", str, int)), MapState[str, int])
    assert_type(context.get_reducing_state(ReducingStateDescriptor("a", Longest())), ReducingState[str])
    assert_type(context.get_reducing_state(ReducingStateDescriptor("a", add)), ReducingState[int])

    # one of Types, or nothing, leaves it open, and a variable's annotation closes it
    assert_type(context.get_state(ValueStateDescriptor("a", Types.INT())), ValueState[Any])
    assert_type(context.get_state(ValueStateDescriptor("a")), ValueState[Any])
    assert_type(context.get_map_state(MapStateDescriptor("a", Types.INT(), Types.INT())), MapState[Any, Any])
    count: ValueState[int] = context.get_state(ValueStateDescriptor("count", Types.LONG()))
    undeclared = ValueStateDescriptor("a")
    described: ValueStateDescriptor = ValueStateDescriptor("a", int | None)

    # what is refused
    count.update("1")  # type: ignore[arg-type]
    context.get_state(ValueStateDescriptor("a", int)).update("1")  # type: ignore[arg-type]
    context.get_list_state(undeclared)  # type: ignore[arg-type]
    context.get_list_state(described)  # type: ignore[arg-type]
