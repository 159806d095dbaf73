"""sum, min, max, min_by and max_by over every shape of record."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.functions._aggregations import (
    RollingAggregation,
    rolling_max,
    rolling_max_by,
    rolling_min,
    rolling_min_by,
    rolling_sum,
)
from flott.errors import ProgramError, TypeMismatchError


class Point(NamedTuple):
    name: str
    x: int


@dataclass(frozen=True)
class Order:
    item: str
    price: int


SHAPES: list[Any] = [
    pytest.param(lambda name, x: (name, x), 1, id="tuple"),
    pytest.param(lambda name, x: (name, x), -1, id="tuple from the end"),
    pytest.param(lambda name, x: (name, x), "f1", id="tuple by Flink's field name"),
    pytest.param(lambda name, x: [name, x], 1, id="list"),
    pytest.param(Row, 1, id="row"),
    pytest.param(Row, "f1", id="row by Flink's field name"),
    pytest.param(lambda name, x: Row(name=name, x=x), "x", id="row by name"),
    pytest.param(lambda name, x: Row(name=name, x=x), 1, id="named row by position"),
    pytest.param(lambda name, x: {"name": name, "x": x}, "x", id="dict"),
    pytest.param(Point, "x", id="named tuple by name"),
    pytest.param(Point, 1, id="named tuple by position"),
    pytest.param(Order, "price", id="dataclass by name"),
    pytest.param(Order, 1, id="dataclass by position"),
]


@pytest.mark.parametrize(("make", "position"), SHAPES)
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (rolling_sum, ("a", 9)),
        (rolling_min, ("a", 1)),
        (rolling_max, ("a", 5)),
        (rolling_min_by, ("c", 1)),
        (rolling_max_by, ("b", 5)),
    ],
)
def test_each_aggregation_gives_what_flink_gives_for_each_shape(
    make: Any, position: int | str, aggregation: Any, expected: tuple[str, int]
) -> None:
    records = [make("a", 3), make("b", 5), make("c", 1)]
    before = copy.deepcopy(records)
    result = reduce(aggregation(position), records)
    assert result == make(*expected)
    assert type(result) is type(records[0])
    assert records == before, "a record was changed in place"


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(rolling_sum, 9), (rolling_min, 1), (rolling_max, 5), (rolling_min_by, 1), (rolling_max_by, 5)],
)
def test_position_zero_of_a_plain_number_is_the_number(aggregation: Any, expected: int) -> None:
    assert reduce(aggregation(), [3, 5, 1]) == expected
    assert reduce(aggregation(), [Decimal(3), Decimal(5), Decimal(1)]) == expected


@pytest.mark.parametrize("aggregation", [rolling_min_by, rolling_max_by])
def test_of_equal_records_the_first_wins(aggregation: Any) -> None:
    assert aggregation(1)(("first", 7), ("second", 7)) == ("first", 7)


def test_a_row_keeps_its_kind_when_a_field_is_replaced() -> None:
    row = Row.of_kind(RowKind.UPDATE_AFTER, "a", 1)
    assert rolling_sum(1)(row, Row("a", 1)) == Row.of_kind(RowKind.UPDATE_AFTER, "a", 2)


def test_the_reducer_for_a_record_is_chosen_once_and_used_as_it_is() -> None:
    add = rolling_sum(1).reducer_for(("a", 0))
    assert add(("a", 1), ("a", 2)) == ("a", 3)


@pytest.mark.parametrize(
    ("record", "position", "words"),
    [
        (("a", 1), 2, "2 fields: f0, f1"),
        (("a", 1), "x", "2 fields: f0, f1"),
        (Row(name="a"), "x", "1 fields: name"),
        ({"a": 1}, "x", "the keys ['a']"),
        (Order("tea", 1), "weight", "2 fields: item, price"),
        (7, 1, "only itself, at position 0"),
    ],
)
def test_a_field_that_is_not_there_is_named_with_those_that_are(record: Any, position: int | str, words: str) -> None:
    with pytest.raises(TypeMismatchError) as error:
        rolling_sum(position)(record, record)
    assert words in str(error.value)
    assert f"sum({position!r})" in str(error.value)


@pytest.mark.parametrize("position", [1.5, None, True, ("a",)])
def test_a_position_that_is_neither_int_nor_str_is_refused_when_the_program_is_built(position: Any) -> None:
    with pytest.raises(ProgramError, match="position of a field as an int"):
        rolling_max(position)


def test_an_aggregation_travels_without_the_shape_it_has_settled_on() -> None:
    aggregation = rolling_sum(1)
    aggregation(("a", 1), ("a", 2))
    travelled: RollingAggregation = pickle.loads(pickle.dumps(aggregation))
    assert travelled == aggregation
    assert hash(travelled) == hash(aggregation)
    assert travelled(["a", 1], ["a", 2]) == ["a", 3]
    assert travelled != rolling_sum(2)
    assert repr(travelled) == "sum(1)"
