"""Compiled expressions: trees turned once into closures that call kernels over the columns of a batch.

Equal subtrees are evaluated once for a batch. CASE, COALESCE and IF evaluate a branch that may fail only for the rows
that take it, as Flink does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._expressions.expression import (
    Call,
    Cast,
    Expression,
    FieldAccess,
    InputRef,
    Literal,
    UserCall,
    walk,
)
from flott.table._functions.function import Datum, KernelCall, Session
from flott.table._functions.registry import function_named
from flott.table._types.arrow import arrow_type

Evaluator = Callable[["Evaluation"], Datum]


class Evaluation:
    """One batch under evaluation: its columns, and the values of subtrees that were computed already."""

    __slots__ = ("columns", "known", "length", "session")

    def __init__(self, columns: Sequence[Any], length: int, session: Session):
        self.columns = columns
        self.length = length
        self.session = session
        self.known: dict[int, Datum] = {}

    def part(self, indices: pa.Array) -> Evaluation:
        """Return the evaluation of some rows only."""
        return Evaluation([_taken(column, indices) for column in self.columns], len(indices), self.session)


def _taken(column: Any, indices: pa.Array) -> Any:
    return column.take(indices)


@dataclass(frozen=True)
class Compiled:
    """Expressions ready to be evaluated for batches."""

    expressions: tuple[Expression, ...]
    _evaluators: tuple[Evaluator, ...]

    def evaluate(self, batch: pa.RecordBatch, session: Session) -> list[pa.Array]:
        """Return a column for each expression."""
        return self.over(batch.columns, batch.num_rows, session)

    def over(self, columns: Sequence[Any], length: int, session: Session) -> list[pa.Array]:
        """Return a column for each expression over columns of so many rows."""
        evaluation = Evaluation(columns, length, session)
        return [as_column(evaluator(evaluation), length) for evaluator in self._evaluators]

    def condition(self, batch: pa.RecordBatch, session: Session) -> Datum:
        """Return the only expression as it comes: a column, or a constant for all rows."""
        return self._evaluators[0](Evaluation(batch.columns, batch.num_rows, session))


def compile_expressions(expressions: Sequence[Expression]) -> Compiled:
    """Return expressions in their compiled form."""
    compiler = _Compiler()
    return Compiled(tuple(expressions), tuple(compiler.evaluator(one) for one in expressions))


def as_column(value: Datum, length: int) -> pa.Array:
    """Return a value as a column of so many rows."""
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length)
    if isinstance(value, pa.ChunkedArray):
        return value.combine_chunks()
    return value


class _Compiler:
    def __init__(self) -> None:
        self._numbers: dict[Expression, int] = {}  #: of subtrees that were seen
        self._made: dict[Expression, Evaluator] = {}

    def evaluator(self, expression: Expression) -> Evaluator:
        made = self._made.get(expression)
        if made is None:
            made = self._make(expression)
            if not isinstance(expression, InputRef | Literal) and not _varies(expression):
                made = self._remembering(expression, made)
            self._made[expression] = made
        return made

    def _remembering(self, expression: Expression, make: Evaluator) -> Evaluator:
        number = self._numbers.setdefault(expression, len(self._numbers))

        def remembered(evaluation: Evaluation) -> Datum:
            known = evaluation.known
            if number not in known:
                known[number] = make(evaluation)
            return known[number]

        return remembered

    def _make(self, expression: Expression) -> Evaluator:
        match expression:
            case InputRef(_, index):
                return lambda evaluation: evaluation.columns[index]
            case Literal(of, value):
                scalar = pa.scalar(value, type=arrow_type(of))
                return lambda evaluation: scalar
            case FieldAccess(_, operand, index):
                return self._field(operand, index)
            case Cast():
                return self._cast(expression)
            case Call(_, function, arguments) if function in ("CASE", "COALESCE", "IF"):
                return self._branches(expression.type, _cases(function, arguments))
            case Call():
                return self._call(expression)
            case UserCall():
                return self._user_call(expression)
        raise AssertionError(f"An expression of class {type(expression).__name__} cannot be evaluated.")

    def _field(self, operand: Expression, index: int) -> Evaluator:
        inner = self.evaluator(operand)

        def field(evaluation: Evaluation) -> Datum:
            return pc.struct_field(inner(evaluation), [index])  # keeps the nulls of the whole row

        return field

    def _cast(self, expression: Cast) -> Evaluator:
        from flott.table._functions.casts import cast_kernel

        inner, source, target = self.evaluator(expression.operand), expression.operand.type, expression.type
        kernel = cast_kernel(source, target, expression.safe)

        def cast(evaluation: Evaluation) -> Datum:
            call = KernelCall((inner(evaluation),), (source,), target, evaluation.length, evaluation.session)
            return kernel(call)

        return cast

    def _call(self, expression: Call) -> Evaluator:
        function = function_named(expression.function)
        assert function is not None, expression.function
        kernel, result = function.kernel, expression.type
        inner = tuple(self.evaluator(argument) for argument in expression.arguments)
        types = tuple(argument.type for argument in expression.arguments)

        def call(evaluation: Evaluation) -> Datum:
            arguments = [argument(evaluation) for argument in inner]
            return kernel(KernelCall(arguments, types, result, evaluation.length, evaluation.session))

        return call

    def _user_call(self, expression: UserCall) -> Evaluator:
        from flott.table._functions.python_functions import user_kernel

        inner = tuple(self.evaluator(argument) for argument in expression.arguments)
        types = tuple(argument.type for argument in expression.arguments)
        kernel, result = user_kernel(expression.function, types, expression.type), expression.type

        def call(evaluation: Evaluation) -> Datum:
            arguments = [argument(evaluation) for argument in inner]
            return kernel(KernelCall(arguments, types, result, evaluation.length, evaluation.session))

        return call

    def _branches(self, result: Any, cases: list[tuple[Expression | None, Expression]]) -> Evaluator:
        """Return what evaluates (condition, value) pairs in order; the last one has no condition.

        A condition of None in front of the last pair means "the value is not null" (COALESCE).
        """
        steps = [
            (None if when is None else self.evaluator(when), self.evaluator(then), _may_fail(then) or _may_fail(when))
            for when, then in cases
        ]
        wanted = arrow_type(result)
        careful = any(fails for _, _, fails in steps)

        def whole(evaluation: Evaluation) -> Datum:
            values = [then(evaluation) for _, then, _ in steps]
            decided = values[-1]
            for (when, _, _), value in zip(reversed(steps[:-1]), reversed(values[:-1]), strict=True):
                taken = pc.is_valid(value) if when is None else pc.fill_null(when(evaluation), False)
                decided = pc.if_else(taken, _typed(value, wanted), _typed(decided, wanted))
            return _typed(decided, wanted)

        def by_rows(evaluation: Evaluation) -> Datum:
            return _by_rows(evaluation, steps, wanted)

        return by_rows if careful else whole


def _by_rows(evaluation: Evaluation, steps: list[tuple[Evaluator | None, Evaluator, bool]], wanted: pa.DataType) -> Any:
    """Evaluate each branch for the rows that reach it and no others."""
    rest = pa.array(np.arange(evaluation.length))
    pieces: list[pa.Array] = []
    places: list[pa.Array] = []
    for position, (when, then, _) in enumerate(steps):
        if not len(rest):
            break
        part = evaluation if len(rest) == evaluation.length else evaluation.part(rest)
        if position == len(steps) - 1:
            pieces.append(_typed(as_column(then(part), len(rest)), wanted))
            places.append(rest)
            rest = rest.slice(0, 0)
        elif when is None:
            value = _typed(as_column(then(part), len(rest)), wanted)
            taken = pc.is_valid(value)
            pieces.append(value.filter(taken))
            places.append(rest.filter(taken))
            rest = rest.filter(pc.invert(taken))
        else:
            taken = as_column(pc.fill_null(when(part), False), len(rest))
            mine = rest.filter(taken)
            if len(mine):
                chosen = part if len(mine) == part.length else part.part(pc.indices_nonzero(taken).cast(pa.int64()))
                pieces.append(_typed(as_column(then(chosen), len(mine)), wanted))
                places.append(mine)
            rest = rest.filter(pc.invert(taken))
    if not pieces:
        return pa.array([], type=wanted)
    order = pc.sort_indices(pa.concat_arrays(places))
    return pa.concat_arrays(pieces).take(order)


def _typed(value: Datum, wanted: pa.DataType) -> Datum:
    return value if value.type.equals(wanted) else value.cast(wanted)


def _cases(function: str, arguments: tuple[Expression, ...]) -> list[tuple[Expression | None, Expression]]:
    if function == "COALESCE":
        return [(None, argument) for argument in arguments]
    if function == "IF":
        return [(arguments[0], arguments[1]), (None, arguments[2])]
    pairs: list[tuple[Expression | None, Expression]] = [
        (arguments[i], arguments[i + 1]) for i in range(0, len(arguments) - 1, 2)
    ]
    return [*pairs, (None, arguments[-1])]


def _may_fail(expression: Expression | None) -> bool:
    if expression is None:
        return False
    for node in walk(expression):
        if isinstance(node, UserCall) or (isinstance(node, Cast) and not node.safe and _narrows(node)):
            return True
        if isinstance(node, Call):
            function = function_named(node.function)
            if function is not None and (function.may_fail or not function.deterministic):
                return True
    return False


def _narrows(cast: Cast) -> bool:
    """Return whether a cast may meet a value that it cannot convert: only those from text and to less."""
    from flott.table._types.logical import Family

    if cast.type.family in (Family.CHARACTER, Family.BINARY):
        return False  # everything has a text
    return cast.operand.type.family in (Family.CHARACTER, Family.BINARY, Family.COLLECTION, Family.OTHER)


def _varies(expression: Expression) -> bool:
    """Return whether two evaluations for one row may differ, so that they must not be shared."""
    for node in walk(expression):
        if isinstance(node, Call):
            function = function_named(node.function)
            if function is not None and function.per_row:
                return True
        if isinstance(node, UserCall) and not node.function.deterministic:
            return True
    return False
