"""Functions of arrays and maps against tables of expected results."""

from __future__ import annotations

from typing import Any

import pytest

from flott.errors import ProgramError
from flott.table._functions.function import SignatureError
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    DATE,
    INT,
    NULL,
    STRING,
    ArrayType,
    LogicalType,
    MapType,
    row_type,
)

from .calls import called, result_type

INTS, TEXTS = ArrayType(INT), ArrayType(STRING)
NESTED = ArrayType(INTS)
ROWS = ArrayType(row_type({"a": INT, "b": STRING}))
MAP = MapType(STRING, INT)

EXPECTED: tuple[tuple[str, tuple[LogicalType, ...], tuple[Any, ...], Any], ...] = (
    ("ARRAY", (INT, INT), (1, None), [1, None]),
    ("MAP", (STRING, INT, STRING, INT), ("a", 1, "b", 2), {"a": 1, "b": 2}),
    ("MAP", (STRING, INT, STRING, INT), ("a", 1, "a", 2), {"a": 2}),
    ("ROW", (STRING, INT), ("a", 1), {"EXPR$0": "a", "EXPR$1": 1}),
    ("ITEM", (INTS, INT), ([7, 8], 2), 8),
    ("ITEM", (INTS, INT), ([7, 8], 3), None),
    ("ITEM", (INTS, INT), (None, 1), None),
    ("ITEM", (INTS, INT), ([7], None), None),
    ("ITEM", (MAP, STRING), ({"a": 1, "b": 2}, "b"), 2),
    ("ITEM", (MAP, STRING), ({"a": 1}, "c"), None),
    ("ITEM", (MAP, STRING), (None, "c"), None),
    ("CARDINALITY", (INTS,), ([1, None],), 2),
    ("CARDINALITY", (MAP,), ({"a": 1},), 1),
    ("CARDINALITY", (INTS,), (None,), None),
    ("ELEMENT", (INTS,), ([5],), 5),
    ("ELEMENT", (INTS,), ([],), None),
    ("ARRAY_APPEND", (INTS, INT), ([1], 2), [1, 2]),
    ("ARRAY_APPEND", (INTS, INT), (None, 2), None),
    ("ARRAY_APPEND", (INTS, NULL), ([1], None), [1, None]),
    ("ARRAY_PREPEND", (INTS, INT), ([1], 2), [2, 1]),
    ("ARRAY_CONTAINS", (INTS, INT), ([1, 2], 2), True),
    ("ARRAY_CONTAINS", (INTS, INT), ([1, 2], 3), False),
    ("ARRAY_CONTAINS", (INTS, INT), ([1, None], None), True),
    ("ARRAY_CONTAINS", (INTS, INT), ([1], None), False),
    ("ARRAY_CONTAINS", (INTS, INT), (None, 1), None),
    ("ARRAY_CONTAINS", (NESTED, INTS), ([[1], [2, 3]], [2, 3]), True),
    ("ARRAY_CONTAINS", (ROWS, ROWS.element), ([{"a": 1, "b": "x"}], {"a": 1, "b": "y"}), False),
    ("ARRAY_POSITION", (INTS, INT), ([4, 5, 5], 5), 2),
    ("ARRAY_POSITION", (INTS, INT), ([4], 5), 0),
    ("ARRAY_POSITION", (INTS, INT), ([4], None), None),
    ("ARRAY_REMOVE", (INTS, INT), ([1, 2, 1, None], 1), [2, None]),
    ("ARRAY_REMOVE", (INTS, INT), ([1, None], None), [1]),
    ("ARRAY_DISTINCT", (INTS,), ([2, 1, 2, None, None],), [2, 1, None]),
    ("ARRAY_DISTINCT", (NESTED,), ([[1], [1], None],), [[1], None]),
    ("ARRAY_DISTINCT", (INTS,), (None,), None),
    ("ARRAY_REVERSE", (INTS,), ([1, None, 3],), [3, None, 1]),
    ("ARRAY_REVERSE", (INTS,), ([],), []),
    ("ARRAY_CONCAT", (INTS, INTS, INTS), ([1], [None], [1, 2]), [1, None, 1, 2]),
    ("ARRAY_CONCAT", (INTS, INTS), ([1], None), None),
    ("ARRAY_UNION", (INTS, INTS), ([1, 1, 2], [2, 3, None]), [1, 2, 3, None]),
    ("ARRAY_EXCEPT", (INTS, INTS), ([1, 1, 2, None], [2]), [1, None]),
    ("ARRAY_EXCEPT", (INTS, INTS), ([1, None], [None]), [1]),
    ("ARRAY_EXCEPT", (INTS, INTS), ([1], None), None),
    ("ARRAY_INTERSECT", (INTS, INTS), ([3, 1, 1, None], [None, 1]), [1, None]),
    ("ARRAY_INTERSECT", (INTS, INTS), ([3], []), []),
    ("ARRAY_SLICE", (INTS, INT, INT), ([1, 2, 3, 4], 2, 3), [2, 3]),
    ("ARRAY_SLICE", (INTS, INT, INT), ([1, 2, 3, 4], -3, -2), [2, 3]),
    ("ARRAY_SLICE", (INTS, INT), ([1, 2, 3, 4], 3), [3, 4]),
    ("ARRAY_SLICE", (INTS, INT), ([1, 2, 3, 4], 0), [1, 2, 3, 4]),
    ("ARRAY_SLICE", (INTS, INT, INT), ([1, 2, 3, 4], 3, 2), []),
    ("ARRAY_SLICE", (INTS, INT, INT), ([1], 1, None), None),
    ("ARRAY_SORT", (INTS,), ([3, None, 1],), [None, 1, 3]),
    ("ARRAY_SORT", (INTS, BOOLEAN), ([3, None, 1], False), [3, 1, None]),
    ("ARRAY_SORT", (INTS, BOOLEAN, BOOLEAN), ([3, None, 1], True, False), [1, 3, None]),
    ("ARRAY_SORT", (TEXTS,), (["b", "a"],), ["a", "b"]),
    ("ARRAY_SORT", (INTS, BOOLEAN), ([1], None), None),
    ("ARRAY_MAX", (INTS,), ([3, None, 9, 1],), 9),
    ("ARRAY_MIN", (TEXTS,), (["b", "a", None],), "a"),
    ("ARRAY_MAX", (INTS,), ([None],), None),
    ("ARRAY_MAX", (INTS,), ([],), None),
    ("ARRAY_JOIN", (TEXTS, STRING), (["a", None, "b"], "-"), "a-b"),
    ("ARRAY_JOIN", (TEXTS, STRING, STRING), (["a", None, "b"], "-", "?"), "a-?-b"),
    ("ARRAY_JOIN", (TEXTS, STRING), (None, "-"), None),
    ("MAP_KEYS", (MAP,), ({"a": 1, "b": 2},), ["a", "b"]),
    ("MAP_VALUES", (MAP,), ({"a": 1, "b": None},), [1, None]),
    ("MAP_VALUES", (MAP,), (None,), None),
    ("MAP_ENTRIES", (MAP,), ({"a": 1},), [{"key": "a", "value": 1}]),
    ("MAP_FROM_ARRAYS", (TEXTS, INTS), (["a", "b"], [1, 2]), {"a": 1, "b": 2}),
    ("MAP_FROM_ARRAYS", (TEXTS, INTS), (["a"], None), None),
    ("MAP_UNION", (MAP, MAP), ({"a": 1, "b": 2}, {"b": 3, "c": 4}), {"a": 1, "b": 3, "c": 4}),
    ("MAP_UNION", (MAP, MAP), ({"a": 1}, None), None),
)


