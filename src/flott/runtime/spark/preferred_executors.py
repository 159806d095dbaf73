"""Gives the partitions of an RDD preferred executors. Driver side.

PySpark has no call for it, but Spark's Scala API has: ``SparkContext.makeRDD`` takes preferred locations, and
``RDD.zipPartitions`` combines the partitions of two RDDs and the preferences of both.

    anchor (an element per partition, with a preference) --+
                                                           +-- zipPartitions (anchor, rows) => rows
    RDD, such as the output of a shuffle ------------------+

So the rows pass through the JVM as they are, and no partition is added. A union with an anchor that is cached, which
PySpark can express, prefers a host and not an executor (decision 0055).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

T = TypeVar("T")


def executor_location(host: str, executor: str) -> str:
    """Return a preference for an executor, as Spark parses it."""
    return f"executor_{host}_{executor}"


class PreferredExecutors:
    """Makes anchors, and RDDs that prefer what an anchor prefers."""

    def __init__(self, context: SparkContext):
        self._context = context
        jvm = context._jvm
        assert jvm is not None
        self._jvm: Any = jvm
        self._any = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
        self._second = _second_argument(context)

    def anchor(self, locations: Sequence[str | None]) -> Any:
        """Return an RDD of the JVM with a partition for each location: an executor, a host, or None for any."""
        jvm = self._jvm
        to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        preferences: dict[str | None, Any] = {None: to_seq(jvm.java.util.ArrayList())}
        for location in locations:
            if location not in preferences:
                single = jvm.java.util.ArrayList()
                single.add(location)
                preferences[location] = to_seq(single)
        rows = jvm.java.util.ArrayList()
        for index, location in enumerate(locations):
            rows.add(jvm.scala.Tuple2(index, preferences[location]))
        return self._context._jsc.sc().makeRDD(to_seq(rows), self._any)

    def prefer(self, anchor: Any, rdd: RDD[T]) -> RDD[T]:
        """Return the RDD with the preferences of an anchor that has as many partitions."""
        zipped = anchor.zipPartitions(rdd._jrdd.rdd(), self._second, self._any, self._any)
        return RDD(zipped.toJavaRDD(), self._context, rdd._jrdd_deserializer)


def _second_argument(context: SparkContext) -> Any:
    """Return the Scala function ``(first, second) => second``, made from Scala's library.

    A map with a default value is a function that returns the default value for every argument. Here this is the
    identity, so the function is ``first => second => second``, and ``uncurried`` makes one of two arguments. All
    parts can be serialized, and executors have them.
    """
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    identity = getattr(jvm.scala.Predef, "$conforms")()
    empty = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    # Its overloads differ in their result only, so that a call by name could take any of them.
    (uncurried,) = (
        method
        for method in jvm.java.lang.Class.forName("scala.Function").getMethods()
        if method.getName() == "uncurried" and method.getReturnType().getName() == "scala.Function2"
    )
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = empty.withDefaultValue(identity)
    return uncurried.invoke(None, arguments)
