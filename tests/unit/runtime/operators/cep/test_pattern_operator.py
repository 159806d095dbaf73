"""The operator of a pattern: order, time, late events, state and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from flott.cep import (
    CEP,
    AfterMatchSkipStrategy,
    IterativeCondition,
    Pattern,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    SimpleCondition,
    TimedOutPartialMatchHandler,
)
from flott.common import Duration, WatermarkStrategy
from flott.datastream import DataStream, OutputTag, RuntimeContext, RuntimeExecutionMode
from flott.datastream.state import ValueStateDescriptor
from flott.errors import StateError
from flott.runtime.operators.cep.operator import MATCHES
from flott.runtime.operators.cep.waiting import WAITING
from flott.testing import OperatorHarness, collect, in_process
from tests.unit.cep import model
from tests.unit.cep.random_patterns import skipping, stream_of, timed_pattern_of

LATE, OVER = OutputTag("late"), OutputTag("over")


@dataclass(frozen=True)
class Payment:
    account: str
    amount: int


def small_then_large(milliseconds: int = 100) -> Pattern[Payment]:
    return (
        Pattern[Payment].begin("small").where(lambda payment: payment.amount < 10)
        .followed_by("large").where(lambda payment: payment.amount > 500)
        .within(Duration.of_millis(milliseconds))
    )  # fmt: skip


def amounts(match: dict[str, list[Payment]]) -> tuple[str, list[int]]:
    return match["small"][0].account, [payment.amount for events in match.values() for payment in events]


def by_account(stream: DataStream[Payment], **options: Any) -> DataStream[Any]:
    found = CEP.pattern(stream.key_by(lambda payment: payment.account), small_then_large())
    return found.side_output_late_data(LATE).select(
        amounts, timeout_tag=OVER, timeout_function=lambda match, time: (amounts(match), time)
    )


def state_of(harness: Any) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for _, operator in harness._piece.operators():
        for name, size in getattr(operator.context.keyed_state, "sizes", dict)().items():
            sizes[name] = sizes.get(name, 0) + size
    return {name: size for name, size in sizes.items() if size}


def test_events_wait_for_the_watermark_and_come_in_the_order_of_time() -> None:
    with OperatorHarness(by_account) as harness:
        harness.process_elements([Payment("ann", 600), Payment("ann", 5)], timestamps=[30, 3])
        harness.process_watermark(20)
        assert harness.output == []
        assert state_of(harness)[WAITING] == 1
        harness.process_watermark(40)
        assert harness.output_with_timestamps == [(("ann", [5, 600]), 30)]
        assert state_of(harness) == {}


def test_late_events_go_to_their_side_output_and_are_counted() -> None:
    with OperatorHarness(by_account) as harness:
        harness.process_watermark(20)
        harness.process_elements([Payment("ann", 1), Payment("bob", 2)], timestamps=[20, 21])
        harness.process_watermark(30)
        assert harness.side_output(LATE) == [Payment("ann", 1)]
        assert harness.late_records.late == 1


def test_a_partial_match_times_out_without_further_events_and_leaves_no_state() -> None:
    with OperatorHarness(by_account) as harness:
        harness.process_elements([Payment("ann", 1), Payment("bob", 2)], timestamps=[5, 50])
        harness.process_watermark(60)
        assert state_of(harness)[MATCHES] == 2
        harness.process_watermark(104)
        assert harness.side_output(OVER) == []
        harness.process_watermark(105)
        assert harness.side_output(OVER) == [(("ann", [1]), 105)]
        harness.process_watermark(1000)
        assert harness.side_output(OVER)[1:] == [(("bob", [2]), 150)]
        assert state_of(harness) == {}


def test_events_that_start_nothing_leave_no_state_and_no_timer() -> None:
    with OperatorHarness(by_account) as harness:
        harness.process_elements([Payment(f"{number}", 50) for number in range(20)], timestamps=list(range(20)))
        harness.process_watermark(100)
        assert state_of(harness) == {}


def test_events_that_nothing_takes_do_not_write_the_state_of_their_key() -> None:
    with OperatorHarness(by_account) as harness:
        harness.process_element(Payment("ann", 1), 5)
        harness.process_watermark(10)
        ((_, operator),) = list(harness._piece.operators())
        operator.process(_batch([Payment("ann", 50)], [12]))
        operator._run(15)
        assert not operator._held.changed
        operator.process(_batch([Payment("ann", 2)], [16]))
        operator._run(20)
        assert list(operator._held.changed) == ["ann"]


def _batch(values: list[Any], timestamps: list[int]) -> Any:
    from flott.runtime.operators.batch import RowBatch

    return RowBatch(values, timestamps)


def test_the_comparator_orders_events_of_the_same_time() -> None:
    def piece(stream: DataStream[int]) -> DataStream[Any]:
        pattern = Pattern[int].begin("first").next("second")
        by_size = CEP.pattern(stream.key_by(lambda _: 0), pattern, lambda one, other: one - other)
        return by_size.select(lambda match: (match["first"][0], match["second"][0]))

    with OperatorHarness(piece) as harness:
        harness.process_elements([3, 1, 2], timestamps=[7, 7, 7])
        harness.process_watermark(7)
        assert harness.output == [(1, 2), (2, 3)]


def test_in_processing_time_events_need_no_timestamps_and_partial_matches_time_out_by_the_clock() -> None:
    def piece(stream: DataStream[Payment]) -> DataStream[Any]:
        found = CEP.pattern(stream.key_by(lambda payment: payment.account), small_then_large()).in_processing_time()
        return found.select(amounts, timeout_tag=OVER, timeout_function=lambda match, time: (amounts(match), time))

    with OperatorHarness(piece, processing_time=1000) as harness:
        harness.process_elements([Payment("ann", 1), Payment("ann", 600), Payment("bob", 2)])
        harness.set_processing_time(1050)
        assert harness.output == [("ann", [1, 600])]
        assert harness.side_output(OVER) == []
        harness.set_processing_time(1200)
        harness.end_epoch()
        assert harness.side_output(OVER) == [(("bob", [2]), 1100)]
        assert state_of(harness) == {}


def test_a_stream_that_is_not_keyed_is_searched_as_a_whole() -> None:
    env = in_process(parallelism=3)
    pattern = Pattern[int].begin("a").where(lambda n: n % 2 == 1).next("b").where(lambda n: n % 2 == 0)
    found = CEP.pattern(env.from_collection([1, 2, 3, 5, 6]), pattern).in_processing_time()
    assert collect(found.flat_select(lambda match: [match["a"][0], match["b"][0]])) == [1, 2, 5, 6]


def test_an_event_without_a_timestamp_is_refused_in_event_time() -> None:
    with (
        pytest.raises(Exception, match="found an event without one"),
        OperatorHarness(by_account) as harness,
    ):
        harness.process_element(Payment("ann", 1))


class Rising(IterativeCondition[Payment]):
    """Accepts amounts that are larger than all before, and counts in the key's state how often it was asked."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked = runtime_context.get_state(ValueStateDescriptor("asked"))

    def filter(self, value: Payment, ctx: IterativeCondition.Context[Payment]) -> bool:
        self.asked.update((self.asked.value() or 0) + 1)
        return all(before.amount < value.amount for before in ctx.get_events_for_pattern("up"))


