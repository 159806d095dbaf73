"""The bytes of keys, pinned: they decide the key group of a key and where its rows stand, so no version changes them.

``docs/formats/state-files.md`` describes them; every kind it names has an example here.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.types import Row, RowKind
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.key_groups import key_group_of

MODULE = __name__


class Colour(Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Place:
    city: str
    note: str = dataclasses.field(default="", compare=False)


def parts(*encoded: bytes) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def whole(number: int) -> bytes:
    return b"i" + (number + (1 << 63)).to_bytes(8, "big")


AT = datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
GOLDEN: list[tuple[Any, bytes]] = [
    (None, b"n"),
    ("", b"s"),
    ("né", b"sn\xc3\xa9"),
    ("\ud800", b"s\xed\xa0\x80"),
    (0, b"i\x80\0\0\0\0\0\0\0"),
    (-1, b"i\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (True, whole(1)),
    (2.0, whole(2)),
    (Decimal("3.00"), whole(3)),
    (1 << 63, b"I8000000000000000"),
    (-(1 << 64), b"I-10000000000000000"),
    (0.5, b"f\x3f\xe0\0\0\0\0\0\0"),
    (float("-inf"), b"f\xff\xf0\0\0\0\0\0\0"),
    (Decimal("0.10"), b"d1E-1"),
    (Decimal("-12.3400"), b"d-1234E-2"),
    (b"\0a", b"b\0a"),
    (("a", 1), b"t" + parts(b"sa", whole(1))),
    ((), b"t"),
    (frozenset(["b", "a"]), b"S" + parts(b"sa", b"sb")),
    (Row("a", 1), b"r" + parts(whole(0), b"sa", whole(1))),
    (
        Row.of_kind(RowKind.DELETE, y=1, x="a"),
        b"R" + parts(whole(3), b"t" + parts(b"sx", b"bsa"), b"t" + parts(b"sy", b"b" + whole(1))),
    ),
    (Colour.RED, f"e{MODULE}.Colour.RED".encode()),
    (UUID(int=1), b"u" + bytes(15) + b"\1"),
    (datetime.date(2020, 1, 2), b"D2020-01-02"),
    (AT, b"W2020-01-02T03:04:05.000006"),
    (AT.replace(tzinfo=datetime.UTC), b"w18263,11045,6"),
    (datetime.time(3, 4), b"T03:04:00"),
    (datetime.time(3, 4, tzinfo=datetime.UTC), b"z0,11040,0"),
    (datetime.timedelta(days=1, seconds=2, microseconds=3), b"l1,2,3"),
    (Place("Oslo", "not compared"), b"c" + parts(f"s{MODULE}.Place".encode(), b"sOslo")),
]


@pytest.mark.parametrize(("key", "encoded"), GOLDEN, ids=[type(key).__name__ for key, _ in GOLDEN])
def test_the_bytes_of_a_key_never_change(key: Any, encoded: bytes) -> None:
    assert encode_key(key) == encoded


def test_the_documentation_names_every_kind() -> None:
    page = Path(__file__).parents[4].joinpath("docs/formats/state-files.md").read_text("utf-8")
    table = page.partition("| letter | key |")[2].partition("\n\n")[0]
    named = {letter for line in table.splitlines() for letter in re.findall("`(.)`", line.split("|")[1])}
    assert {chr(encoded[0]) for _, encoded in GOLDEN} <= named


def test_the_key_group_of_a_key_never_changes() -> None:
    keys = ["a", "né", 0, -1, 1 << 70, 0.5, None, ("a", 1), b"x", datetime.date(2020, 1, 2)]
    assert [key_group_of(key, 128) for key in keys] == KEY_GROUPS


KEY_GROUPS = [82, 7, 73, 1, 29, 115, 95, 103, 71, 116]


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_whole_numbers_of_64_bits_sort_as_numbers(first: int, second: int) -> None:
    assert (encode_key(first) < encode_key(second)) is (first < second)


@given(st.text(), st.text())
def test_texts_sort_by_their_code_points(first: str, second: str) -> None:
    assert (encode_key(first) < encode_key(second)) is (first < second)


@given(st.binary(), st.binary())
def test_byte_strings_sort_as_they_are(first: bytes, second: bytes) -> None:
    assert (encode_key(first) < encode_key(second)) is (first < second)
