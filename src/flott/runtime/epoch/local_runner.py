"""The in-process runner: it runs the same tasks, one after the other, in this process. Breakpoints work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flott.errors import WorkerLostError
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.runner import OnEvent, RunnerStatus, StateCompactor, StopReason, TaskProgress, report_epoch
from flott.runtime.epoch.task import run_task
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.epoch.wire import Row
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.storage import Storage


class LocalCompactor:
    """Compacts state files in the calling thread."""

    def __init__(self, storage: Storage | None = None) -> None:
        self.storage = storage
        self._stopped: set[str] = set()

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        assert self.storage is not None, "deploy() comes before compact()"
        files = []
        for order in orders:
            if purpose in self._stopped:
                raise WorkerLostError("The compaction was cancelled.")
            files.append(compact(order, self.storage))
        return files

    def stop(self, purpose: str) -> None:
        self._stopped.add(purpose)


class LocalRunner:
    """Runs epochs in the calling thread. Records are serialized between stages, as they are on Spark."""

    def __init__(self, cache: TaskCache | None = None) -> None:
        self._image: JobImage | None = None
        self._cache = cache or TaskCache()
        self._compactor = LocalCompactor()
        self._cancelled = False
        self._timed_out = False  #: concerns only the epoch that runs
        self._done = 0

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    def deploy(self, image: JobImage) -> None:
        self._image = image
        self._compactor.storage = image.storage

    def run(self, plan: EpochPlan, on_event: OnEvent) -> None:
        image = self._image
        assert image is not None, "deploy() comes before run()"
        self._done = 0
        self._timed_out = False
        rows: list[list[Row]] = [[] for _ in range(image.topology.stages[0].width)]
        for stage in image.topology.stages:
            last = stage.index + 1 == len(image.topology.stages)
            following: list[list[Row]] = [
                [] for _ in range(1 if last else image.topology.stages[stage.index + 1].width)
            ]
            for partition in range(stage.width):
                task_attempt = f"{plan.epoch}.{stage.index}.{partition}"  # unlike any other of this run
                task = run_task(self._cache, image, plan, stage.index, partition, task_attempt, rows[partition])
                for target, row in _rows_of(task):
                    if self._cancelled or self._timed_out:
                        raise WorkerLostError("The epoch was cancelled.")
                    following[target].append(row)
                rows[partition] = []
                self._done += 1
            rows = following
        report_epoch(plan.epoch, rows[0], on_event)

    def stop(self, reason: StopReason) -> None:
        if reason is StopReason.EPOCH_TIMED_OUT:
            self._timed_out = True
            self._cache.interrupt_task()
        else:
            self._cancelled = True
            self._cache.interrupt()

    def status(self) -> RunnerStatus:
        if self._image is None:
            return RunnerStatus()
        return RunnerStatus(TaskProgress(self._done, sum(stage.width for stage in self._image.topology.stages)))

    def close(self) -> None:
        self._cache.clear()


def _rows_of(task: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a task. User code that exits ends the task, as it would end a worker, not this process."""
    try:
        yield from task
    except SystemExit as error:
        raise WorkerLostError(f"User code has ended the worker: sys.exit({error.code!r}).") from error
