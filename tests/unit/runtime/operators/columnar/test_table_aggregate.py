"""Table aggregate functions: every record takes away the rows of its group, and sends those it has now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.types import Row
from flott.table._expressions.expression import UserFunction
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.operations import TableAggregateGroups
from flott.table._types.logical import IntType, VarCharType
from tests.unit.runtime.operators.columnar.columnar_cluster import ColumnarCluster

INPUT = Schema(("k", "n"), (VarCharType(2147483647), IntType()))
OUTPUT = Schema(("k", "place", "n"), (VarCharType(2147483647), IntType(), IntType()))


class TopTwo:
    """The two largest numbers with their places."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, held: list[int], number: int) -> None:
        held.append(number)

    def retract(self, held: list[int], number: int) -> None:
        held.remove(number)

    def emit_value(self, held: list[int]) -> Iterator[Any]:
        for place, number in enumerate(sorted(held, reverse=True)[:2]):
            yield Row(place + 1, number)


def cluster(**options: Any) -> ColumnarCluster:
    user = UserFunction("top_two", TopTwo(), kind="table_aggregate")
    call = AggregateCall("top_two", (1,), IntType(), "top_two", user=user)
    operation = TableAggregateGroups(input=INPUT, keys=(0,), call=call, output=OUTPUT, retracts=(True,), **options)
    return ColumnarCluster(operation, [INPUT], [(0,)])


def test_a_record_replaces_the_rows_of_its_group() -> None:
    groups = cluster()
    assert groups.epoch([("+I", ("a", 5)), ("+I", ("a", 9))]) == [
        ("+I", ("a", 1, 5)), ("-D", ("a", 1, 5)), ("+I", ("a", 1, 9)), ("+I", ("a", 2, 5)),
    ]  # fmt: skip
    groups.restart(2)
    assert groups.epoch([("-D", ("a", 9))]) == [("-D", ("a", 1, 9)), ("-D", ("a", 2, 5)), ("+I", ("a", 1, 5))]
    assert groups.epoch([("-D", ("a", 5)), ("-D", ("b", 1))]) == [("-D", ("a", 1, 5))]
    assert groups.state_sizes() == {"groups": 0}


def test_groups_are_forgotten_after_their_time_to_live() -> None:
    groups = cluster(ttl_ms=100)
    groups.scope.now_ms = 1000
    groups.epoch([("+I", ("a", 5))])
    groups.scope.now_ms = 1100
    assert groups.epoch([("+I", ("a", 3))]) == [("+I", ("a", 1, 3))]
