"""Count words: Flink's first example, with the import changed. Run it: ``python examples/word_count.py [path ...]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import FileSource, StreamFormat

HAMLET = [
    "To be, or not to be, that is the question:",
    "Whether 'tis nobler in the mind to suffer",
    "The slings and arrows of outrageous fortune,",
    "Or to take arms against a sea of troubles",
    "And by opposing end them. To die: to sleep;",
]


def words(line: str) -> list[str]:
    return [word for word in (raw.strip(".,:;'!?").lower() for raw in line.split()) if word]


def main(env: StreamExecutionEnvironment, paths: Sequence[str] = ()) -> None:
    if paths:
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files")
    else:
        lines = env.from_collection(HAMLET, type_info=Types.STRING())
    (
        lines.flat_map(words, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment(), sys.argv[1:])
