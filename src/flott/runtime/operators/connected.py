"""CoMapFunction and CoFlatMapFunction: plain functions over two connected inputs. Task side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import OperatorContext


class ConnectedOperator(FunctionOperator):
    """Runs ``name1`` on records of the first input and ``name2`` on those of the second."""

    def __init__(self, context: OperatorContext, function: Any, name: str, flat: bool):
        super().__init__(context, function)
        self._name = name
        self._flat = flat
        self._calls: list[Callable[[Any], Any]] = []

    def prepare(self) -> None:
        self._calls = []
        for index in (0, 1):
            call = getattr(self.function, f"{self._name}{index + 1}")
            keyed = KeyedInput.of(self.context, index)
            self._calls.append(call if keyed is None else keyed.setting_key(call))

    def process(self, batch: RowBatch) -> None:
        self._run(0, batch)

    def process_second(self, batch: RowBatch) -> None:
        self._run(1, batch)

    def _run(self, input_index: int, batch: RowBatch) -> None:
        call = self._calls[input_index]
        cursor, timestamps = iter(batch.values), batch.timestamps
        self.clocks.event.follow(cursor, timestamps)
        out: list[Any] = []
        stamps: list[int] = []
        try:
            for index, value in enumerate(cursor):
                produced = call(value)
                if self._flat:
                    before = len(out)
                    out.extend(() if produced is None else produced)
                    if timestamps is not None:
                        stamps.extend([timestamps[index]] * (len(out) - before))
                elif produced is not None:  # PyFlink: a co-map that returns None emits nothing
                    out.append(produced)
                    if timestamps is not None:
                        stamps.append(timestamps[index])
        except Exception as error:
            raise self.record_failure(batch, cursor, input_index) from error
        if out:
            self.emit(RowBatch(out, None if timestamps is None else stamps))
