"""Durations, instants and their texts."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._durations import format_nanos, parse_nanos
from flott.common.time import Duration, Instant, Time


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        (Duration.of_days(1), 86_400_000),
        (Duration.of_hours(2), 7_200_000),
        (Duration.of_minutes(3), 180_000),
        (Duration.of_seconds(4), 4_000),
        (Duration.of_millis(5), 5),
        (Duration.of_nanos(6_999_999), 6),
        (Duration.of_timedelta(timedelta(seconds=1.5)), 1500),
    ],
)
def test_durations_know_their_milliseconds(duration: Duration, millis: int):
    assert duration.to_millis() == millis


def test_durations_are_values():
    assert Duration.of_seconds(60) == Duration.of_minutes(1)
    assert hash(Duration.of_seconds(60)) == hash(Duration.of_minutes(1))
    assert Duration.of_seconds(1) < Duration.of_seconds(2)
    assert pickle.loads(pickle.dumps(Duration.of_days(1))).to_hours() == 24
    assert str(Duration.of_seconds(90)) == "90 s"


@given(st.integers(-(2**50), 2**50))
def test_an_instant_keeps_its_milliseconds(millis: int):
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis


def test_instants_before_1970_have_positive_nanos():
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)


def test_time_is_a_frozen_number_of_milliseconds():
    assert Time.days(1).to_milliseconds() == 86_400_000
    assert Time.seconds(60) == Time.minutes(1)
    assert str(Time.hours(1)) == "3600000 ms"
    assert pickle.loads(pickle.dumps(Time.seconds(1))) == Time.milliseconds(1000)
    with pytest.raises(AttributeError):
        Time.seconds(1)._milliseconds = 3


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("10 s", 10_000), ("500ms", 500), ("1 min", 60_000), ("2 h", 7_200_000), ("1 DAY", 86_400_000), ("7", 7),
        ("3 minutes", 180_000), ("PT10S", 10_000), ("P1DT1H", 90_000_000), ("PT0.25S", 250),
    ],
)  # fmt: skip
def test_flinks_duration_strings_are_read(text: str, millis: int):
    assert parse_nanos(text) == millis * 1_000_000


@pytest.mark.parametrize("text", ["", "s", "-1 s", "1.5 s", "10 parsecs", "P", "PT"])
def test_other_strings_are_no_durations(text: str):
    with pytest.raises(ValueError):
        parse_nanos(text)


@given(st.integers(0, 2**70))
def test_a_printed_duration_is_read_back(nanos: int):
    assert parse_nanos(format_nanos(nanos)) == nanos
