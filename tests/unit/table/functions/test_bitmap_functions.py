"""Bitmaps: the portable form of Roaring bitmaps, and the functions over them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from flott.errors import ProgramError
from flott.table._functions.bitmaps import build
from flott.table._functions.function import SignatureError
from flott.table._functions.roaring import bitmap, bitmap_text, members
from flott.table._types.logical import BITMAP, BYTES, INT, STRING, ArrayType, LogicalType

from .calls import called, result_type

INTS = ArrayType(INT)


@pytest.mark.parametrize(
    "values",
    [[], [0], [5, 70000, 4294967295], list(range(5000)), list(range(65530, 65550)), [7, *range(200000, 290000, 3)]],
)
def test_a_set_is_the_same_after_it_was_written_and_read(values: list[int]) -> None:
    assert members(bitmap(np.array(values, dtype=np.uint32))).tolist() == values


def test_the_form_of_a_set_is_the_portable_one() -> None:
    # cookie, one part, key 1 with two members, offset of the part, lower halves of 65537 and 65539
    expected = struct.pack("<IIHHIHH", 12346, 1, 1, 1, 16, 1, 3)
    assert bitmap(np.array([65537, 65539], dtype=np.uint32)) == expected


def test_runs_are_read() -> None:
    data = struct.pack("<IBHHHHH", 12347, 1, 0, 4, 1, 10, 4)  # one part with one run: 10 and 4 more
    assert members(data).tolist() == [10, 11, 12, 13, 14]


A, B = build([1, 2, 3, -1]), build([2, 3, 4])
EXPECTED: tuple[tuple[str, tuple[LogicalType, ...], tuple[Any, ...], Any], ...] = (
    ("BITMAP_TO_STRING", (BITMAP,), (A,), "{1,2,3,4294967295}"),
    ("BITMAP_TO_ARRAY", (BITMAP,), (A,), [1, 2, 3, -1]),
    ("BITMAP_CARDINALITY", (BITMAP,), (A,), 4),
    ("BITMAP_AND", (BITMAP, BITMAP), (A, B), build([2, 3])),
    ("BITMAP_OR", (BITMAP, BITMAP), (A, B), build([1, 2, 3, 4, -1])),
    ("BITMAP_XOR", (BITMAP, BITMAP), (A, B), build([1, 4, -1])),
    ("BITMAP_ANDNOT", (BITMAP, BITMAP), (A, B), build([1, -1])),
    ("BITMAP_AND", (BITMAP, BITMAP), (A, None), None),
    ("BITMAP_BUILD", (INTS,), ([3, None, 3, 1],), build([1, 3])),
    ("BITMAP_BUILD", (INTS,), (None,), None),
    ("BITMAP_FROM_BYTES", (BYTES,), (A,), A),
    ("BITMAP_TO_BYTES", (BITMAP,), (A,), A),
)


@pytest.mark.parametrize(("name", "types", "values", "expected"), EXPECTED)
def test_a_function_of_bitmaps_gives_the_expected_result(
    name: str, types: tuple[LogicalType, ...], values: tuple[Any, ...], expected: Any
) -> None:
    assert called(name, *values, types=types) == expected
    assert called(name, *values, types=types, column=False) == expected


def test_bytes_that_are_no_bitmap_are_an_error() -> None:
    for data in (b"", b"nothing", struct.pack("<II", 12346, 3)):
        with pytest.raises(ProgramError, match="not a Roaring bitmap"):
            called("BITMAP_FROM_BYTES", data, types=(BYTES,))


def test_other_types_are_refused() -> None:
    for name, types in (
        ("BITMAP_AND", (BITMAP, BYTES)),
        ("BITMAP_BUILD", (ArrayType(STRING),)),
        ("BITMAP_TO_ARRAY", (INTS,)),
    ):
        with pytest.raises(SignatureError):
            result_type(name, *types)
    assert str(result_type("BITMAP_OR", BITMAP.as_nullable(False), BITMAP.as_nullable(False))) == "BITMAP NOT NULL"
    assert bitmap_text(build([])) == "{}"
