"""WATERMARK in the middle of a stream: event time computed of columns. Task side."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.zones import milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.operators.watermarks import TimeProgress
from flott.table._expressions.compiled import compile_expressions
from flott.table._plan.operations import AssignWatermarks


class AssignWatermarksOperator(ColumnarOperator):
    """Passes rows on, and replaces the watermark of upstream by the largest value of an expression."""

    immediate = True
    operation: AssignWatermarks

    def __init__(self, context: OperatorContext, operation: AssignWatermarks):
        super().__init__(context, operation, [operation.input])
        self._compiled = compile_expressions([operation.watermark])
        self.progress = TimeProgress()

    def restore(self, watermark: int, progress: TimeProgress | None) -> None:
        self.watermark = watermark
        self.progress = progress or TimeProgress(watermark)

    def outcome(self) -> OperatorOutcome:
        return replace(super().outcome(), progress=self.progress)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        if len(changes):
            (found,) = self._compiled.evaluate(changes.columns, self.session)
            latest = pc.max(found)
            reached = self.progress.watermark
            if latest.is_valid:
                reached = max(reached, int(milliseconds(pa.array([latest.as_py()], found.type))[0]))
            self.progress = TimeProgress(reached, active_at_ms=self.context.scope.now_ms)
            self.send(list(changes.columns.columns), changes.kinds)

    def advance(self, time: EventTime) -> EventTime:
        now_ms, idle_ms = self.context.scope.now_ms, self.operation.idle_ms or None
        if self.progress.active_at_ms is None:
            self.progress = replace(self.progress, active_at_ms=now_ms)
        if self.progress.idle_at(now_ms, idle_ms):
            self.progress = replace(self.progress, idle=True)
        # At the end of the input nothing more can come, whatever the expression says.
        self.watermark = max(self.watermark, MAX_WATERMARK if time.ended else self.progress.watermark)
        return EventTime(self.watermark, self.progress.idle and not time.ended, time.ended)

    def next_wakeup_ms(self) -> int | None:
        if not self.operation.idle_ms or self.progress.idle or self.progress.active_at_ms is None:
            return None
        return self.progress.active_at_ms + self.operation.idle_ms
