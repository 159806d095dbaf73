"""Building blocks of signatures: how many arguments of which families, and what comes out.

An ``infer`` or ``coerce`` of a function is put together from these; see ``function.py`` for when they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import pyarrow as pa

from flott.errors import EpochFailure
from flott.table._functions.function import CallArguments, Datum, Infer, Kernel, KernelCall
from flott.table._types.logical import Family, LogicalType, NullType

Coerce = Callable[[CallArguments], tuple[LogicalType, ...] | None]

NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.APPROXIMATE)
TEXT = (Family.CHARACTER,)
DATETIME = (Family.DATE, Family.TIME, Family.TIMESTAMP)


class EvaluationError(EpochFailure):
    """A value cannot be computed for a row: a division by zero, a text that is no number, and the like."""


def check(arguments: CallArguments, expected: str, *families: tuple[Family, ...], least: int | None = None) -> None:
    """Raise ``SignatureError`` unless there is an argument for each entry, of one of its families (or NULL).

    Arguments behind the first ``least`` ones may be left away.
    """
    given = arguments.types
    if not (len(families) if least is None else least) <= len(given) <= len(families):
        raise arguments.refuse(expected)
    for of, allowed in zip(given, families, strict=False):
        if not isinstance(of, NullType) and of.family not in allowed:
            raise arguments.refuse(expected)


def result(of: LogicalType, expected: str, *families: tuple[Family, ...], least: int | None = None) -> Infer:
    """Return an ``infer`` of a fixed type, nullable if any argument is."""

    def infer(arguments: CallArguments) -> LogicalType:
        check(arguments, expected, *families, least=least)
        return of.as_nullable(arguments.nullable)

    return infer


def no_arguments(of: LogicalType) -> Infer:
    """Return an ``infer`` of a function without arguments, never NULL."""

    def infer(arguments: CallArguments) -> LogicalType:
        if arguments.types:
            raise arguments.refuse("no arguments")
        return of.as_nullable(False)

    return infer


def to_types(*types: LogicalType) -> Coerce:
    """Return a ``coerce`` to fixed types, as many as there are arguments."""

    def coerce(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
        return tuple(types[: len(arguments.types)]) if len(arguments.types) <= len(types) else None

    return coerce


def over_columns(kernel: Kernel) -> Kernel:
    """Return a kernel that works for constants too, made from one that takes columns only."""

    @wraps(kernel)
    def general(call: KernelCall) -> Datum:
        if call.arguments and all(isinstance(value, pa.Scalar) for value in call.arguments):
            single = replace(call, arguments=[pa.repeat(value, 1) for value in call.arguments], length=1)
            return kernel(single)[0]
        columns = [call.column(index) for index in range(len(call.arguments))]
        return kernel(replace(call, arguments=columns))

    return general
