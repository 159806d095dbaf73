"""Calls that wait at once: their order, their number, their failures, and that nothing of them is lost or doubled.

Functions run in this process, in the loop's thread; what they did is in the module's lists. No test waits for time to
pass: a call that has to be slow waits for another call, or lets the loop turn a number of times.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flott.common import Duration, Row, Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    async_retry_predicates,
)
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.state import ValueStateDescriptor
from flott.errors import JobCancelledError, JobFailedError
from flott.runtime.operators import async_io
from flott.runtime.operators.batch import MAX_BATCH_RECORDS
from flott.runtime.operators.event_loop import EventLoopThread
from flott.testing import sinks
from flott.testing.harness import Cancel, Crash, collect, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

NO_TIME = WatermarkStrategy.no_watermarks()
BY_SELF = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: int(value))
NONE = Time.seconds(0)
MINUTE = Time.minutes(1)  #: never reached, but nothing waits for ever if a test fails
SOON = Duration.of_millis(20)  #: for calls that never return
LATER = Duration.of_millis(300)  #: where another call does return, whatever else the machine does

#: What happened to the functions, in order.
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    calls.clear()
    yield
    if loop_threads():
        gc.collect()  # a job that crashed lets go of its loops when it is collected
    for thread in threading.enumerate():
        if thread.name.startswith("flott-async"):
            thread.join(120)  # it was told to end, and ends when its turn comes
    assert loop_threads() == [], "a loop's thread has outlived its job"


def loop_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("flott-async")]


def ordered(
    values: Iterable[Any], function: Any, timeout: Any = MINUTE, capacity: int = 100, parallelism: int = 1
) -> list[Any]:
    stream = in_process(parallelism).from_collection(list(values))
    return collect(AsyncDataStream.ordered_wait(stream, function, timeout, capacity))


def unordered(values: Iterable[Any], function: Any, timeout: Any = MINUTE, capacity: int = 100) -> list[Any]:
    stream = in_process(1).from_collection(list(values))
    return collect(AsyncDataStream.unordered_wait(stream, function, timeout, capacity))


def with_retry(values: Iterable[Any], function: Any, strategy: Any, timeout: Any = MINUTE) -> list[Any]:
    stream = in_process(1).from_collection(list(values))
    return collect(AsyncDataStream.ordered_wait_with_retry(stream, function, timeout, strategy))


def card_of(stream: DataStream[Any]) -> str:
    stream.sink_to(CallableSink(lambda value: None))
    with pytest.raises(JobFailedError) as failed:
        stream.get_execution_environment().execute("doomed")
    return str(failed.value)


async def turn(times: int) -> None:
    """Let the loop turn so many times."""
    for _ in range(times):
        await asyncio.sleep(0)


async def echo(value: Any) -> list[Any]:
    return [value]


# ---- order and number ------------------------------------------------------------------------------------------------


class InReverse(AsyncFunction[int, int]):
    """Calls of each four records return in the opposite order."""

    def open(self, runtime_context: Any) -> None:
        self.turns = {n: asyncio.Event() for n in range(100)}

    async def async_invoke(self, value: int) -> list[int]:
        if value % 4 < 3:
            await self.turns[value].wait()
        if value % 4 > 0:
            self.turns[value - 1].set()
        calls.append(value)
        return [value]


REVERSED = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]


def test_ordered_results_come_in_the_order_of_their_records() -> None:
    assert ordered(range(12), InReverse(), capacity=4) == list(range(12))
    assert calls == REVERSED


def test_unordered_results_come_as_the_calls_return() -> None:
    assert unordered(range(12), InReverse(), capacity=4) == REVERSED


@pytest.mark.parametrize("wait", [ordered, unordered])
@pytest.mark.parametrize("capacity", [1, 7, 100])
def test_as_many_calls_wait_at_once_as_the_capacity_says(wait: Any, capacity: int) -> None:
    at_work = 0

    async def crowded(value: int) -> list[int]:
        nonlocal at_work
        at_work += 1
        await turn(1 + value % 5)
        peak = at_work
        at_work -= 1
        return [peak]

    assert max(wait(range(300), crowded, capacity=capacity)) == capacity


async def counts_those_that_began(value: int) -> list[int]:
    calls.append(value)
    if value == 0:
        await turn(500)
        return [len(calls)]
    return []


def test_ordered_results_that_wait_for_an_earlier_one_count_towards_the_capacity() -> None:
    assert ordered(range(50), counts_those_that_began, capacity=10) == [10]


def test_unordered_results_wait_for_nobody() -> None:
    assert unordered(range(50), counts_those_that_began, capacity=10) == [50]


class MeetsLater(AsyncFunction[int, int]):
    """The first call returns when the last record, of another batch, was read."""

    def open(self, runtime_context: Any) -> None:
        self.last = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        if value == 4_999:
            self.last.set()
        await self.last.wait()
        return [value]


def test_the_task_goes_on_reading_while_calls_wait() -> None:
    assert ordered(range(5_000), MeetsLater(), timeout=Time.seconds(20), capacity=5_000) == list(range(5_000))


async def several(value: int) -> list[int]:
    await turn(value)
    return [value] * value


def test_a_record_has_any_number_of_results() -> None:
    expected = [n for n in range(5) for _ in range(n)]
    assert ordered(range(5), several) == expected
    assert sorted(unordered(range(5), several)) == expected


async def very_many(value: int) -> Iterable[int]:
    return range(value)


def test_many_results_of_one_record_are_emitted_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write = sinks._LedgerWriter.write

    def noting(self: Any, values: Any, timestamps: Any) -> None:
        sizes.append(len(values))
        write(self, values, timestamps)

    monkeypatch.setattr(sinks._LedgerWriter, "write", noting)
    env = in_process(1)
    stream = AsyncDataStream.ordered_wait(env.from_collection([10_000]), very_many, MINUTE)
    stream.sink_to(LedgerSink(ledger := Ledger(uuid4().hex)))
    env.execute("portions")
    assert ledger.records == list(range(10_000))
    assert max(sizes) == MAX_BATCH_RECORDS


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    delays=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.booleans()), max_size=60),
    capacity=st.integers(1, 12),
    retries=st.booleans(),
)
def test_whatever_the_delays_ordered_results_are_those_of_a_flat_map(
    delays: list[tuple[int, int, bool]], capacity: int, retries: bool
) -> None:
    """Each record says how long its call takes, how many results it has, and whether an epoch ends after it."""
    script: list[Any] = []
    for number, (turns, width, ends) in enumerate(delays):
        script += [(number, turns, width), EndOfEpoch()] if ends else [(number, turns, width)]
    expected = [(number, i) for number, (_, width, _) in enumerate(delays) for i in range(width)]
    strategy: AsyncRetryStrategy[Any] = (
        AsyncRetryStrategy.fixed_delay(1, 1, None, async_retry_predicates.has_exception_predicate)
        if retries
        else AsyncRetryStrategy.no_restart()
    )
    for wait in (AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry):
        stream = in_process(1).from_source(ScriptedSource([*script, EndOfEpoch()]), NO_TIME, "script")
        found = collect(wait(stream, as_scripted, MINUTE, strategy, capacity))
        if wait is AsyncDataStream.ordered_wait_with_retry:
            assert found == expected
        else:
            assert sorted(found) == expected


async def as_scripted(value: tuple[int, int, int]) -> list[tuple[int, int]]:
    number, turns, width = value
    await turn(turns)
    return [(number, i) for i in range(width)]


# ---- what a function returns -----------------------------------------------------------------------------------------


async def made_of(value: Any) -> Any:
    return {"tuple": (1, 2), "generator": (n for n in (1, 2)), "empty": []}[value]


def test_any_collection_of_results_will_do() -> None:
    assert ordered(["tuple", "empty", "generator"], made_of) == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("result", "described"),
    [
        (None, "None of type NoneType"),
        (3, "3 of type int"),
        ("positive", "'positive' of type str"),
        (b"yes", "b'yes' of type bytes"),
        ({"a": 1}, "{'a': 1} of type dict"),
        (Row(a=1), "Row(a=1) of type Row"),
    ],
)
def test_a_result_that_is_no_collection_of_results_fails_with_advice(result: Any, described: str) -> None:
    async def returns(value: int) -> Any:
        return result

    card = card_of(AsyncDataStream.ordered_wait(in_process(1).from_collection([1]), returns, MINUTE))
    assert f"returned {described}, expected a list of results: return [it] for one result, [] for none." in card


# ---- time ------------------------------------------------------------------------------------------------------------


class Stamps(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def test_results_keep_the_timestamps_of_their_records_and_come_before_the_watermark() -> None:
    source = ScriptedSource([3, 1, EndOfEpoch(), 7, 2])
    stream = in_process(1).from_source(source, BY_SELF, "n")
    found = collect(AsyncDataStream.ordered_wait(stream, several, MINUTE).process(Stamps()))
    first, second = min(at for *_, at in found), 2
    assert found == [(n, n, first) for n in (3, 3, 3, 1)] + [(n, n, second) for n in [7] * 7 + [2] * 2]


class WhenComplete(KeyedProcessFunction[int, int, Any]):
    """Counts the records of a key until its timer says that all are there."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value // 10 * 10 + 9)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value()


