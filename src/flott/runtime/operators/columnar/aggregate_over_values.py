"""OVER in the order of columns that are no time: every change updates the rows behind it. Task side.

Each change costs a pass over the rows of its partition, as in Flink. The passes are over columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.runtime.operators.columnar.base import DELETE, SIGNS, UPDATE_AFTER, UPDATE_BEFORE, Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.grouping import batch_of, concatenated, group_rows
from flott.runtime.operators.columnar.windowing.row_buffer import RowBuffer
from flott.runtime.operators.columnar.windowing.sorting import order_ranks
from flott.runtime.operators.columnar.windowing.zones import Flags, Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import Accumulation, Groups, Numbers, State, length_of, take
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._functions.aggregates.numeric import Counted
from flott.table._plan.logical import AggregateCall
from flott.table._plan.operations import AggregateOver
from flott.table._types.arrow import arrow_schema, arrow_type

_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


@dataclass
class _Partition:
    """The rows of a partition as positions in the pool of the epoch, in order, and what the calls say about them."""

    members: Longs
    states: list[State] = field(default_factory=list)


class ValueOverOperator(ColumnarOperator):
    """Keeps all rows of a partition in order, and sends what a change does to the aggregates of the others."""

    operation: AggregateOver

    def __init__(self, context: OperatorContext, operation: AggregateOver):
        super().__init__(context, operation, [operation.input])
        if operation.frame.lower is not None:
            raise ProgramError(
                "A frame of OVER that is ordered by a column without the time attribute begins with UNBOUNDED"
                " PRECEDING in a stream, found another beginning."
            )
        partition = operation.input.pick(operation.partition)
        keys = arrow_schema(partition.names, partition.types)
        self._keys = pa.schema([pa.field(f"$key{place}", one.type) for place, one in enumerate(keys)])
        self._buffer = RowBuffer("rows", keys, self.input_schemas[0])
        self._calls: list[tuple[AggregateCall, Accumulation]] = []
        for call in operation.calls:
            if call.distinct or call.function == "LAG":
                raise ProgramError(
                    f"{call.function} with{' DISTINCT' if call.distinct else ''} an order by a column without the time"
                    " attribute is not known in a stream. Order by a time attribute."
                )
            types = tuple(operation.input.types[place] for place in call.arguments)
            ranked = call.function in _RANKS
            self._calls.append((call, Counted() if ranked else make_accumulation(call, types, retracts=False)))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        changes = inputs[0]
        if not len(changes):
            return
        keyed = self.context.keyed_state
        assert keyed is not None
        self._buffer.open(keyed)
        keys = [changes.columns.column(place) for place in self.operation.partition]
        ids, first = group_rows(keys, len(changes))
        distinct = [key.take(pa.array(first)) for key in keys]
        places, slots = self._held(distinct, len(first))
        order = np.lexsort((self._buffer.order(slots), places))
        places, slots = places[order], slots[order]
        pool = concatenated([self._buffer.rows(slots), changes.columns])
        self._pool = pool
        self._rank = self._sort_numbers(pool)
        self._same, _ = group_rows(list(pool.columns), pool.num_rows)
        self._sent: list[tuple[Longs, list[pa.Array], np.ndarray]] = []
        partitions = self._load(places, len(first))
        kinds = np.zeros(len(changes), np.int8) if changes.kinds is None else changes.kinds
        for row, (partition, kind) in enumerate(zip(ids.tolist(), kinds.tolist(), strict=True)):
            if SIGNS[kind] > 0:
                self._insert(partitions[partition], len(slots) + row, kind)
            else:
                self._remove(partitions[partition], len(slots) + row)
        self._save(partitions, slots, changes)
        self._flush()

    def _held(self, keys: list[pa.Array], count: int) -> tuple[Longs, Longs]:
        if not keys:
            slots = self._buffer.table.all_slots()
            return np.zeros(len(slots), np.int64), slots
        return self._buffer.table.matching(batch_of(keys, self._keys, count), len(keys))

    def _sort_numbers(self, pool: pa.RecordBatch) -> Longs:
        """Return numbers that grow with the order of rows; rows that are equal in order have equal ones."""
        columns = [order_ranks(pool.column(key.column), key) for key in self.operation.order]
        if not columns:
            return np.zeros(pool.num_rows, np.int64)
        order = np.lexsort(tuple(reversed(columns)))
        changed = np.zeros(len(order), np.bool_)
        for column in columns:
            ordered = column[order]
            changed[1:] |= ordered[1:] != ordered[:-1]
        found = np.empty(len(order), np.int64)
        found[order] = np.cumsum(changed)
        return found

    def _load(self, places: Longs, count: int) -> list[_Partition]:
        partitions = []
        for number in range(count):
            members = np.flatnonzero(places == number)
            members = members[np.argsort(self._rank[members], kind="stable")]
            partition = _Partition(members)
            partition.states = self._scanned(members)
            partitions.append(partition)
        return partitions

    # --- one change --------------------------------------------------------------------------------------------------

    def _insert(self, partition: _Partition, row: int, kind: int) -> None:
        before = partition.members
        at = int(np.searchsorted(self._rank[before], self._rank[row], "right"))
        members = np.insert(before, at, row)
        states = self._scanned(members)
        others = np.delete(np.arange(len(members)), at)
        changed = self._changed(partition.states, states, np.arange(len(before)), others)
        # Rows that are equal in order come first, then the new one, then those behind it.
        self._send_updates(before, changed[:at], partition.states, states, np.arange(at), others[:at])
        self._send(np.array([row]), states, np.array([at]), np.array([kind], np.int8))
        rest = np.arange(at, len(before))
        self._send_updates(before[at:], changed[at:], partition.states, states, rest, others[at:])
        partition.members, partition.states = members, states

    def _remove(self, partition: _Partition, row: int) -> None:
        before = partition.members
        found = np.flatnonzero(self._same[before] == self._same[row])
        if not len(found):
            return
        at = int(found[-1])
        members = np.delete(before, at)
        states = self._scanned(members)
        others = np.delete(np.arange(len(before)), at)
        changed = self._changed(partition.states, states, others, np.arange(len(members)))
        self._send_updates(members[:at], changed[:at], partition.states, states, others[:at], np.arange(at))
        self._send(before[at : at + 1], partition.states, np.array([at]), np.array([DELETE], np.int8))
        rest = np.arange(at, len(members))
        self._send_updates(members[at:], changed[at:], partition.states, states, others[at:], rest)
        partition.members, partition.states = members, states

    def _scanned(self, members: Longs) -> list[State]:
        """Return the states of all calls after each row, or after the last one that is equal to it in order."""
        rows = self._pool.take(pa.array(members))
        count = len(members)
        if not count:
            return [accumulation.empty(0) for _, accumulation in self._calls]
        rank = self._rank[members]
        last = np.append(rank[1:] != rank[:-1], True)
        peers = np.flatnonzero(last)[np.cumsum(last) - last]
        found = []
        for call, accumulation in self._calls:
            if call.function in _RANKS:
                found.append([Numbers(_rank_numbers(call.function, last))])
                continue
            signs = np.ones(count, np.int64)
            if call.filter is not None:
                kept = pc.fill_null(rows.column(call.filter), False)
                signs = kept.to_numpy(zero_copy_only=False).astype(np.int64)
            groups = Groups(np.zeros(count, np.int64), 1, signs, True)
            arguments = [rows.column(place) for place in call.arguments]
            state = accumulation.scan(groups, accumulation.empty(1), arguments)
            found.append(state if self.operation.frame.rows else [take(column, peers) for column in state])
        return found

    def _changed(self, old: list[State], new: list[State], old_at: Longs, new_at: Longs) -> Flags:
        changed = np.zeros(len(old_at), np.bool_)
        for one, other in zip(old, new, strict=True):
            for before, after in zip(one, other, strict=True):
                changed |= _different(take(before, old_at), take(after, new_at))
        return changed

    # --- out ---------------------------------------------------------------------------------------------------------

    def _send_updates(
        self, rows: Longs, changed: Flags, old: list[State], new: list[State], old_at: Longs, new_at: Longs
    ) -> None:
        chosen = np.flatnonzero(changed)
        if not len(chosen):
            return
        rows, old_at, new_at = rows[chosen], old_at[chosen], new_at[chosen]
        before, after = self._results(old, old_at), self._results(new, new_at)
        if not self.operation.update_before:
            self._sent.append((rows, after, np.full(len(rows), UPDATE_AFTER, np.int8)))
            return
        count = len(rows)
        pairs = np.arange(2 * count) // 2 + np.arange(2 * count) % 2 * count
        both = [pa.concat_arrays([one, other]).take(pa.array(pairs)) for one, other in zip(before, after, strict=True)]
        kinds = np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER], np.int8), count)
        self._sent.append((np.repeat(rows, 2), both, kinds))

    def _send(self, rows: Longs, states: list[State], at: Longs, kinds: np.ndarray) -> None:
        self._sent.append((rows, self._results(states, at), kinds))

    def _results(self, states: list[State], at: Longs) -> list[pa.Array]:
        found = []
        for (call, accumulation), state in zip(self._calls, states, strict=True):
            part = [take(column, at) for column in state]
            found.append(accumulation.result(part).cast(arrow_type(call.type)))
        return found

    def _flush(self) -> None:
        if self._sent:
            rows = np.concatenate([part for part, _, _ in self._sent])
            width = len(self._calls)
            results = [pa.concat_arrays([part[place] for _, part, _ in self._sent]) for place in range(width)]
            kinds = np.concatenate([part for _, _, part in self._sent])
            self.send([*self._pool.take(pa.array(rows)).columns, *results], kinds)

    def _save(self, partitions: list[_Partition], slots: Longs, changes: Changes) -> None:
        """Save which rows came and which are gone."""
        alive = np.zeros(self._pool.num_rows, np.bool_)
        for partition in partitions:
            alive[partition.members] = True
        self._buffer.remove(slots[~alive[: len(slots)]])
        new = np.flatnonzero(alive[len(slots) :])
        rows = changes.columns.take(pa.array(new))
        keys = [rows.column(place) for place in self.operation.partition]
        self._buffer.add(keys, np.zeros(len(new), np.int64), rows)


def _rank_numbers(function: str, last: Flags) -> Longs:
    """Return ranks of sorted rows; ``last`` tells which are the last of those equal in order."""
    places = np.arange(len(last))
    if function == "ROW_NUMBER":
        return places + 1
    begins = np.append(True, last[:-1])
    if function == "DENSE_RANK":
        return np.cumsum(begins)
    return np.maximum.accumulate(np.where(begins, places, 0)) + 1


def _different(one: object, other: object) -> Flags:
    """Return which values of two columns differ."""
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        changed: Any = one.values != other.values
        if changed.ndim > 1:
            changed = np.any(changed, axis=1)
        if one.valid is not None and other.valid is not None:
            changed = (changed & one.valid & other.valid) | (one.valid != other.valid)
        flags: Flags = changed
        return flags
    count = length_of(one)
    ids, _ = group_rows([pa.concat_arrays([one, other])], 2 * count)
    differs: Flags = ids[:count] != ids[count:]
    return differs
