"""Columns: exact round trips of every type, the bytes as they are documented, and who needs which class."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pickle
import struct
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import TypeInformation, Types
from flott.common.types import Row
from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_codec import decode_column, encode_column
from flott.runtime.managed_state.schema.type_schema import schema_of
from tests.unit.runtime.managed_state.typed_values import (
    Farther,
    Noted,
    Order,
    Pair,
    Place,
    Point,
    exact,
    nullable,
    typed,
)


@settings(max_examples=400)
@given(st.data())
def test_every_value_that_conforms_comes_back_exactly(data: st.DataObject) -> None:
    declared, strategy = data.draw(typed)
    values = data.draw(st.lists(nullable(strategy), max_size=20))
    assert declared.conform(values) is values
    schema = schema_of(declared)

    read = decode_column(schema, encode_column(schema, values))

    assert exact(read) == exact(values)


@settings(max_examples=200)
@given(st.data())
def test_values_of_any_other_type_come_back_too(data: st.DataObject) -> None:
    declared, _ = data.draw(typed)
    _, others = data.draw(typed)
    values = data.draw(st.lists(nullable(others), max_size=5))
    schema = schema_of(declared)

    assert exact(decode_column(schema, encode_column(schema, values))) == exact(values)


@settings(max_examples=100)
@given(st.data())
def test_what_was_read_plainly_is_written_as_what_it_was(data: st.DataObject) -> None:
    declared, strategy = data.draw(typed)
    values = data.draw(st.lists(nullable(strategy), max_size=10))
    schema = schema_of(declared)
    written = encode_column(schema, values)

    plain = decode_column(schema, written, plain=True)

    assert exact(decode_column(schema, encode_column(schema, plain))) == exact(values)


def test_a_plain_reader_sees_records_as_rows_and_dicts() -> None:
    place = Place("home", Point(1, None), ["a"])
    assert plainly(Types.of(Place), [place, None]) == [
        Row(name="home", at=Row(x=1, y=None), tags=["a"]),
        None,
    ]
    assert plainly(Types.of(Pair), [Pair("l", 2)]) == [Row(left="l", right=2)]
    assert plainly(Types.of(Order), [{"item": "tea", "count": 1}]) == [{"item": "tea", "count": 1}]


def plainly(declared: TypeInformation, values: list[Any]) -> list[Any]:
    schema = schema_of(declared)
    return decode_column(schema, encode_column(schema, values), plain=True)


def test_a_class_that_is_gone_or_has_other_fields_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(Types.of(Point))
    written = encode_column(schema, [Point(1, 2.0)])
    module = sys.modules[Point.__module__]

    monkeypatch.delattr(module, "Point")
    assert decode_column(schema, written) == [Row(x=1, y=2.0)]

    @dataclasses.dataclass
    class Changed:
        x: int

    monkeypatch.setattr(module, "Point", Changed, raising=False)
    assert decode_column(schema, written) == [Row(x=1, y=2.0)]


def test_a_class_is_made_again_without_calling_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(Types.of(Point))
    written = encode_column(schema, [Point(1)])
    monkeypatch.setattr(Point, "__init__", None)
    assert decode_column(schema, written)[0].x == 1


def test_only_the_part_that_does_not_fit_is_pickled() -> None:
    schema = schema_of(Types.TUPLE([Types.LONG(), Types.of(Point)]))
    fitting = encode_column(schema, [(7, Point(1))] * 100)
    other = encode_column(schema, [(7, Farther(1))] * 100)
    assert b"Farther" in other
    assert b"Point" not in fitting
    assert other[:7] == fitting[:7]  # up to the first field


def test_a_column_of_numbers_is_as_wide_as_its_widest() -> None:
    longs = schema_of(Types.LONG())
    sizes = {top: len(encode_column(longs, [0] * 99 + [top])) for top in (1, 1 << 8, 1 << 16, 1 << 40)}
    assert sizes == {1: 103, 1 << 8: 203, 1 << 16: 403, 1 << 40: 803}


def test_texts_that_come_again_and_again_are_written_once() -> None:
    texts = schema_of(Types.STRING())
    values = [f"status-{number % 3}" for number in range(1000)]
    written = encode_column(texts, values)
    assert len(written) < 1100
    assert decode_column(texts, written) == values


def test_a_column_of_a_later_version_is_refused() -> None:
    schema = schema_of(Types.LONG())
    with pytest.raises(CorruptStateError, match=r"version b'\\x02'; this version of Flott reads version 1"):
        decode_column(schema, b"\2" + encode_column(schema, [1])[1:])
    with pytest.raises(CorruptStateError, match=r"tag 0x7f"):
        decode_column(schema, b"\1\1\x7f\0")
    with pytest.raises(CorruptStateError, match=r"'hologram'"):
        decode_column({"version": 1, "type": "hologram"}, b"\1\0\0")


def test_a_column_that_ends_in_the_middle_is_refused() -> None:
    schema = schema_of(Types.LONG())
    written = encode_column(schema, [1 << 40] * 3)
    with pytest.raises((CorruptStateError, ValueError)):
        decode_column(schema, written[:-1])


def test_an_attribute_that_is_no_field_is_not_lost() -> None:
    schema = schema_of(Types.of(Noted))
    (read,) = decode_column(schema, encode_column(schema, [Noted(3)]))
    assert read.note == "made with 3"


# --- the bytes -------------------------------------------------------------------------------------------------------

UTC = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
GOLDEN: list[tuple[str, TypeInformation, list[Any], str]] = [
    ("bytes of one", Types.LONG(), [1, -1], "01 02 01 01ff"),
    ("bytes of two", Types.INT(), [300], "01 01 02 2c01"),
    ("bytes of four", Types.LONG(), [70000], "01 01 03 70110100"),
    ("bytes of eight", Types.BIG_INT(), [1 << 40], "01 01 04 0000000000010000"),
    ("long ints", Types.BIG_INT(), [1 << 64, -1], "01 02 05 01 0901 000000000000000001 ff"),
    ("nulls", Types.LONG(), [None, 5, None], "01 03 81 05 05"),
    ("nothing but nulls", Types.LONG(), [None, None], "01 02 06"),
    ("nothing at all", Types.LONG(), [], "01 00"),
    ("doubles", Types.DOUBLE(), [1.5], "01 01 08 000000000000f83f"),
    ("booleans", Types.BOOLEAN(), [True, False, True], "01 03 09 05"),
    ("text", Types.STRING(), ["a", "", "né"], "01 03 10 06 61 00 00 6ec3a9"),
    ("text with zeros", Types.STRING(), ["a\0", "b"], "01 02 11 01 0201 6100 62"),
    ("bytes", Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", b""], "01 02 18 01 0200 6162"),
    ("decimals", Types.BIG_DEC(), [Decimal("1.50")], "01 01 10 04 312e3530"),
    ("dates", Types.SQL_DATE(), [datetime.date(1970, 1, 11)], "01 01 21 01 0a"),
    ("times", Types.SQL_TIME(), [datetime.time(0, 0, 0, 9)], "01 01 22 01 09"),
    ("timestamps", Types.SQL_TIMESTAMP(), [datetime.datetime(1970, 1, 1, 0, 0, 1)], "01 01 22 03 40420f00"),
    ("UTC", Types.SQL_TIMESTAMP(), [UTC], "01 01 23 04" + struct.pack("<q", 1_577_836_800_000_000).hex()),
    (
        "zoned",
        Types.SQL_TIMESTAMP(),
        [datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))],
        "01 01 24 01 00 10 09 2b30313a30303a3030 09 00",
    ),
    ("lists", Types.LIST(Types.LONG()), [[1, 2], []], "01 02 30 01 0200 01 0102"),
    ("maps", Types.MAP(Types.STRING(), Types.LONG()), [{"a": 7}], "01 01 31 01 01 10 01 61 01 07"),
    ("tuples", Types.TUPLE([Types.STRING(), Types.LONG()]), [("a", 7)], "01 01 40 10 01 61 01 07"),
    ("rows", Types.ROW_NAMED(["a"], [Types.LONG()]), [Row(a=7)], "01 01 41 00 00 01 07"),
    ("a dataclass", Types.of(Point), [Point(7, 1.5)], "01 01 40 01 07 08 000000000000f83f"),
    ("typed dicts", Types.of(Order), [{"item": "a", "count": 7}],
     "01 01 42 01 12" + b'[["item","count"]]'.hex() + "01 00 10 01 61 01 07"),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "values", "written"), [g[1:] for g in GOLDEN], ids=[g[0] for g in GOLDEN])
def test_the_bytes_of_a_column_never_change(declared: TypeInformation, values: list[Any], written: str) -> None:
    assert encode_column(schema_of(declared), values).hex(" ") == bytes.fromhex(written).hex(" ")


def test_a_reader_written_from_the_documentation_alone_understands_a_column() -> None:
    declared = Types.of(Place)
    values = [
        Place("home", Point(1, 2.5), ["a", "b"]),
        None,
        Place("né", Point(1 << 70, None), []),
        Place("\0", None, ["x"]),
    ]
    schema = schema_of(declared)
    written = encode_column(schema, values)
    text = json.dumps(schema)  # all that a reader has is the file

    assert Reader(written).column(json.loads(text)) == [
        {"name": "home", "at": {"x": 1, "y": 2.5}, "tags": ["a", "b"]},
        None,
        {"name": "né", "at": {"x": 1 << 70, "y": None}, "tags": []},
        {"name": "\0", "at": None, "tags": ["x"]},
    ]


class Reader:
    """Reads columns of numbers, texts, lists and records with ``struct`` alone, as docs/formats/columns.md says."""

    def __init__(self, data: bytes):
        self.data = data
        self.position = 0

    def column(self, schema: dict[str, Any]) -> list[Any]:
        assert self.take(1) == b"\1"
        assert schema["version"] == 1
        return self.body(schema, self.number())

    def take(self, length: int) -> bytes:
        self.position += length
        return self.data[self.position - length : self.position]

    def number(self) -> int:
        total = shift = 0
        while True:
            (byte,) = self.take(1)
            total |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return total

    def body(self, node: dict[str, Any], count: int) -> list[Any]:
        if count == 0:
            return []
        (tag,) = self.take(1)
        if not tag & 0x80:
            return self.layout(tag, node, count)
        bitmap = self.take((count + 7) // 8)
        nulls = [bool(bitmap[index // 8] >> index % 8 & 1) for index in range(count)]
        others = iter(self.layout(tag & 0x7F, node, nulls.count(False)))
        return [None if null else next(others) for null in nulls]

    def layout(self, tag: int, node: dict[str, Any], count: int) -> list[Any]:
        ints = {"type": "long"}
        if tag == 0x06:
            return [None] * count
        if tag in (1, 2, 3, 4):
            code = "bhiq"[tag - 1]
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}"))))
        if tag == 0x05:
            return [int.from_bytes(self.take(n), "little", signed=True) for n in self.body(ints, count)]
        if tag == 0x08:
            return list(struct.unpack(f"<{count}d", self.take(8 * count)))
        if tag == 0x10:
            return self.take(self.number()).decode().split("\0")
        if tag == 0x11:
            lengths = self.body(ints, count)
            return [self.take(length).decode() for length in lengths]
        if tag == 0x30:
            lengths = self.body(ints, count)
            elements = iter(self.body(node["element"], sum(lengths)))
            return [[next(elements) for _ in range(length)] for length in lengths]
        assert tag == 0x40, hex(tag)
        columns = [self.body(field["type"], count) for field in node["fields"]]
        names = [field["name"] for field in node["fields"]]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def test_pickles_are_read_with_any_protocol() -> None:
    body = pickle.dumps([1, "a"], protocol=2)
    assert decode_column(None, b"\1\2\0" + bytes((len(body),)) + body) == [1, "a"]
