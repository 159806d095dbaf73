"""A graph of all shapes: a fork, a diamond, a union with itself, two sources, edges that skip stages, many widths."""

from __future__ import annotations

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

ONE = {f"one{s}": [entry for epoch in range(4) for entry in (epoch * 3 + s, EndOfEpoch())] for s in range(3)}
TWO = [100, EndOfEpoch(), 101, 102, EndOfEpoch(), EndOfEpoch(), 103]


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    no_time = WatermarkStrategy.no_watermarks()
    one = env.from_source(ScriptedSource(ONE), no_time, "one").uid("one")
    two = env.from_source(ScriptedSource(TWO), no_time, "two").uid("two").set_parallelism(1)

    left = one.map(lambda n: ("left", n))
    halves = one.map(lambda n: (n % 2, 1)).key_by(lambda pair: pair[0])
    right = halves.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("right").map(lambda pair: ("right", pair))
    diamond = left.union(right).map(lambda pair: f"{pair[0]} {pair[1]}").set_parallelism(3)
    diamond.sink_to(lines_to(folder, "diamond")).set_parallelism(1)

    itself = two.union(two).map(lambda n: n * 2).set_parallelism(4)
    itself.map(str).sink_to(lines_to(folder, "itself"))

    totals = (
        one.union(two, itself)  # arrives in stages 0 and 1, is read in stage 2
        .key_by(lambda n: n % 3)
        .reduce(lambda a, b: a + b)
        .uid("totals")
        .set_parallelism(2)
        .key_by(lambda n: 0)
        .sum()
        .uid("sum of totals")
    )
    counted = totals.map(lambda n: 1).key_by(lambda n: n).reduce(lambda a, b: a + b).uid("counted").set_parallelism(1)
    counted.map(str).sink_to(lines_to(folder, "counted"))
    two.filter(lambda n: n > 101).map(str).sink_to(lines_to(folder, "raw"))  # straight from stage 0
