"""Functions of JSON against tables of expected results; clauses as the resolver passes them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from flott.errors import ProgramError
from flott.table._expressions.expression import Call, Literal
from flott.table._functions.function import SignatureError
from flott.table._functions.json_functions import mark_nested
from flott.table._functions.json_paths import PathMissing, json_path
from flott.table._functions.json_text import java_double
from flott.table._types import logical
from flott.table._types.logical import BOOLEAN, DOUBLE, INT, STRING, ArrayType, LogicalType, SymbolType

from .calls import called, result_type

DOCUMENT = '{"a": 1, "b": {"c": [10, 20.50, null], "d": "text"}, "e": true, "f": null, "g h": [{"i": 1}, {"i": 3}]}'


def clause(words: str) -> tuple[SymbolType, str]:
    return SymbolType(words, nullable=False), words


def answered(name: str, *arguments: Any) -> Any:
    """Return the result of a call; a pair is an argument with its type, a text among clauses is a symbol."""
    types: list[LogicalType] = []
    values: list[Any] = []
    for argument in arguments:
        of, value = argument if isinstance(argument, tuple) else (STRING, argument)
        types.append(of)
        values.append(value)
    found = called(name, *values, types=tuple(types))
    assert called(name, *values, types=tuple(types), column=False) == found
    return found


RETURNING = clause("RETURNING")
READING: tuple[tuple[Any, ...], ...] = (
    ("JSON_EXISTS", DOCUMENT, "$.b.c", True),
    ("JSON_EXISTS", DOCUMENT, "$.x", False),
    ("JSON_EXISTS", DOCUMENT, "lax $.f", False),
    ("JSON_EXISTS", DOCUMENT, "strict $.x", clause("TRUE ON ERROR"), True),
    ("JSON_EXISTS", DOCUMENT, "strict $.x", clause("UNKNOWN ON ERROR"), None),
    ("JSON_EXISTS", None, "$.a", None),
    ("JSON_VALUE", DOCUMENT, "$.a", "1"),
    ("JSON_VALUE", DOCUMENT, "$.b.c[1]", "20.50"),
    ("JSON_VALUE", DOCUMENT, "$.b.c[-2]", "20.50"),
    ("JSON_VALUE", DOCUMENT, "$.e", "true"),
    ("JSON_VALUE", DOCUMENT, "$['g h'][1].i", "3"),
    ("JSON_VALUE", DOCUMENT, "lax $.x", None),
    ("JSON_VALUE", DOCUMENT, "$.b", None),
    ("JSON_VALUE", DOCUMENT, "$.a", RETURNING, (INT, None), 1),
    ("JSON_VALUE", DOCUMENT, "$.e", RETURNING, (BOOLEAN, None), True),
    ("JSON_VALUE", DOCUMENT, "$.b.c[1]", RETURNING, (DOUBLE, None), 20.5),
    ("JSON_VALUE", DOCUMENT, "$.b.d", RETURNING, (INT, None), None),
    ("JSON_VALUE", DOCUMENT, "lax $.x", clause("DEFAULT ON EMPTY"), "none", "none"),
    ("JSON_VALUE", DOCUMENT, "strict $.x", clause("DEFAULT ON ERROR"), "wrong", "wrong"),
    ("JSON_VALUE", DOCUMENT, "strict $.x", clause("DEFAULT ON EMPTY"), "none", None),
    ("JSON_VALUE", "not json", "$.a", clause("DEFAULT ON ERROR"), "wrong", "wrong"),
    ("JSON_VALUE", None, "$.a", None),
    ("JSON_QUERY", DOCUMENT, "$.b", '{"c":[10,20.50,null],"d":"text"}'),
    ("JSON_QUERY", DOCUMENT, "$.b.c[*]", "[10,20.50,null]"),
    ("JSON_QUERY", DOCUMENT, "$..i", "[1,3]"),
    ("JSON_QUERY", DOCUMENT, "$['g h'][?(@.i > 1)]", '[{"i":3}]'),
    ("JSON_QUERY", DOCUMENT, "$.b.c[0:2]", "[10,20.50]"),
    ("JSON_QUERY", DOCUMENT, "$.a", None),
    ("JSON_QUERY", DOCUMENT, "$.a", clause("WITH UNCONDITIONAL ARRAY WRAPPER"), "[1]"),
    ("JSON_QUERY", DOCUMENT, "$.b.c", clause("WITH CONDITIONAL ARRAY WRAPPER"), "[10,20.50,null]"),
    ("JSON_QUERY", DOCUMENT, "$.b.c", clause("WITH UNCONDITIONAL ARRAY WRAPPER"), "[[10,20.50,null]]"),
    ("JSON_QUERY", DOCUMENT, "lax $.x", clause("EMPTY OBJECT ON EMPTY"), "{}"),
    ("JSON_QUERY", DOCUMENT, "strict $.x", clause("EMPTY ARRAY ON ERROR"), "[]"),
    ("JSON_QUERY", DOCUMENT, "$.b.c", RETURNING, (ArrayType(STRING), None), ["10", "20.50", None]),
    ("JSON_QUERY", DOCUMENT, "$.b", RETURNING, (ArrayType(STRING), None), None),
    ("JSON_QUERY", DOCUMENT, "lax $.x", RETURNING, (ArrayType(STRING), None), clause("EMPTY ARRAY ON EMPTY"), []),
)  # fmt: skip


@pytest.mark.parametrize("row", READING)
def test_a_path_leads_to_what_is_expected(row: tuple[Any, ...]) -> None:
    name, *arguments, expected = row
    assert answered(name, *arguments) == expected


@pytest.mark.parametrize(
    ("name", "path", "words"),
    [
        ("JSON_EXISTS", "strict $.x", "ERROR ON ERROR"),
        ("JSON_VALUE", "lax $.x", "ERROR ON EMPTY"),
        ("JSON_VALUE", "strict $.b", "ERROR ON ERROR"),
        ("JSON_QUERY", "strict $.a", "ERROR ON ERROR"),
        ("JSON_QUERY", "lax $.a", "ERROR ON EMPTY"),
    ],
)
def test_an_error_is_raised_where_it_is_asked_for(name: str, path: str, words: str) -> None:
    with pytest.raises(ProgramError, match=f"{name} failed"):
        answered(name, DOCUMENT, path, clause(words))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"a": 1}', {"VALUE", "OBJECT"}), ("[1]", {"VALUE", "ARRAY"}), ('"x"', {"VALUE", "SCALAR"}),
        ("1.5", {"VALUE", "SCALAR"}), ("null", {"VALUE", "SCALAR"}), ("x", set()), ("", set()), ("NaN", set()),
        (None, set()),
    ],
)  # fmt: skip
def test_is_json_tells_kinds_apart(text: str | None, kinds: set[str]) -> None:
    for kind in ("VALUE", "OBJECT", "ARRAY", "SCALAR"):
        assert answered(f"IS JSON {kind}", text) is (kind in kinds)
        assert answered(f"IS NOT JSON {kind}", text) is (kind not in kinds)
    assert answered("IS JSON", text) is ("VALUE" in kinds)


ROW = logical.row_type({"z": INT, "a": logical.MapType(STRING, DOUBLE)})
WRITING: tuple[tuple[Any, ...], ...] = (
    ("JSON_OBJECT", "b", (INT, 1), "a", "x\"y\n", '{"a":"x\\"y\\n","b":1}'),
    ("JSON_OBJECT", "{}"),
    ("JSON_OBJECT", "a", None, '{"a":null}'),
    ("JSON_OBJECT", "a", None, clause("ABSENT ON NULL"), "{}"),
    ("JSON_ARRAY", (INT, 1), None, (BOOLEAN, True), "[1,true]"),
    ("JSON_ARRAY", (INT, 1), None, clause("NULL ON NULL"), "[1,null]"),
    ("JSON_ARRAY", '{"b": 2, "a": [ ]}', clause("RAW 0"), '[{"a":[],"b":2}]'),
    ("JSON_STRING", (ROW, {"z": 1, "a": [("k", 1e10)]}), '{"a":{"k":1.0E10},"z":1}'),
    ("JSON_STRING", (logical.BYTES, b"abc"), '"YWJj"'),
    ("JSON_STRING", (logical.TimestampType(3), datetime.datetime(2026, 5, 6, 7, 8, 9, 10000)),
     '"2026-05-06T07:08:09.010"'),
    ("JSON_STRING", None, None),
    ("JSON_QUOTE", 'a"/≠\t', '"a\\"\\/\\u2260\\t"'),
    ("JSON_UNQUOTE", '"a\\u0041\\n"', "aA\n"),
    ("JSON_UNQUOTE", '"a"b"', '"a"b"'),
    ("JSON_UNQUOTE", "[1]", "[1]"),
)  # fmt: skip


@pytest.mark.parametrize("row", WRITING)
def test_values_are_written_as_expected(row: tuple[Any, ...]) -> None:
    name, *arguments, expected = row
    assert answered(name, *arguments) == expected


def test_json_that_is_put_in_must_be_json() -> None:
    with pytest.raises(ProgramError, match="not JSON"):
        answered("JSON_ARRAY", "{", clause("RAW 0"))
    with pytest.raises(ProgramError, match="NULL as a key"):
        answered("JSON_OBJECT", None, "x")


def test_nested_calls_are_marked() -> None:
    inner = Call(STRING, "JSON_ARRAY", ())
    marked = mark_nested("JSON_OBJECT", [Literal(STRING, "k"), inner])
    assert [str(one.type) for one in marked] == ["STRING", "STRING", "SYMBOL NOT NULL"]
    assert marked[2] == Literal(SymbolType("RAW 1", nullable=False), "RAW 1")
    assert mark_nested("UPPER", [inner]) == [inner]


def test_wrong_paths_and_types_are_refused() -> None:
    for path in ("a.b", "$.a[", "$.a[x]", "$.a[?(b)]", "$."):
        with pytest.raises(ProgramError):
            json_path(path)
    with pytest.raises(PathMissing):
        json_path("$.a.b").read({"a": 1})
    with pytest.raises(SignatureError):
        result_type("JSON_VALUE", STRING, STRING, SymbolType("RETURNING"), ArrayType(INT))
    with pytest.raises(SignatureError):
        result_type("JSON_EXISTS", INT, STRING)
    assert str(result_type("JSON_OBJECT")) == "STRING NOT NULL"


def test_doubles_are_written_as_java_does() -> None:
    for value, text in ((1.0, "1.0"), (1e7, "1.0E7"), (1.5e-4, "1.5E-4"), (123456.789, "123456.789"), (0.0, "0.0")):
        assert java_double(value) == text
