"""Grouping is a stable sort by key, timestamp and input, whatever the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.epoch import grouping as module
from flott.runtime.epoch.grouping import KeyGrouping
from flott.runtime.epoch.wire import encode_batch
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.operators.batch import RowBatch

KEYS = st.one_of(st.integers(-3, 3), st.sampled_from(["", "a", "ab", "b"]), st.tuples(st.integers(0, 1), st.booleans()))
TIMESTAMPS = st.one_of(st.integers(-2, 2), st.sampled_from([MIN_WATERMARK, MAX_WATERMARK]))


@dataclass(frozen=True)
class Record:
    """A record that knows when it came."""

    key: Any
    timestamp: int | None
    input: int
    arrival: int

    @property
    def order(self) -> tuple[Any, ...]:
        """The order that is promised."""
        stamp = (0, 0) if self.timestamp is None else (1, self.timestamp)
        return encode_key(self.key), stamp, self.input, self.arrival


#: Buffers: the input, whether there are timestamps, and keys with them.
BUFFERS = st.lists(
    st.tuples(st.integers(0, 1), st.booleans(), st.lists(st.tuples(KEYS, TIMESTAMPS), max_size=8)), max_size=10
)

Drawn = list[tuple[int, bool, list[tuple[Any, int]]]]


def buffers_of(drawn: Drawn) -> list[list[Record]]:
    arrivals = count()
    return [
        [Record(key, timestamp if stamped else None, index, next(arrivals)) for key, timestamp in entries]
        for index, stamped, entries in drawn
    ]


def fill(grouping: KeyGrouping, made: list[list[Record]]) -> None:
    for buffer in made:
        if buffer:
            stamps = None if buffer[0].timestamp is None else [int(record.timestamp or 0) for record in buffer]
            grouping.add(buffer[0].input, iter(buffer), stamps, lambda record: record.key)
            grouping.settle(len(buffer), len(encode_batch(RowBatch(buffer, stamps))))


def read(grouping: KeyGrouping) -> Iterator[list[Record]]:
    """The records of each key, checking what comes with them."""
    of_key: list[Record] = []
    for batch in grouping.batches():
        if batch is None:
            assert of_key, "the end of a key that had no records"
            yield of_key
            of_key = []
        else:
            index, rows = batch
            values, timestamps = rows.values, rows.timestamps
            assert 0 < len(values) <= module.MAX_RECORDS
            assert {value.input for value in values} == {index}
            assert [value.timestamp for value in values] == (timestamps or [None] * len(values))
            of_key += values
    assert not of_key, "records without the end of their key"


@given(BUFFERS, st.sampled_from([0, 500, 3000, 1 << 30]))
def test_records_come_out_sorted_with_any_memory(drawn: Drawn, memory_bytes: int) -> None:
    made = buffers_of(drawn)
    grouping = KeyGrouping(memory_bytes)
    fill(grouping, made)
    found = list(read(grouping))
    grouping.close()
    expected = sorted((record for buffer in made for record in buffer), key=lambda record: record.order)
    assert found == [list(part) for _, part in groupby(expected, key=lambda record: encode_key(record.key))]


@given(BUFFERS, st.integers(1, 3))
def test_records_come_out_sorted_in_pieces_of_any_size(drawn: Drawn, most: int) -> None:
    made = buffers_of(drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_RECORDS", most)
        grouping = KeyGrouping(1500)
        fill(grouping, made)
        found = [record for of_key in read(grouping) for record in of_key]
        grouping.close()
    assert found == sorted((record for buffer in made for record in buffer), key=lambda record: record.order)


def test_equal_keys_of_different_types_are_one_key() -> None:
    grouping = KeyGrouping(0)
    fill(grouping, [[Record(1, None, 0, 0)], [Record(1.0, None, 0, 1)], [Record(True, None, 0, 2)]])
    assert [[record.arrival for record in of_key] for of_key in read(grouping)] == [[0, 1, 2]]


@pytest.mark.parametrize("timestamp", [None, 7])
def test_a_key_larger_than_memory_is_never_in_memory_as_a_whole(timestamp: int | None) -> None:
    grouping = KeyGrouping(20_000)
    for start in range(0, 20_000, 100):
        fill(grouping, [[Record("hot", timestamp, 0, arrival) for arrival in range(start, start + 100)]])
    assert len(grouping._runs) > 50
    most, arrived = 0, []
    for batch in grouping._merged():
        most = max(most, len(batch[1]))
        arrived += [row[-1].arrival for row in batch[1]]
    grouping.close()
    assert most <= 200
    assert arrived == list(range(20_000))


def test_nothing_is_written_to_disk_if_memory_suffices() -> None:
    grouping = KeyGrouping(1 << 20)
    fill(grouping, [[Record(number % 7, number, 0, number) for number in range(1000)]])
    assert grouping._file is None
    assert sum(map(len, read(grouping))) == 1000


def test_many_small_keys_count_for_more_than_their_bytes() -> None:
    grouping = KeyGrouping(100_000)
    for start in range(0, 1000, 50):
        fill(grouping, [[Record(number, None, 0, number) for number in range(start, start + 50)]])
    assert grouping._runs, "a thousand keys weigh more than 100 KB"


def test_the_selector_fails_at_the_record_the_cursor_gave_out_last() -> None:
    grouping = KeyGrouping(1 << 20)
    cursor = iter([1, 2, 0, 4])
    with pytest.raises(ZeroDivisionError):
        grouping.add(0, cursor, [1, 2, 3, 4], lambda value: 1 // value)
    assert cursor.__length_hint__() == 1
