"""How large rounds are, and when sources are asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.jobmaster.rounds import FIRST_RECORDS, next_round_records, unremarkable_records
from flott.runtime.pipelined.source_reading import DOUBLED_POLL_MS, LONGEST_POLL_MS, next_poll_ms

TARGET_MS = 20.0


def test_with_a_backlog_rounds_grow_until_they_take_their_time() -> None:
    records, rate = 100, 50.0  # per millisecond
    for _ in range(20):
        records = next_round_records(records, records, records / rate, True, 1 << 30, TARGET_MS)
    assert abs(records / rate - TARGET_MS) < 1


def test_a_round_that_took_too_long_makes_the_next_one_smaller() -> None:
    assert next_round_records(1000, 1000, TARGET_MS * 2, True, 1 << 30, TARGET_MS) == 500
    assert next_round_records(1000, 1000, TARGET_MS * 100, False, 1 << 30, TARGET_MS) == 250
    assert next_round_records(1, 1, TARGET_MS * 100, True, 1 << 30, TARGET_MS) == 1


def test_a_round_that_kept_up_says_nothing_about_what_is_possible() -> None:
    assert next_round_records(1000, 10, 0.1, False, 1 << 30, TARGET_MS) == 1000
    assert next_round_records(1000, 0, 0.1, True, 1 << 30, TARGET_MS) == 1000


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.floats(0, 10_000), st.booleans(), st.integers(1, 5_000))
def test_a_round_has_at_least_one_record(
    budget: int, records: int, duration: float, backlog: bool, most: int
) -> None:
    assert next_round_records(budget, records, duration, backlog, most, TARGET_MS) >= 1


def test_a_source_without_input_is_asked_less_and_less_often() -> None:
    delays, delay = [], 0
    for _ in range(50):
        delay = next_poll_ms(delay, 50)
        delays.append(delay)
    assert delays[:8] == [1, 2, 4, 8, DOUBLED_POLL_MS, 17, 18, 19]
    assert delays[-1] == delays[-2] == 50
    assert sum(delays[: delays.index(50)]) == 1120  # after so long without input it is asked every 50 ms only
    assert next_poll_ms(4, 3) == 3


def test_a_followed_split_without_input_is_polled_ten_times_a_second_after_five_seconds() -> None:
    waited, delay = 0, 0
    while (delay := next_poll_ms(delay, LONGEST_POLL_MS)) < 100:
        waited += delay
    assert 4500 < waited < 5500
    assert next_poll_ms(delay, LONGEST_POLL_MS) == 100


def test_what_open_slices_read_in_a_tenth_of_a_second_is_no_backlog() -> None:
    assert unremarkable_records(1_000_000, 1000.0) == 100_000
    assert unremarkable_records(10, 1000.0) == unremarkable_records(0, 0.0) == FIRST_RECORDS
