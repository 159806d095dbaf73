"""Settings, sources, plans, and what is handed to the executor."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from flott import execution
from flott.common import Configuration, RestartStrategies, Types
from flott.common import _options as options
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream import (
    CheckpointingMode,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    RuntimeExecutionMode,
    SourceFunction,
    StreamExecutionEnvironment,
)
from flott.datastream.connectors import NumberSequenceSource
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.errors import ConfigurationError, ProgramError
from flott.graph.specs import SourceSpec
from flott.graph.stream_graph import StreamGraph

RESULT = JobExecutionResult(JobID("0" * 32), 1)


class RecordingExecutor:
    """Runs nothing; remembers what it was given."""

    def __init__(self) -> None:
        self.runs: list[tuple[StreamGraph, Configuration]] = []

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        self.runs.append((graph, configuration))
        return RESULT

    def submit(self, graph: StreamGraph, configuration: Configuration) -> Any:
        self.runs.append((graph, configuration))
        return "client"


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> RecordingExecutor:
    made = RecordingExecutor()
    monkeypatch.setattr(execution, "executor_of", lambda configuration: made)
    return made


def env_of(**values: Any) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(
        Configuration.of({key.replace("__", "-").replace("_", "."): value for key, value in values.items()})
    )


# ---- parallelism -----------------------------------------------------------------------------------------------------


def test_the_default_parallelism_is_the_number_of_cores() -> None:
    env = env_of()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert env.get_parallelism() == env.get_default_local_parallelism() == cores
    env.set_default_local_parallelism(3)
    assert env.get_parallelism() == 3


def test_the_option_beats_the_cores_and_the_call_beats_the_option() -> None:
    env = env_of(parallelism_default=3)
    assert env.get_parallelism() == 3
    env.set_parallelism(5)
    assert (env.get_parallelism(), env.get_config().get_parallelism()) == (5, 5)
    env.set_parallelism(-1)
    assert env.get_parallelism() == env.get_default_local_parallelism()


def test_the_operator_beats_the_environment() -> None:
    env = env_of(parallelism_default=3, pipeline_max__parallelism=16)
    env.from_collection([1]).map(str).set_parallelism(4).set_max_parallelism(8).filter(bool).print()
    nodes = env.get_stream_graph().nodes
    assert [(node.parallelism, node.max_parallelism) for node in nodes] == [(1, 16), (4, 8), (3, 16), (3, 16)]


def test_a_default_parallelism_above_the_maximum_is_refused() -> None:
    env = env_of().set_max_parallelism(4).set_parallelism(8)
    env.from_collection([1]).print()
    with pytest.raises(ProgramError, match="default parallelism is 8, above the maximum of 4"):
        env.get_stream_graph()


def test_more_cores_than_key_groups_are_no_mistake() -> None:
    env = env_of().set_max_parallelism(4)
    env.set_default_local_parallelism(8)
    env.from_collection([1]).print()
    assert env.get_stream_graph().nodes[-1].parallelism == 4


@pytest.mark.parametrize("bad", [0, -3, "4", 1.0])
def test_a_parallelism_is_a_positive_whole_number(bad: Any) -> None:
    with pytest.raises(ProgramError, match="of the environment takes a whole number"):
        env_of().set_parallelism(bad)
    with pytest.raises(ProgramError, match="of the environment takes a whole number"):
        env_of().set_max_parallelism(bad)


# ---- other settings --------------------------------------------------------------------------------------------------


def test_the_user_s_configuration_is_copied() -> None:
    given = Configuration.of({"parallelism.default": 3})
    env = StreamExecutionEnvironment.get_execution_environment(given)
    env.set_parallelism(4)
    assert given.to_dict() == {"parallelism.default": "3"}


def test_configure_takes_over_what_is_set_and_leaves_the_rest() -> None:
    env = env_of(parallelism_default=3).set_max_parallelism(9)
    env.configure(Configuration.of({"parallelism.default": 6}))
    assert (env.get_parallelism(), env.get_max_parallelism()) == (6, 9)


def test_settings_are_written_to_the_configuration_the_executor_gets(executor: RecordingExecutor) -> None:
    env = env_of().set_parallelism(2).set_max_parallelism(64).enable_checkpointing(5000)
    env.disable_operator_chaining().set_default_savepoint_directory("/savepoints")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10)).set_state_backend(HashMapStateBackend())
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1]).print()
    assert env.execute("named") is RESULT
    ((graph, configuration),) = executor.runs
    assert graph.job_name == "named"
    assert not graph.chaining_enabled
    expected: dict[Any, Any] = {
        options.PARALLELISM: 2,
        options.MAX_PARALLELISM: 64,
        options.CHECKPOINT_INTERVAL: 5000,
        options.OPERATOR_CHAINING: False,
        options.SAVEPOINT_DIR: "/savepoints",
        options.RESTART_STRATEGY: "fixed-delay",
        options.FIXED_DELAY_ATTEMPTS: 3,
        options.STATE_BACKEND: "hashmap",
        options.RUNTIME_MODE: "BATCH",
    }
    assert {option: options.read(configuration, option) for option in expected} == expected


def test_getters_answer_what_was_set() -> None:
    env = env_of()
    assert (env.get_checkpoint_interval(), env.get_default_savepoint_directory()) == (-1, None)
    assert env.is_changelog_state_backend_enabled() is None
    assert (env.get_buffer_timeout(), env.is_chaining_enabled()) == (100, True)
    assert not env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    env.enable_checkpointing(10, CheckpointingMode.AT_LEAST_ONCE).set_default_savepoint_directory("/s")
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    assert env.get_checkpoint_config() is env.get_checkpoint_config()
    assert env.get_checkpointing_mode() is env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert (env.get_checkpoint_interval(), env.get_default_savepoint_directory()) == (10, "/s")
    assert (env.is_unaligned_checkpoints_enabled(), env.is_force_unaligned_checkpoints()) == (True, False)
    strategy = RestartStrategies.no_restart()
    assert env.set_restart_strategy(strategy).get_restart_strategy() is strategy
    assert env.get_state_backend() == HashMapStateBackend()
    env.close()


def test_the_backend_of_a_program_is_the_option_of_that_name() -> None:
    env = env_of()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/fast/disk", "/other/disk")
    env.set_state_backend(backend)
    assert env._configuration.get_string("state.backend.type", "") == "rocksdb"
    assert env._configuration.get_string("state.backend.rocksdb.localdir", "") == "/fast/disk,/other/disk"
    assert env.get_state_backend() is backend
    env.set_state_backend(HashMapStateBackend())
    assert env._configuration.get_string("state.backend.type", "") == "hashmap"


def test_what_cannot_be_set_is_refused() -> None:
    with pytest.raises(ProgramError, match="takes a HashMapStateBackend"):
        env_of().set_state_backend("rocksdb")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"takes one of flott\.common\.RestartStrategies"):
        env_of().set_restart_strategy("fixed-delay")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="wraps a Java object"):
        env_of().create_input(object())


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.enable_changelog_state_backend(True),
        lambda env: env.set_python_executable("python3"),
        lambda env: env.add_jars("file:///a.jar"),
        lambda env: env.add_classpaths("file:///a"),
        lambda env: env.register_cached_file("/f", "f"),
    ],
)
def test_what_has_no_effect_is_accepted_with_one_line(
    call: Callable[[StreamExecutionEnvironment], object], caplog: pytest.LogCaptureFixture
) -> None:
    env = env_of()
    with caplog.at_level(logging.INFO):
        call(env)
    assert [record.name for record in caplog.records] == ["flott.porting"]
    assert "has no effect in Flott" in caplog.text


def test_a_buffer_timeout_says_that_it_is_for_pipelined_jobs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        env_of().set_buffer_timeout(5)
    assert "set_buffer_timeout(5) has an effect in pipelined jobs only" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        env = env_of(execution_mode="pipelined").set_buffer_timeout(5)
    assert not caplog.records
    assert env.get_buffer_timeout() == 5
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    with pytest.raises(ProgramError, match="found -2"):
        env.set_buffer_timeout(-2)


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_a_collection_becomes_a_source_of_one_subtask_with_the_declared_type() -> None:
    env = env_of(parallelism_default=4)
    env.from_collection([1, "two"], Types.INT()).print()  # wrong: found out when the job runs
    node = env.get_stream_graph().nodes[0]
    assert node.spec == SourceSpec(CollectionSource((1, "two")), WatermarkStrategy.no_watermarks())
    assert (node.name, node.parallelism, node.output_type) == ("Source: Collection Source", 1, Types.INT())


def test_a_collection_may_be_empty_and_any_iterable() -> None:
    env = env_of()
    nothing: list[int] = []
    env.from_collection(nothing).union(env.from_collection(range(2))).print()
    sources = [node.spec.source for node in env.get_stream_graph().nodes[:2]]  # type: ignore[attr-defined]
    assert sources == [CollectionSource(()), CollectionSource((0, 1))]
    with pytest.raises(ProgramError, match="takes a list or another iterable, found 7"):
        env.from_collection(7)  # type: ignore[arg-type]


def test_a_source_keeps_its_name_strategy_and_type() -> None:
    env = env_of(parallelism_default=2)
    source, strategy = NumberSequenceSource(1, 9), WatermarkStrategy.for_monotonous_timestamps()
    env.from_source(source, strategy, "numbers", Types.LONG()).print()
    node = env.get_stream_graph().nodes[0]
    assert (node.name, node.spec, node.output_type) == ("Source: numbers", SourceSpec(source, strategy), Types.LONG())
    assert node.parallelism == 2


def test_add_source_takes_a_source_without_watermarks() -> None:
    env = env_of()
    env.add_source(NumberSequenceSource(1, 9)).print()
    node = env.get_stream_graph().nodes[0]
    assert (node.name, node.spec) == (
        "Source: Custom Source",
        SourceSpec(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks()),
    )


def test_what_is_no_source_is_refused() -> None:
    with pytest.raises(ProgramError, match="SourceFunction; in PyFlink these wrap Java objects"):
        env_of().add_source(SourceFunction())  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"from_source\(\) takes a Source, found \[1\]"):
        env_of().from_source([1], WatermarkStrategy.no_watermarks(), "s")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"from_source\(\) takes a WatermarkStrategy"):
        env_of().from_source(NumberSequenceSource(1, 2), None, "s")  # type: ignore[arg-type]


def test_a_text_file_is_read_once_line_by_line() -> None:
    env = env_of()
    env.read_text_file("/logs/a.txt", "latin-1").print()
    node = env.get_stream_graph().nodes[0]
    wanted = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), "/logs/a.txt").build()
    assert isinstance(node.spec, SourceSpec)
    assert (node.spec.source, node.output_type) == (wanted, Types.STRING())


# ---- plans -----------------------------------------------------------------------------------------------------------


def test_the_execution_plan_has_the_shape_flink_s_visualizer_reads() -> None:
    env = env_of(parallelism_default=2)
    env.from_collection([1]).map(str).set_description("to text").print()
    assert json.loads(env.get_execution_plan()) == {
        "nodes": [
            {
                "id": 1,
                "type": "Source: Collection Source",
                "pact": "Data Source",
                "guarantee": "exactly-once",
                "contents": "Source: Collection Source",
                "parallelism": 1,
            },
            {
                "id": 2,
                "type": "Map",
                "pact": "Operator",
                "contents": "to text",
                "parallelism": 2,
                "predecessors": [{"id": 1, "ship_strategy": "REBALANCE", "side": "second"}],
            },
            {
                "id": 3,
                "type": "Sink: Print",
                "pact": "Data Sink",
                "contents": "Sink: Print",
                "parallelism": 2,
                "predecessors": [{"id": 2, "ship_strategy": "FORWARD", "side": "second"}],
            },
        ],
        "weakest-link": {"guarantee": "exactly-once", "operator": "Source: Collection Source"},
    }


def test_looking_at_a_plan_changes_nothing() -> None:
    env = env_of()
    env.from_collection([1]).print()
    assert env.get_execution_plan() == env.get_execution_plan()
    assert env.get_stream_graph() == env.get_stream_graph()
    env.get_stream_graph(clear_transformations=True)
    with pytest.raises(ProgramError, match="no sink"):
        env.get_execution_plan()


# ---- execution -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["execute", "execute_async"])
def test_after_execution_the_sinks_are_gone_and_the_streams_remain(executor: RecordingExecutor, method: str) -> None:
    env = env_of()
    stream = env.from_collection([1]).map(str)
    sink = stream.print()
    getattr(env, method)()
    with pytest.raises(ProgramError, match="no sink"):
        getattr(env, method)()
    with pytest.raises(ProgramError, match="executed already"):
        sink.name("too late")
    stream.filter(bool).print()
    getattr(env, method)()
    names = [[node.name for node in graph.nodes] for graph, _ in executor.runs]
    assert names == [
        ["Source: Collection Source", "Map", "Sink: Print"],
        ["Source: Collection Source", "Map", "Filter", "Sink: Print"],
    ]


def test_the_job_s_name_is_the_argument_then_the_option_then_the_default(executor: RecordingExecutor) -> None:
    env = env_of(pipeline_name="configured")
    for name in ("given", None):
        env.from_collection([1]).print()
        env.execute(name)
    other = env_of()
    other.from_collection([1]).print()
    other.execute_async()
    assert [graph.job_name for graph, _ in executor.runs] == ["given", "configured", "Flott Streaming Job"]


def test_an_unknown_option_is_refused_before_anything_runs(executor: RecordingExecutor) -> None:
    env = env_of(paralelism_default=3)
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"did you mean 'parallelism\.default'"):
        env.execute()
    assert executor.runs == []
    env.get_stream_graph()  # the sinks are still there


def test_the_executor_gets_a_configuration_that_later_settings_do_not_change(executor: RecordingExecutor) -> None:
    env = env_of().set_parallelism(2)
    env.from_collection([1]).print()
    env.execute_async()
    env.set_parallelism(9)
    assert executor.runs[0][1].get(options.PARALLELISM) == 2


def test_operators_without_a_uid_are_refused_if_none_may_be_generated(executor: RecordingExecutor) -> None:
    env = env_of()
    env.get_config().disable_auto_generated_uids()
    env.from_collection([1]).uid("source").print()
    with pytest.raises(ProgramError, match="have no uid: 'Sink: Print'"):
        env.execute()


def test_the_api_loads_neither_the_runtime_nor_spark() -> None:
    code = "import sys, flott.datastream; print([m for m in sys.modules if m.startswith(('flott.runtime', 'pyspark'))])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.strip() == "[]"
