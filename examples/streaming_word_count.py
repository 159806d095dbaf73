"""Count the words of an endless stream: ``python examples/streaming_word_count.py [number of words]``.

Fifty words arrive every second, and a count is printed when its epoch is complete. Interrupt the program to end it.
With a number of words, it ends by itself.
"""

from __future__ import annotations

import random
import sys

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource

WORDS = ["stream", "window", "timer", "state", "key", "watermark", "epoch", "join", "checkpoint", "sink"]


def word(index: int) -> str:
    """Return the word of an index, which is deterministic, so that a repeated epoch reads the same words."""
    return random.Random(index).choice(WORDS)


def main(env: StreamExecutionEnvironment, count: int | None = None, per_second: float = 50) -> None:
    source = DataGeneratorSource(word, count=count, records_per_second=per_second)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
        .map(lambda word: (word, 1))
        .key_by(lambda pair: pair[0])
        .sum(1)
        .uid("counts")
        .print()
    )
    env.execute("streaming word count")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment(), int(sys.argv[1]) if sys.argv[1:] else None)
