"""Signatures of functions as data: what each parameter takes, how many there may be, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    STRING,
    Family,
    LogicalType,
    NullType,
)


@dataclass(frozen=True)
class Parameter:
    """What one argument may be. A NULL of no type is read as ``null_type``."""

    text: str
    families: frozenset[Family] | None
    null_type: LogicalType

    def takes(self, of: LogicalType) -> bool:
        """Return whether an argument of a type fits."""
        return self.families is None or of.family in self.families or isinstance(of, NullType)


def _parameter(text: str, null_type: LogicalType, *families: Family) -> Parameter:
    return Parameter(text, frozenset(families) or None, null_type)


TEXT = _parameter("STRING", STRING, Family.CHARACTER)
BINARY = _parameter("BYTES", BYTES, Family.BINARY)
TEXT_OR_BINARY = _parameter("STRING or BYTES", STRING, Family.CHARACTER, Family.BINARY)
INTEGER = _parameter("INT", INT, Family.INTEGER)
LONG = _parameter("BIGINT", BIGINT, Family.INTEGER)
NUMBER = _parameter("NUMERIC", DOUBLE, Family.INTEGER, Family.DECIMAL, Family.APPROXIMATE)
TRUTH = _parameter("BOOLEAN", BOOLEAN, Family.BOOLEAN)
ANYTHING = _parameter("ANY", STRING)

Result = LogicalType | Callable[[CallArguments], LogicalType]


@dataclass(frozen=True)
class Signature:
    """Parameters and result. ``optional`` counts those at the end that may be left out; the last may repeat."""

    parameters: tuple[Parameter, ...]
    result: Result
    optional: int = 0
    repeats: bool = False
    #: None: the result is NULL if an argument may be; True: it may always be; False: never.
    nullable: bool | None = None

    def _parameter(self, index: int) -> Parameter:
        return self.parameters[min(index, len(self.parameters) - 1)]

    def expected(self) -> str:
        """Return the parameters as text."""
        required = len(self.parameters) - self.optional
        shown = [p.text if i < required else f"[{p.text}]" for i, p in enumerate(self.parameters)]
        return f"({', '.join([*shown, '...'] if self.repeats else shown)})"

    def infer(self, call: CallArguments) -> LogicalType:
        """Return the type of a call's result; refuse arguments that do not fit."""
        given, most = len(call.types), len(self.parameters)
        if given < most - self.optional or (given > most and not self.repeats):
            raise call.refuse(self.expected())
        if not all(self._parameter(i).takes(of) for i, of in enumerate(call.types)):
            raise call.refuse(self.expected())
        result = self.result(call) if callable(self.result) else self.result
        if self.nullable is None:
            return result.as_nullable(call.nullable) if isinstance(self.result, LogicalType) else result
        return result.as_nullable(self.nullable)

    def coerce(self, call: CallArguments) -> tuple[LogicalType, ...] | None:
        """Return the arguments' types with each untyped NULL given a type."""
        if not any(isinstance(of, NullType) for of in call.types):
            return None
        return tuple(
            self._parameter(i).null_type if isinstance(of, NullType) else of for i, of in enumerate(call.types)
        )


def define(
    name: str,
    parameters: tuple[Parameter, ...],
    result: Result,
    kernel: Kernel,
    *,
    optional: int = 0,
    repeats: bool = False,
    nullable: bool | None = None,
    **more: Any,
) -> Function:
    """Return a function with a signature of plain parameters."""
    signature = Signature(parameters, result, optional, repeats, nullable)
    more.setdefault("coerce", signature.coerce)
    return Function(name, signature.infer, kernel, **more)


# --- kernels ---------------------------------------------------------------------------------------------------------


def by_row(function: Callable[..., Any], strict: bool = True) -> Kernel:
    """Return a kernel that calls a Python function for each row; a strict one gives NULL for any NULL argument."""

    def kernel(call: KernelCall) -> Datum:
        wanted = arrow_type(call.type)
        values = [value.as_py() if isinstance(value, pa.Scalar) else value.to_pylist() for value in call.arguments]
        fixed = [isinstance(value, pa.Scalar) for value in call.arguments]
        if all(fixed):
            return pa.scalar(None if strict and None in values else function(*values), type=wanted)
        if strict and any(one and value is None for one, value in zip(fixed, values, strict=True)):
            return pa.scalar(None, type=wanted)
        if fixed.count(False) == 1:
            return pa.array(_one_column(function, values, fixed.index(False), strict), type=wanted)
        columns = [[value] * call.length if one else value for one, value in zip(fixed, values, strict=True)]
        rows = zip(*columns, strict=True)
        if strict:
            return pa.array([None if None in row else function(*row) for row in rows], type=wanted)
        return pa.array([function(*row) for row in rows], type=wanted)

    return kernel


def _one_column(function: Callable[..., Any], values: list[Any], at: int, strict: bool) -> list[Any]:
    before, after = values[:at], values[at + 1 :]
    if strict:
        return [None if value is None else function(*before, value, *after) for value in values[at]]
    return [function(*before, value, *after) for value in values[at]]


def by_value(function: Callable[..., Any]) -> Kernel:
    """Return a strict kernel that calls an expensive function once for each different value of its only column."""
    plain = by_row(function)

    def kernel(call: KernelCall) -> Datum:
        columns = [i for i, value in enumerate(call.arguments) if not isinstance(value, pa.Scalar)]
        if len(columns) != 1 or call.length < 32 or not _is_flat(call.arguments[columns[0]].type):
            return plain(call)
        encoded = call.column(columns[0]).dictionary_encode()
        arguments = list(call.arguments)
        arguments[columns[0]] = encoded.dictionary
        result = plain(KernelCall(arguments, call.types, call.type, len(encoded.dictionary), call.session))
        return result if isinstance(result, pa.Scalar) else result.take(encoded.indices)

    return kernel


def _is_flat(of: pa.DataType) -> bool:
    return not pa.types.is_nested(of) and not pa.types.is_null(of)


def compute(function: Callable[..., Datum]) -> Kernel:
    """Return a kernel that calls a function of Arrow with the columns."""
    return lambda call: function(*call.arguments)
