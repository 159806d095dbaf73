"""Joins of two changelogs with state of both. Task side.

An epoch's rows of one side meet the rows that the other side holds, then the same the other way round. While one side
is processed the other one stands still, so all its rows are matched at once: only the *number of partners* of a row
that is kept without one (outer, semi and anti joins) goes up and down row by row, which is a running sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import DELETE, INSERT, SIGNS, UPDATE_BEFORE, Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import (
    MAX_PAIRS,
    PairCondition,
    fetch_from,
    padded,
    pair_condition,
    taken,
    unequal,
)
from flott.runtime.operators.columnar.kept_rows import COUNT, Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import (
    Flags,
    Ints,
    begins,
    by_group,
    codes_of,
    ends,
    portions,
    ranges,
    running_sum,
)
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import JoinKind
from flott.table._plan.operations import RegularJoin

#: How many partners a row has: of sides whose rows are kept, or not kept, because they have none.
PARTNERS = "$partners"


@dataclass(frozen=True)
class JoinSide:
    """One input of a join."""

    left: bool
    schema: pa.Schema
    key: tuple[int, ...]
    store: KeptRows
    counts_partners: bool


@dataclass(frozen=True)
class _Events:
    """What is to be sent: for each row the one that came, the slot of the other side, or -1, and its kind."""

    rows: Ints
    slots: Ints
    kinds: Ints
    order: Ints


class RegularJoinOperator(ColumnarOperator):
    """Inner, outer, semi and anti joins."""

    def __init__(self, context: OperatorContext, operation: RegularJoin):
        super().__init__(context, operation, [operation.left, operation.right])
        self._kind = kind = operation.kind
        self._keys = operation.keys
        self._update_before = operation.update_before
        self._one_sided = kind in (JoinKind.SEMI, JoinKind.ANTI)
        self._condition: PairCondition | None = pair_condition(
            operation.condition, len(operation.left), len(operation.right)
        )
        retracts = operation.retracts if len(operation.retracts) == 2 else operation.retracts[:1] * 2
        self._left = self._side(True, operation.left_unique, retracts[0], kind.left_outer or self._one_sided)
        self._right = self._side(False, operation.right_unique, retracts[1], kind in (JoinKind.RIGHT, JoinKind.FULL))

    def _side(self, left: bool, unique: tuple[int, ...] | None, retracts: bool, counts: bool) -> JoinSide:
        operation = self.operation
        assert isinstance(operation, RegularJoin)
        schema, key = self.input_schemas[not left], self._keys.left if left else self._keys.right
        own_ttl_ms = operation.side_ttl_ms[not left]
        apart = Apart.NUMBERED if not retracts else Apart.COUNTED if unique is None else Apart.UNIQUE
        store = KeptRows(
            self.context,
            "join-left" if left else "join-right",
            schema,
            key,
            apart,
            unique=unique or (),
            extra=(PARTNERS,) if counts else (),
            ttl_ms=operation.ttl_ms if own_ttl_ms is None else own_ttl_ms,
        )
        return JoinSide(left, schema, key, store, counts)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        left, right = self._left, self._right
        left.store.begin()
        right.store.begin()
        first, second = (left, right), (right, left)
        if left.counts_partners and not right.counts_partners:  # fewer rows are sent and taken back
            first, second = second, first
        for own, other in (first, second):
            changes = inputs[0 if own.left else 1]
            if len(changes):
                self._take(own, other, changes)

    # --- one side ----------------------------------------------------------------------------------------------------

    def _take(self, own: JoinSide, other: JoinSide, changes: Changes) -> None:
        changes = with_former_rows(own.store, changes)
        columns, length = changes.columns, len(changes)
        signs = changes.signs
        alone = unequal(columns, own.key, self._keys.filter_nulls)
        keyed = np.arange(length) if alone is None else np.flatnonzero(~alone)
        starts, counts, slots = self._partners(own, other, columns, keyed)
        partners = np.zeros(length, np.int64)
        for start, stop in portions(counts, MAX_PAIRS):
            rows = np.repeat(np.arange(start, stop), counts[start:stop])
            found = slots[ranges(starts[start:stop], counts[start:stop])]
            if self._condition is not None and len(rows):
                rows, found = self._true_pairs(self._condition, own, other, columns, rows, found)
            times = other.store.counter(COUNT)[found] if other.store.apart is Apart.COUNTED else None
            partners[start:stop] = np.bincount(rows - start, times, stop - start).astype(np.int64)
            events = self._events(own, other, changes, signs, (start, stop), partners, rows, found, times)
            self._send(own, other, columns, events)
        self._keep(own, changes, signs, keyed, partners)

    def _partners(
        self, own: JoinSide, other: JoinSide, columns: pa.RecordBatch, keyed: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return slots of the other side, and for each row where those with its key begin and how many they are.

        The other side is asked once for each different key, so a key with many rows costs no more than its pairs.
        """
        length = columns.num_rows
        arrays = [columns.column(key) for key in own.key]
        if len(keyed) < length:
            at = pa.array(keyed)
            arrays = [array.take(at) for array in arrays]
        codes, first = codes_of(arrays, len(keyed))
        at = pa.array(first)
        positions, slots = other.store.matching([array.take(at) for array in arrays], len(first))
        by_key = np.bincount(positions, minlength=len(first))
        starts, counts = np.zeros(length, np.int64), np.zeros(length, np.int64)
        starts[keyed] = (np.cumsum(by_key) - by_key)[codes]
        counts[keyed] = by_key[codes]
        return starts, counts, slots

    def _true_pairs(
        self, condition: PairCondition, own: JoinSide, other: JoinSide, columns: pa.RecordBatch, rows: Ints, slots: Ints
    ) -> tuple[Ints, Ints]:
        mine = fetch_from(columns, rows)
        theirs = other.store.fetch(slots)
        left, right = (mine, theirs) if own.left else (theirs, mine)
        holds = condition.holds(left, right, len(rows), self.session)
        return rows[holds], slots[holds]

    # --- what is sent ------------------------------------------------------------------------------------------------

    def _events(
        self,
        own: JoinSide,
        other: JoinSide,
        changes: Changes,
        signs: Ints,
        span: tuple[int, int],
        partners: Ints,
        rows: Ints,
        slots: Ints,
        times: Ints | None,
    ) -> _Events:
        start, stop = span
        kinds = np.zeros(len(changes), np.int8) if changes.kinds is None else changes.kinds
        parts: list[tuple[Ints, Ints, Ints, Ints]] = []  # rows, slots, kinds, order
        own_rows = np.arange(start, stop)
        if self._one_sided:
            if own.left:
                wanted = own_rows[(partners[start:stop] > 0) == (self._kind is JoinKind.SEMI)]
                parts.append((wanted, np.full(len(wanted), -1), kinds[wanted], 2 * wanted))
        else:
            if len(rows):
                parts.append(self._joined(own, other, kinds, signs, rows, slots, times))
            if own.counts_partners:
                lonely = own_rows[partners[start:stop] == 0]
                codes = np.where(signs[lonely] > 0, INSERT, DELETE).astype(np.int8)
                parts.append((lonely, np.full(len(lonely), -1), codes, 2 * lonely))
        if other.counts_partners and len(rows):
            parts.append(self._turned(other, kinds, signs, rows, slots))
        if not parts:
            none = np.zeros(0, np.int64)
            return _Events(none, none, none.astype(np.int8), none)
        if len(parts) == 1:
            return _Events(*parts[0])
        return _in_order(_Events(*(np.concatenate(column) for column in zip(*parts, strict=True))))

    def _joined(
        self, own: JoinSide, other: JoinSide, kinds: Ints, signs: Ints, rows: Ints, slots: Ints, times: Ints | None
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Return pairs. Their kind is that of the row, unless the join sends rows without a partner as well."""
        if times is not None:
            rows, slots = np.repeat(rows, times), np.repeat(slots, times)
        added = signs[rows] > 0
        plain = np.where(added, INSERT, DELETE).astype(np.int8)
        if own.counts_partners:
            codes = plain
        elif other.counts_partners:
            codes = np.where(added, INSERT, kinds[rows]).astype(np.int8)
        else:
            codes = kinds[rows]
        return rows, slots, codes, 2 * rows + added

    def _turned(
        self, other: JoinSide, kinds: Ints, signs: Ints, rows: Ints, slots: Ints
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Count partners of the other side's rows, and return those that get their first one or lose their last one."""
        order = np.lexsort((rows, slots))
        sorted_slots, sorted_rows = slots[order], rows[order]
        starts = begins(sorted_slots)
        steps = signs[sorted_rows]
        counter = other.store.counter(PARTNERS)
        after = counter[sorted_slots] + running_sum(steps, starts)
        last = ends(starts)
        counter[sorted_slots[last]] = np.maximum(after[last], 0)
        other.store.table.mark(sorted_slots[last])
        turned = np.flatnonzero(((steps > 0) & (after == 1)) | ((steps < 0) & (after == 0)))
        at, found = sorted_rows[turned], sorted_slots[turned]
        gained = steps[turned] > 0
        if self._kind is JoinKind.SEMI:
            codes = kinds[at]
        else:
            codes = np.where(gained, DELETE, INSERT).astype(np.int8)
        ranks = 2 * at + ~gained
        if other.store.apart is Apart.COUNTED:
            times = other.store.counter(COUNT)[found]
            at, found, codes, ranks = (np.repeat(part, times) for part in (at, found, codes, ranks))
        return np.full(len(at), -1), found, codes, ranks

    def _send(self, own: JoinSide, other: JoinSide, columns: pa.RecordBatch, events: _Events) -> None:
        if not self._update_before and len(events.kinds):
            kept = np.flatnonzero(events.kinds != UPDATE_BEFORE)
            if len(kept) < len(events.kinds):
                events = _Events(events.rows[kept], events.slots[kept], events.kinds[kept], events.order[kept])
        for start in range(0, len(events.rows), MAX_PAIRS):
            rows, slots, kinds = (part[start : start + MAX_PAIRS] for part in (events.rows, events.slots, events.kinds))
            if self._one_sided:
                arrays = taken(columns.columns, rows) if own.left else other.store.rows(slots)
            else:
                mine, theirs = taken(columns.columns, rows), padded(other.store.rows, slots, other.schema)
                arrays = [*mine, *theirs] if own.left else [*theirs, *mine]
            self.send(arrays, kinds if kinds.any() else None)

    # --- what is kept ------------------------------------------------------------------------------------------------

    def _keep(self, own: JoinSide, changes: Changes, signs: Ints, keyed: Ints, partners: Ints) -> None:
        columns, store = changes.columns, own.store
        if len(keyed) < len(changes):  # rows that equal none of the other side need not be remembered
            columns, signs, partners = columns.take(pa.array(keyed)), signs[keyed], partners[keyed]
        if not columns.num_rows:
            return
        if store.apart is Apart.NUMBERED:
            slots = store.append(columns)
            if own.counts_partners:
                store.counter(PARTNERS)[slots] = partners
            return
        slots, _ = store.slots(columns)
        if store.apart is Apart.COUNTED:
            counts = store.counter(COUNT)
            np.add.at(counts, slots, signs)
            if own.counts_partners:
                store.counter(PARTNERS)[slots] = partners
            store.table.mark(slots)
            store.remove(slots[counts[slots] <= 0])
            return
        order, starts = by_group(slots)
        last = order[ends(starts)]
        there = last[signs[last] > 0]
        store.put(slots[there], columns.take(pa.array(there)))
        if own.counts_partners:
            store.counter(PARTNERS)[slots[there]] = partners[there]
        store.remove(slots[last[signs[last] < 0]])


def _in_order(events: _Events) -> _Events:
    order = np.argsort(events.order, kind="stable")
    return _Events(events.rows[order], events.slots[order], events.kinds[order], events.order[order])


def with_former_rows(store: KeptRows, changes: Changes) -> Changes:
    """Return changes with a -U where a row takes the place of another one that was not taken back before."""
    if store.apart is not Apart.UNIQUE or changes.kinds is None:
        return changes
    slots = store.find(changes.columns)
    known = slots >= 0
    codes = slots
    if not known.all():  # rows that are not held may still be followed by others with the same key
        own, _ = codes_of([changes.columns.column(column) for column in store.key_columns], len(changes))
        codes = own
    order, starts = by_group(codes)
    added: Flags = SIGNS[changes.kinds[order]] > 0
    before = np.empty(len(order), np.bool_)
    before[1:] = added[:-1]
    before[starts] = known[order][starts]
    replaced = np.flatnonzero(added & before)
    if not len(replaced):
        return changes
    former = np.where(starts[replaced], -1, order[replaced - 1])
    at = order[replaced]
    held = former < 0
    rows = store.rows(slots[at[held]])
    table = [pa.concat_arrays([column, row]) for column, row in zip(changes.columns.columns, rows, strict=True)]
    former[held] = len(changes) + np.arange(int(held.sum()))
    sequence = np.concatenate([2 * at, 2 * np.arange(len(changes)) + 1])
    sources = np.concatenate([former, np.arange(len(changes))])
    kinds = np.concatenate([np.full(len(at), UPDATE_BEFORE, np.int8), changes.kinds])
    ordered = np.argsort(sequence, kind="stable")
    batch = pa.RecordBatch.from_arrays(taken(table, sources[ordered]), schema=changes.columns.schema)
    return Changes(batch, kinds[ordered])
