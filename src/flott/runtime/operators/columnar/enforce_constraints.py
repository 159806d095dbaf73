"""Checks rows before a sink gets them: NOT NULL columns and the lengths of texts and bytes. Task side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.nested_values import changed_values, null_rows
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import EnforceConstraints, LengthRule, length_rule
from flott.table._types.logical import LogicalType

#: The counter of rows that were left out, among the metrics of the operator.
DROPPED_ROWS = "numRecordsDroppedByNotNullEnforcer"


class EnforceConstraintsOperator(ColumnarOperator):
    """Fails at a row that the table cannot hold, or leaves it out, or makes its values fit."""

    immediate = True

    def __init__(self, context: OperatorContext, operation: EnforceConstraints):
        super().__init__(context, operation, [operation.output])
        self._rules = operation
        self._dropped = self._functions.metrics.counter(DROPPED_ROWS) if operation.drop_nulls else None

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        columns, kinds = changes.columns, changes.kinds
        missing = list(self._missing(columns))
        if missing and self._dropped is None:
            raise ProgramError(null_message(missing[0][0], self._rules.table))
        if missing:
            kept = np.ones(len(changes), dtype=bool)
            for _, wrong in missing:
                kept[wrong] = False
            rows = np.flatnonzero(kept)
            assert self._dropped is not None
            self._dropped.inc(len(changes) - len(rows))
            columns = columns.take(pa.array(rows))
            kinds = None if kinds is None else kinds[rows]
        for rule in self._rules.lengths:
            fitting = fitted(columns.column(rule.column), rule, columns.schema.names[rule.column], self._rules.table)
            columns = columns.set_column(rule.column, columns.schema.field(rule.column), fitting)
        if self._rules.length_mode != "IGNORE":
            for index, of in self._rules.nested:
                name = columns.schema.names[index]
                fitting = changed_values(
                    columns.column(index), of, name, self._fitted_inside, collections=self._rules.collections
                )
                columns = columns.set_column(index, columns.schema.field(index), fitting)
        self.send(columns, kinds)

    def _missing(self, columns: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
        """Yield what must not be NULL and is, with the numbers of the rows."""
        for index in self._rules.not_null:
            column = columns.column(index)
            if column.null_count:
                yield columns.schema.names[index], np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        for index, of in self._rules.nested:
            name, collections = columns.schema.names[index], self._rules.collections
            yield from null_rows(columns.column(index), of, name, collections=collections)

    def _fitted_inside(self, values: pa.Array, of: LogicalType, path: str) -> pa.Array:
        rule = length_rule(0, of, self._rules.length_mode)
        return values if rule is None else fitted(values, rule, path, self._rules.table)


def null_message(column: str, table: str) -> str:
    """Return what is wrong with a null, and what can be done."""
    return (
        f"Column {column!r} of {table} is NOT NULL, and a row has NULL in it. Filter such rows, declare the column"
        " without NOT NULL, or SET 'table.exec.sink.not-null-enforcer' = 'DROP' to leave them out."
    )


def fitted(values: pa.Array, rule: LengthRule, column: str, table: str) -> pa.Array:
    """Return values cut to the length of their column, those of fixed length filled up; or raise at one that is not.

    >>> fitted(pa.array(["a", "abcd", None]), LengthRule(0, 3, fixed=True, trims=True), "c", "t").to_pylist()
    ['a  ', 'abc', None]
    """
    texts = pa.types.is_string(values.type)
    lengths = pc.utf8_length(values) if texts else pc.binary_length(values)
    wrong = pc.not_equal(lengths, rule.length) if rule.fixed else pc.greater(lengths, rule.length)
    if not pc.any(wrong).as_py():
        return values
    if not rule.trims:
        found = lengths.filter(wrong)[0].as_py()
        kind = ("CHAR" if texts else "BINARY") if rule.fixed else ("VARCHAR" if texts else "VARBINARY")
        raise ProgramError(
            f"Column {column!r} of {table} is {kind}({rule.length}), and a row has a value of the length {found} in it."
            " Cast or cut the value, or SET 'table.exec.sink.type-length-enforcer' to 'TRIM_PAD', which makes values"
            " fit, or to 'IGNORE'."
        )
    if texts:
        cut = pc.utf8_slice_codeunits(values, 0, rule.length)
        return pc.utf8_rpad(cut, rule.length, " ") if rule.fixed else cut
    bytes_ = [None if value is None else value[: rule.length] for value in values.to_pylist()]
    if rule.fixed:
        bytes_ = [None if value is None else value.ljust(rule.length, b"\0") for value in bytes_]
    return pa.array(bytes_, type=values.type)
