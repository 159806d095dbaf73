"""Runs a program in this process and shows everything it did. Driver and tasks share the calling thread.

>>> env = in_process(parallelism=1)
>>> stream = env.from_collection([1, 2, 3]).map(lambda n: n * n)
>>> collect(stream)
[1, 4, 9]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from flott.common._ids import JobId
from flott.common._options import object_store_settings
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.datastream._data_stream import DataStream
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.errors import FlottError, StorageError
from flott.graph.chain import chain
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.jobmaster.listener import EpochStatistics, JobListener
from flott.runtime.jobmaster.side_work import Inline, SideWork
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.runner import PipelineRunner
from flott.runtime.storage import PosixStorage, Storage
from flott.testing.clock import ManualClock


def in_process(parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    """Return an environment that runs in this process and prints nothing. Options: ``a__b_c`` for ``a.b-c``.

    >>> in_process(flott__epoch__max_records="10").get_parallelism()
    2
    """
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    configuration.set_string("flott.progress", "off")
    configuration.set_string("flott.storage.sync", "false")
    for name, value in options.items():
        configuration.set_string(name.replace("__", ".").replace("_", "-"), value)
    # Not get_execution_environment(): a test must not depend on a flott.yaml.
    return StreamExecutionEnvironment(configuration).set_parallelism(parallelism)


def collect(stream: DataStream[Any]) -> list[Any]:
    """Run the program of a stream and return the records of the stream, by epoch and then by subtask."""
    found: list[Any] = []
    stream.sink_to(CallableSink(found.append)).set_parallelism(1)
    stream.get_execution_environment().execute("collect")
    return found


class Crash(BaseException):
    """A simulated crash of the driver, which no ``except Exception`` of the engine catches."""


@dataclass
class Faults:
    """Decides which storage operations fail. Driver and tasks share it."""

    fails: Callable[[str, str], bool] = lambda verb, name: False  #: (verb, name of the file) -> whether it fails
    refused: int = 0


@dataclass(frozen=True)
class UnreliableStorage(PosixStorage):
    """Local storage that fails when a test says so."""

    faults: Faults = field(default_factory=Faults)

    def read(self, name: str) -> bytes:
        self._perhaps_fail("read", name)
        return super().read(name)

    def write(self, name: str, data: bytes) -> None:
        self._perhaps_fail("write", name)
        super().write(name, data)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        self._perhaps_fail("read", name)
        with super().open(name) as file:
            yield file

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        self._perhaps_fail("write", name)
        with super().create(name) as file:
            yield file

    def publish(self, name: str, data: bytes) -> None:
        self._perhaps_fail("publish", name)
        super().publish(name, data)

    def delete(self, name: str) -> None:
        self._perhaps_fail("delete", name)
        super().delete(name)

    def _perhaps_fail(self, verb: str, name: str) -> None:
        if self.faults.fails(verb, name):
            self.faults.refused += 1
            raise StorageError(f"Cannot {verb} {name}: the test says so.")


@dataclass
class History(JobListener):
    """Everything that a job reported to its listeners."""

    statuses: list[JobStatus] = field(default_factory=list)
    epochs: list[EpochStatistics] = field(default_factory=list)
    restarts: list[tuple[str, int]] = field(default_factory=list)  #: failure card, delay in milliseconds

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        self.statuses.append(status)

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self.epochs.append(statistics)

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self.restarts.append((card, delay_ms))


@dataclass
class Incarnation:
    """One run of a job in a directory: from a start to an end, a cancellation or a crash."""

    master: JobMaster
    history: History
    crashed: bool = False

    @property
    def status(self) -> JobStatus:
        """Return its last status."""
        return self.master.history.status

    @property
    def failure(self) -> FlottError | None:
        """Return why it failed, or None."""
        return self.master.failure


def live(
    env: StreamExecutionEnvironment,
    folder: str | Path,
    *,
    clock: Clock | None = None,
    storage: Storage | None = None,
    on_step: Callable[[str, int], None] | None = None,
    listeners: Sequence[JobListener] = (),
    job_name: str = "job",
    on_start: Callable[[JobMaster], None] | None = None,
    beside: SideWork | None = None,
    compaction_rules: CompactionRules | None = None,
    run_id: str | None = None,
    token: int = 0,
    pipeline: PipelineRunner | None = None,
    settings: TaskSettings | None = None,
) -> Incarnation:
    """Run the program's job with its checkpoints in ``folder`` until it ends or ``on_step`` raises :class:`Crash`.

    Called again with the same folder it continues, as a new process would. ``on_step`` gets the name of each step of
    the protocol (planned, ran, acknowledged, completed, committed) and the epoch; raise ``Cancel`` there to cancel.
    ``on_start`` gets the job master first, to ask things of it later: ``master.submit(RescaleJob(3))``.
    Time is a :class:`ManualClock` unless said otherwise, so waiting costs nothing. Work beside the epochs, such as
    compaction, is done at once when it is due, unless ``beside`` says otherwise: a run can be repeated exactly.
    ``token`` is that of a leader with high availability, which deposes those with lower ones. ``pipeline`` executes the
    tasks of a job whose ``execution.mode`` is ``pipelined``.
    """
    graph = env.get_stream_graph(clear_transformations=True, job_name=job_name)
    storage = storage or PosixStorage(str(folder), sync=False)
    store = CheckpointStore(storage, token)
    storage = store.storage
    run_id = run_id or uuid4().hex[:8]
    runner = LocalRunner()
    clock = clock or ManualClock()
    history = History()
    master = JobMaster(
        deployment=Deployment(
            graph,
            chain(graph),
            runner,
            run_id=run_id,
            job_id=JobId(Path(folder).name),
            storage=storage,
            settings=settings or TaskSettings(object_stores=object_store_settings(env._configuration)),
        ),
        job_id=JobId(Path(folder).name),
        configuration=Configuration(env._configuration),
        store=store,
        clock=clock,
        run_id=run_id,
        listeners=[history, *listeners],
        beside=beside or Inline(),
        compaction_rules=compaction_rules or CompactionRules(),
        pipeline=pipeline or LocalPipeline(clock),
    )
    incarnation = Incarnation(master, history)

    def step(name: str, epoch: int) -> None:
        if on_step is not None:
            try:
                on_step(name, epoch)
            except Cancel:
                master.cancel()

    master.on_step = step
    try:
        store.claim(graph.job_name)
        if on_start is not None:
            on_start(master)
        master.run()
    except Crash:
        incarnation.crashed = True
    finally:
        store.release()
        if not incarnation.crashed:
            runner.close()
    return incarnation


class Cancel(Exception):
    """Raised by a step hook: cancel the job, as a user would."""
