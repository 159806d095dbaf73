"""The interval join against every pair there is: bounds, lateness, restored state, and how much of it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Duration, Time, Types, WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.datastream import DataStream, OutputTag, ProcessFunction, ProcessJoinFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.errors import ProgramError
from flott.runtime.operators.batch import MAX_BATCH_RECORDS
from flott.testing import (
    Abort,
    Crash,
    EndOfEpoch,
    Ledger,
    LedgerSink,
    ScriptedSource,
    TwoInputHarness,
    in_process,
    live,
)

LATE_LEFT, LATE_RIGHT = OutputTag("late-left"), OutputTag("late-right")

#: (key, timestamp, number): what the streams carry.
Record = tuple[str, int, int]


class Pairs(ProcessJoinFunction[Record, Record, Any]):
    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        assert (ctx.get_left_timestamp(), ctx.get_right_timestamp()) == (left[1], right[1])
        assert ctx.get_timestamp() == max(left[1], right[1])
        yield left, right


class Stamped(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield *value, ctx.timestamp()


def key(record: Record) -> str:
    return record[0]


def joined(left: DataStream[Any], right: DataStream[Any], lower: int, upper: int, function: Any = None) -> Any:
    bounds = Time.milliseconds(lower), Time.milliseconds(upper)
    return left.key_by(key).interval_join(right.key_by(key)).between(*bounds).process(function or Pairs()).uid("join")


def harness(lower: int, upper: int, function: Any = None, **how: Any) -> TwoInputHarness:
    return TwoInputHarness(lambda left, right: joined(left, right, lower, upper, function), **how)


def at(*timestamps: int, key: str = "k") -> list[Record]:
    """Records of one key, numbered."""
    return [(key, timestamp, number) for number, timestamp in enumerate(timestamps)]


def feed(target: TwoInputHarness, side: int, records: list[Record]) -> None:
    take = target.process_elements1 if side == 1 else target.process_elements2
    take(records, timestamps=[record[1] for record in records])


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_first", [True, False])
@pytest.mark.parametrize(
    ("lower", "upper", "partners"),
    [
        (-2, 1, [8, 9, 10, 11]),
        (0, 0, [10]),
        (0, 3, [10, 11, 12, 13]),
        (-3, 0, [7, 8, 9, 10]),
        (2, 4, [12, 13, 14]),
        (-4, -2, [6, 7, 8]),
        (3, 3, [13]),
        (-100, -50, []),
    ],
)
def test_both_bounds_count(lower: int, upper: int, partners: list[int], left_first: bool) -> None:
    with harness(lower, upper) as target:
        todo = [(1, at(10)), (2, at(*range(5, 16)))]
        for side, records in todo if left_first else reversed(todo):
            feed(target, side, records)
        assert [(right[1], stamp) for (_, right), stamp in target.output_with_timestamps] == [
            (time, max(10, time)) for time in partners
        ]


@pytest.mark.parametrize(
    ("lower_exclusive", "upper_exclusive", "partners"),
    [(False, False, [8, 9, 10]), (True, False, [9, 10]), (False, True, [8, 9]), (True, True, [9])],
)
def test_exclusive_bounds_do_not_count(lower_exclusive: bool, upper_exclusive: bool, partners: list[int]) -> None:
    def piece(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        join = left.key_by(key).interval_join(right.key_by(key)).between(Duration.of_millis(-2), Duration.of_millis(0))
        join = join.lower_bound_exclusive() if lower_exclusive else join
        join = join.upper_bound_exclusive() if upper_exclusive else join
        return join.process(Pairs(), Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()]))

    with TwoInputHarness(piece) as target:
        feed(target, 1, at(10))
        feed(target, 2, at(*range(5, 16)))
        assert [right[1] for _, right in target.output] == partners


def test_other_keys_are_no_partners_and_equal_times_join_in_the_order_they_came() -> None:
    with harness(-5, 5) as target:
        feed(target, 1, [("a", 10, 1), ("b", 10, 2), ("a", 10, 3)])
        feed(target, 2, [("a", 10, 4), ("c", 10, 5), ("a", 9, 6)])
        assert [(left[2], right[2]) for left, right in target.output] == [(1, 4), (3, 4), (1, 6), (3, 6)]


def test_pairs_of_one_arrival_come_in_the_order_of_time() -> None:
    with harness(-50, 50) as target:
        feed(target, 2, at(30, 10, 20, 10, 40))
        feed(target, 1, at(25))
        assert [right[1:] for _, right in target.output] == [(10, 1), (10, 3), (20, 2), (30, 0), (40, 4)]


# --- against all pairs there are --------------------------------------------------------------------------------------

OUT_OF_ORDERNESS = 4

epochs_of_records = st.lists(
    st.tuples(
        *[st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=6) for _ in range(2)]
    ),
    min_size=1,
    max_size=6,
)


def numbered(epochs: list[Any]) -> list[tuple[list[Record], list[Record]]]:
    """Timestamps that rise from epoch to epoch, with records out of order and late ones among them."""
    made, number = [], 0
    for index, sides in enumerate(epochs):
        made.append(([], []))
        for records, side in zip(made[-1], sides, strict=True):
            for name, offset in side:
                records.append((name, index * 5 + offset, number := number + 1))
    return made


class Expected:
    """All pairs and late records, found without any care for cost."""

    def __init__(self, epochs: list[tuple[list[Record], list[Record]]], lower: int, upper: int):
        self.late: tuple[list[Record], list[Record]] = ([], [])
        accepted: tuple[list[Record], list[Record]] = ([], [])
        watermark, highest = MIN_WATERMARK, [MIN_WATERMARK, MIN_WATERMARK]
        for index, epoch in enumerate(epochs):
            for side, records in enumerate(epoch):
                for record in records:
                    (self.late if record[1] < watermark else accepted)[side].append(record)
                    highest[side] = max(highest[side], record[1])
            ended = index == len(epochs) - 1
            watermark = MAX_WATERMARK if ended else min(highest) - OUT_OF_ORDERNESS - 1
        self.pairs = [
            (left, right, max(left[1], right[1]))
            for left, right in product(*accepted)
            if left[0] == right[0] and lower <= right[1] - left[1] <= upper
        ]


def run(
    epochs: list[tuple[list[Record], list[Record]]], lower: int, upper: int, folder: Path, random: Random | None = None
) -> tuple[dict[str, list[Any]], Any]:
    """Run the job in memory; with a random generator, it crashes now and then and goes on with other parallelisms."""
    ledgers = {name: Ledger(uuid4().hex) for name in ("pairs", "left", "right")}
    sources = [
        ScriptedSource([entry for epoch in epochs for entry in (*epoch[side], EndOfEpoch())][:-1]) for side in (0, 1)
    ]
    while True:
        env = in_process(random.randint(1, 3) if random else 2)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(OUT_OF_ORDERNESS))
        strategy = strategy.with_timestamp_assigner(lambda record, _: record[1])
        left, right = (env.from_source(source, strategy, f"s{n}").uid(f"s{n}") for n, source in enumerate(sources))
        bounds = Time.milliseconds(lower), Time.milliseconds(upper)
        join = left.key_by(key).interval_join(right.key_by(key)).between(*bounds)
        join = join.side_output_left_late_data(LATE_LEFT).side_output_right_late_data(LATE_RIGHT)
        result = join.process(Pairs()).uid("join")
        result.process(Stamped()).uid("stamped").sink_to(LedgerSink(ledgers["pairs"])).uid("pairs")
        result.get_side_output(LATE_LEFT).sink_to(LedgerSink(ledgers["left"])).uid("left")
        result.get_side_output(LATE_RIGHT).sink_to(LedgerSink(ledgers["right"])).uid("right")
        left_steps = random.randint(1, 12) if random and random.random() < 0.8 else 0

        def die(step: str, epoch: int) -> None:
            nonlocal left_steps
            left_steps -= 1
            if left_steps == 0:
                raise Crash

        incarnation = live(env, folder, on_step=die)
        if not incarnation.crashed:
            assert incarnation.failure is None, incarnation.failure
            return {name: ledger.records for name, ledger in ledgers.items()}, incarnation


def test_an_epoch_that_fails_and_is_run_again_joins_nothing_twice(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    ones = [("a", 1, 1), ("b", 2, 2), EndOfEpoch(), ("a", 3, 3), Abort(2), ("b", 9, 4), EndOfEpoch(), ("a", 12, 5)]
    twos = [("a", 2, 6), EndOfEpoch(), ("b", 4, 7), ("a", 9, 8), Abort(), EndOfEpoch(), ("a", 10, 9), ("b", 10, 10)]
    env = in_process(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__attempts="9")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    left, right = (env.from_source(ScriptedSource(script), strategy, "s") for script in (ones, twos))
    joined(left, right, -3, 6).map(lambda pair: (pair[0][2], pair[1][2])).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path)
    assert incarnation.failure is None
    assert len(incarnation.history.restarts) == 3
    assert sorted(ledger.records) == [(1, 6), (2, 7), (3, 6), (3, 8), (4, 10), (5, 8), (5, 9)]


bounds_of_joins = st.tuples(st.integers(-8, 8), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@settings(max_examples=40)
@given(epochs=epochs_of_records, bounds=bounds_of_joins, crashes=st.booleans(), seed=st.integers(0, 2**32))
def test_every_pair_is_joined_once_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[Any], bounds: tuple[int, int], crashes: bool, seed: int
) -> None:
    made = numbered(epochs)
    expected = Expected(made, *bounds)
    random = Random(seed) if crashes else None
    found, incarnation = run(made, *bounds, tmp_path_factory.mktemp("job"), random)
    assert sorted(found["pairs"]) == sorted(expected.pairs)
    assert (sorted(found["left"]), sorted(found["right"])) == tuple(map(sorted, expected.late))
    if not crashes:
        (entry,) = [entry for entry in incarnation.master.ledger.values() if entry.operator == "Interval Join"]
        assert (entry.records_in, entry.late, entry.dropped) == (
            sum(len(side) for epoch in made for side in epoch),
            sum(map(len, expected.late)),
            0,
        )
        assert incarnation.history.epochs[-1].state_entries == 0


@settings(max_examples=150)
@given(st.data(), bounds_of_joins)
def test_records_of_both_sides_in_any_order_with_any_watermarks_and_restores(
    data: st.DataObject, bounds: tuple[int, int]
) -> None:
    """Like the job above, but every interleaving: batches of either side, watermarks and restores as they come."""
    lower, upper = bounds
    late = {1: LATE_LEFT, 2: LATE_RIGHT}
    accepted: dict[int, list[Record]] = {1: [], 2: []}
    refused: dict[int, list[Record]] = {1: [], 2: []}
    found: list[Any] = []
    found_late: dict[int, list[Any]] = {1: [], 2: []}
    watermark, time, number = MIN_WATERMARK, 0, 0

    def piece(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        limits = Time.milliseconds(lower), Time.milliseconds(upper)
        join = left.key_by(key).interval_join(right.key_by(key)).between(*limits)
        return join.side_output_left_late_data(LATE_LEFT).side_output_right_late_data(LATE_RIGHT).process(Pairs())

    def collect() -> None:
        found.extend(target.output)
        for side, tag in late.items():
            found_late[side].extend(target.side_output(tag))

    target = TwoInputHarness(piece, parallelism=2)
    for _ in range(data.draw(st.integers(1, 14))):
        match data.draw(st.sampled_from(["1", "2", "1", "2", "watermark", "restore"])):
            case "watermark":
                watermark = max(watermark, time + data.draw(st.integers(-9, 3)))
                time = max(time, watermark)
                target.process_watermark(watermark)
            case "restore":
                taken = target.snapshot()
                collect()
                target.close()
                target = TwoInputHarness(piece, parallelism=data.draw(st.integers(1, 3)), snapshot=taken)
            case side:
                records = []
                for name, offset in data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6)))):
                    number += 1
                    records.append((name, time + offset, number))
                time += data.draw(st.integers(0, 4))
                feed(target, int(side), records)
                for record in records:
                    (refused if record[1] < watermark else accepted)[int(side)].append(record)
    collect()
    expected = [
        (left, right)
        for left, right in product(accepted[1], accepted[2])
        if left[0] == right[0] and lower <= right[1] - left[1] <= upper
    ]
    assert sorted(found) == sorted(expected)
    for side in late:
        assert sorted(found_late[side]) == sorted(refused[side])
    target.end_input()
    assert target.num_keyed_state_entries == 0
    target.close()


# --- lateness ---------------------------------------------------------------------------------------------------------


def test_a_record_before_the_watermark_is_late_and_one_at_the_watermark_is_not() -> None:
    with harness(-10, 10) as target:
        target.process_watermark(100)
        feed(target, 1, at(99, 100))
        feed(target, 2, at(98, 101, 99))
        assert [(left[1], right[1]) for left, right in target.output] == [(100, 101)]
        late = target.late_records
        assert (late.late, late.dropped) == (0, 3)
        assert [(sample.record, sample.timestamp, sample.watermark) for sample in late.samples] == [
            ("('k', 99, 0)", 99, 100), ("('k', 98, 0)", 98, 100), ("('k', 99, 2)", 99, 100),
        ]  # fmt: skip


def test_a_record_at_the_watermark_still_finds_the_partner_at_the_far_end_of_its_interval() -> None:
    with harness(-10, 20) as target:
        feed(target, 1, at(100))
        feed(target, 2, at(100))
        target.clear_output()
        target.process_watermark(110)
        feed(target, 1, at(110))
        target.process_watermark(120)
        feed(target, 2, at(120))
        assert [(left[1], right[1]) for left, right in target.output] == [(110, 100), (100, 120), (110, 120)]


def test_only_the_side_with_a_tag_has_a_side_output() -> None:
    def piece(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        join = left.key_by(key).interval_join(right.key_by(key)).between(Time.seconds(-1), Time.seconds(1))
        return join.side_output_right_late_data(LATE_RIGHT).process(Pairs())

    with TwoInputHarness(piece) as target:
        target.process_watermark(100)
        feed(target, 1, at(1))
        feed(target, 2, at(2, 150))
        assert target.side_output_with_timestamps(LATE_RIGHT) == [(("k", 2, 0), 2)]
        assert (target.late_records.late, target.late_records.dropped) == (1, 1)
        assert target.output == []


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "side", "kept_until"),
    [
        (-10, 20, 1, 120), (-10, 20, 2, 110),
        (5, 20, 1, 120), (5, 20, 2, 100),  # a right record is no partner of later left ones
        (-20, -5, 1, 100), (-20, -5, 2, 120),
        (0, 0, 1, 100), (0, 0, 2, 100),
    ],
)  # fmt: skip
def test_a_record_waits_as_long_as_a_partner_can_come(lower: int, upper: int, side: int, kept_until: int) -> None:
    with harness(lower, upper) as target:
        feed(target, side, at(100))
        target.process_watermark(kept_until)
        assert target.num_keyed_state_entries == 1
        target.process_watermark(kept_until + 1)
        assert target.num_keyed_state_entries == 0


def test_state_is_bounded_while_time_goes_on() -> None:
    random, sizes = Random(7), []
    with harness(-10, 10, parallelism=2) as target:
        for epoch in range(300):
            for side in (1, 2):
                records = [(f"key{random.randrange(1000)}", epoch * 10 + random.randrange(10), n) for n in range(20)]
                feed(target, side, records)
            target.process_watermark(epoch * 10)
            assert target.num_keyed_state_entries <= 2 * 20 * 3
            sizes.append(sum(map(len, target._piece.storage.files.values())))
        assert max(sizes[100:]) < 1.5 * max(sizes[:100])
        target.end_input()
        assert target.num_keyed_state_entries == 0


class Counting(ProcessJoinFunction[Record, Record, Any]):
    """Counts the pairs of each key in keyed state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return [(left[0], self.count.value())]


