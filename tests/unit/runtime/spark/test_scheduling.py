"""Whose turn it is: Spark compares names of pools as texts, so the names must sort by time."""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.spark.scheduling import POOL, SchedulingPools


class Stopped:
    """A clock that shows what it is told."""

    def __init__(self, now_ms: int):
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        raise AssertionError

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        raise AssertionError


class Context:
    """The part of a Spark context that is asked."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    def setLocalProperty(self, key: str, value: str) -> None:
        self.properties[key] = value


TIMES = st.integers(0, 10**14)
TOKENS = st.text("0123456789abcdef", min_size=8, max_size=8)


@given(TIMES, TOKENS, TIMES, TOKENS)
def test_whoever_was_handed_over_first_comes_first_whatever_the_jobs_are_called(
    one: int, first: str, other: int, second: str
) -> None:
    context: Any = Context()
    names = [SchedulingPools(context, token, Stopped(at)).enter() for at, token in ((one, first), (other, second))]
    assert context.properties == {POOL: names[1]}
    if one != other:
        assert (names[0] < names[1]) == (one < other)
    elif first != second:
        assert names[0] != names[1]
