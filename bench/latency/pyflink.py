"""PyFlink, in its own virtualenv: `python -m bench.latency.pyflink --timetable {...} --variant thread|process`.

Source and sink are the Java classes of `java/`, since PyFlink has none in Python; the keyed function is Python. The
settings are those for latency: small bundles that leave after a millisecond, no buffer timeout, a state cache larger
than a bundle needs, object reuse. The environment variable FLOTT_BENCH_JAR names the classes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink, Source
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from bench.latency.timetable import SPLITS, arguments
from bench.runners.pyflink import show_packages_to_the_jvm

JAR_VARIABLE = "FLOTT_BENCH_JAR"
RECORD = Types.TUPLE([Types.LONG(), Types.LONG()])
RESULT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
SETTINGS = {
    "python.fn-execution.bundle.size": "100",
    "python.fn-execution.bundle.time": "1",
    "python.state.cache-size": "100000",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.storage": "filesystem",
}


class RunningCount(KeyedProcessFunction):
    """Counts the records of a key in value state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], count, value[1]


def main() -> None:
    """Run one job to its end."""
    table, variant = arguments()
    show_packages_to_the_jvm()
    configuration = Configuration()
    checkpoints = Path(table.folder).parent / "checkpoints"
    more = {"python.execution-mode": variant or "thread", "execution.checkpointing.dir": checkpoints.as_uri()}
    for name, value in (SETTINGS | more).items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(SPLITS)
    env.set_buffer_timeout(0)
    env.set_python_executable(sys.executable)
    env.add_jars(Path(os.environ[JAR_VARIABLE]).as_uri())
    jvm = get_gateway().jvm
    shape = (table.records, table.rate, table.keys, table.fill, SPLITS, table.longest_s, float(table.settle_s))
    source = jvm.PacedSource.create(*shape)
    records = env.from_source(Source(source), WatermarkStrategy.no_watermarks(), "paced", RECORD)
    counts = records.key_by(lambda record: record[0], Types.LONG()).process(RunningCount(), RESULT)
    counts.sink_to(Sink(jvm.AgeSink(table.folder, table.every)))
    env.execute("latency")


if __name__ == "__main__":
    main()
