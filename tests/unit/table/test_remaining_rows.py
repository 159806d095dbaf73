"""What is left of a changelog."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row, RowKind
from flott.table._remaining_rows import RemainingRows, remaining

INSERT, BEFORE, AFTER, DELETE = RowKind


def changes(*given: tuple[RowKind, Any]) -> list[Row]:
    return [Row.of_kind(kind, value) for kind, value in given]


def values(rows: list[Row]) -> list[Any]:
    return [row[0] for row in rows]


def test_rows_keep_their_order_and_an_update_comes_last() -> None:
    found = remaining(changes((INSERT, 1), (INSERT, 2), (INSERT, 3), (BEFORE, 1), (AFTER, 4), (DELETE, 3)))
    assert values(found) == [2, 4]


def test_of_equal_rows_one_is_removed_the_latest() -> None:
    assert values(remaining(changes((INSERT, 1), (INSERT, 2), (INSERT, 1), (DELETE, 1)))) == [1, 2]


def test_a_row_that_was_removed_before_it_came_is_not_there() -> None:
    found = remaining(changes((DELETE, 1), (DELETE, 1), (INSERT, 1), (INSERT, 1), (INSERT, 1), (INSERT, 2)))
    assert values(found) == [1, 2]


@pytest.mark.parametrize(
    "value", [[1, None], {"a": [1]}, Row(a=1, b=[2]), bytearray(b"x"), float("nan"), [float("nan")]]
)
def test_values_that_are_nested_or_not_equal_to_themselves_are_found(value: Any) -> None:
    again = float("nan") if isinstance(value, float) else value
    assert remaining(changes((INSERT, value), (DELETE, again))) == []


def test_the_latest_rows_are_in_order_and_as_they_came() -> None:
    folded = RemainingRows()
    for row in changes((INSERT, [1]), (INSERT, [2]), (INSERT, [3]), (DELETE, [2])):
        folded.apply(row)
    assert values(folded.latest(2)) == [[1], [3]]
    assert values(folded.latest(1)) == [[3]]
    assert (len(folded), folded.changes) == (2, 4)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3))))
def test_what_is_left_agrees_with_searching_a_list(steps: list[tuple[bool, int]]) -> None:
    kept: list[int] = []
    given_changes: list[tuple[RowKind, int]] = []
    for insert, value in steps:
        if insert:
            kept.append(value)
        elif value in kept:
            del kept[len(kept) - 1 - kept[::-1].index(value)]
        else:
            continue
        given_changes.append((INSERT if insert else DELETE, value))
    assert values(remaining(changes(*given_changes))) == kept
