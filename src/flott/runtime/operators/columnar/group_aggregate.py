"""Groups by key columns, with accumulators in state. Task side.

Without mini-batches every record gives a change: the accumulators after each row are a scan over the rows, sorted by
group. With mini-batches the rows of an epoch are folded, and a group gives one change.

A group ends when as many of its rows were taken away as came. It begins again with the next one, with fresh
accumulators. A row that is taken away from no group is ignored, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.managed_state.columns.slot_index import first_positions
from flott.runtime.operators.columnar.accumulator_table import (
    AccumulatorRows,
    DistinctValues,
    accumulations_of,
    rows_of,
)
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.changelog import ResultChanges
from flott.runtime.operators.columnar.extreme_values import EXTREMES, ExtremeValues
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import (
    Groups,
    State,
    concat,
    running_minimum,
    running_sum,
    take,
)
from flott.table._functions.aggregates.extremes import Extreme
from flott.table._plan.operations import GlobalAggregate, GroupAggregate, StatefulOperation

STATE = "groups"


class KeyedAggregation(ColumnarOperator):
    """What aggregations by key share: accumulators in state, and the changelog of their results."""

    def __init__(self, context: OperatorContext, operation: Any, inputs: Any, keys: Sequence[int]):
        super().__init__(context, operation, inputs)
        self.stateful: StatefulOperation = operation
        self.keys = keys
        self.accumulations = accumulations_of(operation.calls, operation.input, retracts=any(operation.retracts))
        self.key_schema = pa.schema([self.output_schema.field(place) for place in range(len(keys))])
        self._changes = ResultChanges(update_before=operation.update_before, always=operation.ttl_ms > 0)

    def open(self) -> None:
        state = self.context.keyed_state
        assert state is not None
        self.rows = AccumulatorRows(
            state, STATE, self.key_schema, len(self.keys), self.accumulations, self.ages_from
        )

    @property
    def ages_from(self) -> int | None:
        """Return the time to stamp rows with, if they have a time to live."""
        return self.context.scope.now_ms if self.stateful.ttl_ms else None

    def expire(self, tables: Sequence[Any]) -> None:
        """Remove rows that were not updated for the time to live."""
        if self.stateful.ttl_ms:
            now = self.context.scope.now_ms
            for table in tables:
                table.expire(now - self.stateful.ttl_ms + 1)
                table.now_ms = now

    def keys_of(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the key columns of rows."""
        return rows_of(
            [columns.column(index) for index in self.keys], self.key_schema.names, columns.num_rows
        )

    def results(self, states: Sequence[State]) -> list[pa.Array]:
        """Return the values of all calls."""
        return [of.result(state) for of, state in zip(self.accumulations, states, strict=True)]

    def send_changes(
        self, keys: pa.RecordBatch, positions: Ints, results: list[pa.Array], pairs: tuple[Ints, Ints, Ints, Ints]
    ) -> None:
        """Send what changed. ``positions`` are those of the keys of pairs."""
        numbers, at, kinds = self._changes.rows(results, *pairs)
        if not len(numbers):
            return
        where = pa.array(positions[numbers])
        picked = pa.array(at)
        columns = [column.take(where) for column in keys.columns]
        self.send([*columns, *(values.take(picked) for values in results)], kinds)


