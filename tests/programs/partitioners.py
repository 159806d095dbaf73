"""Every way to distribute records, each followed by one that brings them together again."""

from __future__ import annotations

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.functions import Partitioner
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

SCRIPT = {s: [entry for epoch in range(4) for entry in (f"{s}{epoch}", f"{s}{epoch}!", EndOfEpoch())] for s in "abc"}


class ByLength(Partitioner[str]):
    def partition(self, key: str, num_partitions: int) -> int:
        return len(key) % num_partitions


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    words = env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "words").uid("words")
    ways = {
        "rebalance": words.rebalance(),
        "rescale": words.rescale(),
        "shuffle": words.shuffle(),
        "global": words.global_(),
        "forward": words.forward(),
        "custom": words.partition_custom(ByLength(), lambda word: word),
        "broadcast": words.broadcast(),
    }
    for name, way in ways.items():
        spread = way.map(lambda word, name=name: f"{name} {word}")
        paired = spread.map(lambda word: (word, 1))
        if name != "forward":  # which needs the parallelism of its source, whatever that becomes
            spread.set_parallelism(3)
            paired.set_parallelism(3)
        counted = paired.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid(f"count {name}")
        counted.map(lambda pair: f"{pair[0]} x{pair[1]}").sink_to(lines_to(folder, name))
