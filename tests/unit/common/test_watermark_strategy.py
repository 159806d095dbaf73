"""Strategies are values; generators follow the newest timestamp."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.time import Duration
from flott.common.watermark_strategy import (
    MIN_WATERMARK,
    BoundedOutOfOrdernessGenerator,
    MonotonousGenerator,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from flott.errors import ProgramError

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))


class Collected(WatermarkOutput):
    def __init__(self) -> None:
        self.watermarks: list[int] = []

    def emit_watermark(self, watermark: Watermark) -> None:
        self.watermarks.append(watermark.timestamp)

    def mark_idle(self) -> None: ...

    def mark_active(self) -> None: ...


class FieldTimestamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def first_field(value: Any, record_timestamp: int) -> int:
    return int(value[0])


def test_strategies_are_frozen_comparable_and_picklable():
    assert WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5000)) == BOUNDED
    assert WatermarkStrategy.for_monotonous_timestamps() != BOUNDED
    full = BOUNDED.with_timestamp_assigner(first_field).with_idleness(Duration.of_minutes(1))
    assert full.timestamp_assigner == BOUNDED.with_timestamp_assigner(first_field).timestamp_assigner
    assert BOUNDED.idle_timeout_ms is None, "the strategy it came from is unchanged"
    copy = pickle.loads(pickle.dumps(BOUNDED.with_idleness(Duration.of_minutes(1))))
    assert copy == BOUNDED.with_idleness(Duration.of_minutes(1))
    with pytest.raises(AttributeError):
        BOUNDED.idle_timeout_ms = 3  # type: ignore[misc]


def test_no_watermarks_means_no_generator():
    assert WatermarkStrategy.no_watermarks().generator_factory is None


@pytest.mark.parametrize("assigner", [FieldTimestamp(), first_field])
def test_an_assigner_is_an_object_or_a_function(assigner: Any):
    stored = BOUNDED.with_timestamp_assigner(assigner).timestamp_assigner
    assert stored is not None
    assert stored.extract_timestamp((7, "x"), MIN_WATERMARK) == 7
    assert pickle.loads(pickle.dumps(stored)).extract_timestamp((8,), 0) == 8


def test_alignment_and_idleness_are_read_in_milliseconds():
    strategy = BOUNDED.with_idleness(Duration.of_seconds(2)).with_watermark_alignment("g", Duration.of_seconds(3))
    assert strategy.idle_timeout_ms == 2000
    assert (strategy.alignment_group, strategy.max_drift_ms, strategy.alignment_interval_ms) == ("g", 3000, 1000)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: BOUNDED.with_idleness(Duration.of_millis(0)),
        lambda: BOUNDED.with_idleness(5),  # type: ignore[arg-type]
        lambda: BOUNDED.with_timestamp_assigner(5),  # type: ignore[arg-type]
        lambda: WatermarkStrategy.for_generator(5),  # type: ignore[arg-type]
        lambda: WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1)),
    ],
)
def test_impossible_strategies_are_refused(wrong: Any):
    with pytest.raises(ProgramError):
        wrong()


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1), st.integers(0, 10_000))
def test_the_watermark_is_the_newest_timestamp_less_the_bound_however_records_arrive(timestamps: list[int], bound: int):
    batch, single = BoundedOutOfOrdernessGenerator(bound), BoundedOutOfOrdernessGenerator(bound)
    output = Collected()
    batch.on_batch(timestamps)
    batch.on_batch([])
    for timestamp in timestamps:
        single.on_event(None, timestamp, output)
    single.on_periodic_emit(output)
    assert batch.current() == single.current() == max(timestamps) - bound - 1
    assert output.watermarks == [single.current()]
    assert vars(batch) == vars(single)


@pytest.mark.parametrize("generator", [MonotonousGenerator(), BoundedOutOfOrdernessGenerator(5000)])
def test_before_the_first_record_the_watermark_is_the_lowest(generator: BoundedOutOfOrdernessGenerator):
    assert generator.current() == MIN_WATERMARK


def test_a_generator_goes_on_from_its_saved_attributes():
    assert BOUNDED.generator_factory is not None
    one, other = BOUNDED.generator_factory(), BOUNDED.generator_factory()
    one.on_event(None, 9000, Collected())
    saved = dict(vars(one))
    assert all(type(value) is int for value in saved.values())
    vars(other).update(saved)
    assert isinstance(other, BoundedOutOfOrdernessGenerator)
    assert other.current() == 3999


def test_a_programs_own_generator_is_made_by_its_class():
    class Punctuated(WatermarkGenerator):
        def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
            if value == "mark":
                output.emit_watermark(Watermark(timestamp))

        def on_periodic_emit(self, output: WatermarkOutput) -> None: ...

    strategy = WatermarkStrategy.for_generator(Punctuated)
    assert strategy.generator_factory is Punctuated
