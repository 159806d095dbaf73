"""A key selector that reads a field of declared tuples is replaced by a getter that does the same in C."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest

from flott.common import Types
from flott.datastream._field_functions import field_getter
from flott.testing.harness import in_process

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
POSITION = 1


def second(record: Any) -> Any:
    """The second field."""
    return record[1]


def spare(record: Any, default: int = 0) -> Any:
    return record[0]


@pytest.mark.parametrize(("selector", "position"), [(lambda r: r[0], 0), (second, 1), (lambda r: r[1], 1)])
def test_a_selector_of_one_field_is_recognised(selector: Callable[[Any], Any], position: int) -> None:
    getter = field_getter(selector, PAIR)
    assert getter is not None
    assert getter((10, "ten")) == selector((10, "ten"))
    assert repr(getter) == repr(itemgetter(position))


@pytest.mark.parametrize(
    "selector",
    [
        lambda r: r[2],
        lambda r: r[-3],
        lambda r: r[0] + 1,
        lambda r: r[0][0],
        lambda r: (r[0], r[1]),
        lambda r: r["a"],
        lambda r: r[True],
        lambda r: r[0:1],
        lambda r: r[POSITION],
        lambda r: r,
        lambda r: 1,
        spare,
        len,
        itemgetter(0),
    ],
)
def test_all_others_are_called_as_they_are(selector: Callable[[Any], Any]) -> None:
    assert field_getter(selector, PAIR) is None


@pytest.mark.parametrize("declared", [None, Types.ROW([Types.LONG()]), Types.LIST(Types.LONG())])
def test_records_that_are_not_declared_to_be_tuples_are_left_to_the_selector(declared: Any) -> None:
    assert field_getter(lambda r: r[0], declared) is None


def test_key_by_uses_it_where_the_type_is_declared() -> None:
    env = in_process(2)
    typed = env.from_collection([(1, "a"), (2, "b"), (1, "c")], PAIR)
    keyed = typed.key_by(lambda record: record[0])
    assert keyed._key.getter is not None
    assert env.from_collection([(1, "a")]).key_by(lambda record: record[0])._key.getter is None
    with keyed.reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect() as results:
        assert sorted(results) == [(1, "a"), (1, "ac"), (2, "b")]
