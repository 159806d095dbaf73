"""Rates over the recent past: what is kept of it, against all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.jobmanager.views.rates import RESOLUTION_SECONDS, SHORTEST_SECONDS, WINDOW_SECONDS, RecentGrowth

#: (a pause before it, how long it took, what it added), in tenths of seconds so that times are exact.
epochs = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 40), st.integers(0, 1000)), max_size=40)


@given(epochs, st.integers(0, 200))
def test_a_rate_is_what_was_added_lately_but_for_the_second_at_the_far_end(
    work: list[tuple[int, int, int]], wait: int
) -> None:
    growth: RecentGrowth[str] = RecentGrowth(0.0)
    total, clock = 0, 0
    happened: list[tuple[float, float, int]] = []
    for pause, took, added in work:
        began, clock = (clock + pause) / 10, clock + pause + took
        growth.about_to_grow(began, clock / 10, {"all": (total,)})
        total += added
        happened.append((began, clock / 10, added))
    now = (clock + wait) / 10
    rate = growth.rates(now, {"all": (total,)})["all"][0]
    since = max(0.0, now - WINDOW_SECONDS)
    span = max(now - since, SHORTEST_SECONDS)
    reach = RESOLUTION_SECONDS + max((ended - began for began, ended, _ in happened), default=0.0)
    certain = sum(added for began, _, added in happened if began >= since + reach)
    possible = sum(added for _, ended, added in happened if ended >= since - reach)
    assert certain / span - 1e-6 <= rate <= possible / span + 1e-6
    if all(ended <= since for _, ended, _ in happened) and since > 0:
        assert rate == 0.0


@given(st.integers(1, 30), st.integers(1, 1000))
def test_steady_work_has_a_steady_rate(tenths: int, added: int) -> None:
    growth: RecentGrowth[str] = RecentGrowth(0.0)
    total = 0
    for epoch in range(400):
        growth.about_to_grow(epoch * tenths / 10, (epoch + 1) * tenths / 10, {"all": (total, -total)})
        total += added
    up, down = growth.rates(40 * tenths, {"all": (total, -total)})["all"]
    assert abs(up - added * 10 / tenths) < 1e-6 * up
    assert down == -up


@given(epochs)
def test_little_is_kept_however_long_it_lasts(work: list[tuple[int, int, int]]) -> None:
    growth: RecentGrowth[str] = RecentGrowth(0.0)
    clock = 0.0
    for pause, took, _ in work * 20:
        growth.about_to_grow(clock + pause / 10, clock := clock + (pause + took) / 10, {})
    assert len(growth._points) <= 2 * WINDOW_SECONDS / RESOLUTION_SECONDS + 2


def test_a_total_that_begins_anew_has_not_grown_before() -> None:
    growth: RecentGrowth[str] = RecentGrowth(0.0)
    for second in range(5):
        growth.about_to_grow(second, second + 1, {"a": (second * 100,)})
    growth.begin("a", (7, 0))
    growth.about_to_grow(5, 6, {"a": (7, 0)})
    assert growth.rates(6.0, {"a": (67, 6)})["a"] == [10.0, 1.0]
