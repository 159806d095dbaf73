"""MIN and MAX of rows that may be taken away: all values of a group in state, beside its extreme. Task side.

Of a group whose extreme went, the next one is looked for among its values. All others need not be looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.operators.columnar.accumulator_table import DistinctValues
from flott.runtime.operators.columnar.changelog import differ
from flott.table._functions.aggregates.accumulation import Groups, State, concat, take
from flott.table._functions.aggregates.objects import SortedValues

EXTREMES = ("MIN", "MAX")


class ExtremeValues:
    """The extremes of groups, with their values in a table."""

    def __init__(self, values: DistinctValues, extreme: Any, largest: bool):
        self.values = values
        self._extreme = extreme
        self._sorted = SortedValues(largest=largest)

    def fold(self, groups: Groups, state: State, argument: pa.Array, keys: pa.RecordBatch, first: Ints) -> State:
        """Return the extreme of each group after its rows. ``first`` is a row of each group."""
        rows, net = self.values.net(keys.columns, [argument], groups.signs)
        came, went = rows[net > 0], rows[net < 0]
        found: State = self._extreme.fold(
            Groups(groups.ids[came], groups.count, np.ones(len(came), np.int64)), state, [argument.take(pa.array(came))]
        )
        if not len(went):
            return found
        owners = groups.ids[went]
        both = pa.concat_arrays([self._extreme.result(state), argument.take(pa.array(went))])
        lost = np.unique(owners[~differ(both, owners, groups.count + np.arange(len(went)))])
        if not len(lost):
            return found
        positions, values, _ = self.values.held(keys.take(pa.array(first[lost])))
        again: State = self._extreme.fold(
            Groups(positions, len(lost), np.ones(len(positions), np.int64)), self._extreme.empty(len(lost)), [values]
        )
        chosen = np.arange(groups.count)
        chosen[lost] = groups.count + np.arange(len(lost))
        return [take(concat([one, other]), chosen) for one, other in zip(found, again, strict=True)]

    def scan_results(
        self, groups: Groups, lives: Groups, initial: State, argument: pa.Array, keys: pa.RecordBatch
    ) -> tuple[pa.Array, State]:
        """Return the extremes before and after rows, and the states after the last row of each life."""
        scanned = self.scan(groups, lives, initial, argument, keys)
        both = [concat([held, changed]) for held, changed in zip(initial, scanned, strict=True)]
        ends = np.append(lives.starts[1:], len(lives.ids)) - 1
        return self._extreme.result(both), [take(column, ends) for column in scanned]

    def scan(
        self, groups: Groups, lives: Groups, initial: State, argument: pa.Array, keys: pa.RecordBatch
    ) -> State:
        """Return the extreme after each row; rows and keys are sorted by group."""
        negative = np.unique(groups.ids[groups.signs < 0])
        if not len(negative):
            self.values.signs(keys.columns, [argument], groups.signs)
            return self._extreme.scan(lives, initial, [argument])  # type: ignore[no-any-return]
        held = self._held(keys.take(pa.array(groups.starts[negative])), len(negative))
        self.values.signs(keys.columns, [argument], groups.signs)
        scanned: State = self._extreme.scan(lives, initial, [argument])
        number = np.full(groups.count, -1, np.int64)
        number[negative] = np.arange(len(negative))
        owner = number[groups.ids]
        rows = np.flatnonzero(owner >= 0)
        replaced = self._steps(held, owner[rows], groups.signs[rows], argument.take(pa.array(rows)))
        positions = np.arange(len(groups.ids))
        positions[rows] = len(positions) + np.arange(len(rows))
        return [take(concat([one, other]), positions) for one, other in zip(scanned, replaced, strict=True)]

    def _held(self, keys: pa.RecordBatch, count: int) -> list[Any]:
        """Return all values of groups as objects that can be changed row by row."""
        found: list[Any] = [self._sorted.create() for _ in range(count)]
        positions, values, counts = self.values.held(keys)
        for group, value, times in zip(positions.tolist(), values.to_pylist(), counts.tolist(), strict=True):
            ordered, known = found[group]
            known[value] = times
            if times > 0:
                ordered.append(value)
        for ordered, _ in found:
            ordered.sort()
        return found

    def _steps(self, held: list[Any], owners: Ints, signs: Ints, argument: pa.Array) -> State:
        function = self._sorted
        results = []
        for group, sign, value in zip(owners.tolist(), signs.tolist(), argument.to_pylist(), strict=True):
            if sign > 0:
                function.accumulate(held[group], value)
            elif sign < 0:
                function.retract(held[group], value)
            results.append(function.value(held[group]))
        array = pa.array(results, argument.type)
        return self._extreme.state_of(array)  # type: ignore[no-any-return]
