"""Fair scheduling between jobs that share a Spark application: the job that has waited longest is next. Driver side.

Spark's fair scheduler gives the next free core to the pool with the fewest running tasks. If several pools have as few,
which is usual with more jobs than cores, the first by name wins, every time. With one pool for all epochs of a job, all
jobs would starve behind the one whose name comes first. So every epoch has a pool of its own, which is named by the
time of its submission and removed when the epoch ends.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flott.runtime.clock import Clock, SystemClock

#: The local property that names a Spark job's scheduling pool.
POOL = "spark.scheduler.pool"


class SchedulingPools:
    """The pools of one job."""

    def __init__(self, context: SparkContext, token: str, clock: Clock | None = None):
        self._context = context
        self._token = token  #: distinguishes jobs that submit in the same millisecond
        self._clock: Clock = clock or SystemClock()

    def enter(self) -> str:
        """Put what this thread submits next behind what others have submitted, and return the name of the pool."""
        name = f"{self._clock.now_ms():015d}-{self._token}"
        self._context.setLocalProperty(POOL, name)
        return name

    def leave(self, name: str) -> None:
        """Remove a pool whose Spark job has ended. Otherwise Spark would search it whenever a core becomes free."""
        with suppress(Py4JError, OSError):  # the JVM may be shutting down
            pools = self._context._jsc.sc().taskScheduler().rootPool()
            pool = pools.getSchedulableByName(name)
            if pool is not None:
                pools.removeSchedulable(pool)