class Longest(PatternProcessFunction[Payment, Any], TimedOutPartialMatchHandler[Payment]):
    def process_match(self, match: dict[str, list[Payment]], ctx: PatternProcessFunction.Context) -> Iterator[Any]:
        yield [payment.amount for payment in match["up"]], ctx.timestamp(), ctx.current_processing_time()

    def process_timed_out_match(
        self, match: dict[str, list[Payment]], ctx: PatternProcessFunction.Context
    ) -> Iterator[Any]:
        yield OVER, ctx.timestamp()


def test_conditions_see_the_partial_match_and_have_state_of_the_key() -> None:
    def piece(stream: DataStream[Payment]) -> DataStream[Any]:
        skip = AfterMatchSkipStrategy.skip_past_last_event()
        pattern = Pattern[Payment].begin("up", skip).where(Rising()).times(3).consecutive()
        keyed = stream.key_by(lambda payment: payment.account)
        return CEP.pattern(keyed, pattern.within(Duration.of_millis(10))).process(Longest())

    with OperatorHarness(piece, processing_time=77) as harness:
        values = [Payment("ann", amount) for amount in (3, 1, 2, 5, 9)]
        harness.process_elements(values, timestamps=[1, 2, 3, 4, 5])
        harness.process_watermark(5)
        assert harness.output_with_timestamps == [(([1, 2, 5], 4, 77), 4)]
        assert harness.get_state("ann", "asked") > 5
        harness.process_watermark(50)
        assert harness.side_output(OVER) == [15]


