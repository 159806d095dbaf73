"""The in-process carrier: the same tasks, one after the other in this process. No Spark, no JVM; breakpoints work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flott.errors import WorkerLostError
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import TaskProgress, gather
from flott.runtime.epoch.task import TaskCache, run_task
from flott.runtime.epoch.wire import Row
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import StateFile


class LocalRunner:
    """Runs epochs in the calling thread. Records still travel as bytes between stages, as they do on Spark."""

    def __init__(self, cache: TaskCache | None = None) -> None:
        self._image: JobImage | None = None
        self._cache = cache or TaskCache()
        self._cancelled = False
        self._interrupted = False  #: only the epoch that runs
        self._cancelled_compactions: set[str] = set()
        self._done = 0

    def install(self, image: JobImage) -> None:
        self._image = image

    def run(self, plan: EpochPlan) -> EpochResult:
        image = self._image
        assert image is not None, "install() comes before run()"
        self._done = 0
        self._interrupted = False
        rows: list[list[Row]] = [[] for _ in range(image.topology.stages[0].width)]
        for stage in image.topology.stages:
            last = stage.index + 1 == len(image.topology.stages)
            following: list[list[Row]] = [
                [] for _ in range(1 if last else image.topology.stages[stage.index + 1].width)
            ]
            for partition in range(stage.width):
                task_attempt = f"{plan.epoch}.{stage.index}.{partition}"  # unlike any other of this run
                task = run_task(self._cache, image, plan, stage.index, partition, task_attempt, rows[partition])
                for target, row in _survived(task):
                    if self._cancelled or self._interrupted:
                        raise WorkerLostError("The epoch was cancelled.")
                    following[target].append(row)
                rows[partition] = []
                self._done += 1
            rows = following
        return gather(rows[0])

    def progress(self) -> TaskProgress | None:
        if self._image is None:
            return None
        return TaskProgress(self._done, sum(stage.width for stage in self._image.topology.stages))

    def slots(self) -> int | None:
        return None

    def cancel(self) -> None:
        self._cancelled = True
        self._cache.interrupt()

    def interrupt(self) -> None:
        self._interrupted = True
        self._cache.interrupt_task()

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        assert self._image is not None, "install() comes before compact()"
        storage = self._image.storage
        files = []
        for order in orders:
            if purpose in self._cancelled_compactions:
                raise WorkerLostError("The compaction was cancelled.")
            files.append(compact(order, storage))
        return files

    def cancel_compaction(self, purpose: str) -> None:
        self._cancelled_compactions.add(purpose)

    def close(self) -> None:
        self._cache.clear()


def _survived(task: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """What a task gives. User code that exits ends the task, as it would end a worker, not the process of the job."""
    try:
        yield from task
    except SystemExit as error:
        raise WorkerLostError(f"User code has ended the worker: sys.exit({error.code!r}).") from error