def test_a_join_function_may_have_state_of_the_key() -> None:
    with harness(0, 9, Counting()) as target:
        feed(target, 1, [("a", 1, 0), ("b", 1, 0), ("a", 2, 0)])
        feed(target, 2, [("b", 3, 0), ("a", 3, 0), ("b", 4, 0)])
        assert target.output == [("b", 1), ("a", 1), ("a", 2), ("b", 2)]


# --- results ----------------------------------------------------------------------------------------------------------

TAG = OutputTag("tagged")


class Choosy(ProcessJoinFunction[Record, Record, Any]):
    """Nothing, one record, several, or one for a side output."""

    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Any:
        return {0: None, 1: ["one"], 2: ["one", "two"], 3: [(TAG, "side")]}[right[2]]


def test_a_join_function_returns_any_number_of_records_for_either_output() -> None:
    with harness(0, 9, Choosy()) as target:
        feed(target, 2, at(10, 11, 12, 13))
        feed(target, 1, at(9))
        assert target.output_with_timestamps == [("one", 11), ("one", 12), ("two", 12)]
        assert target.side_output_with_timestamps(TAG) == [("side", 13)]


def test_many_pairs_leave_in_portions() -> None:
    sizes: list[int] = []

    def piece(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        return joined(left, right, -5, 5)  # type: ignore[no-any-return]

    target = TwoInputHarness(piece, serialize=False)
    (operator,) = [op for described, op in target._piece.operators() if described.node.name == "Interval Join"]
    emit = operator.emit
    operator.emit = lambda batch: (sizes.append(len(batch)), emit(batch))[1]  # type: ignore
    feed(target, 1, at(*[10] * 3000))
    feed(target, 2, at(*[10] * 5))
    assert len(target.output) == 15_000
    assert max(sizes) <= MAX_BATCH_RECORDS
    target.close()


# --- failures ---------------------------------------------------------------------------------------------------------


class Failing(ProcessJoinFunction[Record, Record, Any]):
    def process_element(self, left: Record, right: Record, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield 1 // right[2]


@pytest.mark.parametrize("left_first", [True, False])
def test_a_failing_function_is_shown_with_both_records(left_first: bool) -> None:
    target = harness(0, 9, Failing())
    sides = [(1, at(5)), (2, [("k", 7, 1), ("k", 8, 0)])]
    first, second = sides if left_first else reversed(sides)
    feed(target, *first)
    with pytest.raises(ZeroDivisionError) as failure:
        feed(target, *second)
    (card,) = failure.value.__notes__
    assert "Interval Join" in card
    assert "joining two records" in card
    assert "(('k', 5, 0), ('k', 8, 0))" in card
    assert "'k'" in card


def test_a_failing_key_selector_is_shown_with_its_record() -> None:
    target = harness(0, 9)
    with pytest.raises(TypeError) as failure:
        target.process_elements1([None], timestamps=[1])
    assert "None" in failure.value.__notes__[0]


@pytest.mark.parametrize("timestamps", [None, [3, MIN_WATERMARK]])
def test_records_without_timestamps_are_refused(timestamps: list[int] | None) -> None:
    target = harness(0, 9)
    with pytest.raises(ProgramError, match=r"found a record without one. Call assign_timestamps_and_watermarks\(\)"):
        target.process_elements2(at(3, 4), timestamps=timestamps)
