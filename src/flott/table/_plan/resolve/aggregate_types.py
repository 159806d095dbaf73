"""Which names are aggregates, what they take and of which type their results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flott.table._expressions.expression import Cast, Expression, Literal
from flott.table._plan.resolve.calls import cast_to
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.base import Position
from flott.table._types import logical as types
from flott.table._types.coercion import average_type, common_type, sum_type
from flott.table._types.logical import BIGINT, DOUBLE, STRING, Family, LogicalType, plain


@dataclass(frozen=True)
class AggregateSignature:
    """An aggregate function: numbers of arguments, result type, and how many of the last arguments are constants."""

    least: int
    most: int
    result: Callable[[Sequence[LogicalType]], LogicalType | None]
    constants: int = 0  #: so many arguments behind the first are constants of the call, not columns
    over_only: bool = False
    needs_order: bool = False


def _count(of: Sequence[LogicalType]) -> LogicalType:
    return BIGINT.as_nullable(False)


def _same(of: Sequence[LogicalType]) -> LogicalType:
    return plain(of[0]).as_nullable()


def _ordered(of: Sequence[LogicalType]) -> LogicalType | None:
    return None if of[0].family in (Family.COLLECTION, Family.OTHER) else plain(of[0]).as_nullable()


def _sum(of: Sequence[LogicalType]) -> LogicalType | None:
    return sum_type(of[0]).as_nullable() if of[0].is_numeric else None


def _sum0(of: Sequence[LogicalType]) -> LogicalType | None:
    return sum_type(of[0]).as_nullable(False) if of[0].is_numeric else None


def _average(of: Sequence[LogicalType]) -> LogicalType | None:
    return average_type(of[0]).as_nullable() if of[0].is_numeric else None


def _double(of: Sequence[LogicalType]) -> LogicalType | None:
    return DOUBLE if of[0].is_numeric else None


def _deviation(of: Sequence[LogicalType]) -> LogicalType | None:
    """Return the type of a variance: as that of AVG."""
    return _average(of)


def _text(of: Sequence[LogicalType]) -> LogicalType | None:
    return STRING if of[0].family is Family.CHARACTER else None


def _percentile(of: Sequence[LogicalType]) -> LogicalType | None:
    if not of[0].is_numeric:
        return None
    return types.ArrayType(DOUBLE) if isinstance(of[1], types.ArrayType) else DOUBLE


def _json(of: Sequence[LogicalType]) -> LogicalType:
    return STRING.as_nullable(False)


def _shifted(of: Sequence[LogicalType]) -> LogicalType | None:
    if len(of) < 3:
        return plain(of[0]).as_nullable()
    return common_type((plain(of[0]), plain(of[2])))


def _plain_double(of: Sequence[LogicalType]) -> LogicalType:
    return DOUBLE.as_nullable(False)


def _of_integers(result: LogicalType) -> Callable[[Sequence[LogicalType]], LogicalType | None]:
    return lambda of: result if isinstance(of[0], types.IntegerType) else None


def _of_bitmaps(result: LogicalType) -> Callable[[Sequence[LogicalType]], LogicalType | None]:
    return lambda of: result if isinstance(of[0], types.BitmapType) else None


_MANY = 255
_COMBINED = ("AND", "OR", "XOR")  #: how bitmaps of several rows become one

SIGNATURES: dict[str, AggregateSignature] = {
    "COUNT": AggregateSignature(0, _MANY, _count),
    "APPROX_COUNT_DISTINCT": AggregateSignature(1, 1, _count),
    "SUM": AggregateSignature(1, 1, _sum),
    "$SUM0": AggregateSignature(1, 1, _sum0),
    "SUM0": AggregateSignature(1, 1, _sum0),
    "AVG": AggregateSignature(1, 1, _average),
    "MIN": AggregateSignature(1, 1, _ordered),
    "MAX": AggregateSignature(1, 1, _ordered),
    "STDDEV_POP": AggregateSignature(1, 1, _deviation),
    "STDDEV_SAMP": AggregateSignature(1, 1, _deviation),
    "STDDEV": AggregateSignature(1, 1, _deviation),
    "VAR_POP": AggregateSignature(1, 1, _deviation),
    "VAR_SAMP": AggregateSignature(1, 1, _deviation),
    "VARIANCE": AggregateSignature(1, 1, _deviation),
    "FIRST_VALUE": AggregateSignature(1, 1, _same),
    "LAST_VALUE": AggregateSignature(1, 1, _same),
    "SINGLE_VALUE": AggregateSignature(1, 1, _same),
    "COLLECT": AggregateSignature(1, 1, lambda of: types.MultisetType(plain(of[0]), nullable=False)),
    "ARRAY_AGG": AggregateSignature(1, 1, lambda of: types.ArrayType(plain(of[0]))),
    "LISTAGG": AggregateSignature(1, 2, _text, constants=1),
    "PERCENTILE": AggregateSignature(2, 3, _percentile, constants=1),
    "JSON_OBJECTAGG": AggregateSignature(2, 2, _json),
    "JSON_ARRAYAGG": AggregateSignature(1, 1, _json),
    "BITMAP_BUILD_AGG": AggregateSignature(1, 1, _of_integers(types.BITMAP)),
    "BITMAP_BUILD_CARDINALITY_AGG": AggregateSignature(1, 1, _of_integers(BIGINT)),
    **{f"BITMAP_{verb}_AGG": AggregateSignature(1, 1, _of_bitmaps(types.BITMAP)) for verb in _COMBINED},
    **{f"BITMAP_{verb}_CARDINALITY_AGG": AggregateSignature(1, 1, _of_bitmaps(BIGINT)) for verb in _COMBINED},
    "ROW_NUMBER": AggregateSignature(0, 0, _count, over_only=True),
    "RANK": AggregateSignature(0, 0, _count, over_only=True, needs_order=True),
    "DENSE_RANK": AggregateSignature(0, 0, _count, over_only=True, needs_order=True),
    "PERCENT_RANK": AggregateSignature(0, 0, _plain_double, over_only=True, needs_order=True),
    "CUME_DIST": AggregateSignature(0, 0, _plain_double, over_only=True, needs_order=True),
    "NTILE": AggregateSignature(1, 1, _count, constants=1, over_only=True, needs_order=True),
    "LAG": AggregateSignature(1, 3, _shifted, constants=2, over_only=True, needs_order=True),
    "LEAD": AggregateSignature(1, 3, _shifted, constants=2, over_only=True, needs_order=True),
}

_SYNONYMS = {"STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP", "SUM0": "$SUM0"}


def is_aggregate(name: str) -> bool:
    """Return whether a name without catalog is that of an aggregate of the library."""
    return name.upper() in SIGNATURES


@dataclass(frozen=True)
class TypedAggregate:
    """A checked call: its name in the library, its columns, its constants, its type."""

    function: str
    arguments: tuple[Expression, ...]
    literals: tuple[Any, ...]
    type: LogicalType


def typed_aggregate(name: str, arguments: Sequence[Expression], position: Position | None) -> TypedAggregate:
    """Return a call with its arguments told apart and its result typed."""
    name = name.upper()
    signature = SIGNATURES[name]
    if not signature.least <= len(arguments) <= signature.most:
        expected = (
            str(signature.least) if signature.least == signature.most else f"{signature.least} to {signature.most}"
        )
        raise SqlError(f"{name} takes {expected} arguments, found {len(arguments)}", position)
    given = [plain(argument.type) for argument in arguments]
    result = signature.result(given)
    if result is None:
        raise SqlError(f"{name} cannot be called with ({', '.join(map(str, given))})", position)
    first = 0 if name == "NTILE" else 1
    columns: list[Expression] = list(arguments)
    constants: tuple[Any, ...] = ()
    if signature.constants and len(arguments) > first:
        if name == "PERCENTILE":
            columns, constants = [arguments[0], *arguments[2:]], (_constant(name, arguments[1], position),)
        else:
            columns = list(arguments[:first])
            constants = tuple(_constant(name, argument, position) for argument in arguments[first:])
    if name in ("LAG", "LEAD") and columns:
        columns = [cast_to(columns[0], result)]
    return TypedAggregate(_SYNONYMS.get(name, name), tuple(columns), constants, result)


def _constant(name: str, argument: Expression, position: Position | None) -> Any:
    while isinstance(argument, Cast):
        argument = argument.operand
    if isinstance(argument, Literal):
        return argument.value
    from flott.table._expressions.expression import Call

    if isinstance(argument, Call) and argument.function == "ARRAY":
        return tuple(_constant(name, item, position) for item in argument.arguments)
    raise SqlError(f"{name} takes only constants behind its first argument", position)
