"""Small jobs for a JobManager, whose results can be told to be exact: counted numbers in files."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flott.common import Configuration, Encoder, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSink, RollingPolicy
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.jobmanager.processes.graph_pickle import pickle_graph
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobView

#: A job's epochs are small and quick, so that there are many of them.
QUICK = {
    "flott.epoch.max-records": "40",
    "flott.epoch.initial-records": "40",
    "flott.storage.sync": "false",
    "parallelism.default": "2",
}


class Count(KeyedProcessFunction):
    """Numbers the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield json.dumps([value % 5, seen])


def counting(
    output: Path,
    records: int | None = 2000,
    rate: float | None = None,
    change: Callable[[int], int] = lambda value: value,
    **settings: str,
) -> StreamExecutionEnvironment:
    """A program that counts numbers by key and writes each count to a file, once."""
    configuration = Configuration.of({**QUICK, **settings})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source: DataGeneratorSource[int] = DataGeneratorSource(lambda index: index, count=records, records_per_second=rate)
    sink = (
        FileSink.for_row_format(str(output), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())  # so that all that is committed can be seen
        .build()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.map(change).uid("change").key_by(lambda value: value % 5).process(Count()).uid("count")
    counted.sink_to(sink).uid("sink")
    return env


def submission_of(env: StreamExecutionEnvironment, name: str) -> JobSubmission:
    """The program as a client hands it over."""
    graph = env.get_stream_graph(job_name=name)
    settings = env._configuration.to_dict()
    return JobSubmission(uuid.uuid4().hex, name, settings, pickle_graph(graph), parallelism=2)


def submit(manager: JobManager, env: StreamExecutionEnvironment, name: str) -> str:
    """Hand a program over; its job's id."""
    submission = submission_of(env, name)
    manager.submit(submission, {}).result(120)
    return submission.job_id


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[JobManager]:
    """A JobManager without Spark, whose jobs run in processes of their own all the same."""
    values = {"flott.cluster.dir": str(folder), "execution.target": "in-process", **settings}
    manager = JobManager(Configuration.of(values))
    manager.start()
    try:
        yield manager
    finally:
        manager.close()


def wait_for(check: Callable[[], Any], seconds: float = 120.0) -> Any:
    """What a check says, once it says yes."""
    deadline = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.02)


def await_status(manager: JobManager, job_id: str, status: JobStatus, seconds: float = 120.0) -> JobView:
    """The job's view, once it has a status; any other end is a failure of the test."""

    def check() -> JobView | None:
        view = manager.job(job_id)
        ended = view.status.is_globally_terminal_state() and view.status is not status
        assert not ended, f"{view.status.name}: {[failure.text for failure in view.failures]}"
        return view if view.status is status else None

    return wait_for(check, seconds)


def await_epoch(manager: JobManager, job_id: str, epochs: int = 3) -> JobView:
    """The job's view, once it has completed some epochs."""
    return wait_for(lambda: v if (v := manager.job(job_id)).checkpoints.completed >= epochs else None)


def counts(output: Path) -> dict[int, int]:
    """What a job wrote: by key the number of counts, which must be 1, 2, 3 ... without gap or repetition."""
    lines = [json.loads(line) for path in visible(output) for line in path.read_text().splitlines()]
    found: Counter[int] = Counter(key for key, _ in lines)
    for key, number in found.items():
        assert sorted(count for of, count in lines if of == key) == list(range(1, number + 1)), f"key {key}"
    return dict(found)


def visible(output: Path) -> list[Path]:
    """The files others may read."""
    return [path for path in output.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
