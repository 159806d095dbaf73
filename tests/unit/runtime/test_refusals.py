"""Bad programs and configurations are refused before anything runs, with a sentence that says what to change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Configuration, Encoder, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from flott.datastream.functions import KeyedProcessFunction, MapFunction
from flott.datastream.state import ValueStateDescriptor
from flott.errors import (
    ConfigurationError,
    FlottError,
    JobFailedError,
    JobLockedError,
    ProgramError,
    StateError,
    UnserializableError,
)
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()
Build = Callable[[StreamExecutionEnvironment], object]
LOCK = threading.Lock()


class HoldsLock(MapFunction[int, int]):
    def __init__(self) -> None:
        self.settings = {"lock": threading.Lock()}

    def map(self, value: int) -> int:
        return value


def capturing() -> Callable[[int], int]:
    connection = threading.Lock()
    return lambda value: value + connection.locked()


def sink(stream: Any) -> Any:
    return stream.sink_to(CallableSink(lambda value: None))


def twice(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_collection([1])
    sink(numbers.map(lambda n: n).uid("same").map(lambda n: n).uid("same"))


BAD_PROGRAMS: dict[str, tuple[Build, type[FlottError], list[str]]] = {
    "no sink": (lambda env: env.from_collection([1]).map(lambda n: n), ProgramError, ["no sink", "print()"]),
    "an attribute that cannot travel": (
        lambda env: sink(env.from_collection([1]).map(HoldsLock()).uid("m")),
        UnserializableError,
        ["uid 'm'", "lock", "open()", "test_refusals.py"],
    ),
    "a variable that cannot travel": (
        lambda env: sink(env.from_collection([1]).map(capturing()).uid("m")),
        UnserializableError,
        ["uid 'm'", "'connection', an object of type lock"],
    ),
    "a global that cannot travel": (
        lambda env: sink(env.from_collection([1]).filter(lambda n: LOCK.locked()).uid("f")),
        UnserializableError,
        ["uid 'f'", "'LOCK', an object of type lock"],
    ),
    "a key selector that cannot travel": (
        lambda env: sink(env.from_collection([1]).uid("s").key_by(capturing()).map(lambda n: n)),
        UnserializableError,
        ["connection", "lock"],
    ),
    "a partitioner that cannot travel": (
        lambda env: sink(
            env.from_collection([1]).partition_custom(lambda key, n: 0, capturing()).map(str)
        ),
        UnserializableError,
        ["lock"],
    ),
    "an element that cannot travel": (
        lambda env: sink(env.from_collection([threading.Lock()])),
        UnserializableError,
        ["Collection Source", "lock"],
    ),
    "parallelism above the maximum": (
        lambda env: sink(env.from_collection([1]).map(lambda n: n).set_max_parallelism(4).set_parallelism(5)),
        ProgramError,
        ["parallelism 5", "maximum of 4", "set_max_parallelism("],
    ),
    "a duplicate uid": (twice, ProgramError, ["'same'", "test_refusals.py", "give each its own"]),
    "a file that is not there": (
        lambda env: sink(
            env.from_source(
                FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/no/such/file").build(),
                NO_TIME,
                "f",
            )
        ),
        FlottError,
        ["/no/such/file"],
    ),
    "a folder that cannot be written": (
        lambda env: env.from_collection([1]).sink_to(
            FileSink.for_row_format("/proc/version/x", Encoder.simple_string_encoder()).build()
        ),
        FlottError,
        ["/proc/version"],
    ),
}


@pytest.mark.parametrize("case", BAD_PROGRAMS)
def test_a_bad_program_is_refused_with_a_sentence_that_helps(case: str) -> None:
    build, kind, expected = BAD_PROGRAMS[case]
    env = in_process(1)
    with pytest.raises(kind) as refused:
        run(env, build)
    for text in expected:
        assert text in str(refused.value), str(refused.value)


def run(env: StreamExecutionEnvironment, build: Build) -> None:
    build(env)
    env.execute("refused")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("execution.checkpointing.intervall", "1 s", "did you mean 'execution.checkpointing.interval'"),
        ("flott.epoch.max-record", "1", "did you mean 'flott.epoch.max-records'"),
        ("nonsense", "1", "Unknown option 'nonsense'"),
        ("execution.checkpointing.interval", "soon", "soon"),
        ("flott.epoch.max-records", "0", "at least 1"),
        ("execution.target", "yarn", "yarn"),
        ("execution.checkpointing.dir", "hdfs://bucket/x", "knows no storage hdfs://"),
        ("execution.state-recovery.from-latest", "true", "set execution.checkpointing.dir"),
        ("execution.state-recovery.path", "/no/such/chk-1", "not a completed checkpoint"),
        ("execution.checkpointing.dir", "/proc/version/x", "cannot be used"),
    ],
)
def test_a_bad_option_is_refused(key: str, value: str, expected: str) -> None:
    configuration = Configuration().set_string("execution.target", "in-process").set_string("flott.progress", "off")
    configuration.set_string(key, value)
    with pytest.raises(FlottError, match=expected):
        run(
            StreamExecutionEnvironment.get_execution_environment(configuration),
            lambda env: sink(env.from_collection([1])),
        )


# --- restoring -------------------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction[int, int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


SCRIPT = [entry for n in range(6) for entry in (n, EndOfEpoch())]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folder of a checkpoint of a job that has counted three records and then died."""

    def die(step: str, epoch: int) -> None:
        if (step, epoch) == ("committed", 3):
            raise Crash

    env = in_process(2)
    counting(env, Ledger(uuid4().hex))
    assert live(env, tmp_path / "job", on_step=die).crashed
    return tmp_path / "job" / "chk-3"


