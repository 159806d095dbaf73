"""What operators over windows share: clocks, late rows, and the columns of windows. Task side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.row_buffer import LateRows
from flott.runtime.operators.columnar.windowing.zones import Flags, LocalClock, Longs, milliseconds, timestamps
from flott.runtime.operators.operator import EventTime
from flott.table._plan.logical import Schema
from flott.table._types.logical import LocalZonedTimestampType


class WaitingOperator(ColumnarOperator):
    """Common root of operators whose rows wait for the end of windows, by event time or by the clock."""

    clock: LocalClock
    proctime = False

    @property
    def state(self) -> KeyedState:
        """Return the state of this subtask."""
        keyed = self.context.keyed_state
        assert keyed is not None
        return keyed

    def clock_of(self, schema: Schema, column: int) -> LocalClock:
        """Return the clock that windows over a time column are aligned with."""
        zoned = isinstance(schema.types[column], LocalZonedTimestampType)
        return LocalClock(self.operation.settings.time_zone if zoned else None)

    def reached(self, time: EventTime) -> int:
        """Return how far time has come at the end of the epoch."""
        if not self.proctime:
            return max(self.watermark, time.watermark)
        return MAX_WATERMARK if self.context.batch and time.ended else self.context.scope.now_ms

    def local_times(self, columns: pa.RecordBatch, column: int, name: str) -> Longs:
        """Return the times of rows on the windows' clock."""
        if self.proctime:
            return self.clock.local(np.full(columns.num_rows, self.context.scope.now_ms, np.int64))
        return self.clock.local(milliseconds(columns.column(column), name))

    def without_late(self, changes: Changes, late: Flags, times: Longs) -> tuple[Changes, Longs]:
        """Count rows that came too late; return the others, and where they were."""
        kept = np.flatnonzero(~late)
        if len(kept) == len(late):
            return changes, kept
        lost = np.flatnonzero(late)
        self.ledger.enter(
            LateRows(changes.columns.take(pa.array(lost))), times[lost[:20]].tolist(), self.watermark, kept=False
        )
        kinds = None if changes.kinds is None else changes.kinds[kept]
        return Changes(changes.columns.take(pa.array(kept)), kinds), kept

    def property_columns(self, properties: Sequence[str], starts: Longs, ends: Longs, place: int) -> list[pa.Array]:
        """Return the asked-for columns of windows; ``place`` is that of the first of them in the output."""
        found = []
        for number, name in enumerate(properties):
            of = self.output_schema.field(place + number).type
            match name:
                case "start":
                    values = starts
                case "end":
                    values = ends
                case "rowtime":
                    values = self.clock.instants(ends - 1)
                case _:
                    values = np.full(len(ends), self.context.scope.now_ms, np.int64)
            found.append(timestamps(values, of))
        return found

    # --- wake-ups ----------------------------------------------------------------------------------------------------

    def earliest(self) -> int | None:
        """Return when the next window ends, on the windows' clock."""
        return None

    def next_wakeup_ms(self) -> int | None:
        return self._deadline() if self.proctime else None

    def next_event_time_ms(self) -> int | None:
        return None if self.proctime else self._deadline()

    def _deadline(self) -> int | None:
        end = self.earliest()
        return None if end is None else int(self.clock.deadlines(np.array([end - 1], np.int64))[0])
