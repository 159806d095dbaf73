"""Conditions that a source can use to read less: comparisons of a column with a constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flott.table._expressions.expression import Call, Expression, InputRef, Literal
from flott.table._types.logical import Family, same_type

#: Columns of these types are compared by Arrow as SQL compares them.
_COMPARED = (Family.BOOLEAN, Family.INTEGER, Family.DECIMAL, Family.CHARACTER, Family.DATE, Family.TIMESTAMP)

_MIRRORED = {"=": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def column_comparisons(conditions: Sequence[Expression], names: Sequence[str]) -> tuple[tuple[str, str, Any], ...]:
    """Return the conditions that compare a column with a constant, as column, operator and value.

    The source applies them: rows for which one is not true are left out.
    """
    found = []
    for condition in conditions:
        if not (isinstance(condition, Call) and condition.function in _MIRRORED and len(condition.arguments) == 2):
            continue
        match condition.arguments:
            case (InputRef() as column, Literal() as literal) if literal.value is not None:
                found.append((names[column.index], condition.function, literal.value))
            case (Literal() as literal, InputRef() as column) if literal.value is not None:
                found.append((names[column.index], _MIRRORED[condition.function], literal.value))
    return tuple(found)


def is_comparison(condition: Expression, names: Sequence[str]) -> bool:
    """Return whether a condition compares a column with a constant of its type; columns without a name are left out."""
    if not (isinstance(condition, Call) and condition.function in _MIRRORED and len(condition.arguments) == 2):
        return False
    one, other = condition.arguments
    column, literal = (one, other) if isinstance(one, InputRef) else (other, one)
    return (
        isinstance(column, InputRef)
        and isinstance(literal, Literal)
        and literal.value is not None
        and bool(names[column.index])
        and column.type.family in _COMPARED
        and same_type(column.type, literal.type)
    )