class GroupAggregateOperator(KeyedAggregation):
    """GROUP BY with aggregate functions."""

    def __init__(self, context: OperatorContext, operation: GroupAggregate):
        super().__init__(context, operation, [operation.input], operation.keys)
        self._calls = operation.calls
        self._retracts = any(operation.retracts)
        #: Event time may end twice in a batch job: that of the input, and that of its keys, which are then forgotten.
        self._answered = False
        self._folds = operation.mini_batch or context.batch  # a batch job has final results only
        for number, call in enumerate(self._calls):
            if call.function in EXTREMES and self._retracts:
                of = operation.input.types[call.arguments[0]]
                self.accumulations[number] = Extreme(of, largest=call.function == "MAX")

    def open(self) -> None:
        super().open()
        self._extremes: dict[int, ExtremeValues] = {}
        shared: dict[tuple[int, ...], list[int]] = {}  #: calls with DISTINCT by their arguments
        for number, call in enumerate(self._calls):
            if call.function in EXTREMES and call.user is None:
                if self._retracts:  # otherwise one of equal values is enough, with DISTINCT or without
                    values = self._values_table(f"values {number}", call.arguments)
                    self._extremes[number] = ExtremeValues(values, self.accumulations[number], call.function == "MAX")
            elif call.distinct:
                shared.setdefault(call.arguments, []).append(number)
        #: By the numbers of the calls that share a table.
        self._distinct = {
            tuple(numbers): self._values_table(f"distinct {numbers[0]}", arguments, len(numbers))
            for arguments, numbers in shared.items()
        }

    def _values_table(self, name: str, arguments: Sequence[int], calls: int = 1) -> DistinctValues:
        state = self.context.keyed_state
        assert state is not None
        fields = pa.schema([self.input_schemas[0].field(index) for index in arguments])
        return DistinctValues(state, name, self.key_schema, fields, self.ages_from, calls)

    def _value_tables(self) -> list[DistinctValues]:
        return [*self._distinct.values(), *(extreme.values for extreme in self._extremes.values())]

    def begin(self) -> None:
        super().begin()
        self._answered = False

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self.expire([self.rows.table, *(values.table for values in self._value_tables())])
        (changes,) = inputs
        if not len(changes):
            self._send_nothing(time)
            return
        self._answered = True
        if self._folds:
            self._run_folded(changes)
        else:
            self._run_scanned(changes)

    def _send_nothing(self, time: EventTime) -> None:
        """Send the aggregates of no rows, in a batch job without keys that had none."""
        wanted = self.context.batch and not self.keys and time.ended and not self._answered
        if wanted and not self.rows.table.size():
            self._answered = True
            self.send([of.result(of.empty(1)) for of in self.accumulations])

    # --- rows of a batch ---------------------------------------------------------------------------------------------

    def _signs(self, changes: Changes, signs: Ints) -> list[Ints]:
        """Return for each call the signs of rows: without those that its filter, or DISTINCT, leaves out."""
        found = []
        for call in self._calls:
            own = signs
            if call.filter is not None:
                own = np.where(np.asarray(changes.columns.column(call.filter).fill_null(False)), own, 0)
            found.append(own)
        keys = [changes.columns.column(index) for index in self.keys]
        for numbers, distinct in self._distinct.items():
            arguments = [changes.columns.column(index) for index in self._calls[numbers[0]].arguments]
            counted = distinct.signs_by_call(keys, arguments, [found[number] for number in numbers])
            for number, own in zip(numbers, counted, strict=True):
                found[number] = own
        return found

    def _without_stray(self, changes: Changes) -> tuple[Changes, Ints]:
        """Return rows without those that are taken away from no group, and the slots of the others."""
        slots, new = self.rows.table.slots(self.keys_of(changes.columns))
        if not self._retracts or changes.kinds is None:
            return changes, slots
        signs = changes.signs
        if (signs > 0).all():
            return changes, slots
        order = np.argsort(slots, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(slots[order]) != 0))
        ids = np.zeros(len(order), np.int64)
        ids[starts[1:]] = 1
        groups = Groups(np.cumsum(ids), len(starts), signs[order], True)
        sums = running_sum(groups, groups.signs, self.rows.counts(slots[order][starts]))
        lowest = running_minimum(groups, np.minimum(sums, 0))
        before = np.append(0, lowest[:-1])
        before[groups.starts] = 0
        stray = sums < before
        if not stray.any():
            return changes, slots
        kept = np.sort(order[~stray])
        left = Changes(changes.columns.take(pa.array(kept)), changes.kinds[kept])
        alone = np.setdiff1d(slots[new], slots[kept])
        self.rows.table.remove(alone)  # groups that would begin with a row that is taken away
        return left, slots[kept]

    # --- one change for a group --------------------------------------------------------------------------------------

    def _run_folded(self, changes: Changes) -> None:
        changes, slots = self._without_stray(changes)
        if not len(changes):
            return
        signs = changes.signs
        first, ids = first_positions([slots], None, len(slots))
        touched, count = slots[first], len(first)
        counts = self.rows.counts(touched)
        after = counts.copy()
        np.add.at(after, ids, signs)
        former = self.rows.load(touched)
        keys = self.keys_of(changes.columns)
        groups = Groups(ids, count, signs)
        states = []
        for number, own in enumerate(self._signs(changes, signs)):
            arguments = [changes.columns.column(index) for index in self._calls[number].arguments]
            rows, state = groups.with_signs(own), former[number]
            if number in self._extremes:
                states.append(self._extremes[number].fold(rows, state, arguments[0], keys, first))
            else:
                states.append(self.accumulations[number].fold(rows, state, arguments))
        results = self.results([_behind(one, other) for one, other in zip(former, states, strict=True)])
        numbers = np.arange(count)
        self._save(touched, after, states, numbers)
        self.send_changes(keys, first, results, (numbers, numbers + count, counts > 0, after > 0))

    # --- a change for each row ---------------------------------------------------------------------------------------

    def _run_scanned(self, changes: Changes) -> None:
        changes, slots = self._without_stray(changes)
        size = len(changes)
        if not size:
            return
        order = np.argsort(slots, kind="stable")
        by_group = slots[order]
        begins = np.append(True, by_group[1:] != by_group[:-1])
        starts = np.flatnonzero(begins)
        touched = by_group[starts]
        groups = Groups(np.cumsum(begins) - 1, len(starts), changes.signs[order], True)
        counts = self.rows.counts(touched)
        after = running_sum(groups, groups.signs, counts)
        before = after - groups.signs
        lives, initial = self._lives(groups, begins | (before == 0), touched)
        at = pa.array(order)
        taken: dict[int, pa.Array] = {}
        results: list[pa.Array] = []
        states: list[State] = []
        for number, own in enumerate(self._signs(changes, changes.signs)):
            for index in self._calls[number].arguments:
                if index not in taken:
                    taken[index] = changes.columns.column(index).take(at)
            arguments = [taken[index] for index in self._calls[number].arguments]
            signs, of = own[order], self.accumulations[number]
            if number in self._extremes:
                keys = self.keys_of(changes.columns).take(at)
                values, state = self._extremes[number].scan_results(
                    groups.with_signs(signs), lives.with_signs(signs), initial[number], arguments[0], keys
                )
            else:
                values, state = of.scan_results(lives.with_signs(signs), initial[number], arguments)
            results.append(values)
            states.append(state)
        rows = np.arange(size)
        earlier = np.where(begins | (before == 0), lives.ids, lives.count + rows - 1)
        ends = np.append(starts[1:], size) - 1
        self._save(touched, after[ends], states, lives.ids[ends])
        back = np.empty(size, np.int64)  # in the order in which rows came
        back[order] = rows
        self.send_changes(
            self.keys_of(changes.columns),
            rows,
            results,
            (earlier[back], (lives.count + rows)[back], (before > 0)[back], (after > 0)[back]),
        )

    def _lives(self, groups: Groups, begins: Ints, touched: Ints) -> tuple[Groups, list[State]]:
        """Return the lives of groups, which begin again after they have ended, and the states they begin with."""
        initial = self.rows.load(touched)
        starts = np.flatnonzero(begins)
        lives = Groups(np.cumsum(begins) - 1, len(starts), groups.signs, True)
        if lives.count == groups.count:
            return lives, initial
        owner = groups.ids[starts]
        again = np.append(False, owner[1:] == owner[:-1])
        positions = np.where(again, groups.count, owner)
        return lives, [
            [take(concat([held, blank]), positions) for held, blank in zip(state, of.empty(1), strict=True)]
            for of, state in zip(self.accumulations, initial, strict=True)
        ]

    def _save(self, touched: Ints, counts: Ints, states: Sequence[State], rows: Ints) -> None:
        """Put the states of groups, which are at some rows, and remove groups that have ended."""
        ended = counts <= 0
        if not ended.any():
            self.rows.store(touched, counts, [[take(column, rows) for column in state] for state in states])
            return
        living = np.flatnonzero(~ended)
        self.rows.store(
            touched[living], counts[living], [[take(column, rows[living]) for column in state] for state in states]
        )
        gone = touched[ended]
        if tables := self._value_tables():
            keys = self.rows.table.keys(gone)
            for values in tables:
                values.forget(keys)
        self.rows.table.remove(gone)


