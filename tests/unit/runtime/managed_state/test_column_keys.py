"""Key groups of columns are those of their values, for every type of key."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.managed_state.key_groups import key_group_of, subtask_of

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from flott.runtime.managed_state.column_keys import ColumnKey, cut, key_groups, row_keys, targets_of  # noqa: E402

MAX_PARALLELISM = 128

COLUMNS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "boolean": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.one_of(st.floats(allow_nan=False), st.integers(-(2**70), 2**70).map(float))),
    "float": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "string": (pa.string(), st.text()),
    "bytes": (pa.binary(), st.binary()),
    "decimal": (pa.decimal128(20, 3), st.decimals(-(10**15), 10**15, places=3)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time32("ms"), st.integers(0, 86_399_999)),
    "timestamp": (pa.timestamp("ms"), st.integers(-(10**12), 10**13)),
    "instant": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**16)),
    "interval": (pa.duration("ms"), st.integers(-(10**12), 10**12)),
    "array": (pa.list_(pa.int64()), st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3)),
    "row": (pa.struct([("a", pa.int64()), ("b", pa.string())]), st.fixed_dictionaries({"a": st.integers(0, 5)})),
}


@st.composite
def columns(draw: st.DrawFn) -> list[Any]:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3))
    length = draw(st.integers(0, 12))
    found = []
    for name in names:
        arrow_type, values = COLUMNS[name]
        held = draw(st.lists(st.one_of(values, st.none()), min_size=length + 2, max_size=length + 2))
        found.append(pa.array(held, arrow_type).slice(2))  # a slice has an offset
    return found


@given(columns())
def test_the_groups_of_columns_are_those_of_their_rows(found: list[Any]) -> None:
    keys = row_keys(found, len(found[0]))
    expected = [key_group_of(key, MAX_PARALLELISM) for key in keys]
    assert key_groups(found, MAX_PARALLELISM).tolist() == expected
    targets = targets_of(found, MAX_PARALLELISM, 3, len(keys))
    assert targets.tolist() == [subtask_of(group, MAX_PARALLELISM, 3) for group in expected]
    positions = cut(targets, 3)
    assert sorted(np.concatenate(positions).tolist()) == list(range(len(keys)))
    assert all((targets[held] == target).all() for target, held in enumerate(positions))


def test_the_groups_of_columns_stay_the_same() -> None:
    """State on disk is cut by these numbers, as in test_key_groups."""
    assert key_groups([pa.array(["alice", "", "Zürich 🚲"])], 128).tolist() == [5, 67, 19]
    assert key_groups([pa.array([0, 1, -1, 1_000_000_007])], 128).tolist() == [73, 23, 1, 64]
    assert key_groups([pa.array(["alice"]), pa.array([7])], 128).tolist() == [106]
    assert key_groups([pa.array([Decimal("0.1")])], 128).tolist() == [83]
    assert key_groups([pa.array([datetime.date(2024, 5, 1)])], 128).tolist() == [123]
    assert key_groups([pa.nulls(1)], 128).tolist() == [95]


def test_without_columns_all_rows_have_one_group() -> None:
    assert key_groups([], 128, 3).tolist() == [key_group_of((), 128)] * 3
    assert ColumnKey(())(("a", "b")) == ()


def test_a_nan_has_the_group_of_a_null() -> None:
    assert key_groups([pa.array([float("nan"), None])], 128).tolist() == [95, 95]


def test_a_dictionary_has_the_groups_of_its_values() -> None:
    values = pa.array(["a", "b", None, "a"])
    assert key_groups([values.dictionary_encode()], 128).tolist() == key_groups([values], 128).tolist()
