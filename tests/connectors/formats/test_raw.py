"""A raw message is one value."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.datastream.formats.raw import RawDeserializationSchema, RawSerializationSchema
from flott.errors import ProgramError, TypeMismatchError
from tests.connectors.formats.typed_values import SCALARS

RAW = ("STRING", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BYTES")


@given(st.data(), st.sampled_from(RAW), st.sampled_from(["big-endian", "little-endian"]))
def test_values_survive(data: Any, name: str, endianness: str):
    declared, values = SCALARS[name]
    drawn = data.draw(st.lists(values, max_size=3))
    writer = RawSerializationSchema(declared, endianness=endianness)
    reader = RawDeserializationSchema(declared, endianness=endianness)
    assert reader.deserialize_batch(writer.serialize_batch(drawn)) == drawn
    assert [reader.deserialize(writer.serialize(value)) for value in drawn] == drawn
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert reader.get_produced_type() == declared


def test_numbers_are_big_endian_by_default():
    assert RawSerializationSchema(Types.INT()).serialize(1) == b"\x00\x00\x00\x01"
    assert RawSerializationSchema(Types.LONG(), endianness="little-endian").serialize(1) == b"\x01" + b"\x00" * 7
    assert RawSerializationSchema(Types.STRING(), charset="utf-16-be").serialize("a") == b"\x00a"
    assert RawDeserializationSchema(str).deserialize(b"a") == "a"  # Python's own names will do


@given(st.binary(), st.sampled_from(RAW))
def test_malformed_messages_raise_one_error_only(message: bytes, name: str):
    with contextlib.suppress(TypeMismatchError):
        RawDeserializationSchema(SCALARS[name][0]).deserialize(message)


def test_wrong_values_and_types_are_refused():
    for bad in ("a", None, 2**31):
        with pytest.raises(TypeMismatchError):
            RawSerializationSchema(Types.INT()).serialize(bad)
    with pytest.raises(TypeMismatchError, match="Integer"):
        RawDeserializationSchema(Types.INT()).deserialize(b"\x00")
    with pytest.raises(ProgramError, match="raw format"):
        RawDeserializationSchema(Types.BIG_DEC())
    with pytest.raises(ProgramError, match="big-endian"):
        RawSerializationSchema(Types.INT(), endianness="middle")
