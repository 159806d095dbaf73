"""Number sequences, collections and generated data: every record exactly once, in the order of its split."""

from __future__ import annotations

import pickle
from random import Random

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.datastream.connectors.base import Boundedness, SliceRequest
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.errors import ProgramError, StateError
from flott.testing.connectors.source_run import enumerator_of, run_source, through_json

seeds = st.integers(0, 2**32)


@settings(max_examples=100)
@given(start=st.integers(-50, 50), length=st.integers(1, 400), seed=seeds)
def test_a_number_sequence_gives_every_number_once_and_each_split_in_order(start: int, length: int, seed: int) -> None:
    run = run_source(NumberSequenceSource(start, start + length - 1), Random(seed))
    assert sorted(run.records) == list(range(start, start + length))
    for numbers in run.by_split.values():
        assert numbers == sorted(numbers)


def test_a_number_sequence_is_cut_evenly_among_the_subtasks() -> None:
    plan = enumerator_of(NumberSequenceSource(1, 12), None).plan(SliceRequest(1000, 3, 0))
    assert [(part.start, part.stop) for part in plan.slices] == [(1, 5), (5, 9), (9, 13)]
    assert plan.finished
    assert not plan.backlog


def test_a_number_sequence_is_cut_again_when_there_are_more_subtasks() -> None:
    source = NumberSequenceSource(0, 99)
    enumerator = enumerator_of(source, None)
    plan = enumerator.plan(SliceRequest(20, 2, 0))
    enumerator.advance(plan, {part.split: part.stop for part in plan.slices})
    wider = enumerator_of(source, through_json(enumerator.snapshot())).plan(SliceRequest(1000, 4, 0))
    assert [(part.split, part.start, part.stop) for part in wider.slices] == [
        ("0", 10, 30), ("30", 30, 50), ("50", 60, 80), ("80", 80, 100),
    ]  # fmt: skip


def test_a_budget_is_kept_and_shared() -> None:
    plan = enumerator_of(NumberSequenceSource(0, 999), None).plan(SliceRequest(30, 3, 0))
    assert [part.records for part in plan.slices] == [10, 10, 10]
    assert plan.backlog


def test_a_number_sequence_does_not_go_backwards() -> None:
    with pytest.raises(ProgramError, match="backwards"):
        NumberSequenceSource(5, 4)


@settings(max_examples=50)
@given(size=st.integers(0, 300), limit=st.none() | st.integers(1, 20), seed=seeds)
def test_a_collection_gives_its_elements_in_order(size: int, limit: int | None, seed: int) -> None:
    run = run_source(CollectionSource(tuple(range(size)), limit), Random(seed))
    assert run.records == list(range(size))
    if limit is not None:
        assert all(part.records <= limit for plan in run.plans for part in plan.slices)


def test_a_collection_that_became_shorter_is_refused() -> None:
    with pytest.raises(StateError, match="2 elements"):
        enumerator_of(CollectionSource((1,)), {"version": 1, "next": 2})


@settings(max_examples=100)
@given(count=st.integers(0, 400), rate=st.none() | st.sampled_from([0.5, 20.0, 1000.0, 1e6]), seed=seeds)
def test_generated_records_come_once_each_and_each_split_in_order(count: int, rate: float | None, seed: int) -> None:
    count = min(count, 5) if rate == 0.5 else count
    run = run_source(DataGeneratorSource(lambda index: index * 7, count, rate), Random(seed))
    assert sorted(run.records) == [index * 7 for index in range(count)]
    for values in run.by_split.values():
        assert values == sorted(values)


def test_a_rate_is_kept_from_the_first_plan_on_whatever_the_epochs_do() -> None:
    source = DataGeneratorSource(str, None, 100)
    enumerator = enumerator_of(source, None)
    seen = []
    for now_ms in (5000, 5005, 5100, 5105, 7000):
        plan = enumerator.plan(SliceRequest(10_000, 2, now_ms))
        enumerator.advance(plan, {part.split: part.stop for part in plan.slices})
        enumerator = enumerator_of(source, through_json(enumerator.snapshot()))
        seen.append((sum(part.records or 0 for part in plan.slices), plan.wake_at_ms, plan.backlog))
    assert seen == [
        (1, 5050, False), (0, 5055, False), (10, 5150, False), (0, 5155, False), (190, 7050, False),
    ]  # fmt: skip


def test_what_is_due_beyond_the_budget_is_backlog() -> None:
    enumerator = enumerator_of(DataGeneratorSource(str, None, 100), {"version": 1, "origin_ms": 0, "positions": [0]})
    plan = enumerator.plan(SliceRequest(50, 1, 10_000))
    assert [part.records for part in plan.slices] == [50]
    assert plan.backlog


def test_a_slow_rate_wakes_the_job_when_the_next_record_is_due() -> None:
    enumerator = enumerator_of(DataGeneratorSource(str, None, 0.1), None)
    plan = enumerator.plan(SliceRequest(50, 4, 1000))
    assert [(part.split, part.records) for part in plan.slices] == [("0", 1)]
    assert plan.wake_at_ms == 11_000


def test_an_endless_generator_never_finishes() -> None:
    source = DataGeneratorSource(lambda index: index)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    run = run_source(source, Random(1), until=lambda run: run.epochs == 200)
    assert sorted(run.records)[:500] == list(range(500))


def test_records_are_located_by_their_index() -> None:
    source = DataGeneratorSource(lambda index: index)
    plan = enumerator_of(source, None).plan(SliceRequest(50, 4, 0))
    assert source.create_reader().locate(plan.slices[1], 2) == "generated record 9"
    collection = CollectionSource(("a", "b"))
    assert "element 1" in collection.create_reader().locate(
        enumerator_of(collection, None).plan(SliceRequest(50, 4, 0)).slices[0], 1
    )


@pytest.mark.parametrize("wrong", [{"count": -1}, {"records_per_second": 0}])
def test_impossible_generators_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ProgramError):
        DataGeneratorSource(str, **wrong)


def test_sources_travel() -> None:
    for source in (NumberSequenceSource(1, 2), CollectionSource((1, 2)), DataGeneratorSource(str, 3)):
        assert pickle.loads(cloudpickle.dumps(source)) == source
