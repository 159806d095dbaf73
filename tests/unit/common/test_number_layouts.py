"""Batches of tuples of numbers are recognised by their bytes; nothing else is taken for them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flott.common import Types
from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import TupleTypeInfo
from flott.common.typeinfo._layouts import are_number_tuples


class Colour(IntEnum):
    RED = 1


class Pair(NamedTuple):
    first: Any
    second: Any


class Whole(int):
    pass


TYPES = {"i": Types.INT(), "l": Types.LONG(), "g": Types.DOUBLE()}
CELLS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**33), 2**33),
    st.integers(-(2**65), 2**65),
    st.sampled_from([1 << 30, (1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, (1 << 60), (1 << 63) - 1, 1 << 3000]),
    st.floats(),
    st.sampled_from([None, True, Colour.RED, Whole(3), "", "((((", b"iiii", (1, 2), (1, 2, (3, 4)), []]),
    st.builds(bytearray, st.just(b"x")),
)
FIELDS = st.text("ilg", min_size=1, max_size=4)


def ordinarily(values: Sequence[Any], fields: str) -> bool:
    """What the columns say, without a look at the bytes."""
    declared = Types.TUPLE([TYPES[field] for field in fields])
    exact = all(type(value) is tuple and None not in value for value in values)
    return exact and TypeInformation._matches(declared, values)


@given(FIELDS, st.lists(st.one_of(st.lists(CELLS, max_size=4).map(tuple), CELLS), max_size=6))
@example("ii", [(1,), 5, (1, 2, (3, 4))])
@example("ii", [(1, 2), (1, 2, (3, 4)), 7])
def test_nothing_is_recognised_that_is_not_of_the_type(fields: str, values: list[Any]) -> None:
    if are_number_tuples(values, fields):
        assert ordinarily(values, fields)


@given(FIELDS, st.data())
def test_a_batch_next_to_numbers_is_not_recognised_by_mistake(fields: str, data: st.DataObject) -> None:
    """Most of the batch is right, so that every check has to look at the one place that is not."""
    good = tuple(1.5 if field == "g" else 7 for field in fields)
    values: list[Any] = [good] * data.draw(st.integers(1, 20))
    place = data.draw(st.integers(0, len(values) - 1))
    cells = list(good)
    cells[data.draw(st.integers(0, len(fields) - 1))] = data.draw(CELLS)
    values[place] = data.draw(st.sampled_from([tuple(cells), cells, good + good, good[:-1]]))
    if are_number_tuples(values, fields):
        assert ordinarily(values, fields)


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ("ii", [(1, 2), (-3, 4)] * 300),
        ("ll", [(i, 1_700_000_000_000 + i) for i in range(1000)]),
        ("lg", [(i, i * 0.5) for i in range(1000)]),
        ("lg", [(i, float("nan")) for i in range(10)]),
        ("l", []),
    ],
)
def test_common_batches_are_recognised(fields: str, values: list[Any]) -> None:
    """Nothing is wrong if this fails with another Python, but declared types cost three times as much then."""
    assert are_number_tuples(values, fields)


@pytest.mark.parametrize("other", [True, Colour.RED, Whole(1), None, 1.0, 1 << 31, Pair(1, 2), [1, 2], (1, 2, 3), (1,)])
def test_one_record_that_is_not_a_pair_of_ints_is_seen(other: Any) -> None:
    odd = other if isinstance(other, tuple | list) else (1, other)
    assert not are_number_tuples([(1, 2), odd, (3, 4)], "ii")


@given(FIELDS, st.lists(st.lists(CELLS, max_size=4).map(tuple), max_size=6))
def test_a_tuple_type_gives_the_same_with_and_without_the_bytes(fields: str, values: list[Any]) -> None:
    declared = Types.TUPLE([TYPES[field] for field in fields])
    assert isinstance(declared, TupleTypeInfo)
    if declared._matches(values):
        assert TypeInformation._matches(declared, values)
    elif not any(isinstance(cell, bytearray) for value in values for cell in value):
        assert not TypeInformation._matches(declared, values)
