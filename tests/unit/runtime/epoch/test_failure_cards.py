"""Whatever user code does wrong, its author gets a card: what, where, with which record, and no line of the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from flott.common import Types, WatermarkStrategy
from flott.common.watermark_strategy import WatermarkGenerator
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import Sink, SinkWriter, Slice, SourceReader, WriterContext
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
)
from flott.errors import JobFailedError
from flott.testing.harness import in_process
from flott.testing.sources import EndOfEpoch, ScriptedSource

BAD = 13
SCRIPT = [*range(8), EndOfEpoch(), *range(8, 20)]  # 13 stands at offset 14, in epoch 2

Build = Callable[[StreamExecutionEnvironment], None]


def scripted(env: StreamExecutionEnvironment, strategy: WatermarkStrategy | None = None) -> Any:
    source = ScriptedSource(SCRIPT)
    return env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "numbers").uid("numbers-uid")


def other(env: StreamExecutionEnvironment) -> Any:
    return env.from_source(ScriptedSource(SCRIPT), WatermarkStrategy.no_watermarks(), "others")


def end(stream: Any) -> None:
    stream.sink_to(CallableSink(lambda value: None))


def card_of(build: Build, **options: str) -> str:
    env = in_process(2, **options)
    build(env)
    with pytest.raises(JobFailedError) as failed:
        env.execute("doomed")
    return str(failed.value)


def explode(value: Any) -> Any:
    if value == BAD:
        raise ValueError(f"cannot digest {value}")
    return value


def stop_at_bad(value: int) -> int:
    return next(n for n in [value] if n != BAD)


class Timed(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, ctx: Any) -> None:
        if value == BAD:
            ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[int]:
        yield explode(BAD)


class KeyedExplosion(KeyedProcessFunction[int, int, int]):
    def process_element(self, value: int, ctx: Any) -> Iterator[int]:
        yield explode(value)


class PlainExplosion(ProcessFunction[int, int]):
    def process_element(self, value: int, ctx: Any) -> list[int]:
        return [explode(value)]


class CannotOpen(MapFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        explode(BAD)

    def map(self, value: int) -> int:
        return value


class CannotClose(MapFunction[int, int]):
    def close(self) -> None:
        explode(BAD)

    def map(self, value: int) -> int:
        return value


class CoMaps(CoMapFunction[int, int, int]):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return int(explode(value))


class CoFlatMaps(CoFlatMapFunction[int, int, int]):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield explode(value)

    def flat_map2(self, value: int) -> None:
        return None


class CoProcess(KeyedCoProcessFunction[int, int, int, int]):
    def process_element1(self, value: int, ctx: Any) -> None:
        return None

    def process_element2(self, value: int, ctx: Any) -> Iterator[int]:
        yield explode(value)


class ExplosiveWriter(SinkWriter[int]):
    def __init__(self, at: str):
        self.at = at

    def write(self, values: Sequence[int], timestamps: Sequence[int] | None) -> None:
        if self.at == "write" and BAD in values:
            explode(BAD)
        if self.at == "prepare":
            self.seen = BAD in values

    def prepare_commit(self) -> list[Any]:
        if getattr(self, "seen", False):
            explode(BAD)
        return [object()] if self.at == "committable" else []


class ExplosiveSink(Sink[int]):
    def __init__(self, at: str):
        self.at = at

    def create_writer(self, context: WriterContext) -> SinkWriter[int]:
        if self.at == "create" and context.epoch == 2:
            explode(BAD)
        return ExplosiveWriter(self.at)


class ExplosiveReader(SourceReader[int]):
    def __init__(self, inner: SourceReader[int], at: str):
        self.inner, self.at = inner, at

    def open(self) -> None:
        if self.at == "open":
            explode(BAD)

    def read(self, part: Slice) -> Iterator[int]:
        yield from map(explode, self.inner.read(part))


class ExplosiveSource(ScriptedSource):
    def __init__(self, at: str):
        super().__init__(SCRIPT)
        self.at = at

    def create_reader(self) -> SourceReader[Any]:
        return ExplosiveReader(super().create_reader(), self.at)


class PeriodicExplosion(WatermarkGenerator):
    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        self.seen = max(self.seen, value)

    def on_periodic_emit(self, output: Any) -> None:
        if self.seen >= BAD:
            explode(BAD)


class UnsaveableGenerator(PeriodicExplosion):
    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        self.lock = threading.Lock()

    def on_periodic_emit(self, output: Any) -> None:
        return None


class EventExplosion(PeriodicExplosion):
    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        explode(value)


def stamped(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return strategy.with_timestamp_assigner(lambda value, _: value)


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()

#: what fails -> (program, what the card must say besides the error, the user's line, "epoch 2" and no engine frame)
CASES: dict[str, tuple[Build, list[str]]] = {
    "map": (
        lambda env: end(scripted(env).map(explode).name("digest").uid("digest-uid")),
        ["digest (uid digest-uid)", "record     13", "split 0, offset 14"],
    ),
    "filter": (
        lambda env: end(scripted(env).filter(explode).uid("f")),
        ["(uid f)", "record     13", "split 0, offset 14"],
    ),
    "flat_map": (
        lambda env: end(scripted(env).flat_map(lambda v: [explode(v)] * 2).uid("f")),
        ["(uid f)", "record     13", "split 0, offset 14"],
    ),
    "map behind a filter": (
        lambda env: end(scripted(env).filter(lambda v: v % 2).map(explode).uid("m")),
        ["(uid m)", "record     13", "between split 0, offset 9 and split 0, offset 20"],
    ),
    "map behind a filter in another vertex": (
        lambda env: end(scripted(env).filter(lambda v: v % 2).start_new_chain().map(explode).uid("m")),
        ["(uid m)", "record     13", "between split 0, offset 9 and split 0, offset 20"],
    ),
    "key selector": (
        lambda env: end(scripted(env).key_by(explode).map(lambda v: v)),
        ["(uid numbers-uid)", "record     13", "split 0, offset 14", "HASH"],
    ),
    "key selector behind a flat map": (
        lambda env: end(scripted(env).flat_map(lambda v: [-1, -1, v]).uid("f").key_by(explode).map(lambda v: v)),
        ["(uid f)", "record     13", "between split 0, offset 9 and split 0, offset 20"],
    ),
    "key without identity": (
        lambda env: end(scripted(env).key_by(lambda v: object() if v == BAD else v).map(lambda v: v)),
        ["KeyTypeError", "record     13", "frozen dataclass"],
    ),
    "unhashable key": (
        lambda env: end(scripted(env).key_by(lambda v: [v] if v == BAD else v).map(lambda v: v)),
        ["KeyTypeError", "record     13", "tuple(...)"],
    ),
    "unhashable key with a type": (
        lambda env: end(scripted(env).key_by(lambda v: [v] if v == BAD else v, Types.LONG()).map(lambda v: v)),
        ["KeyTypeError", "record     13"],
    ),
    "key selector that stops": (
        lambda env: end(scripted(env, stamped(MONOTONOUS)).key_by(stop_at_bad).map(lambda v: v)),
        ["StopIteration", "record     13", "split 0, offset 14", "in stop_at_bad"],
    ),
    "process_element": (
        lambda env: end(scripted(env).process(PlainExplosion()).uid("p")),
        ["(uid p)", "record     13", "split 0, offset 14"],
    ),
    "keyed process_element": (
        lambda env: end(scripted(env).key_by(lambda v: v % 5).process(KeyedExplosion()).uid("p")),
        ["(uid p)", "record     13", "key        3", "offset"],
    ),
    "on_timer": (
        lambda env: end(scripted(env, stamped(MONOTONOUS)).key_by(lambda v: v % 5).process(Timed()).uid("t")),
        ["(uid t)", "key        3", "on_timer(5)", "event time"],
    ),
    "reduce": (
        lambda env: end(
            scripted(env).key_by(lambda v: v % 2).reduce(lambda a, b: (explode(b), b)[1]).uid("r")
        ),
        ["(uid r)", "record     13", "key        1", "offset"],
    ),
    "co-map": (
        lambda env: end(scripted(env).connect(other(env)).map(CoMaps()).uid("c")),
        ["(uid c)", "record     13", "offset"],
    ),
    "co-flat-map": (
        lambda env: end(scripted(env).connect(other(env)).flat_map(CoFlatMaps()).uid("c")),
        ["(uid c)", "record     13", "offset"],
    ),
    "keyed co-process": (
        lambda env: end(
            scripted(env)
            .connect(other(env))
            .key_by(lambda v: v % 5, lambda v: v % 5)
            .process(CoProcess())
            .uid("c")
        ),
        ["(uid c)", "record     13", "key        3", "offset"],
    ),
    "map behind a union and a key_by": (
        lambda env: end(
            scripted(env)
            .union(env.from_source(ScriptedSource([1]), MONOTONOUS, "b"))
            .map(lambda v: v)
            .key_by(lambda v: v % 5)
            .map(explode)
            .uid("u")
        ),
        ["(uid u)", "record     13", "offset"],
    ),
    "partitioner": (
        lambda env: end(scripted(env).partition_custom(lambda key, n: explode(key) % n, lambda v: v).map(lambda v: v)),
        ["record     13", "CUSTOM", "split 0, offset 14"],
    ),
    "partitioner out of range": (
        lambda env: end(
            scripted(env).partition_custom(lambda key, n: n if key == BAD else 0, lambda v: v).map(lambda v: v)
        ),
        ["record     13", "Return a number from 0 to 1"],
    ),
    "partitioner without a number": (
        lambda env: end(
            scripted(env).partition_custom(lambda key, n: 0.5 if key == BAD else 0, lambda v: v).map(lambda v: v)
        ),
        ["record     13", "Return a number from 0 to 1"],
    ),
    "timestamp assigner": (
        lambda env: end(scripted(env, MONOTONOUS.with_timestamp_assigner(lambda v, _: explode(v)))),
        ["(uid numbers-uid)", "record     13", "split 0, offset 14", "timestamp"],
    ),
    "timestamp that is no number": (
        lambda env: end(scripted(env, MONOTONOUS.with_timestamp_assigner(lambda v, _: "x" if v == BAD else v))),
        ["(uid numbers-uid)", "record     13", "split 0, offset 14", "milliseconds"],
    ),
    "timestamp assigner in the middle": (
        lambda env: end(
            scripted(env)
            .assign_timestamps_and_watermarks(MONOTONOUS.with_timestamp_assigner(lambda v, _: explode(v)))
            .uid("a")
        ),
        ["(uid a)", "record     13", "split 0, offset 14"],
    ),
    "watermark generator, per event": (
        lambda env: end(scripted(env, stamped(WatermarkStrategy.for_generator(EventExplosion)))),
        ["(uid numbers-uid)", "record     13", "split 0, offset 14"],
    ),
    "watermark generator, periodic": (
        lambda env: end(scripted(env, stamped(WatermarkStrategy.for_generator(PeriodicExplosion)))),
        ["(uid numbers-uid)", "on_periodic_emit", "split 0"],
    ),
    "watermark generator, periodic, in the middle": (
        lambda env: end(
            scripted(env)
            .assign_timestamps_and_watermarks(stamped(WatermarkStrategy.for_generator(PeriodicExplosion)))
            .uid("a")
        ),
        ["(uid a)", "on_periodic_emit"],
    ),
    "source reader": (
        lambda env: end(env.from_source(ExplosiveSource("read"), MONOTONOUS, "numbers").uid("s")),
        ["(uid s)", "reading split 0"],
    ),
    "sink writer": (
        lambda env: scripted(env).sink_to(ExplosiveSink("write")).uid("s"),
        ["(uid s)", "writing", "split 0"],
    ),
    "prepare_commit": (
        lambda env: scripted(env).sink_to(ExplosiveSink("prepare")).uid("s"),
        ["(uid s)", "prepare_commit"],
    ),
    "create_writer": (
        lambda env: scripted(env).sink_to(ExplosiveSink("create")).uid("s"),
        ["(uid s)", "writer"],
    ),
    "declared type": (
        lambda env: end(scripted(env).map(lambda v: "x" if v == BAD else v, output_type=Types.LONG()).uid("m")),
        ["(uid m)", "declared type", "record     'x'", "split 0"],
    ),
}

#: Those that raise their own kind of error, not the ValueError of ``explode``.
OWN_ERRORS = {
    "key selector that stops", "key without identity", "unhashable key", "unhashable key with a type",
    "partitioner out of range", "partitioner without a number", "declared type", "timestamp that is no number",
}  # fmt: skip


def assert_no_engine_frame(card: str) -> None:
    assert "src/flott/" not in card, card
    assert "RecordFailure" not in card, card


@pytest.mark.parametrize("case", CASES)
def test_a_card_says_what_failed_where_and_with_which_record(case: str) -> None:
    build, expected = CASES[case]
    card = card_of(build)
    if case not in OWN_ERRORS:
        assert "ValueError: cannot digest 13" in card
        assert "in explode" in card, card
        assert "test_failure_cards.py" in card
    for text in [*expected, "defined at", "test_failure_cards.py:", "epoch      2"]:
        assert text in card, f"{text!r} is not in\n{card}"
    assert_no_engine_frame(card)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda env: end(scripted(env).map(CannotOpen()).uid("o")), ["(uid o)", "open()", "in explode"]),
        (lambda env: end(scripted(env).map(CannotClose()).uid("o")), ["(uid o)", "close()", "in explode"]),
        (
            lambda env: end(env.from_source(ExplosiveSource("open"), MONOTONOUS, "n").uid("s")),
            ["(uid s)", "opening the source reader", "in explode"],
        ),
        (
            lambda env: scripted(env).sink_to(ExplosiveSink("committable")).uid("s"),
            ["(uid 's')", "JSON"],
        ),
        (
            lambda env: end(scripted(env).map(lambda v: threading.Lock()).uid("m").rebalance().map(lambda v: 1)),
            ["cannot be sent to another task", "lock", "(uid m)"],
        ),
        (
            lambda env: end(scripted(env).map(lambda v: threading.Lock()).uid("m")),
            ["cannot be sent", "lock"],
        ),
        (
            lambda env: end(scripted(env).key_by(lambda v: 1).reduce(lambda a, b: threading.Lock()).uid("r")),
            ["(uid r)", "lock", "state"],
        ),
        (
            lambda env: end(scripted(env, stamped(WatermarkStrategy.for_generator(UnsaveableGenerator)))),
            ["(uid numbers-uid)", "lock"],
        ),
        (
            lambda env: end(scripted(env).map(NeedsKey()).uid("k")),
            ["(uid k)", "not keyed", "key_by"],
        ),
    ],
    ids=["open", "close", "reader open", "committable", "unpicklable record", "unpicklable result", "unpicklable state",
         "unpicklable generator", "state without key"],
)  # fmt: skip
def test_a_card_of_a_failure_without_a_record_names_the_operator(build: Build, expected: list[str]) -> None:
    card = card_of(build)
    for text in expected:
        assert text in card, f"{text!r} is not in\n{card}"
    assert_no_engine_frame(card)


class NeedsKey(MapFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        from flott.datastream.state import ValueStateDescriptor

        runtime_context.get_state(ValueStateDescriptor("count"))

    def map(self, value: int) -> int:
        return value


def test_a_failure_while_a_failure_is_handled_shows_both() -> None:
    def chained(value: int) -> int:
        try:
            return int(explode(value))
        except ValueError as error:
            raise LookupError("no recipe") from error

    card = card_of(lambda env: end(scripted(env).map(chained)))
    assert "LookupError: no recipe" in card
    assert "ValueError: cannot digest 13" in card
    assert_no_engine_frame(card)


def test_a_record_whose_repr_raises_does_not_hide_the_failure() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    card = card_of(lambda env: end(scripted(env).map(lambda v: Shy()).map(lambda v: explode(BAD))))
    assert "cannot digest 13" in card
    assert "record     <Shy instance" in card


def test_a_repeated_attempt_is_counted_on_the_card() -> None:
    card = card_of(
        lambda env: end(scripted(env).map(explode)),
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__attempts="2",
        restart_strategy__fixed_delay__delay="1 ms",
    )
    assert "epoch      2, attempt 3" in card


def test_a_function_that_raises_on_the_driver_is_named_too() -> None:
    card = card_of(lambda env: scripted(env).sink_to(CallableSink(explode)).uid("d"))
    assert "ValueError: cannot digest 13" in card
    assert "(uid 'd')" in card
