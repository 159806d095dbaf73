"""``StreamExecutionEnvironment``: creates and runs a program. Driver side.

It has the program, to which streams add transformations, and one configuration, which all settings are written to. To
run a program, it translates the transformations to a stream graph and passes it to the executor that
``flott.execution`` finds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from flott import execution
from flott.common import _options as options
from flott.common import _settings
from flott.common.configuration import Configuration
from flott.common.execution_config import ExecutionConfig
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from flott.common.typeinfo._infer import TypeHint
from flott.common.typeinfo._types import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream._data_stream import DataStream, check_strategy, check_type
from flott.datastream._ignored_settings import IgnoredSettings, only_pipelined
from flott.datastream._step_settings import check_max_parallelism, check_parallelism
from flott.datastream.checkpoint_config import CheckpointConfig
from flott.datastream.checkpointing_mode import CheckpointingMode
from flott.datastream.connectors.base import Source
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.file_system._formats import StreamFormat
from flott.datastream.connectors.file_system._source import FileSource
from flott.datastream.connectors.spark import DataFrameSource
from flott.datastream.connectors.spark import staging_folder as default_staging_folder
from flott.datastream.execution_mode import RuntimeExecutionMode
from flott.datastream.functions._legacy import SourceFunction
from flott.datastream.slot_sharing_group import SlotSharingGroup
from flott.datastream.state_backend import EmbeddedRocksDBStateBackend, HashMapStateBackend, StateBackend
from flott.errors import ProgramError
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.graph.plan_json import plan_json
from flott.graph.specs import SourceSpec
from flott.graph.stream_graph import StreamGraph
from flott.graph.transformations import Operation, Program
from flott.graph.translate import Defaults, translate

__all__ = ["StreamExecutionEnvironment"]

T = TypeVar("T")

DEFAULT_JOB_NAME = "Flott Streaming Job"


class StreamExecutionEnvironment(IgnoredSettings):
    """The settings, the sources and the execution of a program.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.set_parallelism(2).get_parallelism()
    2
    """

    def __init__(self, configuration: Configuration | None = None):
        super().__init__()
        self._configuration = Configuration(configuration)
        self._program = Program()
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._state_backend: StateBackend = HashMapStateBackend()
        self._restart_strategy: RestartStrategyConfiguration = RestartStrategies.fall_back_restart()
        self._slot_sharing_groups: dict[str, SlotSharingGroup] = {}
        self._default_local_parallelism = _number_of_cores()

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return a new environment with the options of flott.yaml, the environment and the command line, in this order.

        ``configuration`` overrides them, and settings in code override all.
        """
        return StreamExecutionEnvironment(_settings.load().under(configuration))

    # --------------------------------------------------------------------------------------------------------- settings

    def get_config(self) -> ExecutionConfig:
        """Return the settings that have methods of their own. They apply to this environment."""
        return ExecutionConfig(self._configuration)

    def configure(self, configuration: Configuration) -> None:
        """Set every option that is set in the configuration. Other options do not change."""
        for key in configuration.key_set():
            option = options.option_of(key)
            for spelling in () if option is None else option.spellings():
                self._configuration.remove_config(spelling)
        self._configuration.add_all(configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of subtasks of operators without their own parallelism. -1: one for each core."""
        if parallelism != ExecutionConfig.PARALLELISM_DEFAULT:
            check_parallelism(parallelism, "set_parallelism() of the environment")
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the default parallelism of operators."""
        configured = options.read(self._configuration, options.PARALLELISM)
        return self._default_local_parallelism if configured is None else configured

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, which limits every later rescaling of the program's state."""
        check_max_parallelism(max_parallelism, "set_max_parallelism() of the environment")
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the default maximum parallelism of operators."""
        return self.get_config().get_max_parallelism()

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Set how long a busy task of a pipelined job may collect records before it sends them.

        0: it sends them after every piece of work. -1: only buffers that are full. An idle task sends them at once.
        """
        if timeout_millis < -1:
            raise ProgramError(
                f"set_buffer_timeout() takes milliseconds, 0 or -1 (only full buffers), found {timeout_millis}."
            )
        self._configuration.set(options.BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        self._configuration.set(options.BUFFER_TIMEOUT, max(0, timeout_millis))
        if options.read(self._configuration, options.EXECUTION_MODE) == "epochs":
            only_pipelined(
                f"set_buffer_timeout({timeout_millis})",
                "in epochs, records wait for nothing but the end of their epoch; see flott.epoch.target-duration",
            )
        return self

    def get_buffer_timeout(self) -> int:
        """Return the value that was set, here or by ``execution.buffer-timeout``, in milliseconds. -1: disabled."""
        timeout = options.buffer_timeout_ms(self._configuration)
        return -1 if timeout is None else timeout

    def get_default_local_parallelism(self) -> int:
        """Return the parallelism if none is set: the number of cores this process may use."""
        return self._default_local_parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the parallelism that is used if none is set."""
        check_parallelism(parallelism, "set_default_local_parallelism()")
        self._default_local_parallelism = parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set whether results are emitted continuously, or once at the end of bounded input."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise ProgramError(
                f"set_runtime_mode() takes a RuntimeExecutionMode, such as RuntimeExecutionMode.BATCH, found"
                f" {execution_mode!r}."
            )
        self._configuration.set(options.RUNTIME_MODE, execution_mode.name)
        return self

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Disable chaining. The program is slower, and each operator is visible separately."""
        self._configuration.set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators are chained."""
        return options.read(self._configuration, options.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return False: the state of a chain has one number of key groups."""
        return False

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """Register the resources of a group. Spark places tasks, so they are only shown."""
        known = self._slot_sharing_groups.setdefault(slot_sharing_group.get_name(), slot_sharing_group)
        if known != slot_sharing_group:
            raise ProgramError(
                f"The slot sharing group {known.get_name()!r} was registered before with other resources:"
                f" {known}, now {slot_sharing_group}. Use another name, or register it once."
            )
        return self

    def add_python_file(self, file_path: str) -> None:
        """Make a module (.py), a folder or an archive importable for the functions of the program.

        It is sent with the job.
        """
        known = options.read(self._configuration, options.PYTHON_FILES)
        self._configuration.set(options.PYTHON_FILES, f"{known},{file_path}" if known else file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Make the packages of a requirements file importable for the functions; they are installed for the job.

        With a folder of downloaded packages, they are installed only from the folder, without the network.
        """
        cached = f"#{requirements_cache_dir}" if requirements_cache_dir else ""
        self._configuration.set(options.PYTHON_REQUIREMENTS, requirements_file_path + cached)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the working directory of the program's functions: ``open("target_dir/file")``.

        By default, the folder has the name of the archive. In-process functions cannot access it.
        """
        added = f"{archive_path}#{target_dir}" if target_dir else archive_path
        known = options.read(self._configuration, options.PYTHON_ARCHIVES)
        self._configuration.set(options.PYTHON_ARCHIVES, f"{known},{added}" if known else added)

    # --------------------------------------------------------------------------------- checkpoints, state, restarts

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return all settings of checkpoints."""
        return self._checkpoint_config

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint about every ``interval`` milliseconds, always at the end of an epoch."""
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the interval in milliseconds, or -1 if none is set."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode that was set. Flott's checkpoints are always exactly once."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the mode: Flink's newer name of :meth:`get_checkpointing_mode`."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return the value that was set in the checkpoint config."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return the value that was set in the checkpoint config."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set the directory of savepoints whose request has none."""
        self._configuration.set(options.SAVEPOINT_DIR, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the directory of savepoints whose request has none, or ``None``."""
        return options.read(self._configuration, options.SAVEPOINT_DIR)

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Set where tasks keep state while they run, in memory or in RocksDB.

        It is the method of PyFlink 1.x for the option ``state.backend.type``.
        """
        match state_backend:
            case HashMapStateBackend():
                self._configuration.set(options.STATE_BACKEND, "hashmap")
            case EmbeddedRocksDBStateBackend():
                self._configuration.set(options.STATE_BACKEND, "rocksdb")
                if paths := state_backend.get_db_storage_paths():
                    self._configuration.set(options.LOCAL_DIR, ",".join(paths))
            case _:
                raise ProgramError(
                    f"set_state_backend() takes a HashMapStateBackend() or an EmbeddedRocksDBStateBackend(), found"
                    f" {state_backend!r}."
                )
        self._state_backend = state_backend
        return self

    def get_state_backend(self) -> StateBackend:
        """Return where tasks keep state while they run."""
        return self._state_backend

    def set_restart_strategy(self, restart_strategy: RestartStrategyConfiguration) -> StreamExecutionEnvironment:
        """Set the reaction to a failed epoch. PyFlink 1.x; equivalent to the options ``restart-strategy.*``."""
        if not isinstance(restart_strategy, RestartStrategyConfiguration):
            raise ProgramError(
                "set_restart_strategy() takes one of flott.common.RestartStrategies, such as"
                f" RestartStrategies.no_restart(), found {restart_strategy!r}."
            )
        restart_strategy.write_to(self._configuration)
        self._restart_strategy = restart_strategy
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Return the strategy of :meth:`set_restart_strategy`, or the fall-back if it was not called."""
        return self._restart_strategy

    # ---------------------------------------------------------------------------------------------------------- sources

    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeHint | None = None,
    ) -> DataStream[T]:
        """Return the records of a source."""
        _check_source(source, "from_source")
        spec = SourceSpec(source, check_strategy(watermark_strategy, "from_source"))
        operation = Operation(spec, output_type=check_type(type_info, "from_source"))
        made = self._program.add(f"Source: {source_name}", operation)
        return DataStream(self, made.id, type_info)

    def add_source(
        self, source_func: Source[T], source_name: str = "Custom Source", type_info: TypeHint | None = None
    ) -> DataStream[T]:
        """Return the records of a source, without watermarks. Flink's older form of :meth:`from_source`."""
        _check_source(source_func, "add_source")
        return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def from_collection(self, collection: Iterable[T], type_info: TypeHint | None = None) -> DataStream[T]:
        """Return the given elements in order. With a declared type, they are converted when the job runs."""
        try:
            elements = tuple(collection)
        except TypeError:
            raise ProgramError(
                f"from_collection() takes a list or another iterable, found {collection!r} of type"
                f" {type(collection).__name__}."
            ) from None
        return self.add_source(CollectionSource(elements), "Collection Source", type_info)

    def from_spark(
        self, dataframe: Any, staging_folder: str | None = None, keep: bool = False, type_info: TypeHint | None = None
    ) -> DataStream[Any]:
        """Return the rows of a DataFrame of Spark, which is computed by this call.

        Its rows are written below ``staging_folder``, which Spark, the driver and all tasks must reach; by default it
        is below the folder of checkpoints. They are deleted when the job has read them, unless ``keep`` is set.
        """
        folder = staging_folder or default_staging_folder(self._configuration)
        return self.add_source(DataFrameSource.of(dataframe, folder, keep), "Spark DataFrame", type_info)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Return the lines of a file, or of all files in a directory. PyFlink 1.x; see ``FileSource`` for more."""
        format_ = StreamFormat.text_line_format(charset_name)
        source: Source[str] = FileSource.for_record_stream_format(format_, file_path).build()
        return self.add_source(source, "Text File Source", Types.STRING())

    def create_input(self, input_format: object, type_info: TypeHint | None = None) -> NoReturn:
        """Refuse the call: input formats are Java classes."""
        raise ProgramError(
            f"create_input() found {input_format!r}; in PyFlink an InputFormat wraps a Java object, which Flott does"
            " not run. Use from_source() with a FileSource, or another of flott.datastream.connectors."
        )

    # -------------------------------------------------------------------------------------------------------- execution

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program to its end, and raise an error if it does not finish. Its sinks are then removed from it."""
        executor, graph = self._ready_to_run(job_name)
        return executor.execute(graph, Configuration(self._configuration))

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return immediately. Its sinks are then removed from it."""
        executor, graph = self._ready_to_run(job_name)
        return executor.submit(graph, Configuration(self._configuration))

    def get_execution_plan(self) -> str:
        """Return the program as JSON, in the form of Flink's plan visualizer. Nothing runs."""
        return plan_json(self.get_stream_graph())

    def get_stream_graph(self, clear_transformations: bool = False, job_name: str | None = None) -> StreamGraph:
        """Return the program as nodes and edges, before chaining. Clearing removes the sinks, as executing does."""
        graph = translate(self._program, self._defaults(job_name))
        if clear_transformations:
            self._program.remove_sinks()
        return graph

    def get_job_graph(self) -> JobGraph:
        """Return the program as it would run: operators chained into vertices."""
        return chain(self.get_stream_graph())

    def close(self) -> None:
        """Do nothing, because no resource is open. Jobs that :meth:`execute_async` started continue."""

    def _ready_to_run(self, job_name: str | None) -> tuple[execution.JobExecutor, StreamGraph]:
        """Refuse an invalid program before the sinks are removed."""
        options.validate(self._configuration)
        graph = self.get_stream_graph(job_name=job_name)
        executor = execution.executor_of(self._configuration)
        self._program.remove_sinks()
        return executor, graph

    def _defaults(self, job_name: str | None) -> Defaults:
        read, configuration = options.read, self._configuration
        parallelism, max_parallelism = self.get_parallelism(), self.get_max_parallelism()
        if configuration.contains(options.PARALLELISM) and parallelism > max_parallelism:
            raise ProgramError(
                f"The default parallelism is {parallelism}, above the maximum of {max_parallelism}. Lower it, or raise"
                f" the maximum with set_max_parallelism({parallelism}) before the job has state."
            )
        return Defaults(
            job_name=job_name or read(configuration, options.PIPELINE_NAME) or DEFAULT_JOB_NAME,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            chaining_enabled=self.is_chaining_enabled(),
            auto_generated_uids=read(configuration, options.AUTO_GENERATE_UIDS),
            runtime_mode=read(configuration, options.RUNTIME_MODE),
        )


def _check_source(source: Source[Any], method: str) -> None:
    if isinstance(source, SourceFunction):
        raise ProgramError(
            f"{method}() found the SourceFunction {type(source).__name__}; in PyFlink these wrap Java objects, which"
            " Flott does not run. Extend flott.datastream.connectors.base.Source, or use one of"
            " flott.datastream.connectors."
        )
    if not isinstance(source, Source):
        raise ProgramError(
            f"{method}() takes a Source, found {source!r} of type {type(source).__name__}. Use one of"
            " flott.datastream.connectors, or from_collection() for a list."
        )


def _number_of_cores() -> int:
    """Return the number of cores this process may use, which may be fewer in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
