"""Programs of every shape on real Spark, with exact results."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import Duration, JobStatus, WatermarkStrategy
from flott.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import CoMapFunction, KeyedProcessFunction, ProcessFunction, RuntimeContext
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.errors import JobCancelledError, JobFailedError
from tests.spark.conftest import MakeEnvironment, Recorder, StartDriver
from tests.spark.driver_process import ROOT, SCRIPTS

#: Nobody reads Spark's words on a screen.
SPARK_NOISE = re.compile(r"\b(WARN|ERROR|INFO)\b|Using Spark|org\.apache|java\.|[Pp]y4[jJ]|\bat .*\.(java|scala):")

EVEN_SMALL_EPOCHS = {
    "flott.epoch.max-records": 10,
    "flott.epoch.initial-records": 10,
    "flott.epoch.target-duration": "1 min",
}


def collect(stream: DataStream[Any]) -> list[Any]:
    """Add a sink to a stream; its records are in the list once the job has run."""
    found: list[Any] = []
    stream.sink_to(CallableSink(found.append))
    return found


def numbers(env: StreamExecutionEnvironment, stop: int) -> DataStream[int]:
    return env.from_source(NumberSequenceSource(0, stop - 1), WatermarkStrategy.no_watermarks(), "numbers")


def running_totals(values: list[int], key: int) -> dict[int, int]:
    totals: Counter[int] = Counter()
    for value in values:
        totals[value % key] += value
    return dict(totals)


class Total(KeyedProcessFunction[int, int, tuple[int, int, int]]):
    """Counts and adds the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context[int]) -> Iterator[tuple[int, int, int]]:
        total = (self.total.value() or 0) + value
        self.total.update(total)
        self.seen.add(value)
        yield ctx.get_current_key(), total, len(list(self.seen.get()))


class TestPrograms:
    """Shapes of graphs."""

    def test_keyed_state_is_kept_from_epoch_to_epoch(self, environment: MakeEnvironment, recorder: Recorder) -> None:
        env = environment(EVEN_SMALL_EPOCHS)
        found = collect(numbers(env, 100).key_by(lambda value: value % 7).process(Total()))
        env.execute("keyed state")
        assert len(found) == 100
        last = {key: (total, count) for key, total, count in sorted(found, key=lambda row: row[2])}
        expected = running_totals(list(range(100)), 7)
        assert last == {key: (total, len(range(key, 100, 7))) for key, total in expected.items()}
        assert len(recorder.epochs) >= 10
        assert sum(epoch.records_in for epoch in recorder.epochs) == 100

    def test_timers_fire_once_for_each_period(self, environment: MakeEnvironment) -> None:
        env = environment(EVEN_SMALL_EPOCHS)
        in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)).with_timestamp_assigner(
            lambda value, _: value
        )
        source = DataGeneratorSource(lambda index: index, count=100)
        ticks = env.from_source(source, in_event_time, "ticks")
        found = collect(ticks.key_by(lambda value: value % 2).process(PerTen()))
        env.execute("timers")
        assert sorted(found) == [(end, key, 5) for end in range(10, 101, 10) for key in (0, 1)]

    def test_side_outputs_go_their_own_way(self, environment: MakeEnvironment) -> None:
        env = environment()
        main = numbers(env, 60).process(Sort())
        small = collect(main.get_side_output(SMALL))
        odd = collect(main.get_side_output(ODD).key_by(lambda value: 0).reduce(max))
        rest = collect(main)
        env.execute("side outputs")
        assert sorted(small) == list(range(10))
        assert max(odd) == 59
        assert len(odd) == 25
        assert sorted(rest) == list(range(10, 60, 2))

    def test_a_diamond_sees_every_record_on_both_ways(self, environment: MakeEnvironment) -> None:
        env = environment()
        source = numbers(env, 50)
        left = source.map(lambda value: ("left", value)).key_by(lambda pair: pair[1] % 3).reduce(later)
        right = source.rebalance().map(lambda value: ("right", value))
        found = collect(left.union(right).key_by(lambda pair: pair[0]).reduce(added))
        env.execute("diamond")
        assert max(total for side, total in found if side == "right") == sum(range(50))
        assert len(found) == 100

    def test_a_stream_can_be_united_with_itself(self, environment: MakeEnvironment) -> None:
        env = environment()
        source = numbers(env, 20)
        found = collect(source.union(source).key_by(lambda value: value).process(Total()))
        env.execute("twice")
        assert Counter(count for _, _, count in found) == {1: 20, 2: 20}

    def test_an_edge_may_skip_a_stage(self, environment: MakeEnvironment) -> None:
        env = environment({"parallelism.default": 3})
        source = numbers(env, 30)
        far = source.rebalance().map(lambda value: (value, 0)).key_by(lambda pair: pair[0] % 5).reduce(added)
        sides = far.rebalance().connect(source.rebalance()).map(Sides())
        found = collect(sides.key_by(lambda pair: pair[0]).reduce(added))
        env.execute("skip edge")
        assert Counter(side for side, _ in found) == {"far": 30, "near": 30}

    def test_every_operator_may_have_its_own_parallelism(self, environment: MakeEnvironment) -> None:
        env = environment()
        stream = numbers(env, 200).set_parallelism(1)
        stream = stream.rebalance().map(lambda value: value + 1).set_parallelism(3)
        totals = stream.key_by(lambda value: value % 10).process(Total()).set_parallelism(2)
        found = collect(totals.rebalance().map(lambda row: row).set_parallelism(5))
        env.execute("parallelism")
        assert {key: max(t for k, t, _ in found if k == key) for key in range(10)} == running_totals(
            list(range(1, 201)), 10
        )

    def test_several_sources_and_sinks_run_in_one_job(self, environment: MakeEnvironment) -> None:
        env = environment(EVEN_SMALL_EPOCHS)
        a, b = numbers(env, 40), env.from_collection(list("hello world"))
        pairs = a.connect(b).map(Sides())
        letters = b.key_by(lambda letter: letter).reduce(lambda one, other: one + other)
        sinks = [collect(a), collect(b), collect(pairs), collect(letters)]
        env.execute("many")
        assert sorted(sinks[0]) == list(range(40))
        assert sorted(sinks[1]) == sorted("hello world")
        assert Counter(side for side, _ in sinks[2]) == {"far": 40, "near": 11}
        assert {"lll", "oo"} <= set(sinks[3])

    def test_lambdas_and_closures_travel(self, environment: MakeEnvironment) -> None:
        env = environment()
        factor, table = 3, {"even": 0, "odd": 1}

        def shift(value: int) -> int:
            return value * factor + table["odd"]

        found = collect(numbers(env, 10).map(shift).filter(lambda value: value % 2 == table["even"]))
        env.execute("closures")
        assert sorted(found) == [4, 10, 16, 22, 28]

    def test_an_empty_source_makes_a_job_that_finishes(self, environment: MakeEnvironment) -> None:
        env = environment()
        found = collect(env.from_collection([]).key_by(lambda value: value).reduce(max))
        env.execute("nothing")
        assert found == []

    def test_an_edge_with_more_records_than_a_buffer_keeps_their_order(self, environment: MakeEnvironment) -> None:
        env = environment()
        source = numbers(env, 20_000).set_parallelism(1)
        found = collect(source.key_by(lambda value: value % 5).map(lambda value: value))
        env.execute("order")
        for key in range(5):
            assert [value for value in found if value % 5 == key] == list(range(key, 20_000, 5))


