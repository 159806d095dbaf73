"""UNNEST of collections and table functions in Python, as one operator."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common.types import Row
from flott.runtime.operators.operator import RecordFailure
from flott.table._expressions.expression import Call, InputRef, UserCall
from flott.table._plan.logical import Schema
from flott.table._plan.operations import Unnest
from flott.table._types.logical import BOOLEAN, INT, STRING, ArrayType, LogicalType, MapType, MultisetType, row_type
from flott.table.udf import FunctionContext, TableFunction, udtf

from .columnar_cluster import Change, ColumnarCluster


def schema(**columns: LogicalType) -> Schema:
    return Schema(tuple(columns), tuple(columns.values()))


def joined(
    of: LogicalType, rows: list[Change], made: Schema, outer: bool = False, function: Any = None, condition: Any = None
) -> list[Change]:
    """Return what the operator makes of rows (id, value of a type)."""
    given = schema(id=INT, value=of)
    argument = InputRef(of, 1)
    call: Any = (
        Call(ArrayType(INT), "UNNEST", (argument,))
        if function is None
        else UserCall(function.user_function.result_type, function.user_function, (argument,))
    )
    operation = Unnest(output=given + made, input=given, call=call, outer=outer, condition=condition)
    cluster = ColumnarCluster(operation, [given], [()])
    found = cluster.epoch(rows)
    for subtask in cluster.subtasks:
        subtask.operator.close()
    return [(kind, (row[0], *row[2:])) for kind, row in found]


INTS = ArrayType(INT)
ROWS: list[Change] = [("+I", (1, [7, None])), ("-U", (2, [])), ("+U", (3, [9])), ("-D", (4, None))]


def test_each_element_of_an_array_makes_a_row_of_the_same_kind() -> None:
    assert joined(INTS, ROWS, schema(x=INT)) == [("+I", (1, 7)), ("+I", (1, None)), ("+U", (3, 9))]


def test_a_left_join_keeps_rows_without_elements_at_their_place() -> None:
    assert joined(INTS, ROWS, schema(x=INT), outer=True) == [
        ("+I", (1, 7)), ("+I", (1, None)), ("-U", (2, None)), ("+U", (3, 9)), ("-D", (4, None)),
    ]  # fmt: skip


def test_with_ordinality_counts_from_one_in_each_row() -> None:
    made = schema(x=INT, n=INT)
    assert joined(INTS, [("+I", (1, [5, 6])), ("+I", (2, [8]))], made) == [
        ("+I", (1, 5, 1)), ("+I", (1, 6, 2)), ("+I", (2, 8, 1)),
    ]  # fmt: skip


def test_rows_and_maps_become_columns_and_multisets_repeat() -> None:
    of = row_type({"a": INT, "b": STRING})
    rows: list[Change] = [("+I", (1, [{"a": 1, "b": "x"}, None]))]
    assert joined(ArrayType(of), rows, schema(a=INT, b=STRING)) == [("+I", (1, 1, "x")), ("+I", (1, None, None))]
    found = joined(MapType(STRING, INT), [("+I", (1, [("k", 1), ("l", 2)]))], schema(k=STRING, v=INT))
    assert found == [("+I", (1, "k", 1)), ("+I", (1, "l", 2))]
    found = joined(MultisetType(STRING), [("+I", (1, [("k", 2), ("l", 1)]))], schema(k=STRING, n=INT))
    assert found == [("+I", (1, "k", 1)), ("+I", (1, "k", 2)), ("+I", (1, "l", 3))]


def test_a_condition_chooses_among_the_made_rows() -> None:
    wanted = Call(BOOLEAN, "IS NOT NULL", (InputRef(INT, 2),))
    assert joined(INTS, ROWS, schema(x=INT), outer=True, condition=wanted) == [
        ("+I", (1, 7)), ("-U", (2, None)), ("+U", (3, 9)), ("-D", (4, None)),
    ]  # fmt: skip


def test_a_table_function_may_yield_return_or_give_nothing() -> None:
    texts: list[Change] = [("+I", (1, "a bc")), ("+I", (2, "")), ("-D", (3, "d"))]
    words = udtf(lambda text: [(word, len(word)) for word in text.split()], result_types=["STRING", "INT"], name="w")
    made = schema(word=STRING, size=INT)
    expected = [("+I", (1, "a", 1)), ("+I", (1, "bc", 2)), ("-D", (3, "d", 1))]
    assert joined(STRING, texts, made, function=words) == expected
    one = udtf(lambda text: Row(text, 1) if text else None, result_types=["STRING", "INT"], name="one")
    assert joined(STRING, texts, made, function=one, outer=True) == [
        ("+I", (1, "a bc", 1)), ("+I", (2, None, None)), ("-D", (3, "d", 1)),
    ]  # fmt: skip


def test_a_table_function_is_opened_in_its_task_and_closed() -> None:
    seen: list[str] = []

    class Tagged(TableFunction):
        def open(self, function_context: FunctionContext) -> None:
            seen.append(f"open {function_context.get_task_name_with_subtasks()}")
            self.counter = function_context.get_metric_group().counter("calls")

        def eval(self, text: str) -> Any:
            self.counter.inc()
            yield text

        def close(self) -> None:
            seen.append(f"close after {self.counter.get_count()}")

    tagged = udtf(Tagged(), result_types="STRING")
    assert joined(STRING, [("+I", (1, "a")), ("+I", (2, "b"))], schema(x=STRING), function=tagged) == [
        ("+I", (1, "a")), ("+I", (2, "b")),
    ]  # fmt: skip
    assert seen == ["open task (1/1)", "close after 2"]


def test_a_row_of_the_wrong_width_is_an_error() -> None:
    wrong = udtf(lambda text: [(text, 1, 2)], result_types=["STRING", "INT"], name="wrong")
    with pytest.raises(RecordFailure) as caught:
        joined(STRING, [("+I", (1, "a"))], schema(x=STRING, y=INT), function=wrong)
    assert "Expected a row of 2 values" in str(caught.value.__cause__)