def counting(env: StreamExecutionEnvironment, ledger: Ledger, uid: str = "count") -> Any:
    keyed = env.from_source(ScriptedSource(SCRIPT), NO_TIME, "n").uid("n").key_by(lambda n: n % 2)
    counted: Any = keyed.process(Count()).uid(uid)
    counted.sink_to(LedgerSink(ledger)).uid("sink")
    return counted


def restoring(checkpoint: Path, parallelism: int = 2) -> StreamExecutionEnvironment:
    env = in_process(parallelism)
    env._configuration.set_string("execution.state-recovery.path", str(checkpoint))
    return env


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_another_job_can_start_from_a_checkpoint_and_leaves_it_alone(checkpoint: Path, parallelism: int) -> None:
    before = {path: path.read_bytes() for path in checkpoint.parent.rglob("*") if path.is_file()}
    for _ in range(2):
        env, ledger = restoring(checkpoint, parallelism), Ledger(uuid4().hex)
        counting(env, ledger)
        env.execute("another")
        assert sorted(ledger.records) == [(3, 2), (4, 3), (5, 3)]
    assert {path: path.read_bytes() for path in checkpoint.parent.rglob("*") if path.is_file()} == before


def test_a_checkpoint_whose_operator_is_gone_is_refused(checkpoint: Path) -> None:
    env = restoring(checkpoint)
    counting(env, Ledger(uuid4().hex), uid="other")
    with pytest.raises(ProgramError, match=r"state of operator .*uid 'count'.*the same uid"):
        env.execute("another")


def test_a_checkpoint_cut_into_other_key_groups_is_refused(checkpoint: Path) -> None:
    env = restoring(checkpoint)
    counting(env, Ledger(uuid4().hex)).set_max_parallelism(64)
    with pytest.raises((StateError, JobFailedError), match=r"set_max_parallelism\(128\)"):
        env.execute("another")


def test_a_crash_before_the_first_checkpoint_does_not_forget_where_the_job_was_to_start(
    checkpoint: Path, tmp_path: Path
) -> None:
    """From a given checkpoint, with from-latest as well: the second life has a plan of its own but no checkpoint."""
    from flott.runtime.entrypoint import executors

    def die(step: str, epoch: int) -> None:
        if step == "ran":
            raise Crash

    ledger = Ledger(uuid4().hex)
    for hook in (die, None):
        env = restoring(checkpoint)
        env._configuration.set_string("execution.checkpointing.dir", str(tmp_path / "new"))
        env._configuration.set_string("execution.state-recovery.from-latest", "true")
        counting(env, ledger)
        executors.step_hook = hook
        try:
            env.execute("another")
        except Crash:
            pass
        finally:
            executors.step_hook = None
    assert sorted(ledger.records) == [(3, 2), (4, 3), (5, 3)]
    assert list((tmp_path / "new").iterdir()) == []


def test_a_job_that_another_process_is_running_is_refused(tmp_path: Path) -> None:
    from flott.runtime.checkpoint.store import CheckpointStore
    from flott.runtime.storage import PosixStorage

    one, other = (CheckpointStore(PosixStorage(str(tmp_path / "job"))) for _ in range(2))
    one.claim("job")
    with pytest.raises(JobLockedError, match="Another process"):
        other.claim("job")
    one.release()
    other.claim("job")
    other.release()


def test_a_refused_configuration_leaves_nothing_behind(tmp_path: Path) -> None:
    env = in_process(1)
    env._configuration.set_string("execution.checkpointing.dir", str(tmp_path))
    sink(env.from_collection([1]).map(HoldsLock()))
    with pytest.raises(UnserializableError):
        env.execute("refused")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_unknown_option_is_a_configuration_error() -> None:
    env = in_process(1)
    env._configuration.set_string("flott.epoch.max", "1")
    with pytest.raises(ConfigurationError):
        run(env, lambda env: sink(env.from_collection([1])))
