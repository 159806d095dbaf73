"""Which type comes out: common types, results of decimal arithmetic, and what is cast to what, asked for or not.

Pure functions over logical types, with the answers of Flink. None is the answer if there is no such type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flott.table._types.logical import (
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    ArrayType,
    BinaryType,
    CharType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    Family,
    FloatType,
    IntegerType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RawType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    YearMonthIntervalType,
    plain,
    same_type,
)

#: A division keeps at least so many digits behind the point, if the digits in front of it leave room.
_LEAST_SCALE = 6


# --- decimals --------------------------------------------------------------------------------------------------------


def as_decimal(of: LogicalType) -> DecimalType | None:
    """Return the DECIMAL that holds every value of an exact number type."""
    if isinstance(of, DecimalType):
        return of
    if isinstance(of, IntegerType):
        return DecimalType(of.digits, 0, nullable=of.nullable)
    return None


def _bounded(precision: int, scale: int) -> DecimalType:
    """Return a decimal type of at most 38 digits: digits behind the point give way to those in front of it."""
    if precision <= MAX_DECIMAL_PRECISION:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(MAX_DECIMAL_PRECISION, max(MAX_DECIMAL_PRECISION - whole, min(scale, _LEAST_SCALE)))


def decimal_sum(one: DecimalType, other: DecimalType) -> DecimalType:
    """Return the type of a sum or difference."""
    scale = max(one.scale, other.scale)
    return _bounded(max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale)


def decimal_product(one: DecimalType, other: DecimalType) -> DecimalType:
    """Return the type of a product."""
    return _bounded(one.precision + other.precision + 1, one.scale + other.scale)


def decimal_quotient(one: DecimalType, other: DecimalType) -> DecimalType:
    """Return the type of a quotient."""
    scale = max(_LEAST_SCALE, one.scale + other.precision + 1)
    return _bounded(one.precision - one.scale + other.scale + scale, scale)


def decimal_remainder(one: DecimalType, other: DecimalType) -> DecimalType:
    """Return the type of the remainder of a division."""
    scale = max(one.scale, other.scale)
    return _bounded(min(one.precision - one.scale, other.precision - other.scale) + scale, scale)


def decimal_rounded(of: DecimalType, digits: int) -> DecimalType:
    """Return the type of a decimal rounded to so many digits behind the point."""
    if digits >= of.scale:
        return DecimalType(of.precision, of.scale)
    whole = 1 + of.precision - of.scale
    return DecimalType(min(MAX_DECIMAL_PRECISION, whole + max(digits, 0)), max(digits, 0))


def sum_type(of: LogicalType) -> LogicalType:
    """Return the type of SUM over a type."""
    return DecimalType(38, of.scale, nullable=of.nullable) if isinstance(of, DecimalType) else of


def average_type(of: LogicalType) -> LogicalType:
    """Return the type of AVG over a type: that of its argument, but for decimals."""
    if not isinstance(of, DecimalType):
        return of
    return decimal_quotient(DecimalType(38, of.scale), DecimalType(20, 0)).as_nullable(of.nullable)


# --- common types ----------------------------------------------------------------------------------------------------


def common_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """Return the type to which all of the types are cast if they meet, as in CASE, COALESCE or UNION."""
    nullable = any(of.nullable for of in types)
    known = [of for of in types if not isinstance(of, NullType)]
    if not known:
        return NullType() if types else None
    if all(same_type(of, known[0]) for of in known):
        return known[0].as_nullable(nullable)
    found: LogicalType = plain(known[0]).as_nullable()
    for of in known[1:]:
        merged = _common_of_two(found, plain(of).as_nullable())
        if merged is None:
            return None
        found = merged
    return found.as_nullable(nullable)


def _common_of_two(one: LogicalType, other: LogicalType) -> LogicalType | None:
    if one == other:
        return one
    if one.is_numeric and other.is_numeric:
        return _common_number(one, other)
    if one.family is not other.family:
        return _common_of_families(one, other)
    match one.family:
        case Family.CHARACTER:
            return _common_text(one, other)
        case Family.BINARY:
            return _common_bytes(one, other)
        case Family.TIME:
            assert isinstance(one, TimeType)
            assert isinstance(other, TimeType)
            return TimeType(max(one.precision, other.precision))
        case Family.TIMESTAMP:
            return _common_timestamp(one, other)
        case Family.INTERVAL:
            return _common_interval(one, other)
        case Family.COLLECTION:
            return _common_collection(one, other)
    return None


def _common_number(one: LogicalType, other: LogicalType) -> LogicalType:
    if isinstance(one, IntegerType) and isinstance(other, IntegerType):
        return one if one.bits >= other.bits else other
    left, right = as_decimal(one), as_decimal(other)
    if left is not None and right is not None:
        whole = min(max(left.precision - left.scale, right.precision - right.scale), MAX_DECIMAL_PRECISION)
        scale = min(max(left.scale, right.scale), MAX_DECIMAL_PRECISION - whole)
        return DecimalType(whole + scale, scale)
    if isinstance(one, DoubleType | DecimalType) or isinstance(other, DoubleType | DecimalType):
        return DOUBLE
    return one if isinstance(one, FloatType) else other


def _common_text(one: LogicalType, other: LogicalType) -> LogicalType:
    assert isinstance(one, CharType | VarCharType)
    assert isinstance(other, CharType | VarCharType)
    length = max(one.length, other.length)
    if isinstance(one, CharType) and isinstance(other, CharType) and one.length == other.length:
        return one
    return VarCharType(length)  # texts are not padded just because they meet longer ones


def _common_bytes(one: LogicalType, other: LogicalType) -> LogicalType:
    assert isinstance(one, BinaryType | VarBinaryType)
    assert isinstance(other, BinaryType | VarBinaryType)
    if isinstance(one, BinaryType) and isinstance(other, BinaryType) and one.length == other.length:
        return one
    return VarBinaryType(max(one.length, other.length))


def _common_timestamp(one: LogicalType, other: LogicalType) -> LogicalType:
    assert isinstance(one, TimestampType | LocalZonedTimestampType)
    assert isinstance(other, TimestampType | LocalZonedTimestampType)
    precision = max(one.precision, other.precision)
    if isinstance(one, TimestampType) and isinstance(other, TimestampType):
        return TimestampType(precision)
    return LocalZonedTimestampType(precision)


def _common_interval(one: LogicalType, other: LogicalType) -> LogicalType | None:
    if isinstance(one, DayTimeIntervalType) and isinstance(other, DayTimeIntervalType):
        return DayTimeIntervalType()
    if isinstance(one, YearMonthIntervalType) and isinstance(other, YearMonthIntervalType):
        return YearMonthIntervalType()
    return None


def _common_of_families(one: LogicalType, other: LogicalType) -> LogicalType | None:
    for left, right in ((one, other), (other, one)):
        if left.family in (Family.DATE, Family.TIME, Family.TIMESTAMP) and right.family is Family.INTERVAL:
            return left
        if left.family is Family.DATE and right.family is Family.TIMESTAMP:
            return right
    return None


def _common_collection(one: LogicalType, other: LogicalType) -> LogicalType | None:
    if type(one) is not type(other):
        return None
    parts = []
    left, right = children_of(one), children_of(other)
    if len(left) != len(right):
        return None
    for ours, theirs in zip(left, right, strict=True):
        part = common_type([ours, theirs])
        if part is None:
            return None
        parts.append(part)
    return with_children(one, parts)


def children_of(of: LogicalType) -> tuple[LogicalType, ...]:
    """Return the types that a type of others is made of."""
    match of:
        case ArrayType() | MultisetType():
            return (of.element,)
        case MapType():
            return (of.key, of.value)
        case RowType():
            return of.types
    return ()


def with_children(of: LogicalType, children: Sequence[LogicalType]) -> LogicalType:
    """Return a type of others with other ones."""
    match of:
        case ArrayType() | MultisetType():
            return replace(of, element=children[0])
        case MapType():
            return replace(of, key=children[0], value=children[1])
        case RowType():
            return replace(
                of, fields=tuple(replace(field, type=to) for field, to in zip(of.fields, children, strict=True))
            )
    return of


# --- comparisons -----------------------------------------------------------------------------------------------------


def comparable_type(one: LogicalType, other: LogicalType) -> LogicalType | None:
    """Return the type to which both sides of a comparison are cast; None if they cannot be compared."""
    one, other = plain(one).as_nullable(), plain(other).as_nullable()
    if one == other or isinstance(other, NullType):
        return one
    if isinstance(one, NullType):
        return other
    if one.is_numeric and other.is_numeric:
        # A comparison of an exact with an approximate number is one of doubles.
        return _common_number(one, other) if one.family is other.family else _mixed_numbers(one, other)
    for left, right in ((one, other), (other, one)):
        if left.family is Family.CHARACTER:
            # A text next to a time is read as one. Next to a number it is refused, as Flink does.
            if right.family in (Family.DATE, Family.TIME, Family.TIMESTAMP, Family.BOOLEAN):
                return right
            return _common_of_two(one, other)
    return _common_of_two(one, other)


def _mixed_numbers(one: LogicalType, other: LogicalType) -> LogicalType:
    if Family.APPROXIMATE in (one.family, other.family):
        return DOUBLE
    return _common_number(one, other)


def is_ordered(of: LogicalType) -> bool:
    """Return whether values of a type can be compared by ``<``."""
    return of.family not in (Family.COLLECTION, Family.OTHER)


# --- casts -----------------------------------------------------------------------------------------------------------

_DATETIME = (Family.DATE, Family.TIME, Family.TIMESTAMP)
_NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.APPROXIMATE)
_EXACT = (Family.INTEGER, Family.DECIMAL)

#: From which families one can cast to a family if asked to. Collections are cast part by part.
_EXPLICIT: dict[Family, tuple[Family, ...]] = {
    Family.BOOLEAN: (Family.BOOLEAN, Family.CHARACTER, *_NUMBERS),
    Family.INTEGER: (Family.BOOLEAN, Family.CHARACTER, *_NUMBERS, Family.INTERVAL),
    Family.DECIMAL: (Family.BOOLEAN, Family.CHARACTER, *_NUMBERS, Family.INTERVAL),
    Family.APPROXIMATE: (Family.BOOLEAN, Family.CHARACTER, *_NUMBERS),
    Family.BINARY: (Family.CHARACTER, Family.BINARY, Family.OTHER),
    Family.DATE: (Family.CHARACTER, Family.DATE, Family.TIMESTAMP),
    Family.TIME: (Family.CHARACTER, Family.TIME, Family.TIMESTAMP),
    Family.TIMESTAMP: (Family.CHARACTER, *_DATETIME),
    Family.INTERVAL: (Family.INTERVAL, *_EXACT),
}


def can_cast(source: LogicalType, target: LogicalType) -> bool:
    """Return whether ``CAST(source AS target)`` is allowed. Nullability is not looked at."""
    if same_type(source, target) or isinstance(source, NullType):
        return True
    if isinstance(target, CharType | VarCharType):
        return True  # everything has a text
    if source.family is Family.COLLECTION or target.family is Family.COLLECTION:
        return _parts_agree(source, target, can_cast)
    if isinstance(target, RawType):
        return False
    if source.family is Family.OTHER:
        return isinstance(source, RawType) and target.family is Family.BINARY
    if Family.INTERVAL in (source.family, target.family) and source.family is not target.family:
        interval = source if source.family is Family.INTERVAL else target
        if source.family in _EXACT or target.family in _EXACT:
            return " TO " not in str(interval)  # only an interval of a single field is a number
    if isinstance(source, DayTimeIntervalType | YearMonthIntervalType) and target.family is Family.INTERVAL:
        return type(source) is type(target)
    return source.family in _EXPLICIT.get(target.family, ())


def can_cast_implicitly(source: LogicalType, target: LogicalType) -> bool:
    """Return whether a value is converted without being asked for, because nothing of it is lost."""
    if same_type(plain(source), plain(target)) or isinstance(source, NullType):
        return True
    if Family.COLLECTION in (source.family, target.family):
        return _parts_agree(source, target, can_cast_implicitly)
    if isinstance(source, IntegerType) and isinstance(target, IntegerType):
        return source.bits <= target.bits
    if source.is_numeric and target.is_numeric:
        if isinstance(target, IntegerType):
            return False
        return not (isinstance(source, DoubleType) and isinstance(target, FloatType))
    if isinstance(target, VarCharType) or (isinstance(target, CharType) and isinstance(source, CharType)):
        return source.family is Family.CHARACTER
    if isinstance(target, VarBinaryType) or (isinstance(target, BinaryType) and isinstance(source, BinaryType)):
        return source.family is Family.BINARY
    if isinstance(source, TimestampType | LocalZonedTimestampType):
        return target.family in _DATETIME
    return source.family is target.family and source.family in (*_DATETIME, Family.INTERVAL)


def can_assign(source: LogicalType, target: LogicalType) -> bool:
    """Return whether INSERT stores a column of one type in a column of another, with a cast if need be.

    Numbers may be narrowed and texts be cut or padded, times be converted among each other; a text is not read as a
    number, nor a number written as a text, unless the query says so.
    """
    if same_type(plain(source), plain(target)) or isinstance(source, NullType):
        return True
    if Family.COLLECTION in (source.family, target.family):
        return _parts_agree(source, target, can_assign)
    if source.is_numeric and target.is_numeric:
        return True
    if source.family in _DATETIME and target.family in _DATETIME:
        return can_cast(source, target)
    return source.family is target.family and can_cast(source, target)


def _parts_agree(source: LogicalType, target: LogicalType, agree: object) -> bool:
    ours, theirs = children_of(source), children_of(target)
    if type(source) is not type(target) or len(ours) != len(theirs) or not callable(agree):
        return False
    return all(agree(one, other) for one, other in zip(ours, theirs, strict=True))


def cast_type(source: LogicalType, target: LogicalType, *, safe: bool) -> LogicalType:
    """Return the type of a cast: NOT NULL only if its operand is, and if it cannot fail to NULL."""
    return target.as_nullable(safe or source.nullable)


def needs_cast(source: LogicalType, target: LogicalType) -> bool:
    """Return whether a value must be converted to be of another type: nullability and time attributes do not matter."""
    return not same_type(_bare(source), _bare(target))


def _bare(of: LogicalType) -> LogicalType:
    parts = children_of(of)
    return plain(with_children(of, [_bare(part).as_nullable() for part in parts]) if parts else of)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def arithmetic_type(operator: str, one: LogicalType, other: LogicalType) -> LogicalType | None:
    """Return the type of ``one operator other`` for numbers, ``operator`` being one of ``+ - * / %``."""
    nullable = one.nullable or other.nullable
    if isinstance(one, NullType) and isinstance(other, NullType):
        return None
    if isinstance(one, NullType):
        one = other
    elif isinstance(other, NullType):
        other = one
    if not one.is_numeric or not other.is_numeric:
        return None
    if isinstance(one, DecimalType) or isinstance(other, DecimalType):
        left, right = as_decimal(one), as_decimal(other)
        if left is None or right is None:
            return DOUBLE.as_nullable(nullable)
        return _DECIMAL_RULES[operator](left, right).as_nullable(nullable)
    if operator == "%":  # the result is less than the divisor
        return (other if one.family is other.family else _common_number(one, other)).as_nullable(nullable)
    return _common_number(one, other).as_nullable(nullable)


_DECIMAL_RULES = {
    "+": decimal_sum,
    "-": decimal_sum,
    "*": decimal_product,
    "/": decimal_quotient,
    "%": decimal_remainder,
}


def is_datetime(of: LogicalType) -> bool:
    """Return whether a type is a day, a time of day, or both."""
    return of.family in _DATETIME


def is_day_based(of: LogicalType) -> bool:
    """Return whether a type has a day."""
    return isinstance(of, DateType | TimestampType | LocalZonedTimestampType)
