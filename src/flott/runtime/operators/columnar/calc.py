"""Filter and projection on columns. Task side."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._expressions.compiled import compile_expressions
from flott.table._expressions.expression import InputRef
from flott.table._plan.operations import Calc


class CalcOperator(ColumnarOperator):
    """Keeps the rows for which the condition is true, and computes columns of them. Row kinds stay as they are."""

    immediate = True

    def __init__(self, context: OperatorContext, operation: Calc):
        super().__init__(context, operation, [operation.input])
        self._condition = None if operation.condition is None else compile_expressions([operation.condition])
        self._projection = compile_expressions(operation.expressions)
        #: The positions of columns that are only passed on; None if something is computed.
        self._picked = (
            [one.index for one in operation.expressions if isinstance(one, InputRef)]
            if all(isinstance(one, InputRef) for one in operation.expressions)
            else None
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        columns, kinds = changes.columns, changes.kinds
        if self._condition is not None:
            kept = self._condition.condition(columns, self.session)
            if isinstance(kept, pa.Scalar):
                if not kept.as_py():
                    return
            else:
                chosen = pc.indices_nonzero(kept)
                if len(chosen) < len(changes):
                    columns = columns.take(chosen)
                    kinds = None if kinds is None else kinds[chosen.to_numpy()]
        if not columns.num_rows:
            return
        if self._picked is not None:
            self.send([columns.column(index) for index in self._picked], kinds)
        else:
            self.send(self._projection.evaluate(columns, self.session), kinds)
