"""Flott on local Spark: the programs of `pyflink` with Flott's imports, and the time of an empty two-stage epoch.

An idle Flott job runs no epochs, unless a processing-time timer is due. So the empty epoch is made by a keyed function
that, with no input left, registers its next timer from each timer: every firing is one two-stage epoch (source stage,
exchange, keyed stage) that reads nothing. The time from one firing to the next is the whole period of an epoch as a
user meets it: plan, Spark job, state, checkpoint, commit.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import flott
from bench import events, steady
from bench.runners import command, flott_events
from bench.workloads import digest, expected, keep, key_of, make_record, split_line, spread, word_of
from flott.common import Configuration, Duration, Types, WatermarkStrategy
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor

WARM_UP_EPOCHS = 150
EPOCHS = 60
EPOCHS_TIMEOUT_SECONDS = 300
POLL_SECONDS = 0.1


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class Metronome(KeyedProcessFunction):
    """Writes the wall clock at each timer and asks for the next one at once. Never stops by itself."""

    def __init__(self, log: str) -> None:
        self.log = log

    def process_element(self, value, ctx):
        self._again(ctx)
        return []

    def on_timer(self, timestamp, ctx):
        with open(self.log, "a") as log:
            log.write(f"{time.time()}\n")
        self._again(ctx)
        return []

    def _again(self, ctx) -> None:
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 1)


def build(env: StreamExecutionEnvironment, request: command.Request, records: int) -> tuple[DataStream, int]:
    """The workload's stream of results, and how many records it will really process.

    Types are optional in Flott, so the programs declare none, but for the variant that shows what checking them costs.
    """
    if request.workload in events.WORKLOADS:
        timeline = request.timeline(records)
        return flott_events.build(env, timeline), timeline.records
    if request.variant == "typed":
        return _typed_keyed_sum(env, records), records
    if request.workload == "word_count":
        text, held = request.text(records)
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(text)).build()
        words = env.from_source(source, WatermarkStrategy.no_watermarks(), "text").flat_map(split_line)
        return words.key_by(word_of).process(RunningCount()), held
    source = NumberSequenceSource(0, records - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    made = numbers.map(make_record)
    if request.workload == "stateless":
        return made.filter(keep).flat_map(spread), records
    return made.key_by(key_of).process(RunningSum()), records


def _typed_keyed_sum(env: StreamExecutionEnvironment, records: int) -> DataStream:
    source = NumberSequenceSource(0, records - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])
    return numbers.map(make_record, pair).key_by(key_of, Types.LONG()).process(RunningSum(), pair)


def measure(request: command.Request) -> dict[str, object]:
    answer = _empty_epochs(request) if request.workload == "empty_epoch" else _throughput(request)
    return {**answer, "versions": {"flott": getattr(flott, "__version__", "")}}


def _throughput(request: command.Request) -> dict[str, object]:
    session_seconds = _check(request)

    def run(records: int) -> tuple[int, float]:
        env = _environment(request)
        results, held = build(env, request, records)
        results.sink_to(DiscardSink())
        started = time.perf_counter()
        env.execute(request.workload)
        return held, time.perf_counter() - started

    pairs = steady.measure(run, request.records, request.seconds, request.repeats)
    return {
        **steady.summary(pairs),
        "session_start_seconds": round(session_seconds, 2),
        "detail": f"{request.variant or 'default settings'}, parallelism {request.cores}",
    }


def _check(request: command.Request) -> float:
    """Check the results on a small input; the seconds this took hold the start of Spark."""
    started = time.perf_counter()
    if request.workload in events.WORKLOADS:
        with flott_events.build(_environment(request), request.timeline()).execute_and_collect() as rows:
            command.check(request.workload, events.digest(rows), events.expected(request.timeline()))
        return time.perf_counter() - started
    results, _ = build(_environment(request), request, command.CHECK_RECORDS)
    with results.execute_and_collect() as rows:
        found = digest(request.workload, rows)
    seconds = time.perf_counter() - started
    text = request.text(command.CHECK_RECORDS)[0] if request.workload == "word_count" else None
    command.check(request.workload, found, expected(request.workload, command.CHECK_RECORDS, text))
    return seconds


def _empty_epochs(request: command.Request) -> dict[str, object]:
    log = request.scratch / "firings"
    log.touch()
    spool = request.scratch / "spool"  # one line of input, then watched for more that never comes
    spool.mkdir()
    (spool / "first.txt").write_text("beat\n")
    watched = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(spool))
    source = watched.monitor_continuously(Duration.of_hours(1)).build()
    env = _environment(request)
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "spool")
    lines.key_by(word_of, Types.STRING()).process(Metronome(str(log)), Types.STRING()).sink_to(DiscardSink())
    submitted = time.time()
    job = env.execute_async("empty_epoch")
    firings = _wait_for_firings(log, WARM_UP_EPOCHS + EPOCHS + 1)
    settings = _spark_settings()
    job.cancel().result()
    measured = firings[WARM_UP_EPOCHS:]
    return {
        "milliseconds": [round((late - early) * 1_000, 2) for early, late in itertools.pairwise(measured)],
        "session_start_seconds": round(firings[0] - submitted, 2),
        "spark_settings": settings,
        "detail": f"firing to firing of a processing-time timer, {len(measured) - 1} epochs",
    }


def _wait_for_firings(log: Path, wanted: int) -> list[float]:
    deadline = time.monotonic() + EPOCHS_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        complete_lines = log.read_text().split("\n")[:-1]
        if len(complete_lines) >= wanted:
            return [float(line) for line in complete_lines[:wanted]]
        time.sleep(POLL_SECONDS)
    raise TimeoutError(f"{len(complete_lines)} of {wanted} epochs in {EPOCHS_TIMEOUT_SECONDS} s")


def _spark_settings() -> dict[str, str]:
    """The settings of the session Flott opened in this process, for `native` to run under the same."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return dict(context.getConf().getAll()) if context else {}


def _environment(request: command.Request) -> StreamExecutionEnvironment:
    configuration = Configuration()
    if request.variant == "pipelined":
        configuration.set_string("execution.mode", "pipelined")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(request.cores)
    return env


if __name__ == "__main__":
    command.main("flott", measure)
