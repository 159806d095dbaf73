"""Keyed reduce: each record is folded into its key's value, which is emitted. Task side."""

from __future__ import annotations

from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.datastream.functions._callables import as_reduce
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import OperatorContext

REDUCED = "_reduce"
LAST_TIMESTAMP = "_reduce-timestamp"


class ReduceOperator(FunctionOperator):
    """The running reduce of a keyed stream."""

    def __init__(self, context: OperatorContext, function: Any, record_type: TypeInformation | None = None):
        super().__init__(context, function)
        keyed = KeyedInput.of(context, 0)
        assert keyed is not None, "reduce needs a keyed input"
        assert context.keyed_state is not None
        self._keyed = keyed
        self._table = context.keyed_state.value_table(REDUCED)
        context.keyed_state.schemas.declare((REDUCED,), StateTypes(record_type, own="the value so far of each key"))
        self._call = as_reduce(function)

    def process(self, batch: RowBatch) -> None:
        self.emit(RowBatch(self.fold(batch), batch.timestamps))

    def fold(self, batch: RowBatch) -> list[Any]:
        """Fold a batch into the state; returns the value of each record's key after it."""
        select, current, call = self._keyed.select_in(batch.values), self._keyed.current, self._call
        entries, changed = self._table.entries, self._table.changed
        out: list[Any] = []
        cursor = iter(batch.values)
        self.clocks.event.follow(cursor, batch.timestamps)
        try:
            for value in cursor:
                current.key = key = select(value)
                reduced = entries[key] = call(entries[key], value) if key in entries else value
                changed[key] = None
                out.append(reduced)
        except Exception as error:
            raise self.record_failure(batch, cursor) from error
        return out


class FinalReduceOperator(ReduceOperator):
    """The reduce of a batch: each key's last value, with the timestamp of the record that was folded in last."""

    def __init__(self, context: OperatorContext, function: Any, record_type: TypeInformation | None = None):
        super().__init__(context, function, record_type)
        assert context.keyed_state is not None
        self._timestamps = context.keyed_state.value_table(LAST_TIMESTAMP)

    def process(self, batch: RowBatch) -> None:
        self.fold(batch)
        if batch.timestamps is not None:
            keys = map(self._keyed.select_in(batch.values), batch.values)
            self._timestamps.entries.update(zip(keys, batch.timestamps, strict=True))

    def end_keys(self) -> None:
        reduced, timestamps = self._table.entries, self._timestamps.entries
        unstamped = [value for key, value in reduced.items() if key not in timestamps]
        if unstamped:
            self.emit(RowBatch(unstamped))
        if timestamps:
            self.emit(RowBatch([reduced[key] for key in timestamps], list(timestamps.values())))
