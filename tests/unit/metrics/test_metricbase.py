"""Metrics count in memory and flatten into one dict of numbers."""

from __future__ import annotations

from enum import IntEnum

import pytest

from flott.metrics import MetricGroup


def test_a_snapshot_flattens_groups_with_dots():
    root = MetricGroup()
    root.counter("records").inc()
    root.counter("records").inc(4)
    root.counter("records").dec(2)
    shop = root.add_group("shop", "berlin")
    shop.meter("orders").mark_event(7)
    shop.gauge("open", lambda: 1.5)
    root.add_group("inner").counter("c")
    assert root.snapshot() == {"records": 3, "shop.berlin.orders.count": 7, "shop.berlin.open": 1.5, "inner.c": 0}


def test_a_distribution_keeps_what_can_be_merged():
    root = MetricGroup()
    sizes = root.distribution("size")
    assert root.snapshot() == {"size.count": 0}
    for size in (3, 1, 5):
        sizes.update(size)
    assert root.snapshot() == {"size.count": 3, "size.sum": 9, "size.min": 1, "size.max": 5, "size.mean": 3.0}


def test_a_gauge_that_fails_or_gives_no_number_is_left_out():
    root = MetricGroup()
    root.gauge("text", lambda: "many")  # type: ignore[arg-type,return-value]
    root.gauge("broken", lambda: 1 // 0)
    root.gauge("fine", lambda: 2)
    assert root.snapshot() == {"fine": 2}


def test_the_latest_function_of_a_gauge_wins():
    root = MetricGroup()
    root.gauge("g", lambda: 1)
    root.gauge("g", lambda: 2)
    assert root.snapshot() == {"g": 2}


def test_variables_come_from_groups_with_a_key_and_a_value():
    group = MetricGroup({"<job>": "j"}).add_group("shop", "berlin").add_group("inner")
    assert group.get_all_variables() == {"<job>": "j", "<shop>": "berlin"}


def test_one_name_is_one_metric():
    root = MetricGroup()
    assert root.counter("x") is root.counter("x")
    assert root.add_group("g") is root.add_group("g")
    with pytest.raises(ValueError, match="Counter already"):
        root.meter("x")


def test_readings_are_plain_numbers_whatever_a_program_counts_with():
    class Size(IntEnum):
        LARGE = 3

    class Exact(float):
        pass

    class Whole:  # as NumPy's integers are
        def __index__(self):
            return 7

    root = MetricGroup()
    root.gauge("enumeration", lambda: Size.LARGE)
    root.gauge("true", lambda: True)
    distribution = root.distribution("sizes")
    distribution.update(Exact(2.5))
    root.meter("events").mark_event(3)
    root.counter("whole")._count = Whole()
    root.counter("nothing")._count = object()
    readings = root.readings()
    assert {name: number for name, (_, number) in readings.items()} == {
        "enumeration": 3, "true": 1, "sizes.count": 1, "sizes.sum": 2.5, "sizes.min": 2.5, "sizes.max": 2.5,
        "events.count": 3, "whole": 7,
    }  # fmt: skip
    assert {type(number) for _, number in readings.values()} == {int, float}
