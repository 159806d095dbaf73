"""Rows behave as PyFlink's."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row, RowKind


def test_named_and_positional_fields_are_found():
    row = Row(name="Alice", age=11)
    assert (row.name, row["age"], row[0], row[0:2]) == ("Alice", 11, "Alice", ["Alice", 11])
    assert "name" in row
    assert "Alice" not in row
    assert "Alice" in Row("Alice", 11)
    assert len(row) == 2
    assert list(row) == ["Alice", 11]


def test_a_row_of_names_makes_rows():
    person = Row("name", "age")
    assert person("Alice", 11) == Row(name="Alice", age=11)
    assert person("Alice").as_dict() == {"name": "Alice"}
    with pytest.raises(ValueError, match="3 values"):
        person("Alice", 11, 12)


def test_a_row_without_names_answers_to_flinks_default_names():
    row = Row("Alice", 11)
    assert (row.f0, row["f1"]) == ("Alice", 11)
    with pytest.raises(AttributeError):
        _ = row.f2


def test_unknown_fields_are_errors():
    row = Row(name="Alice")
    with pytest.raises(AttributeError):
        _ = row.age
    with pytest.raises(KeyError):
        row["age"]
    with pytest.raises(KeyError):
        row["age"] = 1
    with pytest.raises(AttributeError):
        row.name = "Bob"
    with pytest.raises(ValueError, match="both"):
        Row(1, a=2)


def test_fields_can_be_set_by_name_and_position():
    row = Row(name="Alice", age=11)
    row["age"] = 12
    row[0] = "Bob"
    assert row == Row(name="Bob", age=12)


def test_a_row_becomes_a_dict_through_lists_and_dicts():
    row = Row(key=1, value=Row(a=2), many=[Row(b=3)], by={"x": Row(c=4)})
    assert row.as_dict()["value"] == Row(a=2)
    assert row.as_dict(True) == {"key": 1, "value": {"a": 2}, "many": [{"b": 3}], "by": {"x": {"c": 4}}}
    with pytest.raises(TypeError):
        Row(1, 2).as_dict()


def test_values_are_given_by_names():
    row = Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["x", "y"]) == [1, 2]
    with pytest.raises(KeyError):
        row.get_fields_by_names(["c"])


def test_equal_rows_hash_alike_whatever_the_order_of_their_names():
    one, other = Row(a=1, b="x"), Row(b="x", a=1)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Row(1, "x")
    assert one != Row(a=1, b="y")
    assert Row(1) != (1,)


def test_the_kind_counts_in_equality_and_prints_short():
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_rows_print_as_in_pyflink():
    assert repr(Row(name="Alice", age=11)) == "Row(name='Alice', age=11)"
    assert repr(Row("Alice", 11)) == "<Row('Alice', 11)>"


@given(st.lists(st.integers() | st.text(), max_size=4), st.booleans(), st.sampled_from(RowKind), st.integers(0, 5))
def test_rows_survive_pickling_and_copying(values: list[object], named: bool, kind: RowKind, protocol: int):
    row = Row.of_kind(kind, *values)
    if named:
        row.set_field_names([f"n{position}" for position in range(len(values))])
    for twin in (pickle.loads(pickle.dumps(row, protocol)), copy.copy(row), copy.deepcopy(row)):
        assert twin == row
        assert repr(twin) == repr(row)
        assert twin.get_row_kind() is kind


def test_pickled_rows_of_one_type_share_their_names():
    person = Row("name", "age")
    fields = person("a", 1)._fields
    rows = [person(str(number), number) for number in range(100)]
    for row in rows:
        row._fields = fields
    assert len(pickle.dumps(rows, 5)) < 100 * 40
