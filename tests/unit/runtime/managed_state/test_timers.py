"""Timers: once per key and timestamp, in order, deletable, and saved like any state."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.kinds import timers as timers_module
from flott.runtime.managed_state.kinds.timers import TimerDelta, TimerTable


def due(table: TimerTable, time: int) -> list[tuple[int, Any]]:
    fired = []
    while (timer := table.pop_due(time)) is not None:
        fired.append(timer[:2])
    return fired


def test_a_timer_registered_twice_fires_once():
    table = TimerTable()
    table.register(5, "a")
    table.register(5, "a")
    table.register(5, 1)
    table.register(5, True)  # the same key
    assert table.size() == 2
    assert due(table, 5) == [(5, 1), (5, "a")]
    assert due(table, 5) == []


def test_timers_fire_when_their_time_has_come_and_not_before():
    table = TimerTable()
    table.register(5, "a")
    table.register(6, "a")
    assert table.pop_due(4) is None
    assert due(table, 5) == [(5, "a")]
    assert table.next_timestamp() == 6


def test_a_deleted_timer_does_not_fire_and_may_be_registered_again():
    table = TimerTable()
    table.register(5, "a")
    table.delete(5, "a")
    table.delete(5, "b")
    assert table.next_timestamp() is None
    assert due(table, 9) == []
    table.register(5, "a")
    table.delete(5, "a")
    table.register(5, "a")
    assert table.next_timestamp() == 5
    assert due(table, 9) == [(5, "a")]


def test_namespaces_tell_timers_of_one_key_apart():
    table = TimerTable()
    for namespace in (None, (0, 10), (10, 20)):
        table.register(5, "a", namespace)
    table.delete(5, "a", (0, 10))
    fired = [table.pop_due(5), table.pop_due(5), table.pop_due(5)]
    assert fired == [(5, "a", None), (5, "a", (10, 20)), None]


def test_keys_that_cannot_be_compared_fire_in_the_order_of_their_bytes():
    keys = ["a", 1, None, (1, "x"), Row(1, 2), Row(a=1), b"b", 0.5, datetime.date(2024, 1, 1), frozenset({1})]
    table = TimerTable()
    for key in keys:
        table.register(5, key)
        table.delete(5, key)
        table.register(5, key)  # twice in the queue
    assert due(table, 5) == [(5, key) for key in sorted(keys, key=encode_key)]


@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.integers(0, 5), st.text(max_size=2)))), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_registration(registered, random):
    first, second = TimerTable(), TimerTable()
    for timer in registered:
        first.register(*timer)
    random.shuffle(registered)
    for timer in registered:
        second.register(*timer)
    expected = sorted(set(registered), key=lambda timer: (timer[0], encode_key(timer[1])))
    assert due(first, 5) == due(second, 5) == expected


def test_a_timer_registered_while_timers_fire_takes_its_place_among_them():
    table = TimerTable()
    table.register(1, "a")
    table.register(5, "a")
    fired = []
    while (timer := table.pop_due(5)) is not None:
        fired.append(timer[:2])
        if timer[0] == 1:
            table.register(3, "a")
            table.register(9, "a")
            table.delete(5, "a")
    assert fired == [(1, "a"), (3, "a")]
    assert table.next_timestamp() == 9


def test_a_timer_may_register_itself_again_while_it_fires():
    table = TimerTable()
    table.register(5, "a")
    fired = 0
    while (timer := table.pop_due(5)) is not None:
        fired += 1
        if fired < 3:
            table.register(timer[0], timer[1])
    assert fired == 3
    assert table.drain(lambda key: 0) == {0: TimerDelta([], [(5, "a", None)])}


def test_deleted_timers_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(timers_module, "TIDY_ABOVE", 10)
    table = TimerTable()
    for round_ in range(1000):
        for key in ("a", "b"):
            table.delete(10**9 + round_ - 1, key)
            table.register(10**9 + round_, key)
        table.drain(lambda key: 0)
        assert len(table._heap) <= 2 * 2 + 10
    table.register(1, "z")
    assert due(table, 10**10) == [(1, "z"), (10**9 + 999, "a"), (10**9 + 999, "b")]
