"""Small batches become large ones, and nothing changes but that."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.operators.batch import MAX_BATCH_RECORDS, Coalescer, RowBatch


@given(st.lists(st.tuples(st.integers(1, 900), st.booleans()), max_size=20))
def test_records_keep_their_order_and_their_timestamps(sizes: list[tuple[int, bool]]) -> None:
    given_out: list[tuple[list[Any], list[int] | None]] = []
    coalescer = Coalescer(lambda batch: given_out.append((batch.values, batch.timestamps)))
    expected: list[tuple[int, int | None]] = []
    for size, stamped in sizes:
        values = list(range(len(expected), len(expected) + size))
        coalescer.emit(RowBatch(values, [value * 2 for value in values] if stamped else None))
        expected += [(value, value * 2 if stamped else None) for value in values]
    coalescer.flush()
    found = [pair for values, stamps in given_out for pair in zip(values, stamps or [None] * len(values), strict=True)]
    assert found == expected
    assert all(values for values, _ in given_out)


def test_a_batch_that_was_given_out_is_not_touched_again() -> None:
    given_out: list[list[Any]] = []
    coalescer = Coalescer(lambda batch: given_out.append(batch.values))
    coalescer.emit(RowBatch(list(range(MAX_BATCH_RECORDS - 1))))
    assert given_out == []
    coalescer.emit(RowBatch(["last"]))
    coalescer.emit(RowBatch(["next"]))
    coalescer.flush()
    assert [len(values) for values in given_out] == [MAX_BATCH_RECORDS, 1]
