"""Compaction of state files on Spark: in a Spark job of its own, while epochs run. Driver side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flott.errors import WorkerLostError
from flott.runtime.epoch.image import JobImage
from flott.runtime.managed_state.files.compaction import CompactionOrder, compact
from flott.runtime.managed_state.files.file_sequence import StateFile
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.scheduling import SchedulingPools
from flott.runtime.spark.spark_errors import described
from flott.runtime.spark.worker import CompactionBody

#: The driver itself compacts files of no more than this many bytes in all: a Spark job would cost more.
SMALL_BYTES = 1 << 20
#: Larger compactions use this many tasks at most, so that epochs do not wait for cores.
MAX_TASKS = 4


class SparkCompactor:
    """Compacts the state files of one job. It uses whichever image was deployed last."""

    def __init__(self, context: SparkContext, log_file: Path, files: WorkerFiles, pools: SchedulingPools, token: str):
        self._context = context
        self._log_file = log_file
        self._files = files
        self._pools = pools
        self._token = token
        self.image: JobImage | None = None

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        """Use a job group of its own. Spark keeps such properties by thread, so those of the epochs do not change."""
        image = self.image
        assert image is not None, "deploy() comes before compact()"
        if sum(file.size for order in orders for file in order.sequence) <= SMALL_BYTES:
            return [compact(order, image.storage) for order in orders]
        try:
            self._context.setJobGroup(self._group(purpose), f"{image.job_name}: {purpose}", interruptOnCancel=True)
            tasks = min(len(orders), MAX_TASKS, max(1, self._context.defaultParallelism // 2))
            rdd = self._context.parallelize(orders, tasks).mapPartitions(CompactionBody(image, self._files))
            pool = self._pools.enter()
            try:
                return rdd.collect()
            finally:
                self._pools.leave(pool)
        except (Py4JError, OSError) as error:
            raise WorkerLostError(f"Spark could not compact state files: {described(error, self._log_file)}") from error

    def stop(self, purpose: str) -> None:
        with suppress(Py4JError, OSError):  # the JVM may be shutting down: there is nothing left to stop then
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group(purpose))

    def _group(self, purpose: str) -> str:
        return f"flott-{self._token}-{purpose}"  # independent of the image, which may change during a compaction
