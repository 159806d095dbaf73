"""``reinterpret_as_keyed_stream``: a keyed stream whose records are not moved. Driver side."""

from __future__ import annotations

from collections.abc import Callable

from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import KEY, DataStream, T, check_type
from flott.datastream._field_functions import as_selector
from flott.datastream._keyed_stream import KeyedStream
from flott.datastream.functions._basic import KeySelector
from flott.errors import ProgramError
from flott.graph.partitioning import Forward
from flott.graph.specs import KeySpec
from flott.graph.transformations import Partition

_METHOD = "reinterpret_as_keyed_stream"


def reinterpret_as_keyed_stream(
    stream: DataStream[T],
    key_selector: KeySelector[T, KEY] | Callable[[T], KEY] | int | str,
    key_type: TypeHint | None = None,
) -> KeyedStream[T, KEY]:
    """Treat a stream as partitioned by key without partitioning it again, which saves the cost of ``key_by``.

    Every record must be in the subtask of its key already. It is if the stream comes from an operator on a stream that
    was keyed in the same way, and neither parallelism nor maximum parallelism changes between the two. A record that is
    not fails the job when its state is saved. Flink's ``DataStreamUtils.reinterpretAsKeyedStream``; PyFlink has none.

    >>> from flott.datastream import StreamExecutionEnvironment, reinterpret_as_keyed_stream
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    >>> sums = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(0).sum(1)
    >>> sink = reinterpret_as_keyed_stream(sums, 0).max(1).print()
    >>> [vertex.name for vertex in env.get_job_graph().vertices]
    ['Source: Collection Source', 'Keyed Aggregation -> Keyed Aggregation -> Sink: Print']
    """
    if not isinstance(stream, DataStream):
        raise ProgramError(f"{_METHOD}() takes a stream, found {stream!r} of type {type(stream).__name__}.")
    step = stream._transformation
    if isinstance(step.step, Partition):
        raise ProgramError(
            f"{_METHOD}() leaves records where they are, and so would undo {step.name}() ({step.source_line}). Call it"
            " on the stream that an operator returns, or key_by() instead of both."
        )
    key = KeySpec(as_selector(key_selector, _METHOD), check_type(key_type, _METHOD), in_place=True)
    made = stream._environment._program.add(_METHOD, Partition(Forward(f"{_METHOD}()")), (stream._id,))
    return KeyedStream(stream, made.id, key)
