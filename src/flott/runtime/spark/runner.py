"""Runs an epoch as one Spark job, whose stages are connected by shuffles of encoded buffers. Driver side.

    base RDD -> stage 0 -> partitionBy -> stage 1 -> ... -> collect the reports

On a master with executors the input of every stage prefers the executors on which its tasks are at home.
Every epoch has a new lineage, because Spark would otherwise reuse the shuffle files of the last epoch. The functions in
it are the same few bytes each time.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.core.broadcast import Broadcast

from flott.errors import WorkerLostError
from flott.runtime.clock import Clock
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.runner import OnEvent, RunnerStatus, StateCompactor, StopReason, TaskProgress, report_epoch
from flott.runtime.pipelined.tls import ConnectionTls
from flott.runtime.spark.compactor import SparkCompactor
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.pipeline import SparkPipeline
from flott.runtime.spark.scheduling import SchedulingPools
from flott.runtime.spark.session import on_this_machine
from flott.runtime.spark.spark_errors import described
from flott.runtime.spark.tables import offer_tables
from flott.runtime.spark.task_placement import PlacedStages, TaskPlacement
from flott.runtime.spark.worker import HOMES, PLAN, StageBody, encode_plan


@dataclass(frozen=True)
class Lineage:
    """The RDDs of one epoch, and where their tasks are at home."""

    rdd: RDD[Any]
    placed: PlacedStages


class SparkRunner:
    """Runs the epochs of one job on a Spark context."""

    def __init__(self, context: SparkContext, log_file: Path, files: WorkerFiles | None = None):
        self._context = context
        self._files = files or WorkerFiles()
        self._log_file = log_file
        self._token = uuid4().hex[:8]
        self._pools = SchedulingPools(context, self._token)
        self._compactor = SparkCompactor(context, log_file, self._files, self._pools, self._token)
        self._image: JobImage | None = None
        self._broadcast: Broadcast[JobImage] | None = None
        self._former: Broadcast[JobImage] | None = None  #: of the previous image, which a compaction may still use
        self._group = ""  #: of all Spark jobs of this runner, whatever the image: cancelling it is permanent
        self._bodies: list[StageBody] = []
        self._base: RDD[Any] | None = None
        self._ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flott-lineage")
        self._next: Future[Lineage] | None = None
        self._placement = TaskPlacement.on(context, turn=int(self._token, 16))
        self._grouped_thread: int | None = None
        self._cancelled = False
        offer_tables()

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    def pipeline(self, clock: Clock, tls: ConnectionTls | None = None) -> SparkPipeline:
        """Return what executes the tasks of the same job continuously. ``tls``: of connections between hosts."""
        one_host = on_this_machine(str(self._context.master))
        return SparkPipeline(
            self._context, self._log_file, self._files, clock, one_host=one_host, tls=tls, placement=self._placement
        )

    def deploy(self, image: JobImage) -> None:
        stages = image.topology.stages
        try:
            broadcast = self._context.broadcast(image)
            base: RDD[Any] = self._context.parallelize([], stages[0].width)
        except (Py4JError, OSError) as error:
            raise WorkerLostError(self._explain(error)) from error
        if self._next is not None:
            self._next.exception()  # wait for it: it is made from what is replaced here
            self._next = None
        if self._placement is not None:
            self._placement.deploy(image.topology)
        if self._former is not None:
            self._ahead.submit(_destroy, self._former)
        self._former, self._broadcast, self._image, self._base = self._broadcast, broadcast, image, base
        self._bodies = [StageBody(stage.index, stage is stages[-1], broadcast, self._files) for stage in stages]
        self._group = self._group or f"flott-{image.job_id}-{image.image_id}"
        self._compactor.image = image

    def run(self, plan: EpochPlan, on_event: OnEvent) -> None:
        image = self._image
        assert image is not None, "deploy() comes before run()"
        self._join_group()
        property_text = encode_plan(plan, image.storage)
        try:
            self._context.setLocalProperty(PLAN, property_text)
            rows, placed = self._collect()
        except (Py4JError, OSError) as error:
            raise WorkerLostError(self._explain(error)) from error
        finally:
            if property_text.startswith("@"):
                image.storage.delete(property_text[1:])
        result = report_epoch(plan.epoch, rows, on_event)
        if self._placement is not None and self._placement.note(result, placed):
            self._next = self._ahead.submit(self._lineage)  # the one made meanwhile may prefer other executors

    def _collect(self) -> tuple[list[Any], PlacedStages]:
        made, self._next = self._next, None
        if made is not None and self._placement is not None and self._placement.is_outdated:
            made.exception()  # it was made before slots ran, which may have been elsewhere
            made = None
        lineage = made.result() if made is not None else self._lineage()
        self._next = self._ahead.submit(self._lineage)
        if self._placement is not None:
            self._context.setLocalProperty(HOMES, lineage.placed.text)
        pool = self._pools.enter()
        try:
            return lineage.rdd.collect(), lineage.placed
        finally:
            self._ahead.submit(self._forget, lineage.rdd, pool)

    def _lineage(self) -> Lineage:
        """Return the RDDs of an epoch. They do not depend on its plan: the next ones are made while this epoch runs."""
        image, rdd = self._image, self._base
        assert image is not None
        assert rdd is not None
        placed = PlacedStages() if self._placement is None else self._placement.decide()
        for stage, body in zip(image.topology.stages, self._bodies, strict=True):
            if stage.index > 0:
                rdd = rdd.partitionBy(stage.width, _identity)
            rdd = placed.prefer(stage.index, rdd)
            # Not preservesPartitioning: two exchanges of the same width would look to Spark like one.
            rdd = rdd.mapPartitionsWithIndex(body)
        rdd.getNumPartitions()  # PySpark then builds the JVM's part now, while no epoch waits for it
        return Lineage(rdd, placed)

    def _join_group(self) -> None:
        """Put this thread's jobs into the group that stop() cancels, once per thread: it takes a millisecond."""
        if self._grouped_thread != threading.get_ident():
            assert self._image is not None
            self._context.setJobGroup(self._group, self._image.job_name, interruptOnCancel=True)
            self._grouped_thread = threading.get_ident()

    def stop(self, reason: StopReason) -> None:
        self._cancelled |= reason is StopReason.JOB_CANCELLED
        if self._image is None:
            return
        with suppress(Py4JError, OSError):  # the JVM may be shutting down: there is nothing left to stop then
            if reason is StopReason.EPOCH_TIMED_OUT:
                self._context._jsc.sc().cancelJobGroup(self._group)
            else:
                # Future jobs too: the epoch may be submitted at this moment, and not be a job yet.
                self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def status(self) -> RunnerStatus:
        """Ask Spark's status tracker. It takes a few calls to the JVM, so do not ask continuously."""
        return RunnerStatus(self._progress(), self._slots())

    def _progress(self) -> TaskProgress | None:
        if self._image is None:
            return None
        with suppress(Py4JError, OSError):
            tracker = self._context.statusTracker()
            job = tracker.getJobInfo(max(tracker.getJobIdsForGroup(self._group), default=-1))
            if job is not None:
                stages = [stage for ident in job.stageIds if (stage := tracker.getStageInfo(ident)) is not None]
                total = sum(stage.width for stage in self._image.topology.stages)
                return TaskProgress(sum(stage.numCompletedTasks for stage in stages), total)
        return None

    def _slots(self) -> int | None:
        """Return the cores of all executors that exist now."""
        with suppress(Py4JError, OSError):
            return int(self._context.defaultParallelism)
        return None

    def close(self) -> None:
        self._ahead.shutdown()  # it waits for what is still being made or deleted
        self._next = None
        for broadcast in (self._former, self._broadcast):
            if broadcast is not None:
                _destroy(broadcast)
        self._former = self._broadcast = None
        with suppress(Py4JError, OSError):
            self._files.forget()

    def _forget(self, rdd: RDD[Any], pool: str) -> None:
        """Delete the epoch's shuffle files now. Spark would wait until the JVM's garbage collector finds them."""
        with suppress(Py4JError, OSError):  # then they are deleted when the handles are collected, or when the JVM ends
            rdd.cleanShuffleDependencies()
        self._pools.leave(pool)

    def _explain(self, error: Exception) -> str:
        if self._cancelled:
            return "The epoch was cancelled."
        with suppress(Py4JError, OSError):
            self._context._jsc.sc().isStopped()  # if the JVM has ended, a process that shares it notices it here
        return f"Spark could not complete the epoch: {described(error, self._log_file)}"


def _destroy(broadcast: Broadcast[JobImage]) -> None:
    with suppress(Py4JError, OSError):  # then it is released when the JVM ends
        broadcast.destroy()


def _identity(partition: int) -> int:
    """Return the partition itself: rows are addressed to a partition."""
    return partition
