"""Watermarks of a table, pushed into its source: the highest value of the watermark expression so far, per split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flott.common.watermark_strategy import (
    MIN_WATERMARK,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from flott.table._expressions.expression import Expression
from flott.table._plan.operations import SessionSettings


class ColumnWatermarkGenerator(WatermarkGenerator):
    """Follows the watermark expression of a table, a batch of columns at a time."""

    __slots__ = ("_compiled", "_settings")  # not among what is saved: vars() does not show slots

    def __init__(self, watermark: Expression, settings: SessionSettings):
        from flott.table._expressions.compiled import compile_expressions

        self._compiled = compile_expressions([watermark])
        self._settings = settings
        self.highest = MIN_WATERMARK

    def on_columns(self, columns: Any) -> None:
        """Take note of a batch. Rows without a time do not move the watermark."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from flott.table._functions.function import Session

        (values,) = self._compiled.evaluate(columns, Session(time_zone=self._settings.time_zone))
        highest = pc.max(values)
        if highest.is_valid:
            unit = pa.timestamp("ms", tz=values.type.tz)
            milliseconds = pc.cast(highest, unit, safe=False).cast(pa.int64()).as_py()
            self.highest = max(self.highest, milliseconds)

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Rows come in columns only."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self.highest > MIN_WATERMARK:
            output.emit_watermark(Watermark(self.highest))


@dataclass(frozen=True)
class ColumnWatermarks:
    """Makes generators, one for each split."""

    watermark: Expression
    settings: SessionSettings = field(default_factory=SessionSettings)

    def __call__(self) -> WatermarkGenerator:
        return ColumnWatermarkGenerator(self.watermark, self.settings)


def watermark_strategy(
    watermark: Expression | None, settings: SessionSettings, idle_ms: int | None = None
) -> WatermarkStrategy:
    """Return the strategy of a table's source."""
    factory: Callable[[], WatermarkGenerator] | None = None
    if watermark is not None:
        factory = ColumnWatermarks(watermark, settings)
    return WatermarkStrategy(factory, idle_timeout_ms=idle_ms)
