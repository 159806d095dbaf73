"""Aggregation over TUMBLE, HOP and CUMULATE windows, by slices. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import taken
from flott.runtime.operators.columnar.windowing.slice_store import DONE, SliceStore
from flott.runtime.operators.columnar.windowing.slices import slices_of
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Flags, Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import Schema
from flott.table._plan.operations import AggregateWindows
from flott.table._types.arrow import arrow_schema


class SliceAggregateOperator(WaitingOperator):
    """Adds rows to slices, and emits a window when time passes its end."""

    operation: AggregateWindows

    def __init__(self, context: OperatorContext, operation: AggregateWindows, input: Schema | None = None):
        super().__init__(context, operation, [input or operation.input])
        window = operation.window
        assert window is not None
        self.window = window
        self.proctime = window.proctime
        self.clock = self.clock_of(operation.input, window.time)
        self.slices = slices_of(window)
        self._time_name = operation.input.names[window.time]
        keys = operation.input.pick(operation.keys)
        self.store = SliceStore(
            arrow_schema(keys.names, keys.types),
            operation.input,
            operation.calls,
            retracts=any(operation.retracts),
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self.store.open(self.state)
        if len(inputs[0]):
            self.take(inputs[0])
        reached = self.reached(time)
        if self._may_end(reached):
            self._fire(reached)

    # --- rows --------------------------------------------------------------------------------------------------------

    def take(self, changes: Changes) -> None:
        """Add rows to their slices."""
        times = self.local_times(changes.columns, self.window.time, self._time_name)
        slices = self.slices.slice_ends(times)
        covered = self.slices.last_windows(slices) >= slices  # a HOP whose slide exceeds its size leaves gaps
        if not covered.all():
            places = np.flatnonzero(covered)
            kinds = None if changes.kinds is None else changes.kinds[places]
            changes = Changes(changes.columns.take(pa.array(places)), kinds)
            times, slices = times[places], slices[places]
        changes, kept = self.without_late(changes, self._late(slices), times)
        if len(changes):
            keys = [changes.columns.column(place) for place in self.operation.keys]
            self.store.add(keys, self._targets(slices[kept]), changes)

    def _late(self, slices: Longs) -> Flags:
        if self.proctime or self.watermark == MIN_WATERMARK:
            return np.zeros(len(slices), np.bool_)
        return self.clock.passed(self.slices.last_windows(slices) - 1, self.watermark)

    def _targets(self, slices: Longs) -> Longs:
        """Return the slices to add to: those of CUMULATE that were emitted have been merged into the first."""
        if not self.slices.cumulates or self.proctime or self.watermark == MIN_WATERMARK:
            return slices
        return np.where(self.clock.passed(slices - 1, self.watermark), self.slices.first_slices(slices), slices)

    # --- windows -----------------------------------------------------------------------------------------------------

    def _may_end(self, reached: int) -> bool:
        """Return whether a window may end between the former watermark and this one, without looking at state."""
        if self.proctime or self.clock.zone is not None or MIN_WATERMARK in (self.watermark, reached):
            return reached > MIN_WATERMARK
        slide, offset = self.slices.slide, self.slices.offset + self.slices.size
        return reached == MAX_WATERMARK or (reached + 1 - offset) // slide > (self.watermark + 1 - offset) // slide

    def _fire(self, reached: int) -> None:
        slots, ends = self.store.slots()
        due = np.flatnonzero(self.clock.passed(ends - 1, reached))
        if not len(due):
            return
        slots, ends = slots[due], ends[due]
        pairs, windows = self._ended(ends, reached, self.store.table.column(DONE)[slots])
        kept = self.store.kept
        kept_slots = kept_ends = kept_pairs = kept_windows = np.zeros(0, np.int64)
        if kept is not None:
            kept_slots, kept_ends = kept.slots()
            due = np.flatnonzero(self.clock.passed(kept_ends - 1, reached))
            kept_slots, kept_ends = kept_slots[due], kept_ends[due]
            done = self._done_of_values(kept_slots, kept_ends) if self.proctime else np.zeros(len(due), np.int64)
            kept_pairs, kept_windows = self._ended(kept_ends, reached, done)
        if len(pairs):
            keys, places, results = self.store.results(
                slots[pairs], windows, kept_slots[kept_pairs], kept_windows, alone=not self.slices.shared
            )
            self._emit(keys, windows[places], results)
        self._tidy(slots, ends, kept_slots, kept_ends, reached)

    def _ended(self, slices: Longs, reached: int, done: Longs) -> tuple[Longs, Longs]:
        """Return pairs of a position in ``slices`` and a window that ends now."""
        if self.slices.shared:
            pairs, windows = self.slices.windows(slices)
        else:
            pairs, windows = np.arange(len(slices)), slices
        ends = self.clock.passed(windows - 1, reached)
        if self.proctime:
            ends &= windows > done[pairs]
        elif self.watermark > MIN_WATERMARK:
            ends &= ~self.clock.passed(windows - 1, self.watermark)
        chosen = np.flatnonzero(ends)
        return pairs[chosen], windows[chosen]

    def _done_of_values(self, slots: Longs, ends: Longs) -> Longs:
        """Return up to where windows were emitted, of values: it is saved with the slices of their keys."""
        assert self.store.kept is not None
        found = self.store.find(self.store.kept.keys(slots), ends)
        done: Longs = self.store.table.column(DONE)[found]
        return done

    def _emit(self, keys: list[pa.Array], windows: Longs, results: list[pa.Array]) -> None:
        order = np.argsort(windows, kind="stable")
        windows = windows[order]
        columns = [taken(column, order) for column in (*keys, *results)]
        starts = self.slices.window_starts(windows)
        columns += self.property_columns(self.operation.properties, starts, windows, len(columns))
        self.send(columns)

    def _tidy(self, slots: Longs, ends: Longs, kept_slots: Longs, kept_ends: Longs, reached: int) -> None:
        """Drop slices that belong to no further window, and merge those of CUMULATE that were emitted."""
        over = self.clock.passed(self.slices.last_windows(ends) - 1, reached)
        kept_over = self.clock.passed(self.slices.last_windows(kept_ends) - 1, reached)
        if self.slices.cumulates:
            firsts = self.slices.first_slices(ends)
            moved = ~over & (firsts != ends)
            self.store.merge_into(slots[moved], firsts[moved])
            if self.store.kept is not None:
                firsts = self.slices.first_slices(kept_ends)
                moved = ~kept_over & (firsts != kept_ends)
                self.store.kept.move(kept_slots[moved], firsts[moved])
        self.store.remove(slots[over])
        if self.store.kept is not None:
            self.store.kept.remove(kept_slots[kept_over])
        if self.proctime and not over.all():
            self._note(reached)

    def _note(self, reached: int) -> None:
        """Note the last window that was emitted of slices that stay."""
        slots, ends = self.store.slots()
        pairs, windows = self.slices.windows(ends)
        passed = self.clock.passed(windows - 1, reached)
        done = self.store.table.column(DONE)
        np.maximum.at(done, slots[pairs[passed]], windows[passed])
        self.store.table.mark(slots)

    def earliest(self) -> int | None:
        slots, ends = self.store.slots()
        if not len(slots):
            return None
        if not self.proctime:
            ends = np.unique(ends)
        pairs, windows = self.slices.windows(ends)
        if self.proctime:
            open_ = windows > self.store.table.column(DONE)[slots][pairs]
        else:
            open_ = ~self.clock.passed(windows - 1, self.watermark)
        return int(windows[open_].min()) if open_.any() else None
