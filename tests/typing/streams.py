"""What type checkers know about a chain of transformations. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

from flott.common import Types, WatermarkStrategy
from flott.datastream import (
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    OutputTag,
    StreamExecutionEnvironment,
)
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.data_stream import CloseableIterator

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection([1, 2])
assert_type(numbers, DataStream[int])
assert_type(env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "n"), DataStream[int])
assert_type(env.read_text_file("/tmp/lines"), DataStream[str])

# callables, of whatever kind
texts = numbers.map(str)
assert_type(texts, DataStream[str])
assert_type(texts.map(len), DataStream[int])
assert_type(texts.map(lambda text: (text, 1)), DataStream[tuple[str, int]])
assert_type(texts.map(lambda text: (text, 1), output_type=tuple[str, int]), DataStream[tuple[str, int]])
assert_type(texts.map(str.upper, Types.STRING()).filter(bool), DataStream[str])


def letters(text: str) -> Iterator[str]:
    yield from text


assert_type(texts.flat_map(letters), DataStream[str])
assert_type(texts.flat_map(lambda text: text.split()), DataStream[str])
assert_type(texts.flat_map(lambda text: [len(text)], output_type=int), DataStream[int])

# settings keep the kind of stream
assert_type(texts.name("a").uid("b").set_parallelism(2), DataStream[str])
assert_type(texts.rebalance().shuffle().forward(), DataStream[str])
assert_type(texts.union(texts), DataStream[str])
assert_type(texts.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()), DataStream[str])

# keys
keyed = texts.key_by(len)
assert_type(keyed, KeyedStream[str, int])
assert_type(keyed.reduce(lambda a, b: a + b), DataStream[str])
assert_type(keyed.key_by(lambda text: text[0], key_type=str), KeyedStream[str, str])
assert_type(keyed.sum(), DataStream[str])
assert_type(texts.key_by(0), KeyedStream[str, Any])
assert_type(env.from_collection([1, 2]).map(str).key_by(len).reduce(lambda a, b: a), DataStream[str])

# two streams
assert_type(numbers.connect(texts), ConnectedStreams[int, str])
assert_type(numbers.connect(texts).key_by(lambda n: n, len), ConnectedStreams[int, str])

# side outputs
assert_type(OutputTag("late", str), OutputTag[str])
assert_type(texts.get_side_output(OutputTag("late", tuple[str, int])), DataStream[tuple[str, int]])
assert_type(texts.get_side_output(OutputTag("late", Types.STRING())), DataStream[Any])
assert_type(texts.get_side_output(OutputTag("late")), DataStream[Any])

# the end
assert_type(texts.sink_to(DiscardSink()), DataStreamSink)
assert_type(texts.execute_and_collect(), CloseableIterator[str])
assert_type(texts.execute_and_collect(limit=3), list[str])
assert_type(texts.preview().records, tuple[str, ...])
for text in texts.preview(5, "1 s"):
    assert_type(text, str)

# what is refused
numbers.map(str.upper)  # type: ignore[arg-type]
texts.filter(letters).map(abs)  # type: ignore[arg-type]
texts.flat_map(len)  # type: ignore[arg-type]
texts.key_by(str.upper).reduce(lambda a, b: 1)  # type: ignore[arg-type, return-value]
texts.map(str, output_type="str")  # type: ignore[arg-type]
texts.map(str, output_type=1)  # type: ignore[arg-type]
numbers.union(texts)  # type: ignore[arg-type]
texts.preview("5 s")  # type: ignore[arg-type]
