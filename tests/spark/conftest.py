"""Tests that need a JVM: one Spark context for everything that can share it, processes of their own for the rest.

The recipe runs these tests in two processes, since a test with Spark waits most of its time. Modules that share
something expensive form a group, and a group runs in one of the two processes (:func:`group_of`). The two large groups
come first, so that each process has one; then each process takes the next module when it is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from xdist.scheduler import LoadScopeScheduling

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment
from flott.runtime.entrypoint import executors
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.spark.session import spark_context
from tests.spark.driver_process import DriverProcess

HERE = Path(__file__).parent

MakeEnvironment = Callable[..., StreamExecutionEnvironment]
StartDriver = Callable[..., DriverProcess]


#: The modules whose tests use the shared Spark context, and those that use the shared JobManager (cluster/conftest.py).
CONTEXT = (
    "test_basics", "test_batch_mode", "test_batch_tables", "test_compaction", "test_executors", "test_function_forms",
    "test_kafka", "test_pipelined", "test_pipelined_life", "test_pipelined_slots", "test_programs",
    "test_python_files",
    "test_rescale", "test_savepoints", "test_scheduling", "test_spark_tables", "test_state_tables",
    "test_survival", "test_tables",
)  # fmt: skip
SESSION = ("test_commands", "test_dependencies", "test_endpoints", "test_flink_client", "test_same_results")


def group_of(file: str) -> str:
    """Return the group of a module: what it shares, or the module itself."""
    if not file.startswith("tests/spark/"):
        return file
    name = Path(file).stem
    return "context" if name in CONTEXT else "session" if name in SESSION else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return ByGroup(config, log) if config.getoption("dist") == "loadgroup" else None


#: Modules with few tests that take long: they come next after the largest groups, not last beside an idle process.
LONGEST = ("tests/spark/test_soak.py", "tests/spark/test_placement.py", "tests/spark/cluster/test_recovery.py")


class ByGroup(LoadScopeScheduling):
    """Gives a whole group to a process; the largest groups first."""

    def schedule(self) -> None:
        super().schedule()
        for group in reversed(LONGEST):
            if group in self.workqueue:
                self.workqueue.move_to_end(group, last=False)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            _check_group(item)


def _check_group(item: pytest.Item) -> None:
    """A module that uses something shared and is in no group would start another one."""
    needed, group = getattr(item, "fixturenames", ()), group_of(item.nodeid.partition("::")[0])
    expected = "context" if "spark" in needed else "session" if "session" in needed else group
    if group != expected:
        raise pytest.UsageError(f"{item.nodeid}: add its module to {expected.upper()} in {__file__}.")


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared Spark writes its log."""
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="session")
def spark(spark_log: Path) -> Iterator[SparkContext]:
    """The context all tests of this process share, started the way a program starts it."""
    context = spark_context({"spark.master": "local[2]", "spark.local.dir": str(spark_log.parent / "local")}, spark_log)
    gateway = context._gateway
    assert gateway is not None
    yield context
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with it
    gateway.proc.wait(300)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def environment(spark: SparkContext) -> MakeEnvironment:
    """Makes environments of parallelism 2 on the shared Spark: ``environment({"option": "value"})``."""

    def make(options: dict[str, Any] | None = None) -> StreamExecutionEnvironment:
        configuration = Configuration()
        for key, value in {"flott.progress": "off", "parallelism.default": 2, **(options or {})}.items():
            configuration.set_string(key, str(value))
        return StreamExecutionEnvironment.get_execution_environment(configuration)

    return make


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    """Starts driver programs in processes of their own; none of them may leave anything behind."""
    started: list[DriverProcess] = []

    def start(*command: str | Path, **settings: Any) -> DriverProcess:
        folder = settings.pop("folder", tmp_path / "work")
        process = DriverProcess([str(part) for part in command], folder, **settings)
        started.append(process)
        return process

    yield start
    for process in started:
        if process._process.poll() is None:
            process.kill_tree()
    for process in started:
        process.expect_no_leftovers()


class Recorder(JobListener):
    """Remembers what jobs told."""

    def __init__(self) -> None:
        self.epochs: list[EpochStatistics] = []
        self.restarts: list[str] = []

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.epochs.append(statistics)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts.append(card)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Listens to every job that is started while the test runs."""
    recorder = Recorder()
    executors.extra_listeners.append(recorder)
    yield recorder
    executors.extra_listeners.remove(recorder)
