"""map, flat_map and filter. Task side.

On a keyed stream a rich function may use keyed state: then the current key is set before each call. A plain callable
cannot, so it always runs the bare loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import compress, islice
from typing import Any

from flott.datastream.functions._basic import Function
from flott.datastream.functions._callables import as_filter, as_flat_map, as_map
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import OperatorContext


class _ElementOperator(FunctionOperator):
    """Calls a function of one record; on keyed input, with the current key set."""

    def __init__(self, context: OperatorContext, function: Any):
        super().__init__(context, function)
        self._keyed = KeyedInput.of(context, 0) if isinstance(function, Function) else None
        self.call: Callable[[Any], Any] = function

    def prepare(self) -> None:
        self.call = self.resolve()
        if self._keyed is not None:
            self.call = self._keyed.setting_key(self.call)

    def resolve(self) -> Callable[[Any], Any]:
        """Return the function's per-record callable."""
        raise NotImplementedError


class MapOperator(_ElementOperator):
    """One out for one in."""

    def resolve(self) -> Callable[[Any], Any]:
        return as_map(self.function)

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        call = self.call
        cursor = iter(values)
        self.clocks.event.follow(cursor, timestamps)
        try:
            out = [call(value) for value in cursor]
        except Exception as error:
            raise self.record_failure(batch, cursor) from error
        self.emit(RowBatch(out, timestamps))


class FilterOperator(_ElementOperator):
    """Keeps what the function approves of."""

    def resolve(self) -> Callable[[Any], Any]:
        return as_filter(self.function)

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        call = self.call
        cursor = iter(values)
        self.clocks.event.follow(cursor, timestamps)
        try:
            if timestamps is None:
                kept = [value for value in cursor if call(value)]
                kept_timestamps = None
            else:
                keep = [call(value) for value in cursor]
                kept = list(compress(values, keep))
                kept_timestamps = list(compress(timestamps, keep))
        except Exception as error:
            raise self.record_failure(batch, cursor) from error
        if kept:
            self.emit(RowBatch(kept, kept_timestamps))


class FlatMapOperator(_ElementOperator):
    """Any number out for one in. Emits in portions, however many one record becomes."""

    def resolve(self) -> Callable[[Any], Any]:
        return as_flat_map(self.function)

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        cursor = iter(values)
        self.clocks.event.follow(cursor, timestamps)
        if timestamps is None:
            produced = _flatten(self.call, cursor)
        else:
            produced = _flatten_stamped(self.call, zip(cursor, timestamps, strict=True))
        while True:
            try:
                out = list(islice(produced, MAX_BATCH_RECORDS))
            except Exception as error:
                raise self.record_failure(batch, cursor) from error
            if not out:
                return
            if timestamps is None:
                self.emit(RowBatch(out))
            else:
                out_values, out_timestamps = zip(*out, strict=True)
                self.emit(RowBatch(list(out_values), list(out_timestamps)))


def _flatten(call: Callable[[Any], Iterable[Any] | None], values: Iterator[Any]) -> Iterator[Any]:
    return (out for value in values for out in call(value) or ())


def _flatten_stamped(
    call: Callable[[Any], Iterable[Any] | None], stamped: Iterator[tuple[Any, int]]
) -> Iterator[tuple[Any, int]]:
    return ((out, timestamp) for value, timestamp in stamped for out in call(value) or ())
