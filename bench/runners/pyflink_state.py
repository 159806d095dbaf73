"""PyFlink with much keyed state in RocksDB: the program of `flott_totals` with PyFlink's imports.

Thread mode with the tuned settings, the faster one when both modes were measured in full on `keyed_sum`; incremental
checkpoints every ten seconds. PyFlink has no epochs, and filling a state takes it minutes, so no two sizes of a job are
compared: one job is filled and then measured, by what its keyed function says about its own progress.
"""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

import pyflink.version
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from bench import progress, state
from bench.runners import command
from bench.runners.pyflink import PAIR, VARIANTS, show_packages_to_the_jvm
from bench.workloads import digest, key_of

MODE = "thread"
EPOCHS = 1  # of Flott's: half a minute
WARM_UP = 0.25  # a part of what follows the fill
#: How many times a stretch's progress is noted.
NOTES = 20


class RunningSum(KeyedProcessFunction):
    """Notes how many records it has seen, and when, in a file of its own."""

    def __init__(self, notes: str, every: int) -> None:
        self.notes = notes
        self.every = every

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self.seen = 0
        self.path = f"{self.notes}-{uuid.uuid4().hex}"  # thread mode does not tell the index of the subtask

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        self.seen += 1
        if self.seen % self.every == 0:
            with open(self.path, "a") as notes:
                notes.write(f"{self.seen} {time.time()}\n")
        yield value[0], total


def totals(env: StreamExecutionEnvironment, stream: state.Stream, function: RunningSum) -> DataStream:
    source = NumberSequenceSource(0, stream.records - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG())
    return numbers.map(stream.maker(), PAIR).key_by(key_of, Types.LONG()).process(function, PAIR)


def measure(request: command.Request) -> dict[str, object]:
    show_packages_to_the_jvm()
    started = time.perf_counter()
    get_gateway()
    session_seconds = time.perf_counter() - started
    _check(request)
    stream = state.Stream.of(request.workload, EPOCHS, request.cores, request.shrink, in_epochs=False)
    notes = request.scratch / "notes"
    every = max(1, stream.epoch_records // request.cores // request.repeats // NOTES)
    env = _environment(request)
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    totals(env, stream, RunningSum(str(notes), every)).sink_to(Sink(discard))
    submitted = time.time()
    env.execute(request.workload)
    subtasks = [_read(path) for path in sorted(request.scratch.glob("notes-*"))]
    filled = stream.fill / stream.records
    return {
        "rates": progress.stretch_rates(subtasks, filled + WARM_UP * (1 - filled), request.repeats),
        "keys": stream.keys,
        "touched": stream.touched,
        "records": [stream.epoch_records],
        "fill_seconds": round(max(progress.note_at(notes, filled)[1] for notes in subtasks) - submitted, 1),
        "job_start_seconds": round(min(notes[0][1] for notes in subtasks) - submitted, 2),
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"tuned, {MODE} mode, RocksDB, incremental checkpoints every 10 s, parallelism {request.cores}",
        "versions": {"flink": pyflink.version.__version__},
    }


def _read(path: Path) -> progress.Notes:
    lines = (line.split() for line in path.read_text().splitlines())
    return [(int(seen), float(at)) for seen, at in lines]


def _check(request: command.Request) -> None:
    stream = state.check_stream(request.cores)
    function = RunningSum(str(request.scratch / "check"), stream.records)
    with totals(_environment(request), stream, function).execute_and_collect() as rows:
        command.check(request.workload, digest("keyed_sum", rows), state.expected(stream))


def _environment(request: command.Request) -> StreamExecutionEnvironment:
    configuration = Configuration()
    settings = VARIANTS[MODE] | {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(request.scratch / "local"),
        "taskmanager.memory.managed.size": state.MANAGED_MEMORY,
        "restart-strategy.type": "none",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": (request.scratch / "checkpoints").as_uri(),
    }
    for option, value in settings.items():
        configuration.set_string(option, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(request.cores)
    env.set_python_executable(sys.executable)
    return env


if __name__ == "__main__":
    command.main("pyflink", measure)
