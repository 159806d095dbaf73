"""What joins share: the residual condition over pairs of rows, and rows of two sides put side by side. Task side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.key_codes import Flags, Ints, any_null, indices
from flott.table._expressions.compiled import compile_expressions
from flott.table._expressions.expression import Expression, columns_of
from flott.table._functions.function import Session
from flott.table._plan.logical import EquiKeys

#: So many pairs are joined at once, whatever the number of rows with one key.
MAX_PAIRS = 1 << 18

#: Gives some columns of the rows of a side, by position.
Fetch = Callable[[Sequence[int]], dict[int, pa.Array]]


class PairCondition:
    """The condition of a join beside the equality of keys; it is over the columns of both sides."""

    def __init__(self, condition: Expression, left_width: int, right_width: int):
        self._compiled = compile_expressions([condition])
        used = columns_of(condition)
        self._left = sorted(column for column in used if column < left_width)
        self._right = sorted(column - left_width for column in used if column >= left_width)
        self._left_width, self._width = left_width, left_width + right_width

    def holds(self, left: Fetch, right: Fetch, length: int, session: Session) -> Flags:
        """Return for which pairs it is true; only the columns that it reads are fetched."""
        absent = pa.nulls(length)
        columns = [absent] * self._width
        for column, array in left(self._left).items():
            columns[column] = array
        for column, array in right(self._right).items():
            columns[self._left_width + column] = array
        (found,) = self._compiled.over(columns, length, session)
        return np.asarray(found.fill_null(False) if found.null_count else found).astype(np.bool_)


def pair_condition(condition: Expression | None, left_width: int, right_width: int) -> PairCondition | None:
    """Return the condition ready to be evaluated; None if there is none."""
    return None if condition is None else PairCondition(condition, left_width, right_width)


def fetch_from(columns: pa.RecordBatch, rows: Ints) -> Fetch:
    """Return what gives columns of rows of a batch."""
    at = pa.array(rows)
    return lambda wanted: {column: columns.column(column).take(at) for column in wanted}


def unequal(columns: pa.RecordBatch, keys: Sequence[int], filter_nulls: Sequence[bool]) -> Flags | None:
    """Return which rows equal none of the other side because of a null in their key; None if there is no such row."""
    checked = [columns.column(key) for place, key in enumerate(keys) if not filter_nulls or filter_nulls[place]]
    return any_null(checked, columns.num_rows)


def taken(columns: Sequence[pa.Array], rows: Ints) -> list[pa.Array]:
    """Return rows of columns; a negative position gives a row of nulls."""
    at = indices(rows)
    return [column.take(at) for column in columns]


def padded(fetch: Callable[[Ints], list[pa.Array]], slots: Ints, schema: pa.Schema) -> list[pa.Array]:
    """Return fetched rows; a negative slot gives a row of nulls."""
    absent = slots < 0
    if not absent.any():
        return fetch(slots)
    there = np.flatnonzero(~absent)
    if not len(there):
        return [pa.nulls(len(slots), field.type) for field in schema]
    at = np.full(len(slots), -1, np.int64)
    at[there] = np.arange(len(there))
    return taken(fetch(slots[there]), at)


def flipped(keys: EquiKeys) -> EquiKeys:
    """Return the keys of the join with its sides exchanged."""
    return EquiKeys(keys.right, keys.left, keys.filter_nulls)
