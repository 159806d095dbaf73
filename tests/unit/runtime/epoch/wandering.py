"""Tasks that wander: each time a task runs, one of several workers does, as on a Spark with more workers than cores."""

from __future__ import annotations

from functools import partial
from random import Random
from unittest import mock

from flott.runtime.epoch import local_runner
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.task_cache import TaskCache


class WanderingCache(TaskCache):
    """The caches of several workers; which of them runs a task is drawn anew every time."""

    def __init__(self, random: Random, workers: int):
        super().__init__()
        self._random = random
        self._workers = [TaskCache() for _ in range(workers)]
        self._at_work: dict[int, TaskCache] = {}

    def take(self, image: JobImage, stage: int, partition: int) -> StageTask:
        worker = self._random.choice(self._workers)
        task = worker.take(image, stage, partition)
        self._at_work[id(task)] = worker
        return task

    def give_back(self, task: StageTask) -> None:
        self._at_work.pop(id(task)).give_back(task)

    def clear(self) -> None:
        for worker in self._workers:
            worker.clear()


def wandering(seed: int, workers: int = 3) -> mock._patch[object]:
    """A context in which jobs of the in-process runner have several workers."""
    random = Random(seed)
    return mock.patch.object(local_runner, "TaskCache", partial(WanderingCache, random, workers))
