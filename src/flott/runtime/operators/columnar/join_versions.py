"""Joins of rows with the version of another table that was valid at their time. Task side.

A left row waits until the watermark has reached its time: then all versions up to it have come. Of each key the last
version up to the watermark is kept, and all later ones.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.runtime.operators.columnar.base import DELETE, UPDATE_BEFORE, Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import fetch_from, padded, pair_condition, unequal
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Flags, Ints, begins, by_group, codes_of, ends
from flott.runtime.operators.columnar.time_columns import TimeIndex, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import JoinVersions

#: The time of a row, its kind if it is a left one, and whether a version says that there is no row.
TIME, KIND, ENDED = "$time", "$kind", "$ended"


class JoinVersionsOperator(ColumnarOperator):
    """Inner and left joins with a versioned table. Without a time on the right its last version is taken at once."""

    def __init__(self, context: OperatorContext, operation: JoinVersions):
        super().__init__(context, operation, [operation.left, operation.right])
        told = self._told = operation
        left, right = self.input_schemas
        self._condition = pair_condition(told.condition, len(told.left), len(told.right))
        self._waiting = KeptRows(context, "versions-left", left, told.keys.left, Apart.NUMBERED, extra=(TIME, KIND))
        unique = () if told.right_time is None else (told.right_time,)
        self._versions = KeptRows(
            context,
            "versions-right",
            right,
            told.keys.right,
            Apart.UNIQUE,
            unique=unique,
            extra=(TIME, ENDED),
            ttl_ms=told.ttl_ms if told.right_time is None else 0,
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self._versions.begin()
        self._waiting.begin()
        watermark = MAX_WATERMARK if time.ended else max(time.watermark, self.watermark)
        changed = self._take_versions(inputs[1])
        self._release(watermark)
        self._take_left(inputs[0], watermark)
        if self._told.right_time is not None:
            self._forget(watermark, changed)

    # --- versions ----------------------------------------------------------------------------------------------------

    def _take_versions(self, changes: Changes) -> Ints:
        """Keep versions; return the slots of those that came."""
        columns, kinds = changes.columns, changes.kinds
        if kinds is not None:
            chosen = np.flatnonzero(kinds != UPDATE_BEFORE)  # the row that follows is what counts
            columns, kinds = columns.take(pa.array(chosen)), kinds[chosen]
        if not columns.num_rows:
            return np.zeros(0, np.int64)
        store, place = self._versions, self._told.right_time
        slots, _ = store.slots(columns)
        order, starts = by_group(slots)
        last = order[ends(starts)]
        touched = slots[last]
        store.put(touched, columns.take(pa.array(last)))
        if place is not None:
            store.counter(TIME)[touched] = milliseconds(columns.column(place))[last]
        store.counter(ENDED)[touched] = 0 if kinds is None else kinds[last] == DELETE
        if place is None and kinds is not None:
            store.remove(touched[kinds[last] == DELETE])
        return touched

    def _forget(self, watermark: int, changed: Ints) -> None:
        """Forget versions before the last one that the watermark has reached, of keys where another one is reached."""
        store = self._versions
        slots = store.table.all_slots()
        if not len(slots):
            return
        times = store.counter(TIME)
        reached = slots[(times[slots] <= watermark) & (times[slots] > self.watermark)]
        touched = np.union1d(reached, changed[times[changed] <= watermark])
        if not len(touched):
            return
        keys = store.table.keys(touched)
        columns = [keys.column(place) for place in range(len(store.key))]
        _, first = codes_of(columns, len(touched))
        at = pa.array(first)
        asked = dict(zip(store.key, (column.take(at) for column in columns), strict=True))
        positions, held = store.matching([asked[key] for key in self._told.keys.right], len(first))
        past = np.flatnonzero(times[held] <= watermark)
        order = past[np.lexsort((times[held[past]], positions[past]))]
        last: Flags = ends(begins(positions[order]))
        store.remove(held[order[~last]])
        ended = held[order[last]]
        store.remove(ended[store.counter(ENDED)[ended] == 1])

    # --- left rows ---------------------------------------------------------------------------------------------------

    def _release(self, watermark: int) -> None:
        """Join rows that have waited for the watermark."""
        store = self._waiting
        slots = store.table.all_slots()
        slots = slots[store.counter(TIME)[slots] <= watermark]
        if not len(slots):
            return
        slots = slots[np.argsort(store.numbers(slots), kind="stable")]
        rows = pa.RecordBatch.from_arrays(store.rows(slots), schema=self.input_schemas[0])
        kinds = store.counter(KIND)[slots].astype(np.int8)
        self._join(rows, kinds, store.counter(TIME)[slots])
        store.remove(slots)

    def _take_left(self, changes: Changes, watermark: int) -> None:
        columns, length = changes.columns, len(changes)
        if not length:
            return
        kinds = np.zeros(length, np.int8) if changes.kinds is None else changes.kinds
        if self._told.right_time is None:
            self._join(columns, kinds, np.zeros(length, np.int64))
            return
        times = milliseconds(columns.column(self._told.left_time))
        ready = times <= watermark
        if not ready.all():
            wait = np.flatnonzero(~ready)
            slots = self._waiting.append(columns.take(pa.array(wait)))
            self._waiting.counter(TIME)[slots] = times[wait]
            self._waiting.counter(KIND)[slots] = kinds[wait]
            now = np.flatnonzero(ready)
            columns, kinds, times = columns.take(pa.array(now)), kinds[now], times[now]
        if len(kinds):
            self._join(columns, kinds, times)

    def _join(self, columns: pa.RecordBatch, kinds: Ints, times: Ints) -> None:
        versions = self._version_at(columns, times)
        if self._condition is not None:
            pairs = np.flatnonzero(versions >= 0)
            right = self._versions.fetch(versions[pairs])
            holds = self._condition.holds(fetch_from(columns, pairs), right, len(pairs), self.session)
            versions[pairs[~holds]] = -1
        if not self._told.kind.left_outer:
            found = np.flatnonzero(versions >= 0)
            if len(found) < len(versions):
                columns, kinds, versions = columns.take(pa.array(found)), kinds[found], versions[found]
        if len(versions):
            right_columns = padded(self._versions.rows, versions, self.input_schemas[1])
            self.send([*columns.columns, *right_columns], kinds if kinds.any() else None)

    def _version_at(self, columns: pa.RecordBatch, times: Ints) -> Ints:
        """Return the slot of the version that each row sees; -1 if there is none."""
        length, keys, store = columns.num_rows, self._told.keys, self._versions
        found = np.full(length, -1, np.int64)
        alone = unequal(columns, keys.left, keys.filter_nulls)
        rows = np.arange(length) if alone is None else np.flatnonzero(~alone)
        arrays = [columns.column(key) for key in keys.left]
        if len(rows) < length:
            arrays = [array.take(pa.array(rows)) for array in arrays]
        codes, first = codes_of(arrays, len(rows))
        at = pa.array(first)
        positions, slots = store.matching([array.take(at) for array in arrays], len(first))
        if not len(slots):
            return found
        held = store.counter(TIME)[slots]
        index = TimeIndex(positions, held)
        behind = index.first_after(codes, times[rows])
        there = behind > index.first_of(codes)
        chosen = slots[index.order[behind[there] - 1]]
        found[rows[there]] = np.where(store.counter(ENDED)[chosen] == 1, -1, chosen)
        return found

    def next_event_time_ms(self) -> int | None:
        slots = self._waiting.table.all_slots()
        return int(self._waiting.counter(TIME)[slots].min()) if len(slots) else None
