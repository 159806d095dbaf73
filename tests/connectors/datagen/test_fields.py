"""Generated rows: every value keeps to its field, and depends on the seed, the name and the index only."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import WatermarkStrategy
from flott.common.types import Row
from flott.datastream.connectors._datagen_fields import RowGenerator, mixed
from flott.datastream.connectors.base import Boundedness, Source
from flott.datastream.connectors.datagen import DataGeneratorSource, Fields
from flott.datastream.connectors.discard import BlackholeSink, DiscardSink
from flott.errors import ProgramError
from flott.testing.connectors import SourceConformance
from flott.testing.harness import collect, in_process
from tests.connectors.pages import run_page

NOON = datetime(2024, 2, 29, 12)
INDICES = st.integers(0, 2**40)


def one(field: Any, index: int, seed: int = 0) -> Any:
    return RowGenerator({"f": field}, seed)(index)["f"]


@given(INDICES, st.integers(-(10**12), 10**12), st.integers(0, 10**12), st.integers(0, 2**32))
def test_numbers_stay_in_their_range(index: int, low: int, width: int, seed: int):
    assert low <= one(Fields.integers(low, low + width), index, seed) <= low + width
    assert low <= one(Fields.floats(low, low + width), index, seed) <= low + width


@given(INDICES, st.integers(0, 50), st.integers(0, 20), st.text(min_size=1, max_size=9))
def test_strings_have_their_length_and_alphabet(index: int, length: int, more: int, alphabet: str):
    found = one(Fields.strings(length, length + more, alphabet), index)
    assert length <= len(found) <= length + more
    assert set(found) <= set(alphabet)


@given(INDICES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_times_advance_and_are_late_by_at_most_what_was_said(index: int, step: int, past: int):
    index %= 10**6
    found = one(Fields.timestamps(NOON, timedelta(microseconds=step), timedelta(microseconds=past)), index)
    due = NOON + index * timedelta(microseconds=step)
    assert due - timedelta(microseconds=past) <= found <= due


@given(INDICES, st.integers(0, 2**32))
def test_a_row_depends_on_nothing_but_seed_names_and_index(index: int, seed: int):
    fields = {"a": Fields.integers(0, 10**9), "b": Fields.strings(9), "c": Fields.booleans().with_nulls(0.5)}
    row = RowGenerator(fields, seed)(index)
    again = pickle.loads(pickle.dumps(RowGenerator(dict(reversed(fields.items())), seed)))
    assert row == again(index)
    assert isinstance(row, Row)


def test_shares_weights_and_nulls_are_kept():
    rows = RowGenerator(
        {
            "yes": Fields.booleans(0.9),
            "kind": Fields.choices(["rare", "usual", "never"], weights=[1, 9, 0]),
            "gap": Fields.integers(1, 6).with_nulls(0.25),
        },
        seed=3,
    )
    found = [rows(index) for index in range(20_000)]
    kinds = Counter(row["kind"] for row in found)
    assert 0.88 < sum(row["yes"] for row in found) / 20_000 < 0.92
    assert 0.08 < kinds["rare"] / 20_000 < 0.12
    assert kinds["never"] == 0
    assert 0.23 < sum(row["gap"] is None for row in found) / 20_000 < 0.27
    dice = Counter(row["gap"] for row in found if row["gap"] is not None)
    assert set(dice) == set(range(1, 7))
    assert max(dice.values()) < 1.2 * min(dice.values())


def test_the_mixing_has_no_collisions_nearby():
    assert len({mixed(number) for number in range(100_000)}) == 100_000


def test_a_sequence_bounds_the_source_and_types_are_declared():
    source = DataGeneratorSource.rows({"id": Fields.sequence(10, 1, step=-3), "x": Fields.floats(0, 1)}, count=100)
    assert (source.count, source.boundedness) == (4, Boundedness.BOUNDED)
    env = in_process(2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", source.type_info)
    assert sorted(row["id"] for row in collect(stream)) == [1, 4, 7, 10]
    endless = DataGeneratorSource.rows({"id": Fields.sequence(0)}, records_per_second=5)
    assert (endless.count, endless.boundedness) == (None, Boundedness.CONTINUOUS_UNBOUNDED)
    assert DataGeneratorSource(str).type_info is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Fields.integers(2, 1),
        lambda: Fields.sequence(1, 5, step=-1),
        lambda: Fields.sequence(1, step=0),
        lambda: Fields.strings(3, alphabet=""),
        lambda: Fields.choices([]),
        lambda: Fields.choices([1, 2], weights=[1]),
        lambda: Fields.booleans().with_nulls(2),
        lambda: DataGeneratorSource.rows({}),
        lambda: DataGeneratorSource.rows({"a": 3}),  # type: ignore[dict-item]
    ],
)
def test_fields_that_make_no_sense_are_refused(wrong: Any):
    with pytest.raises(ProgramError):
        wrong()


class TestGeneratedRowsConformance(SourceConformance):
    ordered = True

    def source(self, count: int) -> Source[Any]:
        return DataGeneratorSource.rows({"id": Fields.sequence(0, count - 1), "text": Fields.strings(3)})

    def number(self, record: Any) -> int:
        return int(record["id"])


def test_blackhole_is_flinks_name_of_the_discarding_sink():
    assert BlackholeSink is DiscardSink
    assert DiscardSink().guarantee is None


def test_the_program_of_the_page_runs(capfd: pytest.CaptureFixture[str]):
    run_page("datagen.md", {})
    assert len(capfd.readouterr().out.splitlines()) == 5
