"""Functions of bitmaps: sets of 32-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flott.errors import ProgramError
from flott.table._functions.function import CallArguments, Function, Kernel
from flott.table._functions.roaring import Members, bitmap, bitmap_text, members
from flott.table._functions.signatures import by_row
from flott.table._types.logical import (
    BIGINT,
    BITMAP,
    BYTES,
    INT,
    STRING,
    ArrayType,
    BitmapType,
    Family,
    IntegerType,
    LogicalType,
    NullType,
)


def _combined(combine: Callable[[Members, Members], Members]) -> Kernel:
    return by_row(lambda one, other: bitmap(combine(members(one), members(other))))


def build(values: list[int | None]) -> bytes:
    """Return the set of integers; those below zero are read as unsigned ones, and NULL is left out."""
    return bitmap(
        np.unique(np.array([value for value in values if value is not None], dtype=np.int64) % (1 << 32)).astype(
            np.uint32
        )
    )


def to_array(data: bytes) -> list[int]:
    """Return the members as signed integers."""
    found: list[int] = members(data).astype(np.int32).tolist()
    return found


def from_bytes(data: bytes) -> bytes:
    """Return a set of its serialized form, in this program's own form."""
    try:
        return bitmap(members(data))
    except ValueError as error:
        raise ProgramError(
            f"BITMAP_FROM_BYTES was called with bytes that are not a Roaring bitmap: {error}."
        ) from error


def _takes(result: LogicalType, *accepted: Callable[[LogicalType], bool], expected: str) -> Any:
    def infer(call: CallArguments) -> LogicalType:
        fits = len(call.types) == len(accepted) and all(
            isinstance(of, NullType) or takes(of) for of, takes in zip(call.types, accepted, strict=True)
        )
        if not fits:
            raise call.refuse(expected)
        return result.as_nullable(call.nullable)

    return infer


def _is_bitmap(of: LogicalType) -> bool:
    return isinstance(of, BitmapType)


def _is_integers(of: LogicalType) -> bool:
    return isinstance(of, ArrayType) and isinstance(of.element, IntegerType | NullType)


def _is_binary(of: LogicalType) -> bool:
    return of.family is Family.BINARY


def _typed(of: LogicalType) -> Any:
    """Return a coercion that gives an untyped NULL a type."""
    return lambda call: tuple(of if isinstance(one, NullType) else one for one in call.types)


def _two(name: str, combine: Callable[[Members, Members], Members], description: str) -> Function:
    return Function(
        name, _takes(BITMAP, _is_bitmap, _is_bitmap, expected="(BITMAP, BITMAP)"), _combined(combine), _typed(BITMAP),
        family="bitmap", syntax=f"{name}(bitmap1, bitmap2)", description=description,
    )  # fmt: skip


def _one(
    name: str, accepts: Callable[[LogicalType], bool], given: LogicalType, result: LogicalType,
    kernel: Callable[[Any], Any], syntax: str, description: str, **more: Any,
) -> Function:  # fmt: skip
    return Function(
        name, _takes(result, accepts, expected=f"({given})"), by_row(kernel), _typed(given), family="bitmap",
        syntax=syntax, description=description, **more,
    )  # fmt: skip


FUNCTIONS: tuple[Function, ...] = (
    _two("BITMAP_AND", lambda a, b: np.intersect1d(a, b, assume_unique=True), "Returns the members of both bitmaps."),
    _two("BITMAP_ANDNOT", lambda a, b: np.setdiff1d(a, b, assume_unique=True),
         "Returns the members of bitmap1 that bitmap2 does not have."),
    _two("BITMAP_OR", np.union1d, "Returns the members of either bitmap."),
    _two("BITMAP_XOR", lambda a, b: np.setxor1d(a, b, assume_unique=True), "Returns the members of one bitmap only."),
    _one("BITMAP_BUILD", _is_integers, ArrayType(INT), BITMAP, build, "BITMAP_BUILD(array)",
         "Returns the bitmap of integers; negative ones are read as unsigned, NULL is left out."),
    _one("BITMAP_CARDINALITY", _is_bitmap, BITMAP, BIGINT, lambda data: len(members(data)),
         "BITMAP_CARDINALITY(bitmap)", "Returns the number of members."),
    _one("BITMAP_FROM_BYTES", _is_binary, BYTES, BITMAP, from_bytes, "BITMAP_FROM_BYTES(bytes)",
         "Returns the bitmap of the portable form of Roaring bitmaps.", may_fail=True),
    _one("BITMAP_TO_ARRAY", _is_bitmap, BITMAP, ArrayType(INT), to_array, "BITMAP_TO_ARRAY(bitmap)",
         "Returns the members as an array, in the order of unsigned numbers."),
    _one("BITMAP_TO_BYTES", _is_bitmap, BITMAP, BYTES, bytes, "BITMAP_TO_BYTES(bitmap)",
         "Returns the bitmap in the portable form of Roaring bitmaps."),
    _one("BITMAP_TO_STRING", _is_bitmap, BITMAP, STRING, bitmap_text, "BITMAP_TO_STRING(bitmap)",
         "Returns the members as text, such as {1,2}."),
)  # fmt: skip
