"""The function that Spark runs in a Python worker. It finds the epoch's plan in a job property. Task side.

The function is pickled by name and holds nothing but its stage and the handle of the job's image, so every epoch sends
the same few bytes. What changes from epoch to epoch travels as data.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pyspark import TaskContext
from pyspark.core.broadcast import Broadcast

from flott.runtime.checkpoint import paths
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.placement import decode_homes
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.task import run_task
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.logs.capture import claim_process
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.worker_place import worker_place
from flott.runtime.storage import Storage

#: The local property that carries the plan, or the name of the file that holds it.
PLAN = "flott.plan"
#: The local property that says which executor is the home of which task; empty if tasks have none.
HOMES = "flott.homes"
#: Larger plans go to a file: properties are sent with every task.
INLINE_BYTES = 256 * 1024

#: Spark reuses a worker process for many epochs, and its tasks with it.
_cache = TaskCache()


class StageBody:
    """The body of one stage's tasks."""

    def __init__(self, stage: int, last: bool, image: Broadcast[JobImage], files: WorkerFiles):
        self._stage = stage
        self._last = last
        self._image = image
        self._files = files

    def __call__(self, partition: int, incoming: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        self._files.enter()  # before functions of the user are unpickled
        image = self._image.value
        plan = decode_plan(context.getLocalProperty(PLAN) or "", image.storage)
        # The input of stage 0 is empty, but must be read to its end: otherwise Spark ends this process after the task.
        rows = (item[1] for item in incoming)
        attempt = str(context.taskAttemptId())
        claim_process(image.settings.logs)
        place = worker_place()
        own = decode_homes(context.getLocalProperty(HOMES) or "", place.executor)
        if own is not None:
            _cache.keep_only(image.image_id, own)
        produced = run_task(_cache, image, plan, self._stage, partition, attempt, rows, place)
        if self._last:
            for _, row in produced:
                yield row
        else:
            yield from produced


class CompactionBody:
    """The body of the tasks that compact state files. It carries what a worker must know, but no vertex."""

    def __init__(self, image: JobImage, files: WorkerFiles):
        self._image = replace(image, payloads={})
        self._files = files

    def __call__(self, orders: Iterable[CompactionOrder]) -> Iterator[StateFile]:
        context = TaskContext.get()
        assert context is not None
        self._files.enter()
        self._image.prepare_process()  # files may hold objects of the program's classes
        for order in orders:
            # Two attempts never write to one file: the first may still be running although Spark has given it up.
            yield compact(replace(order, target=f"{order.target}-{context.taskAttemptId()}"), self._image.storage)


def encode_plan(plan: EpochPlan, storage: Storage) -> str:
    """Return the plan as the text of a property: the plan itself, or the name of a file if it is large."""
    data = pickle.dumps(plan, protocol=5)
    if len(data) <= INLINE_BYTES:
        return "=" + b64encode(data).decode()
    name = paths.shipped_plan(plan.run_id, plan.epoch, plan.attempt)
    storage.write(name, data)
    return "@" + name


def decode_plan(text: str, storage: Storage) -> EpochPlan:
    """Return the plan that a property holds or names."""
    data = b64decode(text[1:]) if text.startswith("=") else storage.read(text[1:])
    return pickle.loads(data)  # type: ignore[no-any-return]
