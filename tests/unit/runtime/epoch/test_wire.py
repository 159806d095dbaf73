"""What is sent is what is received, in every form and whatever the declared type."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Row, Types
from flott.common.typeinfo import TypeInformation
from flott.common.types import RowKind, restore_row
from flott.runtime.epoch.wire import BatchEncoder, decode_batch, encode_batch
from flott.runtime.operators.batch import ColumnBatch, RowBatch

pytest.importorskip("pyarrow")


class Colour(IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
TRIPLE = Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()])
NAMED = Types.ROW_NAMED(["id", "name", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
ANYTHING = Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY()])

LARGE = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.one_of(st.floats(), st.just(-0.0), st.just(math.nan))
ODD = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([None, True, False, Colour.RED, Text("t"), 1.0, -0.0, math.nan, [1], {"a": (1,)}, "\ud800", b""]),
)
TEXT = st.one_of(st.text(), st.none(), st.just("\ud800"), st.just(Text("t")))
KINDS = st.sampled_from(list(RowKind))
ROWS = st.builds(
    lambda kind, *values: restore_row(("id", "name", "amount"), values, kind.value),
    KINDS, st.one_of(LARGE, st.none()), TEXT, st.one_of(FLOATS, st.none()),
)  # fmt: skip
BATCHES = st.one_of(
    st.tuples(st.just(PAIR), st.lists(st.one_of(st.tuples(LARGE, LARGE), st.none()), min_size=1)),
    st.tuples(st.just(PAIR), st.lists(st.tuples(LARGE, LARGE), min_size=1, max_size=200)),
    st.tuples(st.just(TRIPLE), st.lists(st.tuples(LARGE, TEXT, FLOATS), min_size=1)),
    st.tuples(st.just(ANYTHING), st.lists(st.tuples(ODD, ODD), min_size=1)),
    st.tuples(st.just(NAMED), st.lists(ROWS, min_size=1)),
    st.tuples(st.just(NAMED), st.lists(st.one_of(ROWS, st.none()), min_size=1)),
)


def exactly(value: Any) -> Any:
    """A value that equals another only if both are the same to the last bit and class."""
    if isinstance(value, Row):
        return "row", value._fields, value._row_kind, exactly(value._values)
    if isinstance(value, tuple | list):
        return type(value), [exactly(each) for each in value]
    if isinstance(value, float):
        return float, repr(value), math.copysign(1, value)
    return type(value), value


@given(BATCHES, st.data())
def test_rows_of_a_declared_type_arrive_exactly_as_they_were(
    typed: tuple[TypeInformation, list[Any]], data: st.DataObject
) -> None:
    record_type, values = typed
    size = len(values)
    stamps = data.draw(st.one_of(st.none(), st.lists(LARGE, min_size=size, max_size=size)))
    kinds = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=size, max_size=size).map(bytes)))
    origin = data.draw(st.sampled_from([None, ("from", "to")]))
    encoder = BatchEncoder(record_type)
    for _ in range(2):
        received, found = decode_batch(encoder.encode(RowBatch(values, stamps, kinds), origin))
        assert isinstance(received, RowBatch)
        assert exactly(received.values) == exactly(values)
        assert (received.timestamps, received.kinds, found) == (stamps, kinds, origin)


def test_the_first_byte_says_which_form_a_buffer_has() -> None:
    small, large = RowBatch([(1, 2)] * 100), RowBatch([(1, 1 << 40)] * 100)
    assert BatchEncoder(PAIR).encode(small, None)[0] == 0x80
    assert BatchEncoder(PAIR).encode(large, None)[:1] == b"F"
    assert BatchEncoder().encode(large, None)[0] == 0x80
    assert encode_batch(large.to_columns(PAIR))[:1] == b"A"


def test_the_same_rows_are_the_same_bytes_in_a_repeated_epoch() -> None:
    encoder, batches = BatchEncoder(NAMED), [RowBatch([Row(id=i, name="n", amount=1.0)] * 70) for i in range(3)]
    once = [encoder.encode(batch, None) for batch in batches]
    encoder.begin()
    assert [encoder.encode(batch, None) for batch in batches] == once


@given(
    st.lists(st.tuples(LARGE, st.one_of(st.none(), st.text()), FLOATS)),
    st.booleans(),
    st.booleans(),
)
def test_columns_arrive_as_they_were(values: list[Any], stamped: bool, kinded: bool) -> None:
    stamps = [i * 7 for i in range(len(values))] if stamped else None
    kinds = bytes(i % 4 for i in range(len(values))) if kinded else None
    sent = RowBatch(values, stamps, kinds).to_columns(TRIPLE)
    received, origin = decode_batch(encode_batch(sent, ("a", "b")))
    assert isinstance(received, ColumnBatch)
    assert origin == ("a", "b")
    assert received.columns.schema == sent.columns.schema
    rows = received.to_rows()
    assert exactly(rows.values) == exactly(values)
    assert (rows.timestamps, rows.kinds) == (stamps, kinds)