async def slow_first(value: int) -> list[int]:
    await turn(20 - value % 20)
    return [value]


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_timers_after_the_calls_find_all_results_of_their_time(wait: Any) -> None:
    script = [entry for n in range(40) for entry in ((n, EndOfEpoch()) if n % 7 == 6 else (n,))]
    stream = in_process(1).from_source(ScriptedSource(script), BY_SELF, "n")
    found = collect(wait(stream, slow_first, MINUTE).key_by(lambda n: n // 10).process(WhenComplete()))
    assert found == [(key, 10) for key in range(4)]


class Together(AsyncFunction[int, int]):
    """All calls return when the fourth has begun."""

    def open(self, runtime_context: Any) -> None:
        self.begun = 0
        self.all = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        self.begun += 1
        if self.begun == 4:
            self.all.set()
        await self.all.wait()
        return [value]


def test_records_with_and_without_timestamps_can_be_mixed() -> None:
    env = in_process(1)
    stamped = env.from_source(ScriptedSource([1, 2]), BY_SELF, "stamped")
    bare = env.from_source(ScriptedSource([-1, -2]), NO_TIME, "bare")
    found = collect(AsyncDataStream.ordered_wait(stamped.union(bare), Together(), MINUTE).process(Stamps()))
    assert [(value, timestamp) for value, timestamp, _ in found] == [(1, 1), (2, 2), (-1, None), (-2, None)]


# ---- timeouts --------------------------------------------------------------------------------------------------------


async def for_ever(value: Any) -> list[Any]:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        calls.append(("cancelled", value))
    return [value]


class Impatient(AsyncFunction[int, Any]):
    """Never answers odd numbers; gives a substitute for them."""

    async def async_invoke(self, value: int) -> list[Any]:
        calls.append(value)
        return await for_ever(value) if value % 2 else [value]

    def timeout(self, value: int) -> list[Any]:
        return [("no answer", value), threading.current_thread().name.startswith("flott-async")]


def test_a_call_that_takes_too_long_is_cancelled_and_replaced_by_what_timeout_gives() -> None:
    replaced = [("no answer", 1), True, 2, ("no answer", 3), True, 4]
    assert ordered([1, 2, 3, 4], Impatient(), SOON) == replaced
    assert sorted(map(str, calls)) == sorted(map(str, [1, 2, 3, 4, ("cancelled", 1), ("cancelled", 3)]))
    assert sorted(map(str, unordered([1, 2, 3, 4], Impatient(), SOON))) == sorted(map(str, replaced))


def test_calls_that_begin_later_time_out_later_but_all_do() -> None:
    found = ordered(range(1, 40, 2), Impatient(), Duration.of_millis(2), capacity=3)
    assert [value[1] for value in found[::2]] == list(range(1, 40, 2))


async def short_or_for_ever(value: int) -> list[int]:
    if value == 0:
        await asyncio.sleep(0.01)
        return [value]
    return await for_ever(value)


class Staggered(Impatient):
    async def async_invoke(self, value: int) -> list[Any]:
        return await short_or_for_ever(value)


def test_a_call_that_began_later_than_the_last_that_timed_out_times_out_too() -> None:
    found = ordered([0, 1, 2], Staggered(), LATER, capacity=2)  # 2 begins when 0 has returned
    assert found == [0, ("no answer", 1), True, ("no answer", 2), True]


class LooksBack(Impatient):
    async def async_invoke(self, value: int) -> list[Any]:
        await turn(5)
        return list(calls) if value == 2 else await for_ever(value)


def test_a_call_that_timed_out_is_cancelled_at_once() -> None:
    assert ordered([1, 2], LooksBack(), LATER, capacity=1) == [("no answer", 1), True, ("cancelled", 1)]


@pytest.mark.parametrize("function", [for_ever, pytest.param(None, id="AsyncFunction")])
def test_without_a_substitute_a_timeout_fails_the_job_and_names_operator_and_record(function: Any) -> None:
    class Patient(AsyncFunction[int, int]):
        async def async_invoke(self, value: int) -> list[int]:
            return await for_ever(value)

    stream = in_process(1).from_collection([41, 42])
    card = card_of(AsyncDataStream.ordered_wait(stream, function or Patient(), SOON).name("oracle").uid("o"))
    assert "TimeoutError: Operator 'oracle' (uid 'o') had no result for 41 after 20 ms. Allow it more time" in card
    assert "record     41" in card


class Stubborn(Impatient):
    async def async_invoke(self, value: int) -> list[Any]:
        for attempt in range(3):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                calls.append(attempt)
                if attempt == 0:
                    await turn(50)
                    break
        return ["too late"]


def test_a_call_that_ignores_its_cancellation_is_not_waited_for() -> None:
    assert ordered([1], Stubborn(), SOON) == [("no answer", 1), True]


class FailingSubstitute(Impatient):
    def timeout(self, value: int) -> list[Any]:
        raise LookupError(f"nothing known about {value}")


def test_a_timeout_method_that_raises_fails_the_job() -> None:
    card = card_of(AsyncDataStream.ordered_wait(in_process(1).from_collection([2, 3]), FailingSubstitute(), SOON))
    assert "LookupError: nothing known about 3" in card
    assert "record     3" in card


def test_a_timeout_method_that_raises_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    stream = AsyncDataStream.unordered_wait(in_process(1).from_collection([3, 3, 3]), FailingSubstitute(), SOON, 2)
    card_of(stream)
    gc.collect()  # asyncio complains about a task when nobody can ask it any more
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_timeout_of_zero_is_none() -> None:
    async def takes_a_while(value: int) -> list[int]:
        await asyncio.sleep(0.05)
        return [value]

    assert ordered([1, 2], takes_a_while, NONE) == [1, 2]


# ---- retries ---------------------------------------------------------------------------------------------------------


class Flaky(AsyncFunction[int, Any]):
    """Succeeds at the n-th attempt for the number n."""

    def __init__(self, failure: type[Exception] = ConnectionError):
        self.failure = failure

    def open(self, runtime_context: Any) -> None:
        self.attempts: Counter[int] = Counter()

    async def async_invoke(self, value: int) -> list[Any]:
        calls.append(value)
        self.attempts[value] += 1
        await turn(1)
        if self.attempts[value] < value:
            raise self.failure(f"attempt {self.attempts[value]} at {value}")
        return [value]


class Hesitant(Flaky):
    """The same, with empty results instead of exceptions."""

    async def async_invoke(self, value: int) -> list[Any]:
        try:
            return await super().async_invoke(value)
        except ConnectionError:
            return (nothing for nothing in ())  # type: ignore[return-value]  # any iterable will do


on_exception: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(
    3, 1, None, lambda error: isinstance(error, ConnectionError)
)
on_nothing: AsyncRetryStrategy[Any] = AsyncRetryStrategy.exponential_backoff(
    3, 1, 4, 2.0, async_retry_predicates.empty_result_predicate, None
)


def test_an_exception_is_tried_again_as_often_as_it_takes() -> None:
    assert with_retry([4, 1, 3, 2], Flaky(), on_exception) == [4, 1, 3, 2]
    assert Counter(calls) == {4: 4, 1: 1, 3: 3, 2: 2}


def test_an_empty_result_is_tried_again_and_taken_at_the_last_attempt() -> None:
    assert with_retry([3, 9, 1], Hesitant(), on_nothing) == [3, 1]
    assert Counter(calls) == {3: 3, 9: 4, 1: 1}


def test_attempts_that_are_used_up_fail_the_job_with_the_last_exception() -> None:
    stream = in_process(1).from_collection([9])
    card = card_of(AsyncDataStream.ordered_wait_with_retry(stream, Flaky(), MINUTE, on_exception))
    assert "ConnectionError: attempt 4 at 9" in card
    assert calls == [9, 9, 9, 9]


def test_an_exception_that_the_strategy_does_not_want_is_not_tried_again() -> None:
    stream = in_process(1).from_collection([2])
    card = card_of(AsyncDataStream.ordered_wait_with_retry(stream, Flaky(ValueError), MINUTE, on_exception))
    assert "ValueError: attempt 1 at 2" in card
    assert calls == [2]


class GivesUp(Flaky):
    def timeout(self, value: int) -> list[Any]:
        return [("gave up", value)]


def test_the_timeout_is_for_all_attempts_together_and_ends_them() -> None:
    endless: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(10**9, 1, None, lambda error: True)
    assert with_retry([1, 10**9, 1], GivesUp(), endless, LATER) == [1, ("gave up", 10**9), 1]
    assert 1 < calls.count(10**9) < 310
    hours: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(9, 3_600_000, None, lambda error: True)
    assert with_retry([10**9], GivesUp(), hours, SOON) == [("gave up", 10**9)]


class Counted(GivesUp):
    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.asked = runtime_context.get_metrics_group().counter("asked")

    async def async_invoke(self, value: int) -> list[Any]:
        self.asked.inc()
        return await super().async_invoke(value) if value < 10 else await for_ever(value)


@pytest.mark.parametrize(
    ("values", "timeout", "counted"), [([1, 3, 2], MINUTE, (6, 3, 0)), ([77, 78], SOON, (2, 0, 2))]
)
def test_retries_and_timeouts_are_counted_beside_the_metrics_of_the_function(
    values: list[int], timeout: Any, counted: tuple[int, int, int], tmp_path: Path
) -> None:
    env = in_process(1)
    stream = env.from_collection(values)
    answers = AsyncDataStream.ordered_wait_with_retry(stream, Counted(), timeout, on_exception).name("ask")
    answers.sink_to(CallableSink(calls.append))
    metrics = live(env, tmp_path).master.metrics
    assert tuple(metrics[f"ask.{name}"] for name in ("asked", "async.retries", "async.timeouts")) == counted


# ---- failures --------------------------------------------------------------------------------------------------------


async def explodes_at_13(value: int) -> list[int]:
    if value > 13:
        await for_ever(value)
    await turn(3)
    if value == 13:
        raise ValueError("cannot digest 13")
    return [value]


def test_a_failure_shows_operator_record_key_timestamp_and_the_users_line() -> None:
    script = [*range(8), EndOfEpoch(), *range(8, 20)]
    stream = in_process(1).from_source(ScriptedSource(script), BY_SELF, "n").key_by(lambda n: f"key {n}")
    card = card_of(AsyncDataStream.ordered_wait(stream, explodes_at_13, MINUTE).name("digest").uid("d"))
    for text in (
        "ValueError: cannot digest 13",
        "operator   digest (uid d)",
        "while      processing a record",
        "key        'key 13'",
        "record     13",
        "timestamp  13",
        "epoch      2",
        'raise ValueError("cannot digest 13")',
    ):
        assert text in card, f"{text!r} is not in\n{card}"
    assert "operators/async_io.py" not in card


def test_after_a_failure_all_other_calls_are_cancelled() -> None:
    card_of(AsyncDataStream.unordered_wait(in_process(1).from_collection(range(20)), explodes_at_13, MINUTE))
    assert sorted(calls) == [("cancelled", value) for value in range(14, 20)]


@pytest.mark.parametrize("where", [5, 1500, 4999])
def test_the_origin_of_a_failed_record_is_right_also_when_it_fails_while_others_are_read(where: int) -> None:
    async def fails(value: int) -> list[int]:
        await turn(2)
        if value == where:
            raise ValueError("no")
        return [value]

    stream = in_process(1).from_source(ScriptedSource(range(5_000)), NO_TIME, "n")
    card = card_of(AsyncDataStream.ordered_wait(stream, fails, MINUTE))
    assert where in origin_of(card)


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
@pytest.mark.parametrize("where", [5, 1500, 4999])
def test_the_origin_of_a_record_that_fails_after_the_calls_is_right_too(wait: Any, where: int) -> None:
    def fails(value: int) -> int:
        return 1 // (value - where)

    stream = in_process(1).from_source(ScriptedSource(range(5_000)), NO_TIME, "n")
    card = card_of(wait(stream, echo, MINUTE).map(fails).name("after"))
    assert "operator   after" in card
    assert where in origin_of(card)


def origin_of(card: str) -> range:
    (line,) = (line for line in card.splitlines() if "origin " in line)
    offsets = [int(word) for word in line.replace(",", " ").split() if word.isdigit()][1::2]
    return range(offsets[0], offsets[-1] + 1)


class Unkind(AsyncFunction[str, Any]):
    async def async_invoke(self, value: str) -> list[Any]:
        if value == "cancelled by somebody else":
            waits = asyncio.get_running_loop().create_future()
            waits.cancel()
            await waits
        if value == "sys.exit":
            raise SystemExit(3)
        if value == "a task of its own exits":
            task = asyncio.get_running_loop().create_task(self.exits())
            await turn(3)
            return [type(task.exception()).__name__]
        return [value]

    async def exits(self) -> None:
        raise SystemExit(4)


@pytest.mark.parametrize(
    ("value", "error"), [("cancelled by somebody else", "CancelledError"), ("sys.exit", "SystemExit: 3")]
)
def test_whatever_a_call_raises_fails_the_job_and_hangs_nothing(value: str, error: str) -> None:
    card = card_of(AsyncDataStream.ordered_wait(in_process(1).from_collection(["a", value, "b"]), Unkind(), NONE))
    assert error in card
    assert f"record     '{value}'" in card


def test_a_task_of_the_function_that_exits_ends_nobody_else() -> None:
    assert ordered(["a task of its own exits", "b"], Unkind(), NONE) == ["SystemExit", "b"]


class Stateful(AsyncFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(ValueStateDescriptor("count"))

    async def async_invoke(self, value: int) -> list[int]:
        return [value]


def test_keyed_state_is_refused_also_on_a_keyed_stream() -> None:
    keyed = in_process(1).from_collection([1]).key_by(lambda n: n)
    card = card_of(AsyncDataStream.ordered_wait(keyed, Stateful(), MINUTE))
    assert "asks for the keyed state 'count', which asynchronous functions do not have" in card


# ---- nothing lost, nothing doubled -----------------------------------------------------------------------------------


async def noted(value: int) -> list[Any]:
    calls.append(value)
    await turn(value % 4)
    return [value, -value]


RESTARTING = {
    "restart_strategy__type": "fixed-delay",
    "restart_strategy__fixed_delay__attempts": "99",
    "restart_strategy__fixed_delay__delay": "1 ms",
}


@pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
def test_a_repeated_epoch_repeats_its_calls_but_not_its_results(wait: Any, tmp_path: Path) -> None:
    script = [*range(1, 2_500), Abort(2), *range(2_500, 3_001), EndOfEpoch(), *range(3_001, 5_001)]
    ledger = Ledger(uuid4().hex)
    env = in_process(1, **RESTARTING)
    wait(env.from_source(ScriptedSource(script), NO_TIME, "n"), noted, MINUTE).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    expected = [sign * n for n in range(1, 5_001) for sign in (1, -1)]
    assert sorted(ledger.records) == sorted(expected)
    assert ledger.records == expected or wait is AsyncDataStream.unordered_wait
    asked = Counter(calls)
    assert (asked[1], asked[3_000], asked[5_000]) == (3, 1, 1)  # at least once


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed"])
def test_a_job_that_dies_goes_on_with_another_parallelism_where_it_was(step: str, tmp_path: Path) -> None:
    script = {str(split): [n for k in range(60) for n in (split * 1000 + k, EndOfEpoch())] for split in range(3)}
    ledger = Ledger(uuid4().hex)
    died = 0

    def die(name: str, epoch: int) -> None:
        if name == step and epoch % 10 == 4 and died < 3:
            raise Crash

    for parallelism in (2, 3, 1, 2):
        env = in_process(parallelism)
        source = env.from_source(ScriptedSource(script), NO_TIME, "n").uid("n")
        results = AsyncDataStream.ordered_wait(source.rebalance(), noted, MINUTE, capacity=3).uid("ask")
        results.sink_to(LedgerSink(ledger)).uid("sink")
        incarnation = live(env, tmp_path, on_step=die)
        del env
        if not incarnation.crashed:
            break
        died += 1
        del incarnation
        gc.collect()
    assert died == 3
    expected = [sign * n for split in range(3) for n in range(split * 1000, split * 1000 + 60) for sign in (1, -1)]
    assert sorted(ledger.records) == sorted(expected)


def test_a_failing_call_is_repeated_with_its_epoch_and_the_job_goes_on(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1, **RESTARTING)
    source = env.from_source(ScriptedSource([1, 2, EndOfEpoch(), 3, 4, EndOfEpoch(), 5]), NO_TIME, "n")
    AsyncDataStream.ordered_wait(source, fails_twice_at_4, MINUTE).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path)
    assert incarnation.failure is None
    assert len(incarnation.history.restarts) == 2
    assert ledger.records == [1, 2, 3, 4, 5]


async def fails_twice_at_4(value: int) -> list[int]:
    calls.append(value)
    if value == 4 and calls.count(4) < 3:
        raise ConnectionError("not yet")
    return [value]


# ---- open, close and the loop ----------------------------------------------------------------------------------------


class Client(AsyncFunction[int, Any]):
    """Holds something that belongs to the loop, as clients of services do."""

    def open(self, runtime_context: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.heart = self.loop.create_task(self.beat())
        calls.append("open")

    async def beat(self) -> None:
        try:
            await self.loop.create_future()
        finally:
            calls.append("heart stopped")

    async def async_invoke(self, value: int) -> list[Any]:
        assert asyncio.get_running_loop() is self.loop
        return [(value, threading.get_ident())]

    def close(self) -> None:
        calls.append("close")
        asyncio.get_running_loop().create_task(self.say_goodbye())

    async def say_goodbye(self) -> None:
        await turn(5)
        calls.append("said goodbye")


LIFE = ["open", "close", "said goodbye", "heart stopped"]


def test_one_loop_serves_a_subtask_for_all_its_epochs_from_open_to_close(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = in_process(1)
    script = [entry for n in range(10) for entry in (n, EndOfEpoch())]
    source = env.from_source(ScriptedSource(script), NO_TIME, "n")
    AsyncDataStream.ordered_wait(source, Client(), MINUTE).sink_to(LedgerSink(ledger))
    assert live(env, tmp_path).failure is None
    assert [value for value, _ in ledger.records] == list(range(10))
    assert len({thread for _, thread in ledger.records}) == 1
    assert threading.get_ident() not in {thread for _, thread in ledger.records}
    assert calls == LIFE


def test_a_function_is_closed_in_its_loop_also_after_a_failure_and_after_cancelling(tmp_path: Path) -> None:
    class Failing(Client):
        async def async_invoke(self, value: int) -> list[Any]:
            raise ValueError("no")

    card_of(AsyncDataStream.ordered_wait(in_process(1).from_collection([1]), Failing(), MINUTE))
    assert calls == LIFE
    calls.clear()

    def cancel(step: str, epoch: int) -> None:
        if epoch == 2:
            raise Cancel

    env = in_process(1)
    source = env.from_source(ScriptedSource([1, EndOfEpoch(), 2, EndOfEpoch(), 3]), NO_TIME, "n")
    AsyncDataStream.ordered_wait(source, Client(), MINUTE).sink_to(LedgerSink(Ledger(uuid4().hex)))
    assert live(env, tmp_path, on_step=cancel).status is JobStatus.CANCELED
    assert calls == LIFE


@pytest.mark.parametrize("method", ["open", "close"])
def test_open_and_close_that_raise_fail_the_job_and_leave_no_thread(method: str) -> None:
    class Broken(AsyncFunction[int, int]):
        def open(self, runtime_context: Any) -> None:
            if method == "open":
                raise RuntimeError("cannot open")

        def close(self) -> None:
            if method == "close":
                raise RuntimeError("cannot close")

        async def async_invoke(self, value: int) -> list[int]:
            return [value]

    card = card_of(AsyncDataStream.ordered_wait(in_process(1).from_collection([1]), Broken(), MINUTE))
    assert f"RuntimeError: cannot {method}" in card
    assert f"while      {method}()" in card


def test_side_outputs_and_several_consumers_after_the_calls() -> None:
    tag = OutputTag("odd")

    class Split(ProcessFunction[int, int]):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield (tag, value) if value % 2 else value

    env = in_process(2)
    split = AsyncDataStream.ordered_wait(env.from_collection(range(10)), echo, MINUTE).process(Split())
    split.get_side_output(tag).sink_to(LedgerSink(odd := Ledger(uuid4().hex)))
    split.sink_to(LedgerSink(even := Ledger(uuid4().hex)))
    env.execute("split")
    assert (sorted(even.records), sorted(odd.records)) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])


def test_two_asynchronous_steps_in_one_chain() -> None:
    env = in_process(1)
    first = AsyncDataStream.unordered_wait(env.from_collection(range(3_000)), noted, MINUTE, 10)
    assert Counter(collect(AsyncDataStream.ordered_wait(first, several_times, MINUTE, 3))) == Counter(
        sign * n for n in range(3_000) for sign in (1, -1) for _ in range(2)
    )


async def several_times(value: int) -> list[int]:
    return [value, value]


# ---- cancelling, and threads -----------------------------------------------------------------------------------------

began = threading.Event()


async def begins_and_waits(value: int) -> list[int]:
    began.set()
    return await for_ever(value)


@pytest.mark.parametrize("capacity", [1, 10_000])
def test_a_job_can_be_cancelled_while_its_calls_wait_for_ever(capacity: int) -> None:
    began.clear()
    env = in_process(1)
    stream = env.from_collection(range(4_000))
    AsyncDataStream.ordered_wait(stream, begins_and_waits, NONE, capacity).sink_to(CallableSink(calls.append))
    client = env.execute_async("stuck")
    assert began.wait(120)
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert ("cancelled", 0) in calls
    assert len(calls) <= capacity


released = threading.Event()


async def blocks_the_loop(value: int) -> list[int]:
    began.set()
    released.wait(120)
    return [value]


def test_a_call_that_blocks_the_loop_does_not_hold_up_the_cancelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_io, "GRACE_S", 0.05)
    began.clear()
    released.clear()
    env = in_process(1)
    stream = env.from_collection([1, 2])
    AsyncDataStream.ordered_wait(stream, blocks_the_loop, NONE).sink_to(CallableSink(calls.append))
    client = env.execute_async("blocked")
    assert began.wait(120)
    client.cancel()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    threads = [thread for thread in threading.enumerate() if thread.name in loop_threads()]
    released.set()
    for thread in threads:
        thread.join(120)


def test_many_jobs_leave_no_threads_behind() -> None:
    before = set(threading.enumerate())
    for _ in range(30):
        assert ordered(range(10), echo, parallelism=2) is not None
    left = set(threading.enumerate()) - before
    for thread in left:  # that of the last job may be at its last instructions
        thread.join(120)
    assert not [thread.name for thread in left if thread.is_alive()]


def test_a_loop_that_is_dropped_unclosed_ends_by_itself() -> None:
    loop_thread = EventLoopThread("flott-async dropped")
    loop_thread.run(asyncio.sleep(0))
    asyncio.run_coroutine_threadsafe(for_ever("its task"), loop_thread.loop)
    thread = loop_thread._thread
    del loop_thread
    gc.collect()
    thread.join(120)
    assert not thread.is_alive()
    assert calls == [("cancelled", "its task")]
