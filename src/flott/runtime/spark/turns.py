"""Whose turn it is when jobs share an application: that of the job which has waited longest. Driver side.

Spark's fair scheduler gives the next free core to the pool with the fewest running tasks. Among those with as many
(nearly all, if there are more jobs than cores) the first by name wins, every time: with one pool for all epochs of a
job, the jobs would starve behind the one whose name comes first. So each epoch has a pool of its own, named by the time
at which it was handed over, and the pool goes with it.
"""

from __future__ import annotations

from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

from flott.runtime.clock import Clock, SystemClock

#: The local property that names a Spark job's scheduling pool.
POOL = "spark.scheduler.pool"


class Turns:
    """The turns of one job."""

    def __init__(self, context: SparkContext, token: str, clock: Clock | None = None):
        self._context = context
        self._token = token  #: two jobs may be handed over in the same millisecond
        self._clock: Clock = clock or SystemClock()

    def take(self) -> str:
        """Get in line: what this thread hands over next comes after what others have handed over. The turn's name."""
        name = f"{self._clock.now_ms():015d}-{self._token}"
        self._context.setLocalProperty(POOL, name)
        return name

    def end(self, name: str) -> None:
        """The Spark job is over. Spark itself would look through its pool ever after, whenever a core becomes free."""
        with suppress(Py4JError):  # the JVM may be going down
            pools = self._context._jsc.sc().taskScheduler().rootPool()
            pool = pools.getSchedulableByName(name)
            if pool is not None:
                pools.removeSchedulable(pool)