class Small(SimpleCondition[Payment]):
    def filter(self, value: Payment) -> bool:
        return value.amount < 10


class Account(PatternSelectFunction[Payment, str]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.prefix = "account "

    def select(self, match: dict[str, list[Payment]]) -> str:
        return self.prefix + match["small"][0].account


class Lost(PatternTimeoutFunction[Payment, str]):
    def timeout(self, match: dict[str, list[Payment]], timeout_timestamp: int) -> str:
        return f"{match['small'][0].account} until {timeout_timestamp}"


def test_function_objects_are_opened_and_called() -> None:
    def piece(stream: DataStream[Payment]) -> DataStream[Any]:
        pattern = Pattern[Payment].begin("small").where(Small()).next("any").within(Duration.of_millis(5))
        found = CEP.pattern(stream.key_by(lambda payment: payment.account), pattern)
        return found.select(Account(), timeout_tag=OVER, timeout_function=Lost())

    with OperatorHarness(piece) as harness:
        harness.process_elements([Payment("ann", 1), Payment("ann", 90), Payment("bob", 3)], timestamps=[1, 2, 3])
        harness.process_watermark(100)
        assert harness.output == ["account ann"]
        assert harness.side_output(OVER) == ["bob until 8"]


@pytest.mark.parametrize("where", ["condition", "function"])
def test_a_failure_card_shows_the_event_and_the_key(where: str) -> None:
    def broken(payment: Payment) -> bool:
        return payment.amount / 0 > 1 if where == "condition" else True

    def piece(stream: DataStream[Payment]) -> DataStream[Any]:
        pattern = Pattern[Payment].begin("small").where(broken)
        return CEP.pattern(stream.key_by(lambda payment: payment.account), pattern).select(lambda match: match["none"])

    harness = OperatorHarness(piece)
    harness.process_elements([Payment("ann", 7)], timestamps=[3])
    with pytest.raises(Exception, match=r"division|none") as failure:
        harness.process_watermark(10)
    (note,) = failure.value.__notes__
    assert "amount=7" in note
    assert "'ann'" in note


def test_a_changed_pattern_does_not_take_over_partial_matches_of_another() -> None:
    def piece(pattern: Pattern[Payment]) -> Any:
        def build(stream: DataStream[Payment]) -> DataStream[Any]:
            found = CEP.pattern(stream.key_by(lambda payment: payment.account), pattern)
            return found.select(lambda match: 1).uid("pattern")

        return build

    with OperatorHarness(piece(small_then_large())) as harness:
        harness.process_element(Payment("ann", 1), 5)
        harness.process_watermark(10)
        snapshot = harness.snapshot()
    changed = small_then_large().next("third")
    harness = OperatorHarness(piece(changed), snapshot=snapshot)
    harness.process_element(Payment("ann", 600), 15)
    with pytest.raises(StateError, match="The pattern has changed"):
        harness.process_watermark(20)


@pytest.mark.parametrize("seed", range(16))
def test_random_patterns_out_of_order_late_and_restored_at_another_parallelism(seed: int) -> None:
    random = Random(seed)
    pattern = timed_pattern_of(random)
    if random.random() < 0.4:
        pattern = skipping(random, pattern)
    watermarks = sorted(random.sample(range(25), 4))
    arrivals = [(time, (key, word)) for key in "xyz" for time, word in stream_of(random, 9)]
    disorder = {arrival: random.randint(0, 4) for arrival in arrivals}
    arrivals.sort(key=lambda arrival: arrival[0] + disorder[arrival])
    streams = {key: sorted((time, word) for time, (owner, word) in arrivals if owner == key) for key in "xyz"}
    for key, events in streams.items():  # those of the same time as they came
        came = [word for _, (owner, word) in arrivals if owner == key]
        events.sort(key=lambda event: (event[0], came.index(event[1])))

    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        keyed = stream.map(Keyed.of).key_by(lambda event: event.key)
        found = CEP.pattern(keyed, pattern).side_output_late_data(LATE)
        return found.select(lambda match: tuple((name, *map(str, words)) for name, words in match.items())).uid("p")

    harness, late, found = OperatorHarness(piece), [], []
    watermark = -1
    for limit in [*watermarks, 10_000]:
        due = [arrival for arrival in arrivals if arrival[0] + disorder[arrival] <= limit]
        arrivals = arrivals[len(due) :]
        late += [value for time, value in due if time <= watermark]
        for time, value in due:
            harness.process_element(value, time)
        watermark = limit - 4 if limit < 10_000 else 1 << 40
        harness.process_watermark(watermark)
        found += harness.output
        assert sorted(harness.side_output(LATE)) == sorted(late[len(late) - len(harness.side_output(LATE)) :])
        snapshot = harness.snapshot()
        last, harness = harness, OperatorHarness(piece, parallelism=random.randint(1, 3), snapshot=snapshot)
    assert state_of(last) == {}
    expected = []
    for key, events in streams.items():
        timely = [(time, word) for time, word in events if (key, word) not in set(late)]
        matches = model.all_matches(pattern, timely)
        paths = model.skipped(pattern, matches) if pattern.skip_strategy.skips else [match.path for match in matches]
        for path in paths:
            match: dict[str, list[str]] = {}
            for name, index in path:
                match.setdefault(name, []).append(timely[index][1])
            expected.append(tuple((name, *words) for name, words in match.items()))
    assert sorted(found) == sorted(expected), str(pattern)


class Keyed(str):
    """A word of a key."""

    key: str

    @staticmethod
    def of(pair: tuple[str, str]) -> Keyed:
        made = Keyed(pair[1])
        made.key = pair[0]
        return made


@pytest.mark.parametrize("event_time", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_batch_finds_the_matches_of_a_stream_and_times_everything_out(event_time: bool, keyed: bool) -> None:
    env = in_process(parallelism=2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    events = [(Payment("ann", 1), 1), (Payment("ann", 600), 2), (Payment("ann", 2), 3), (Payment("ann", 50), 4)]
    stamped = env.from_collection(events).assign_timestamps_and_watermarks(strategy).map(lambda pair: pair[0])
    stream = stamped.key_by(lambda payment: payment.account) if keyed else stamped
    found = CEP.pattern(stream, small_then_large())
    found = found if event_time else found.in_processing_time()
    result = found.select(amounts, timeout_tag=OVER, timeout_function=lambda match, time: amounts(match))
    over = result.get_side_output(OVER).map(lambda found: ("over", found))
    assert sorted(collect(result.map(lambda found: ("found", found)).union(over))) == [
        ("found", ("ann", [1, 600])),
        ("over", ("ann", [2])),
    ]