SMALL, ODD = OutputTag("small"), OutputTag("odd")
MAP = MapStateDescriptor("counts")


class Sort(ProcessFunction[int, int]):
    """Small numbers, odd numbers, and the rest."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value < 10:
            yield SMALL, value
        elif value % 2:
            yield ODD, value
        else:
            yield value


class Sides(CoMapFunction[Any, Any, tuple[str, int]]):
    """Which input a record came from."""

    def map1(self, value: Any) -> tuple[str, int]:
        return "far", 1

    def map2(self, value: Any) -> tuple[str, int]:
        return "near", 1


class PerTen(KeyedProcessFunction[int, int, tuple[int, int, int]]):
    """Counts the records of ten milliseconds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_map_state(MAP)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context[int]) -> None:
        end = value - value % 10 + 10
        self.count.put(end, (self.count.get(end) or 0) + 1)
        ctx.timer_service().register_event_time_timer(end - 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[int]) -> Iterator[tuple[int, int, int]]:
        yield timestamp + 1, ctx.get_current_key(), self.count.get(timestamp + 1) or 0
        self.count.remove(timestamp + 1)


def later(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
    return max(one, other)


def added(one: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
    return one[0], one[1] + other[1]


class TestClients:
    """What the driver's program does with a job."""

    def test_results_are_collected_as_they_come(self, environment: MakeEnvironment) -> None:
        env = environment(EVEN_SMALL_EPOCHS)
        totals = numbers(env, 50).key_by(lambda value: value % 3).process(Total())
        with totals.execute_and_collect("collect") as results:
            assert len(list(results)) == 50

    def test_closing_early_cancels_the_job_and_waits_for_its_end(self, environment: MakeEnvironment) -> None:
        env = environment()
        endless = env.add_source(DataGeneratorSource(lambda index: index))
        results = endless.key_by(lambda value: value % 10).reduce(max).execute_and_collect("endless")
        assert len([next(results) for _ in range(5)]) == 5
        started = time.monotonic()
        results.close()
        assert time.monotonic() - started < 5
        assert results.get_job_client().get_job_status().result() is JobStatus.CANCELED

    def test_a_limit_ends_the_job(self, environment: MakeEnvironment) -> None:
        env = environment()
        endless = env.add_source(DataGeneratorSource(lambda index: index))
        assert len(endless.rebalance().map(lambda value: value).execute_and_collect("limit", limit=7)) == 7

    @pytest.mark.parametrize("busy", [False, True], ids=["an idle job", "a stuck function"])
    def test_cancelling_takes_less_than_five_seconds(self, environment: MakeEnvironment, busy: bool) -> None:
        env = environment()
        source = DataGeneratorSource(lambda index: index, records_per_second=None if busy else 0.1)
        stream = env.add_source(source).rebalance()
        stream.map(lambda value: time.sleep(120) if busy else value).sink_to(CallableSink(lambda value: None))
        client = env.execute_async("to be cancelled")
        time.sleep(2)
        assert client.get_job_status().result() is JobStatus.RUNNING
        started = time.monotonic()
        client.cancel().result(300)
        with pytest.raises(JobCancelledError, match="to be cancelled"):
            client.get_job_execution_result().result(300)
        assert time.monotonic() - started < 5
        assert client.get_job_status().result() is JobStatus.CANCELED

    def test_a_job_carries_its_name_into_spark(self, environment: MakeEnvironment, spark: SparkContext) -> None:
        env = environment()
        collect(numbers(env, 3))
        env.execute("my very own job")
        store = spark._jsc.sc().statusStore()
        descriptions = [
            job.description().get() for job in _java_list(store.jobsList(None)) if job.description().isDefined()
        ]
        assert "my very own job" in descriptions

    def test_two_jobs_run_at_once(self, environment: MakeEnvironment) -> None:
        first, second = environment(EVEN_SMALL_EPOCHS), environment(EVEN_SMALL_EPOCHS)
        one, two = collect(numbers(first, 60).key_by(lambda v: v % 4).process(Total())), collect(numbers(second, 40))
        clients = [first.execute_async("first"), second.execute_async("second")]
        for client in clients:
            client.get_job_execution_result().result(300)
        assert (len(one), sorted(two)) == (60, list(range(40)))


def _java_list(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


class TestFailures:
    """What a user reads when their own code fails."""

    def test_the_card_names_everything_and_holds_no_java(self, environment: MakeEnvironment, spark_log: Path) -> None:
        env = environment({"restart-strategy.type": "none"})
        before = spark_log.stat().st_size
        collect(numbers(env, 20).key_by(lambda value: value % 2).map(lambda value: 100 // (value - 13)).uid("divide"))
        with pytest.raises(JobFailedError) as failure:
            env.execute("division")
        card = str(failure.value)
        assert "ZeroDivisionError" in card
        assert "divide" in card
        assert "13" in card
        assert "100 // (value - 13)" in card
        assert "Java" not in card
        assert "pyspark" not in card
        assert not SPARK_NOISE.search(card)
        assert failure.value.__cause__ is None
        assert "Traceback" not in spark_log.read_text()[before:], "Spark retried what cannot succeed"

    def test_a_script_that_fails_prints_its_card_and_no_line_of_java(self, start_driver: StartDriver) -> None:
        ended = start_driver(SCRIPTS / "raises.py").wait(300)
        assert ended.code == 1
        assert "could not convert string to float: '2,5'" in ended.stderr
        assert "parse prices (uid parse)" in ended.stderr
        assert "raises.py" in ended.stderr
        assert not SPARK_NOISE.search(ended.stderr), ended.stderr


class TestScripts:
    """Programs started by people."""

    def test_word_count_runs_quietly_from_another_folder(self, start_driver: StartDriver) -> None:
        ended = start_driver(ROOT / "examples" / "word_count.py").wait(300).expect_success()
        assert ended.stderr == ""
        lines = [line.partition("> ")[2] for line in ended.stdout.splitlines()]
        assert len(lines) == 43
        assert {"(to,6)", "(be,2)", "(the,2)", "(sleep,1)"} <= set(lines)

    def test_the_demo_runs_to_its_end(self, start_driver: StartDriver) -> None:
        ended = start_driver(ROOT / "examples" / "demo.py", "4").wait(300).expect_success()
        assert not SPARK_NOISE.search(ended.stdout + ended.stderr), ended.stderr
        orders = re.findall(r"up to .* ([\d,]+) orders", ended.stdout)
        assert sum(int(number.replace(",", "")) for number in orders) == 40_000
        assert "finished: 40,000 records" in ended.stderr

    def test_classes_of_the_main_script_and_modules_beside_it_travel(self, start_driver: StartDriver) -> None:
        ended = start_driver(SCRIPTS / "classes_in_main.py").wait(300).expect_success()
        assert ended.stderr == ""
        assert ended.stdout == "Seen(user='ann', pages=(2, 4, 8, 10))\nSeen(user='bob', pages=(0, 6))\n"

    def test_a_script_that_has_seen_enough_ends_at_once_and_leaves_nothing(self, start_driver: StartDriver) -> None:
        with tempfile.TemporaryDirectory() as folder:  # its name is short, as the names of sockets must be
            places = {"TMPDIR": folder, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
            process = start_driver(SCRIPTS / "takes_three.py", environment=places)
            ended = process.wait(300).expect_success()
            assert (ended.stdout, ended.stderr) == ("3\n", "")
            process.expect_no_leftovers()
            assert os.listdir(folder) == [f"flott-{getpass.getuser()}"], "only the folder of logs stays"