def _behind(one: State, other: State) -> State:
    return [concat([held, changed]) for held, changed in zip(one, other, strict=True)]


class GlobalAggregateOperator(KeyedAggregation):
    """The second of two phases: merges partial accumulators, with one change for a group and epoch."""

    def __init__(self, context: OperatorContext, operation: GlobalAggregate):
        from flott.table._functions.aggregates.partial import partial_schema

        retracts = any(operation.retracts)
        partial = partial_schema(operation.input, operation.keys, operation.calls, retracts=retracts)
        super().__init__(context, operation, [partial], range(len(operation.keys)))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        from flott.table._functions.aggregates.partial import partial_states

        self.expire([self.rows.table])
        (changes,) = inputs
        if not len(changes):
            return
        keys = self.keys_of(changes.columns)
        slots, _ = self.rows.table.slots(keys)
        first, ids = first_positions([slots], None, len(slots))
        touched, count = slots[first], len(first)
        added, partial = partial_states(changes.columns, len(self.keys), self.accumulations)
        counts = self.rows.counts(touched)
        after = counts.copy()
        np.add.at(after, ids, added)
        former = self.rows.load(touched)
        groups = Groups(ids, count, np.ones(len(ids), np.int64))
        states = [
            of.merge(groups, state, part)
            for of, state, part in zip(self.accumulations, former, partial, strict=True)
        ]
        results = self.results([_behind(one, other) for one, other in zip(former, states, strict=True)])
        living = np.flatnonzero(after > 0)
        self.rows.store(touched[living], after[living], [[take(c, living) for c in state] for state in states])
        self.rows.table.remove(touched[after <= 0])
        numbers = np.arange(count)
        self.send_changes(keys, first, results, (numbers, numbers + count, counts > 0, after > 0))
