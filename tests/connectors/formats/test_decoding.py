"""Messages become records at once; the unreadable ones among them are found one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from flott.common.serialization import DeserializationSchema, SimpleStringSchema
from flott.common.typeinfo import TypeInformation, Types
from flott.errors import StorageError, TypeMismatchError
from flott.runtime.connectors.decoding import Decoded, decode_batch


class Numbers(DeserializationSchema):
    """Reads a number; nothing of an empty message."""

    def __init__(self) -> None:
        self.single_calls = 0

    def deserialize(self, message: bytes) -> Any:
        self.single_calls += 1
        if message == b"down":
            raise StorageError("the registry does not answer")
        return int(message) if message else None

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return [int(message) if message else None for message in messages]

    def get_produced_type(self) -> TypeInformation:
        return Types.LONG()


class Words(Numbers):
    returns_lists = True

    def deserialize(self, message: bytes) -> Any:
        return message.decode().split()

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return [message.decode().split() for message in messages]


def test_readable_messages_are_decoded_at_once():
    schema = Numbers()
    assert decode_batch(schema, [b"1", b"2"]) == Decoded([1, 2], None, [])
    assert schema.single_calls == 0
    assert decode_batch(schema, []) == Decoded([], None, [])


def test_an_unreadable_message_does_not_spoil_its_neighbours():
    records, origins, bad = decode_batch(Numbers(), [b"1", b"x", b"3", b""])
    assert (records, origins) == ([1, 3], [0, 2])
    assert [(index, type(error)) for index, error in bad] == [(1, ValueError)]


def test_messages_without_a_value_or_a_record_are_left_out():
    assert decode_batch(Numbers(), [None, b"1", b"", b"2", None]) == Decoded([1, 2], [1, 3], [])
    assert decode_batch(Numbers(), [None]) == Decoded([], [], [])
    records, origins, bad = decode_batch(Numbers(), [None, b"x", b"2"])
    assert (records, origins, [index for index, _ in bad]) == ([2], [2], [1])


def test_a_message_may_hold_several_records():
    assert decode_batch(Words(), [b"a b", b"", b"c"]) == Decoded(["a", "b", "c"], [0, 0, 2], [])
    records, origins, bad = decode_batch(Words(), [b"a b", b"\xff", None, b"c"])
    assert (records, origins, [index for index, _ in bad]) == (["a", "b", "c"], [0, 0, 3], [1])


def test_an_outage_is_no_bad_record():
    with pytest.raises(StorageError):
        decode_batch(Numbers(), [b"1", b"down"])


def test_text_in_another_character_set_is_a_bad_record_and_says_where():
    _, _, [(index, error)] = decode_batch(SimpleStringSchema(), [b"a", b"b\xff"])
    assert index == 1
    assert isinstance(error, TypeMismatchError)
    assert "byte 1" in str(error)
    assert "UTF-8" in str(error)


def test_strings_are_serialized_at_once_and_other_things_refused():
    assert SimpleStringSchema().serialize_batch(["a", "ä"]) == [b"a", b"\xc3\xa4"]
    with pytest.raises(TypeMismatchError, match="found 3"):
        SimpleStringSchema().serialize_batch(["a", 3])
