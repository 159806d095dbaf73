"""Comparisons and three-valued logic: ``= <> < <= > >=``, IS [NOT] NULL and the like, BETWEEN, IN, AND, OR, NOT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import comparable_type, is_ordered
from flott.table._types.logical import BOOLEAN, Family, IntegerType, LogicalType, NullType

# --- comparisons -----------------------------------------------------------------------------------------------------


def _common(arguments: CallArguments) -> LogicalType | None:
    found: LogicalType | None = arguments.types[0]
    for of in arguments.types[1:]:
        found = None if found is None else comparable_type(found, of)
    return found


def _coerced(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    """Return the one type that all sides get. Integers of different widths are compared as they are."""
    types = arguments.types
    if all(isinstance(of, IntegerType) for of in types) or not types:
        return None
    common = _common(arguments)
    if common is None or isinstance(common, NullType):
        return None
    return tuple(of if arrow_type(of) == arrow_type(common) else common for of in types)


def _compared(count: int | None, ordered: bool) -> Callable[[CallArguments], LogicalType]:
    def infer(arguments: CallArguments) -> LogicalType:
        if len(arguments.types) < 2 or (count is not None and len(arguments.types) != count):
            raise arguments.refuse(f"{count or 'at least 2'} arguments that can be compared")
        common = _common(arguments)
        if common is None or (ordered and not is_ordered(common)):
            raise arguments.refuse("arguments that can be compared with each other")
        return BOOLEAN.as_nullable(arguments.nullable)

    return infer


def _nested(of: pa.DataType) -> bool:
    return bool(pa.types.is_nested(of))


def _columns(*values: Datum) -> list[list[Any]]:
    """Return nested values as lists of Python objects of one length."""
    length = max((len(value) for value in values if not isinstance(value, pa.Scalar)), default=1)
    return [
        [value.as_py()] * length if isinstance(value, pa.Scalar) else value.to_pylist(maps_as_pydicts=None)
        for value in values
    ]


def _plain_object(value: Any) -> Any:
    """Return a value in a form in which the order of the entries of a map does not matter."""
    if isinstance(value, dict):
        return tuple(_plain_object(part) for part in value.values())
    if isinstance(value, list):
        parts = [_plain_object(part) for part in value]
        return sorted(parts, key=repr) if parts and all(isinstance(p, tuple) and len(p) == 2 for p in parts) else parts
    return value


def equal(one: Datum, other: Datum) -> Datum:
    """Return where two columns are equal; NULL where one of them is NULL."""
    if pa.types.is_null(one.type) or pa.types.is_null(other.type):
        return pc.if_else(pc.and_(pc.is_valid(one), pc.is_valid(other)), True, pa.scalar(None, pa.bool_()))
    if not _nested(one.type):
        return pc.equal(one, other)
    left, right = _columns(one, other)
    found = pa.array(
        [
            None if ours is None or theirs is None else _plain_object(ours) == _plain_object(theirs)
            for ours, theirs in zip(left, right, strict=True)
        ],
        type=pa.bool_(),
    )
    return found[0] if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar) else found


def _not_equal(one: Datum, other: Datum) -> Datum:
    return pc.invert(equal(one, other))


_COMPARE: dict[str, Callable[[Datum, Datum], Datum]] = {
    "=": equal,
    "<>": _not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _comparison(name: str) -> Kernel:
    compare = _COMPARE[name]

    def kernel(call: KernelCall) -> Datum:
        one, other = call.arguments
        if pa.types.is_null(one.type) or pa.types.is_null(other.type):
            return pa.scalar(None, pa.bool_())
        return compare(one, other)

    return kernel


def _infix(name: str) -> Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str | None]:
    """Return what prints an operator for Spark. It compares text, numbers and times as Flink does."""

    def printed(arguments: Sequence[str], types: Sequence[LogicalType], result: LogicalType) -> str | None:
        if any(of.family in (Family.COLLECTION, Family.OTHER) for of in types):
            return None
        return f"({arguments[0]} {name} {arguments[1]})"

    return printed


def _distinct(call: KernelCall) -> Datum:
    one, other = call.arguments
    same = pc.fill_null(equal(one, other), False)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.invert(pc.or_(same, both_null))


def _not_distinct(call: KernelCall) -> Datum:
    return pc.invert(_distinct(call))


def _inferred_distinct(arguments: CallArguments) -> LogicalType:
    return _compared(2, ordered=False)(arguments).as_nullable(False)


def _between(call: KernelCall) -> Datum:
    value, low, high = call.arguments
    return pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))


def _between_symmetric(call: KernelCall) -> Datum:
    value, low, high = call.arguments
    there = pc.and_kleene(pc.greater_equal(value, low), pc.less_equal(value, high))
    back = pc.and_kleene(pc.greater_equal(value, high), pc.less_equal(value, low))
    return pc.or_kleene(there, back)


def _inverted(kernel: Kernel) -> Kernel:
    return lambda call: pc.invert(kernel(call))


def _in(call: KernelCall) -> Datum:
    value, items = call.arguments[0], call.arguments[1:]
    if not _nested(value.type) and all(isinstance(item, pa.Scalar) for item in items):
        return _among_constants(value, items)
    found = equal(value, items[0])
    for item in items[1:]:
        found = pc.or_kleene(found, equal(value, item))
    return found


def _among_constants(value: Datum, items: Sequence[pa.Scalar]) -> Datum:
    known = pa.array([item.as_py() for item in items if item.is_valid], type=value.type)
    found = pc.is_in(value, value_set=known)
    unknown = pa.scalar(None, pa.bool_())
    if len(known) < len(items):  # a NULL in the list: what is not found may be it
        return pc.if_else(found, True, unknown)
    if isinstance(value, pa.Scalar):
        return found if value.is_valid else unknown
    return found if value.null_count == 0 else pc.if_else(pc.is_valid(value), found, unknown)


# --- logic -----------------------------------------------------------------------------------------------------------


def _logical(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) < 2 or any(of.family not in (Family.BOOLEAN, Family.NULL) for of in arguments.types):
        raise arguments.refuse("conditions (BOOLEAN)")
    return BOOLEAN.as_nullable(arguments.nullable)


def _booleans(arguments: CallArguments) -> tuple[LogicalType, ...]:
    return tuple(BOOLEAN if isinstance(of, NullType) else of for of in arguments.types)


def _folded(combine: Callable[[Datum, Datum], Datum]) -> Kernel:
    def kernel(call: KernelCall) -> Datum:
        found = call.arguments[0]
        for value in call.arguments[1:]:
            found = combine(found, value)
        return found

    return kernel


def _joined(word: str) -> Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str]:
    return lambda arguments, types, result: "(" + f" {word} ".join(arguments) + ")"


def _one_condition(nullable: bool | None) -> Callable[[CallArguments], LogicalType]:
    def infer(arguments: CallArguments) -> LogicalType:
        if len(arguments.types) != 1 or arguments.types[0].family not in (Family.BOOLEAN, Family.NULL):
            raise arguments.refuse("a condition (BOOLEAN)")
        return BOOLEAN.as_nullable(arguments.nullable if nullable is None else nullable)

    return infer


def _any_one(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1:
        raise arguments.refuse("one argument")
    return BOOLEAN.as_nullable(False)


def _postfix(words: str) -> Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str]:
    return lambda arguments, types, result: f"({arguments[0]} {words})"


def _is(wanted: bool, negated: bool) -> Kernel:
    def kernel(call: KernelCall) -> Datum:
        value = call.arguments[0]
        found = pc.fill_null(value if wanted else pc.invert(value), False)
        return pc.invert(found) if negated else found

    return kernel


def _in_list(word: str) -> Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str | None]:
    def printed(arguments: Sequence[str], types: Sequence[LogicalType], result: LogicalType) -> str | None:
        if types[0].family in (Family.COLLECTION, Family.OTHER):
            return None
        return f"({arguments[0]} {word} ({', '.join(arguments[1:])}))"

    return printed


def _function(name: str, infer: Any, kernel: Kernel, syntax: str, description: str, **more: Any) -> Function:
    return Function(name, infer, kernel, family="comparison", syntax=syntax, description=description, **more)


_COMPARISONS = (
    ("=", "Returns TRUE if both values are equal.", False),
    ("<>", "Returns TRUE if the values differ.", False),
    ("<", "Returns TRUE if the first value is less than the second.", True),
    ("<=", "Returns TRUE if the first value is less than or equal to the second.", True),
    (">", "Returns TRUE if the first value is greater than the second.", True),
    (">=", "Returns TRUE if the first value is greater than or equal to the second.", True),
)

FUNCTIONS: tuple[Function, ...] = (
    *(
        _function(
            name,
            _compared(2, ordered),
            _comparison(name),
            f"value1 {name} value2",
            f"{text} The result is UNKNOWN if one of them is NULL.",
            coerce=_coerced,
            spark=_infix(name),
            aliases=("!=",) if name == "<>" else (),
        )
        for name, text, ordered in _COMPARISONS
    ),
    _function(
        "IS NULL",
        _any_one,
        lambda call: pc.is_null(call.arguments[0]),
        "value IS NULL",
        "Returns TRUE if the value is NULL.",
        spark=_postfix("IS NULL"),
    ),
    _function(
        "IS NOT NULL",
        _any_one,
        lambda call: pc.is_valid(call.arguments[0]),
        "value IS NOT NULL",
        "Returns TRUE if the value is not NULL.",
        spark=_postfix("IS NOT NULL"),
    ),
    _function(
        "IS DISTINCT FROM",
        _inferred_distinct,
        _distinct,
        "value1 IS DISTINCT FROM value2",
        "Returns TRUE if the values differ, where two NULLs count as equal.",
        coerce=_coerced,
    ),
    _function(
        "IS NOT DISTINCT FROM",
        _inferred_distinct,
        _not_distinct,
        "value1 IS NOT DISTINCT FROM value2",
        "Returns TRUE if the values are equal, where two NULLs count as equal.",
        coerce=_coerced,
        spark=_infix("<=>"),
    ),
    *(
        _function(
            name,
            _compared(3, ordered=True),
            kernel,
            f"value1 {name} value2 AND value3",
            text,
            coerce=_coerced,
        )
        for name, kernel, text in (
            ("BETWEEN", _between, "Returns TRUE if value1 is at least value2 and at most value3."),
            ("NOT BETWEEN", _inverted(_between), "Returns TRUE if value1 is less than value2 or greater than value3."),
            (
                "BETWEEN SYMMETRIC",
                _between_symmetric,
                "Returns TRUE if value1 lies between value2 and value3, whichever of them is the greater one.",
            ),
            (
                "NOT BETWEEN SYMMETRIC",
                _inverted(_between_symmetric),
                "Returns TRUE if value1 does not lie between value2 and value3, whichever of them is the greater one.",
            ),
        )
    ),
    _function(
        "IN",
        _compared(None, ordered=False),
        _in,
        "value IN (value1, value2, ...)",
        "Returns TRUE if the value is in the list; UNKNOWN if it is not found and the value or an element is NULL.",
        coerce=_coerced,
        spark=_in_list("IN"),
    ),
    _function(
        "NOT IN",
        _compared(None, ordered=False),
        _inverted(_in),
        "value NOT IN (value1, value2, ...)",
        "Returns TRUE if the value is not in the list; UNKNOWN if the value or an element of the list is NULL.",
        coerce=_coerced,
        spark=_in_list("NOT IN"),
    ),
    _function(
        "AND",
        _logical,
        _folded(pc.and_kleene),
        "boolean1 AND boolean2",
        "Returns TRUE if both conditions are TRUE, FALSE if one of them is FALSE, otherwise UNKNOWN.",
        coerce=_booleans,
        spark=_joined("AND"),
    ),
    _function(
        "OR",
        _logical,
        _folded(pc.or_kleene),
        "boolean1 OR boolean2",
        "Returns TRUE if one of the conditions is TRUE, FALSE if both are FALSE, otherwise UNKNOWN.",
        coerce=_booleans,
        spark=_joined("OR"),
    ),
    _function(
        "NOT",
        _one_condition(None),
        lambda call: pc.invert(call.arguments[0]),
        "NOT boolean",
        "Returns TRUE for FALSE and FALSE for TRUE.",
        coerce=_booleans,
        spark=lambda arguments, types, result: f"(NOT {arguments[0]})",
    ),
    *(
        _function(
            f"IS {'NOT ' if negated else ''}{word}",
            _one_condition(False),
            _is(wanted, negated),
            f"boolean IS {'NOT ' if negated else ''}{word}",
            f"Returns {'FALSE' if negated else 'TRUE'} if the condition is {word}, otherwise "
            f"{'TRUE' if negated else 'FALSE'}. It is never UNKNOWN.",
            coerce=_booleans,
            spark=_postfix(f"IS {'NOT ' if negated else ''}{word}"),
        )
        for word, wanted in (("TRUE", True), ("FALSE", False))
        for negated in (False, True)
    ),
    _function(
        "IS UNKNOWN",
        _one_condition(False),
        lambda call: pc.is_null(call.arguments[0]),
        "boolean IS UNKNOWN",
        "Returns TRUE if the condition is UNKNOWN.",
        coerce=_booleans,
        spark=_postfix("IS NULL"),
    ),
    _function(
        "IS NOT UNKNOWN",
        _one_condition(False),
        lambda call: pc.is_valid(call.arguments[0]),
        "boolean IS NOT UNKNOWN",
        "Returns TRUE if the condition is TRUE or FALSE.",
        coerce=_booleans,
        spark=_postfix("IS NOT NULL"),
    ),
)
