"""Words of text files, counted: file source, flat map, keyed reduce, file sink."""

from __future__ import annotations

from pathlib import Path

from flott.common import Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from tests.programs.runner import lines_to

TEXTS = {
    "a.txt": "to be or not to be\nthat is the question\n" * 9,
    "b.txt": "the rest is silence\n" * 15,
    "c.txt": "words words words\nthe question\n",
}


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    texts = Path(folder, "texts")
    texts.mkdir(parents=True, exist_ok=True)
    for name, text in TEXTS.items():
        (texts / name).write_text(text)
    env._configuration.set_string("flott.epoch.max-records", "1")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(texts)).build()
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "texts")
        .flat_map(str.split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .uid("count")
        .map(lambda pair: f"{pair[0]} {pair[1]}", output_type=Types.STRING())
        .sink_to(lines_to(folder, "counts"))
    )
