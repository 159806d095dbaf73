"""Increase and decrease the parallelism of a running job: ``python examples/live_rescale.py``.

The job counts without end. Its parallelism is changed three times, each time with the next epoch. The job is not
restarted, no record is read twice and no count is lost, because every subtask reads the state of its keys. The last
change is for one operator only.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby

from flott.common import JobClient, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.state import ValueStateDescriptor

KEYS = 100

#: (key, its count, the number of subtasks)
Counted = tuple[int, int, int]


class Count(KeyedProcessFunction[int, int, Counted]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int))
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context[int]) -> Iterator[Counted]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, self.subtasks


def wait_for(subtasks: int, found: list[Counted], client: JobClient) -> None:
    """Wait until so many subtasks have counted something."""
    while not (found and found[-1][2] == subtasks) and not client.get_job_execution_result().done():
        time.sleep(0.02)


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2).enable_checkpointing(200)
    found: list[Counted] = []
    numbers = DataGeneratorSource(lambda index: index, records_per_second=20_000)
    (
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        .key_by(lambda number: number % KEYS)
        .process(Count())
        .uid("count")
        .sink_to(CallableSink(found.append))
    )
    client = env.execute_async("live rescale")
    wait_for(2, found, client)
    client.rescale(4).result()  # completes with the first epoch that has four subtasks
    wait_for(4, found, client)
    client.rescale(1).result()
    wait_for(1, found, client)
    client.rescale(3, "count").result()  # one operator, by its uid; source and sink keep one subtask
    wait_for(3, found, client)
    client.cancel().result()

    print("subtasks that counted:", *(subtasks for subtasks, _ in groupby(found, key=lambda counted: counted[2])))
    counts: dict[int, list[int]] = defaultdict(list)
    for key, count, _ in found:
        counts[key].append(count)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in counts.values()), counts
    print(f"each of {len(counts)} keys was counted 1, 2, 3 and so on, without a gap or a repetition")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
