"""``DataStream`` and ``DataStreamSink``: each method adds one transformation to the environment's program. Driver side.

Nothing runs here. A stream is the environment, the id of a transformation, and the declared type of its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from flott.common.execution_config import ExecutionConfig
from flott.common.time import Duration, Time
from flott.common.typeinfo._composite import TupleTypeInfo
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream._collect import CloseableIterator, Handover
from flott.datastream._field_functions import Projection, as_selector, field_getter
from flott.datastream._ignored_settings import without_effect
from flott.datastream._preview import Preview, show, take_preview
from flott.datastream._record_types import declared_type, projected, record_type
from flott.datastream._step_settings import ProgramStep, is_integer, own_name
from flott.datastream.connectors.base import Sink
from flott.datastream.connectors.collect import CollectSink
from flott.datastream.connectors.print import PrintSink
from flott.datastream.connectors.spark import SparkTableSink
from flott.datastream.connectors.spark import staging_folder as default_staging_folder
from flott.datastream.functions._basic import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
)
from flott.datastream.functions._callables import validate_function
from flott.datastream.functions._legacy import SinkFunction
from flott.datastream.functions._process import ProcessFunction
from flott.datastream.output_tag import OutputTag
from flott.errors import ProgramError
from flott.graph import partitioning, specs
from flott.graph.transformations import Chaining, Operation, Partition, SideOutput, TransformationId, Union

if TYPE_CHECKING:
    from flott.datastream._broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from flott.datastream._cached_stream import CachedDataStream
    from flott.datastream._connected_streams import ConnectedStreams
    from flott.datastream._joined_streams import CoGroupedStreams, JoinedStreams
    from flott.datastream._keyed_stream import KeyedStream
    from flott.datastream._windowed_stream import AllWindowedStream
    from flott.datastream.state import MapStateDescriptor
    from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flott.datastream.window._assigners import WindowAssigner
    from flott.datastream.window._windows import CountWindow, W

T = TypeVar("T")
U = TypeVar("U")
KEY = TypeVar("KEY")
OUT = TypeVar("OUT")


class DataStream(ProgramStep, Generic[T]):
    """A stream of records of one type, as a step of a program that has not run yet.

    >>> from flott.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> sink = env.from_collection([1, 2, 3]).map(str).name("to text").print()
    >>> print(env.get_job_graph().vertices[0].name)
    Source: Collection Source -> to text -> Sink: Print
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        ident: TransformationId,
        type_info: TypeHint | None = None,
    ):
        super().__init__(environment, ident)
        self._type = check_type(type_info, "a stream")  #: declared, and therefore enforced

    # ------------------------------------------------------------------------------------------ what the stream is

    def get_name(self) -> str:
        """Return the name of the operator that produces the stream."""
        return own_name(self._operator("get_name"))

    def get_type(self) -> TypeInformation:
        """Return the declared type of the records, else that of annotations, else any picklable object.

        Only a declared type is enforced when the job runs.

        >>> from flott.datastream import StreamExecutionEnvironment
        >>> def words(line: str) -> list[str]:
        ...     return line.split()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> env.from_collection(["to be"]).flat_map(words).get_type()
        String
        """
        known = self._type if self._type is not None else record_type(self._environment._program, self._id)
        return Types.PICKLED_BYTE_ARRAY() if known is None else known

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream's program."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the program."""
        return self._environment.get_config()

    # ------------------------------------------------------------------------------------- settings only streams have

    def force_non_parallel(self) -> Self:
        """Limit the operator to one subtask permanently."""
        self._operator("force_non_parallel")
        return self._refine(parallelism=1, max_parallelism=1)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accept and ignore the setting, for ported programs."""
        self._operator("set_buffer_timeout")
        without_effect(
            f"set_buffer_timeout({timeout_millis}) of a stream",
            "pipelined jobs have one buffer timeout for all operators: set_buffer_timeout() of the environment, or"
            " execution.buffer-timeout.interval; in epochs, records wait for nothing but the end of their epoch",
        )
        return self

    def start_new_chain(self) -> Self:
        """Do not chain the operator with the one before it."""
        self._operator("start_new_chain")
        return self._refine(chaining=Chaining.HEAD)

    def cache(self) -> CachedDataStream[T]:
        """Return the stream itself as a cached one, for ported programs."""
        from flott.datastream._cached_stream import CachedDataStream

        without_effect("cache()", "every job computes its streams again; write records that a later job reads to files")
        return CachedDataStream(self._environment, self._id, self._type)

    # -------------------------------------------------------------------------------------------------- transformations

    def map(
        self, func: MapFunction[T, OUT] | Callable[[T], OUT], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit one record for each record."""
        validate_function(func, MapFunction, "map")
        return self._apply("Map", specs.MapSpec(func), output_type)

    def flat_map(
        self,
        func: FlatMapFunction[T, OUT] | Callable[[T], Iterable[OUT]],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each record."""
        validate_function(func, FlatMapFunction, "flat_map")
        return self._apply("Flat Map", specs.FlatMapSpec(func), output_type)

    def filter(self, func: FilterFunction[T] | Callable[[T], bool]) -> DataStream[T]:
        """Keep the records for which the function returns true."""
        validate_function(func, FilterFunction, "filter")
        return self._apply("Filter", specs.FilterSpec(func))._typed(self._type)

    def process(self, func: ProcessFunction[T, OUT], output_type: TypeHint | None = None) -> DataStream[OUT]:
        """Emit any number of records for each record. The function has access to timestamps and side outputs."""
        validate_function(func, ProcessFunction, "process")
        return self._apply("Process", specs.ProcessSpec(func), output_type)

    def project(self, *field_indexes: int) -> DataStream[tuple[Any, ...]]:
        """Keep some fields of each tuple, in the given order."""
        return self._apply("Projection", specs.MapSpec(Projection(*field_indexes)), self._projected(field_indexes), ())

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Assign new timestamps and watermarks."""
        spec = specs.TimestampsSpec(check_strategy(watermark_strategy, "assign_timestamps_and_watermarks"))
        return self._apply("Timestamps/Watermarks", spec, keys=())._typed(self._type)

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """Return the records that the operator emits under the tag."""
        self._operator("get_side_output")
        if not isinstance(output_tag, OutputTag):
            raise ProgramError(f'get_side_output() takes an OutputTag such as OutputTag("late"), found {output_tag!r}.')
        step = SideOutput(output_tag.tag_id, output_tag.type_info)
        made = self._environment._program.add("get_side_output", step, (self._id,))
        return DataStream(self._environment, made.id, output_tag.type_info)

    # ---------------------------------------------------------------------------------------------- joining streams

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Combine the records of all the streams into one stream."""
        for stream in streams:
            self._check_other(stream, "union")
        inputs = (self._id, *(stream._id for stream in streams))
        made = self._environment._program.add("union", Union(), inputs)
        return DataStream(self._environment, made.id, self._type)

    @overload
    def connect(self, ds: DataStream[U]) -> ConnectedStreams[T, U]: ...

    @overload
    def connect(self, ds: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]: ...

    def connect(
        self, ds: DataStream[U] | BroadcastStream[U]
    ) -> ConnectedStreams[T, U] | BroadcastConnectedStream[T, U]:
        """Make both streams the two inputs of one function, each with its own type."""
        # these modules import this one
        from flott.datastream._broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from flott.datastream._connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            self._check_other(ds.input_stream, "connect")
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        self._check_other(ds, "connect")
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U]:
        """Join both streams by key and window, in pairs. Not in PyFlink.

        Continue with ``where(...).equal_to(...).window(...).apply(...)``.
        """
        from flott.datastream._joined_streams import JoinedStreams  # that module imports this one

        self._check_other(other_stream, "join")
        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream[U]) -> CoGroupedStreams[T, U]:
        """Group the records of both streams by key and window. Not in PyFlink.

        Continue with ``where(...).equal_to(...).window(...).apply(...)``.
        """
        from flott.datastream._joined_streams import CoGroupedStreams  # that module imports this one

        self._check_other(other_stream, "co_group")
        return CoGroupedStreams(self, other_stream)

    @overload
    def key_by(
        self, key_selector: KeySelector[T, KEY] | Callable[[T], KEY], key_type: TypeHint | None = None
    ) -> KeyedStream[T, KEY]: ...

    @overload
    def key_by(self, key_selector: int | str, key_type: TypeHint | None = None) -> KeyedStream[T, Any]: ...

    def key_by(
        self,
        key_selector: KeySelector[T, KEY] | Callable[[T], KEY] | int | str,
        key_type: TypeHint | None = None,
    ) -> KeyedStream[T, Any]:
        """Partition the stream by key. The next operator has state and timers per key.

        The key is given by a function, or by the position or name of a field.
        """
        from flott.datastream._keyed_stream import KeyedStream  # that module imports this one

        selector = as_selector(key_selector, "key_by")
        getter = field_getter(selector, self._declared())
        key = specs.KeySpec(selector, check_type(key_type, "key_by"), getter=getter)
        made = self._environment._program.add("key_by", Partition(partitioning.Hash(key)), (self._id,))
        return KeyedStream(self, made.id, key)

    # ------------------------------------------------------------------------------------------------------- windows

    def window_all(self, window_assigner: WindowAssigner[Any, W]) -> AllWindowedStream[T, W]:
        """Assign all records to windows, regardless of their key. A single subtask processes them."""
        from flott.datastream._windowed_stream import AllWindowedStream  # that module imports this one

        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T, CountWindow]:
        """Assign all records to windows of ``size`` records.

        With a slide, a window starts at every ``slide``-th record.

        This is Flink's; PyFlink has none.
        """
        from flott.datastream._windowed_stream import count_assigner  # that module imports this one

        return self.window_all(count_assigner(size, slide))

    # ------------------------------------------------------------------------------------ distribution over subtasks

    def shuffle(self) -> DataStream[T]:
        """Send each record to a random subtask of the next operator."""
        return self._redistribute("shuffle", partitioning.Shuffle())

    def rebalance(self) -> DataStream[T]:
        """Distribute the records over all subtasks of the next operator in turn."""
        return self._redistribute("rebalance", partitioning.Rebalance())

    def rescale(self) -> DataStream[T]:
        """Distribute the records over the nearest subtasks of the next operator."""
        return self._redistribute("rescale", partitioning.Rescale())

    def forward(self) -> DataStream[T]:
        """Send the records of each subtask to the same subtask of the next operator."""
        return self._redistribute("forward", partitioning.Forward())

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask of the next operator. Flink's ``global()``; PyFlink has none."""
        return self._redistribute("global_", partitioning.Global())

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send every record to every subtask of the next operator.

        With descriptors, the result is for ``connect``, whose function keeps broadcast states.
        """
        # that module imports this one
        from flott.datastream._broadcast_stream import BroadcastStream, check_descriptors

        everywhere = self._redistribute("broadcast", partitioning.Broadcast())
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return everywhere
        descriptors = check_descriptors((broadcast_state_descriptor, *other_broadcast_state_descriptors))
        return BroadcastStream(everywhere, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner[KEY] | Callable[[KEY, int], int],
        key_selector: KeySelector[T, KEY] | Callable[[T], KEY] | int | str,
    ) -> DataStream[T]:
        """Send each record to the subtask that the partitioner returns for its key."""
        validate_function(partitioner, Partitioner, "partition_custom")
        selector = as_selector(key_selector, "partition_custom")
        return self._redistribute("partition_custom", partitioning.Custom(partitioner, selector))

    # -------------------------------------------------------------------------------------------------------- the end

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the records to a sink."""
        if not isinstance(sink, Sink):
            raise ProgramError(
                f"sink_to() takes a Sink, found {sink!r} of type {type(sink).__name__}. Use one of"
                " flott.datastream.connectors, or extend flott.datastream.connectors.base.Sink."
            )
        name = f"Sink: {type(sink).__name__.removesuffix('Sink') or 'Writer'}"
        made = self._environment._program.add(name, Operation(specs.SinkSpec(sink, self._declared())), (self._id,))
        return DataStreamSink(self._environment, made.id)

    def to_spark(
        self, table: str, schema: Any = None, mode: str = "append", staging_folder: str | None = None
    ) -> DataStreamSink:
        """Write the records of a bounded job into a table of Spark's catalog, when the job has finished.

        ``schema`` is that of the rows, by default the declared type. Rows wait in ``staging_folder``, which the driver,
        all tasks and Spark must reach; by default it is below the folder of checkpoints. ``mode``: append, overwrite.
        """
        schema = self._declared() if schema is None else schema
        if schema is None:
            raise ProgramError(f"to_spark({table!r}) needs a schema: pass one, or declare the type of the records.")
        folder = staging_folder or default_staging_folder(self._environment._configuration)
        return self.sink_to(SparkTableSink.for_table(table, schema).with_mode(mode).with_staging_folder(folder).build())

    def add_sink(self, sink_func: Sink[T]) -> DataStreamSink:
        """Write the records to a sink. Flink's older name of :meth:`sink_to`."""
        if isinstance(sink_func, SinkFunction):
            raise ProgramError(
                f"add_sink() found the SinkFunction {type(sink_func).__name__}; in PyFlink these wrap Java objects,"
                " which Flott does not run. Extend flott.datastream.connectors.base.Sink, or use one of"
                " flott.datastream.connectors."
            )
        return self.sink_to(sink_func)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the driver, each with the number of its subtask."""
        return self.sink_to(PrintSink(sink_identifier or ""))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the program with all its sinks, and return the records of this stream as they are computed.

        With a limit, return at most so many records, and cancel the job afterwards.
        """
        if limit is not None and not (is_integer(limit) and limit >= 1):
            raise ProgramError(f"The limit of execute_and_collect() is a whole number of at least 1, found {limit!r}.")
        results = self._start_collecting(job_execution_name)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    def preview(self, n: int = 20, timeout: str | float | Duration | Time | timedelta = "5s") -> Preview[T]:
        """Show the first records of this stream, at most ``n``, after ``timeout`` at the latest. Only in Flott.

        A script writes them to standard output as a table. A notebook and an interactive Python show the returned
        value. Only
        the part of the program that leads to this stream runs, in a separate job: no sink is written, no checkpoint of
        the
        program is read or written, and nothing is restarted. The job starts with the sources and empty state and is
        cancelled
        when there are enough records.

        ``timeout`` is a duration such as ``"500 ms"``, or a number of seconds. It counts from the start of the job: it
        excludes
        the start of Spark and includes that of Spark's Python workers. A failure of the job is raised.
        """
        preview = take_preview(self, n, timeout)
        show(preview)
        return preview

    # ---------------------------------------------------------------------------------------------------------- inside

    def _start_collecting(self, job_name: str | None) -> CloseableIterator[T]:
        handover: Handover[T] = Handover()
        sink = self.sink_to(CollectSink(handover.put))
        try:
            client = self._environment.execute_async(job_name)
        except BaseException:
            self._environment._program.discard(sink._id)  # a later execute() must not collect these records
            raise
        return CloseableIterator(handover, client)

    def _keys(self) -> tuple[specs.KeySpec | None, ...]:
        """Return how an operator that reads this stream determines its key."""
        return ()

    def _apply(
        self,
        name: str,
        spec: specs.OperatorSpec,
        output_type: TypeHint | None = None,
        keys: tuple[specs.KeySpec | None, ...] | None = None,
    ) -> DataStream[Any]:
        """Add an operator that reads this stream."""
        declared = check_type(output_type, name)
        operation = Operation(spec, self._keys() if keys is None else keys, declared)
        made = self._environment._program.add(name, operation, (self._id,))
        return DataStream(self._environment, made.id, declared)

    def _declared(self) -> TypeInformation | None:
        """Return the declared type of the records. Unlike ``_type``, it covers all streams of a union."""
        return declared_type(self._environment._program, self._id)

    def _typed(self, type_info: TypeInformation | None) -> Self:
        """Return the same stream with this type of records. Nothing is checked at run time."""
        self._type = type_info
        return self

    def _redistribute(self, method: str, how: partitioning.Partitioning) -> DataStream[T]:
        made = self._environment._program.add(method, Partition(how), (self._id,))
        return DataStream(self._environment, made.id, self._type)

    def _projected(self, indexes: tuple[int, ...]) -> TypeInformation | None:
        if not indexes or not all(is_integer(index) and index >= 0 for index in indexes):
            raise ProgramError(f"project() takes the positions of fields, counted from 0, found {indexes}.")
        if self._type is None:
            return None
        if not isinstance(self._type, (TupleTypeInfo, NamedTupleTypeInfo)):
            raise ProgramError(f"project() works on tuples, found a stream of {self._type!r}. Use map() instead.")
        found = projected(self._type, indexes)
        if found is None:
            raise ProgramError(f"project{indexes} found no field {max(indexes)} in {self._type!r}, counted from 0.")
        return found

    def _check_other(self, other: object, method: str) -> None:
        if not isinstance(other, DataStream):
            raise ProgramError(f"{method}() takes streams, found {other!r} of type {type(other).__name__}.")
        if other._environment is not self._environment:
            raise ProgramError(
                f"{method}() joins streams of one environment, found one of another. Call get_execution_environment()"
                " once, and make all streams of the program from what it returns."
            )


class DataStreamSink(ProgramStep):
    """The end of a stream. It can be named and configured like an operator."""


def check_type(type_info: object, where: str) -> TypeInformation | None:
    """Return the type of a type or a type hint. Refuse other arguments."""
    if type_info is None or isinstance(type_info, TypeInformation):
        return type_info
    try:
        return type_of(type_info)
    except ProgramError as error:
        raise ProgramError(f"{where}: {error}") from None


def check_strategy(strategy: object, method: str) -> WatermarkStrategy:
    """Refuse an argument that is not a watermark strategy."""
    if isinstance(strategy, WatermarkStrategy):
        return strategy
    raise ProgramError(
        f"{method}() takes a WatermarkStrategy, such as WatermarkStrategy.no_watermarks(), found {strategy!r}."
    )
