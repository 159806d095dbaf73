"""PyFlink, in its own virtualenv: the programs of `flott_spark` with PyFlink's imports.

Variants:
    default    the configuration a new user gets
    process    tuned, Python in its own process: larger bundles and state cache, object reuse
    thread     the same, Python inside the JVM (`python.execution-mode: thread`)
`tuned` measures `process` and `thread` alike and reports the higher median, which favours PyFlink.
Checkpointing is off in all, as by default.
"""

from __future__ import annotations

import os
import statistics
import sys
import sysconfig
import time

import pyflink.version
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from bench import events, steady
from bench.runners import command, pyflink_events
from bench.workloads import KEYS, digest, expected, keep, key_of, make_record, split_line, spread, word_of

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
WORD_COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])
TUNED = {
    "python.fn-execution.bundle.size": "100000",
    "python.fn-execution.bundle.time": "5000",
    "python.state.cache-size": "100000",
    "pipeline.object-reuse": "true",
}
VARIANTS = {
    "default": {},
    "process": {**TUNED, "python.execution-mode": "process"},
    "thread": {**TUNED, "python.execution-mode": "thread"},
}


class RunningSum(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class RunningCount(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


def build(env: StreamExecutionEnvironment, request: command.Request, records: int) -> tuple[DataStream, int]:
    """The workload's stream of results, and how many records it will really process."""
    if request.workload in events.WORKLOADS:
        timeline = request.timeline(records)
        return pyflink_events.build(env, timeline), timeline.records
    if request.workload == "word_count":
        text, held = request.text(records)
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(text)).build()
        words = env.from_source(source, WatermarkStrategy.no_watermarks(), "text").flat_map(split_line, Types.STRING())
        return words.key_by(word_of, Types.STRING()).process(RunningCount(), WORD_COUNT), held
    source = NumberSequenceSource(0, records - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG())
    made = numbers.map(make_record, PAIR)
    if request.workload == "stateless":
        return made.filter(keep).flat_map(spread, PAIR), records
    return made.key_by(key_of, Types.LONG()).process(RunningSum(), PAIR), records


def measure(request: command.Request) -> dict[str, object]:
    show_packages_to_the_jvm()
    started = time.perf_counter()
    get_gateway()
    session_seconds = time.perf_counter() - started
    answer = _tuned(request) if request.variant == "tuned" else _measured(request, request.variant or "default")
    return {
        **answer,
        "session_start_seconds": round(session_seconds, 2),
        "versions": {"flink": pyflink.version.__version__},
    }


def _measured(request: command.Request, variant: str) -> dict[str, object]:
    _check(request, variant)
    # In event time every key is touched again in every window: no first touch has to cancel out.
    floor = request.records if request.workload in events.WORKLOADS else KEYS
    pairs = steady.measure(_runs(request, variant), request.records, request.seconds, request.repeats, floor)
    return {**steady.summary(pairs), "detail": f"{_mode(variant)}, parallelism {request.cores}"}


def show_packages_to_the_jvm() -> None:
    """Thread mode embeds an interpreter in the JVM, which does not know that it belongs to a virtualenv."""
    paths = [sysconfig.get_path("purelib"), os.environ.get("PYTHONPATH", ""), os.getcwd()]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def _tuned(request: command.Request) -> dict[str, object]:
    """Both tuned modes in full, the one with the higher median reported and the other named beside it."""
    answers: dict[str, dict] = {}
    failed: dict[str, str] = {}
    for variant in ("process", "thread"):
        try:
            answers[variant] = _measured(request, variant)
        except Exception as error:
            failed[variant] = " ".join(str(error).split())[:80]
            print(f"{variant}: {error}", file=sys.stderr)
    if not answers:
        raise RuntimeError(f"neither tuned mode works: {failed}")
    medians = {variant: statistics.median(answer["rates"]) for variant, answer in answers.items()}
    best = max(medians, key=medians.__getitem__)
    others = [f"{name} {rate:,.0f}/s" for name, rate in medians.items() if name != best]
    others += [f"{name} has no result: {reason}" for name, reason in failed.items()]
    answer = answers[best]
    return {
        **answer,
        "detail": "; ".join([answer["detail"], *others]),
        "other_rates": {name: found["rates"] for name, found in answers.items() if name != best},
    }


def _mode(variant: str) -> str:
    return "default settings, process mode" if variant == "default" else f"tuned, {variant} mode"


def _runs(request: command.Request, variant: str) -> steady.Run:
    def run(records: int) -> tuple[int, float]:
        env = _environment(request, variant)
        results, held = build(env, request, records)
        discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        results.sink_to(Sink(discard))
        started = time.perf_counter()
        env.execute(request.workload)
        return held, time.perf_counter() - started

    return run


def _check(request: command.Request, variant: str) -> None:
    if request.workload in events.WORKLOADS:
        with pyflink_events.build(_environment(request, variant), request.timeline()).execute_and_collect() as rows:
            command.check(request.workload, events.digest(rows), events.expected(request.timeline()))
        return
    results, _ = build(_environment(request, variant), request, command.CHECK_RECORDS)
    with results.execute_and_collect() as rows:
        found = digest(request.workload, rows)
    text = request.text(command.CHECK_RECORDS)[0] if request.workload == "word_count" else None
    command.check(request.workload, found, expected(request.workload, command.CHECK_RECORDS, text))


def _environment(request: command.Request, variant: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for option, value in VARIANTS[variant].items():
        configuration.set_string(option, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(request.cores)
    env.set_python_executable(sys.executable)
    return env


if __name__ == "__main__":
    command.main("pyflink", measure)
