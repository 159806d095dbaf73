"""Use a global window with a custom trigger: ``python examples/windowing/global_window_with_trigger.py``.

Boxes are loaded on a lorry until it is full by weight. The trigger sums the weight in the state of its window, fires at
a tonne, and purges, so that the next lorry starts empty.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import cast

from flott.datastream import StreamExecutionEnvironment, WindowFunction
from flott.datastream.state import ReducingState, ReducingStateDescriptor
from flott.datastream.window import GlobalWindow, GlobalWindows, Trigger, TriggerResult

Box = tuple[str, int]  #: destination, kilograms

BOXES: list[Box] = [
    ("Bergen", 400), ("Oslo", 700), ("Bergen", 500), ("Bergen", 200), ("Oslo", 250), ("Oslo", 300), ("Bergen", 1_000),
]  # fmt: skip


class Full(Trigger[Box, GlobalWindow]):
    """Fires when the boxes of a window weigh a tonne."""

    weight = ReducingStateDescriptor("weight", operator.add, int)

    def on_element(
        self, element: Box, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        weight = self._weight(ctx)
        weight.add(element[1])
        if (weight.get() or 0) < 1_000:
            return TriggerResult.CONTINUE
        weight.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        self._weight(ctx).clear()

    def _weight(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self.weight))


class Lorry(WindowFunction[Box, str, str, GlobalWindow]):
    def apply(self, key: str, window: GlobalWindow, inputs: Iterable[Box]) -> Iterator[str]:
        weights = [kilograms for _, kilograms in inputs]
        yield f"to {key}: {' + '.join(map(str, weights))} = {sum(weights)} kg"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    boxes = env.from_collection(BOXES).key_by(lambda box: box[0])
    boxes.window(GlobalWindows.create()).trigger(Full()).apply(Lorry()).print()
    env.execute("a trigger")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
