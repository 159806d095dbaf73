"""The tasks that a worker process keeps, opened, between epochs. Task side.

Spark decides which process runs a task, so a process cannot rely on its cache: every task brings its state to the
version that the plan names before it is used. A task that has moved to another executor is closed (``keep_only``), so
that processes hold the state of tasks of their own executor only.
"""

from __future__ import annotations

from collections import OrderedDict

from flott.common._ids import JobId
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.placement import OwnTasks, TaskPosition
from flott.runtime.epoch.stage_task import StageTask


class TaskCache:
    """Keeps the tasks of the jobs that a worker process serves."""

    #: Jobs remembered at once. The least recently used one is dropped first.
    MAX_JOBS = 16

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, dict[TaskPosition, StageTask]] = OrderedDict()  #: by image
        self._job_ids: dict[str, JobId] = {}  #: the job of each image
        self._taken: StageTask | None = None
        self._interrupted = False

    def take(self, image: JobImage, stage: int, partition: int) -> StageTask:
        """Remove a task from the cache, or build it. It is given back only if its epoch succeeded."""
        tasks = self._jobs.get(image.image_id)
        if tasks is None:
            image.prepare_process()
            self._forget(image.job_id)
            tasks = self._jobs[image.image_id] = {}
            self._job_ids[image.image_id] = image.job_id
            while len(self._jobs) > self.MAX_JOBS:
                self._drop(next(iter(self._jobs)))
        self._jobs.move_to_end(image.image_id)
        task = tasks.pop((stage, partition), None)
        task = task or StageTask.build(image, image.topology.stages[stage], partition)
        self._taken = task
        if self._interrupted:
            task.interrupt()
        return task

    def _forget(self, job_id: JobId) -> None:
        """Close what is left of other images of a job: it has one image at a time."""
        for image_id in [image_id for image_id, owner in self._job_ids.items() if owner == job_id]:
            self._drop(image_id)

    def _drop(self, image_id: str) -> None:
        del self._job_ids[image_id]
        for task in self._jobs.pop(image_id).values():
            task.close_quietly()

    def keep_only(self, image_id: str, own: OwnTasks) -> None:
        """Close the tasks of an image that have their home on another executor, and release their state.

        Copies of state on the disk belong to the host: they are deleted if the home is on another host.
        """
        held = self._jobs.get(image_id, {})
        for position in [position for position in held if position not in own.of_executor]:
            task = held.pop(position)
            task.close_quietly()
            if position not in own.of_host:
                task.discard_local_state()

    def interrupt(self) -> None:
        """Make the running task, and every later one, fail where it waits. May be called from any thread."""
        self._interrupted = True
        self.interrupt_task()

    def interrupt_task(self) -> None:
        """Make the running task fail where it waits; later ones may wait. May be called from any thread."""
        if (task := self._taken) is not None:
            task.interrupt()

    def give_back(self, task: StageTask) -> None:
        """Keep a task whose epoch succeeded."""
        if (tasks := self._jobs.get(task.image.image_id)) is not None:
            tasks[task.stage.index, task.partition] = task
        else:
            task.close_quietly()

    def clear(self) -> None:
        """Close and forget everything."""
        for image_id in list(self._jobs):
            self._drop(image_id)
        if self._taken is not None:
            self._taken.close_quietly()  # its epoch may have been left in the middle
