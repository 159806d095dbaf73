"""Orders meet payments within a window, and shipments that follow soon enough; both joins keep what waits in state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flott.common import Duration, Time, WatermarkStrategy
from flott.datastream import (
    CoGroupFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    reinterpret_as_keyed_stream,
)
from flott.datastream.window import TumblingEventTimeWindows
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

LATE = OutputTag("late-shipments")

# Order or shipment, its number, and when.
ORDERS = [
    ("o1", 3), ("o2", 1), EndOfEpoch(), ("o3", 12), ("o1", 9), EndOfEpoch(), ("o4", 21), ("o5", 20), EndOfEpoch(),
    ("o6", 33), ("o4", 28), EndOfEpoch(), ("o7", 47), EndOfEpoch(), ("o8", 60), ("o7", 58),
]  # fmt: skip
SHIPMENTS = [
    ("o2", 2), ("o9", 4), EndOfEpoch(), ("o1", 13), ("o3", 11), EndOfEpoch(), ("o3", 17), ("o5", 26), EndOfEpoch(),
    ("o4", 36), ("o4", 29), ("o1", 2), EndOfEpoch(), ("o6", 43), ("o6", 44), EndOfEpoch(), ("o7", 62), ("o8", 60),
]  # fmt: skip


class Shipped(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left[0], left[1], right[1], ctx.get_timestamp()


class Counts(CoGroupFunction[Any, Any, str]):
    def co_group(self, first: Any, second: Any) -> Iterator[str]:
        first, second = sorted(first), sorted(second)
        yield f"{[at for _, at in first]} and {[at for _, at in second]} of {(first or second)[0][0]}"


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))
    strategy = strategy.with_timestamp_assigner(lambda record, _: record[1])
    orders = env.from_source(ScriptedSource(ORDERS), strategy, "orders").uid("orders")
    shipments = env.from_source(ScriptedSource(SHIPMENTS), strategy, "shipments").uid("shipments")

    soon = orders.key_by(0).interval_join(shipments.key_by(0)).between(Time.milliseconds(-1), Time.milliseconds(10))
    shipped = soon.upper_bound_exclusive().side_output_right_late_data(LATE).process(Shipped()).uid("shipped")
    shipped.map(lambda pair: "{} ordered at {}, shipped at {} ({})".format(*pair)).sink_to(lines_to(folder, "shipped"))
    shipped.get_side_output(LATE).map(str).sink_to(lines_to(folder, "late"))
    # A pair is where its key is: the next keyed operator needs no exchange.
    slowest = reinterpret_as_keyed_stream(shipped, 0).reduce(lambda a, b: max(a, b, key=lambda p: (p[2] - p[1], p)))
    slowest.uid("slowest").filter(lambda pair: pair[2] - pair[1] > 4).map(str).sink_to(lines_to(folder, "slow"))

    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    joined = orders.join(shipments).where(0).equal_to(lambda shipment: shipment[0]).window(windows)
    joined.apply(lambda order, shipment: f"{order} {shipment}").uid("joined").sink_to(lines_to(folder, "joined"))
    grouped = orders.co_group(shipments).where(0).equal_to(0).window(windows)
    grouped.apply(Counts()).uid("grouped").sink_to(lines_to(folder, "grouped"))
