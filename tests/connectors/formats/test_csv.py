"""CSV messages are rows of a declared type."""

from __future__ import annotations

import contextlib
import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.common.types import Row
from flott.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from flott.errors import ProgramError, TypeMismatchError
from tests.connectors.formats.typed_values import EXAMPLES, SCALARS, nullable, row_of

ALL = Types.ROW_NAMED(list(SCALARS), [declared for declared, _ in SCALARS.values()])
NULL = "\x00null"


@st.composite
def csv_rows(draw: st.DrawFn) -> tuple[Any, list[Row]]:
    fields = []
    for name in draw(st.lists(st.sampled_from(list(SCALARS)), min_size=1, max_size=4)):
        declared, values = SCALARS[name]
        if draw(st.booleans()) and name not in ("STRING", "CHAR"):  # an element of text may hold the delimiter
            fields.append((Types.LIST(declared), st.lists(nullable(values), max_size=3)))
        else:
            fields.append((declared, values))
    declared, rows = row_of(fields)
    return declared, draw(st.lists(rows, max_size=4))


@given(csv_rows(), st.sampled_from(["\n", "\r\n", "\r", ""]))
def test_rows_of_any_type_survive(drawn: tuple[Any, list[Row]], line_end: str):
    declared, values = drawn
    # A list of one empty element is written as an empty list, and one null as null.
    assume(not any(value in ([None], [b""]) for row in values for value in row))
    writer = CsvRowSerializationSchema.Builder(declared).set_null_literal(NULL).set_line_delimiter(line_end).build()
    reader = CsvRowDeserializationSchema.Builder(declared).set_null_literal(NULL).build()
    messages = writer.serialize_batch(values)
    assert reader.deserialize_batch(messages) == values
    assert [reader.deserialize(message) for message in messages] == values


def test_values_have_flinks_forms():
    row = Row(**{**EXAMPLES, "SQL_TIMESTAMP": datetime.datetime(2026, 1, 2, 3, 4, 5)})
    text = CsvRowSerializationSchema.Builder(ALL).build().serialize(row).decode()
    assert text == (
        '"ä\n""x",true,-128,32767,-2147483648,9223372036854775807,0.5,0.1,é,1000000000000000000000000000000,'
        "12345678901234567890.10,1970-01-01T00:00:01.500000001Z,2026-01-02,03:04:05.00006,2026-01-02 03:04:05.0,AP8=\n"
    )
    assert CsvRowDeserializationSchema.Builder(ALL).build().deserialize(text.encode()) == row


def test_every_option_is_honoured():
    declared = Types.ROW_NAMED(
        ["name", "tags", "pair"],
        [Types.STRING(), Types.LIST(Types.INT()), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])],
    )
    writer = (
        CsvRowSerializationSchema.Builder(declared)
        .set_field_delimiter("|").set_line_delimiter("\r\n").set_array_element_delimiter("::")
        .set_quote_character("'").set_escape_character("\\").set_null_literal("n/a").build()
    )  # fmt: skip
    reader = (
        CsvRowDeserializationSchema.Builder(declared)
        .set_field_delimiter("|").set_array_element_delimiter("::").set_quote_character("'")
        .set_escape_character("\\").set_null_literal("n/a").set_allow_comments(True).build()
    )  # fmt: skip
    row = Row(name="it's | a", tags=[1, 2], pair=Row(a=None, b="x"))
    message = writer.serialize(row)
    assert message == b"'it\\'s | a'|1::2|n/a::x\r\n"
    assert reader.deserialize(message) == row
    assert reader.deserialize_batch([b"# a comment", message, b""]) == [None, row, None]
    assert pickle.loads(pickle.dumps(reader)) == reader
    assert pickle.loads(pickle.dumps(writer)) == writer
    plain = CsvRowSerializationSchema.Builder(declared).disable_quote_character().build()
    assert plain.serialize(Row(name="a", tags=[], pair=None)) == b"a,,\n"
    with pytest.raises(TypeMismatchError, match="escape"):
        plain.serialize(Row(name="a,b", tags=[], pair=None))


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"x,1.5", ["at .i", "'x'", "Integer"]),
        (b"1,x", ["at .d", "'x'", "BigDecimal"]),
        (b"1_0,1", ["at .i"]),
        (b"1", ["1 fields instead of 2"]),
        (b"1,2,3", ["3 fields instead of 2"]),
        (b'"1,2', ["unexpected end"]),
        (b"\xff,1", ["utf-8"]),
    ],
)
def test_errors_say_what_was_found_in_which_field(message: bytes, words: list[str]):
    declared = Types.ROW_NAMED(["i", "d"], [Types.INT(), Types.BIG_DEC()])
    reader = CsvRowDeserializationSchema.Builder(declared).build()
    with pytest.raises(TypeMismatchError) as caught:
        reader.deserialize(message)
    for word in words:
        assert word in str(caught.value)
    # A bad neighbour does not spoil a good message.
    with pytest.raises(TypeMismatchError):
        reader.deserialize_batch([b"1,2", message, b'"3",4'])
    lenient = CsvRowDeserializationSchema.Builder(declared).set_ignore_parse_errors(True).build()
    good = Row(i=1, d=Decimal(2))
    assert lenient.deserialize_batch([b"1,2", message, b"1,2"])[::2] == [good, good]


@given(st.lists(st.binary(max_size=20) | st.text(max_size=20).map(str.encode), max_size=3))
def test_malformed_messages_raise_one_error_only(messages: list[bytes]):
    with contextlib.suppress(TypeMismatchError):
        CsvRowDeserializationSchema.Builder(ALL).build().deserialize_batch(messages)
    lenient = CsvRowDeserializationSchema.Builder(ALL).set_ignore_parse_errors(True).build()
    assert len(lenient.deserialize_batch(messages)) == len(messages)


def test_a_field_may_be_larger_than_the_csv_modules_limit():
    declared = Types.ROW_NAMED(["x"], [Types.STRING()])
    large = "x" * 300_000
    assert CsvRowDeserializationSchema.Builder(declared).build().deserialize(large.encode()) == Row(x=large)


@pytest.mark.parametrize(
    "declared",
    [Types.INT(), Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.INT())]),
     Types.ROW_NAMED(["l"], [Types.LIST(Types.LIST(Types.INT()))])],
)  # fmt: skip
def test_types_without_a_form_are_refused(declared: Any):
    with pytest.raises(ProgramError):
        CsvRowSerializationSchema.Builder(declared)
    with pytest.raises(ProgramError):
        CsvRowDeserializationSchema.Builder(declared)