@pytest.mark.parametrize(("name", "types", "values", "expected"), EXPECTED)
def test_a_function_of_collections_gives_the_expected_result(
    name: str, types: tuple[LogicalType, ...], values: tuple[Any, ...], expected: Any
) -> None:
    assert called(name, *values, types=types) == expected
    assert called(name, *values, types=types, column=False) == expected
    for place in range(len(values)):
        assert called(name, *values, types=types, only=place) == expected


def test_what_cannot_be_is_an_error() -> None:
    with pytest.raises(ProgramError, match="at most one"):
        called("ELEMENT", [1, 2], types=(INTS,))
    with pytest.raises(ProgramError, match="different lengths"):
        called("MAP_FROM_ARRAYS", ["a"], [1, 2], types=(TEXTS, INTS))


def test_results_have_the_types_of_flink() -> None:
    exact = ArrayType(INT.as_nullable(False), nullable=False)
    assert str(result_type("ARRAY_APPEND", exact, INT)) == "ARRAY<INT> NOT NULL"
    assert str(result_type("ARRAY_CONTAINS", exact, INT)) == "BOOLEAN NOT NULL"
    assert str(result_type("ITEM", exact, INT.as_nullable(False))) == "INT"
    assert str(result_type("ARRAY_MAX", exact)) == "INT"
    assert str(result_type("ARRAY_CONCAT", exact, INTS)) == "ARRAY<INT>"
    assert str(result_type("ARRAY", INT.as_nullable(False), BIGINT.as_nullable(False))) == (
        "ARRAY<BIGINT NOT NULL> NOT NULL"
    )
    assert str(result_type("MAP_ENTRIES", MAP)) == "ARRAY<ROW<`key` STRING, `value` INT>>"


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("ARRAY_APPEND", (TEXTS, INT)), ("ARRAY_POSITION", (INTS, BOOLEAN)), ("ARRAY_UNION", (INT, BOOLEAN)),
        ("ARRAY_MAX", (NESTED,)), ("ARRAY_MIN", (ArrayType(BOOLEAN),)), ("ARRAY_MIN", ()),
        ("ARRAY_JOIN", (INTS, STRING)),
        ("ARRAY_SLICE", (INTS,)), ("ARRAY_SORT", (ArrayType(MAP),)), ("MAP_UNION", (MAP, TEXTS)), ("MAP_KEYS", (INTS,)),
        ("CARDINALITY", (STRING,)), ("MAP", (STRING,)), ("ITEM", (MAP, DATE)),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(name: str, types: tuple[LogicalType, ...]) -> None:
    with pytest.raises(SignatureError):
        result_type(name, *types)
