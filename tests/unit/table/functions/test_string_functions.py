"""Functions of strings against tables of expected results, over columns and over constants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flott.errors import ProgramError
from flott.table._functions.function import KernelCall, Session, SignatureError
from flott.table._functions.java_patterns import one_group, plain_pattern
from flott.table._functions.patterns import regexp, regexp_extract
from flott.table._functions.registry import function_named
from flott.table._types import logical
from flott.table._types.logical import BOOLEAN, BYTES, INT, STRING, CharType, VarCharType

from .calls import called, result_type

EXPECTED: tuple[tuple[Any, ...], ...] = (
    ("||", "ab", "cd", "abcd"),
    ("||", "ab", None, None),
    ("||", b"\x01", b"\x02", b"\x01\x02"),
    ("CHAR_LENGTH", "häß", 3),
    ("CHARACTER_LENGTH", "😀", 1),
    ("UPPER", "straße", "STRASSE"),
    ("LOWER", "ÄBC", "äbc"),
    ("POSITION", "c", "abcabc", 3),
    ("POSITION", "c", "abcabc", 4, 6),
    ("POSITION", "x", "abc", 0),
    ("LTRIM", "  a ", "a "),
    ("LTRIM", "xyxa", "xy", "a"),
    ("RTRIM", " a  ", " a"),
    ("BTRIM", "--a-b--", "-", "a-b"),
    ("BTRIM", None, None),
    ("REPEAT", "ab", 3, "ababab"),
    ("REPEAT", "ab", -1, ""),
    ("OVERLAY", "flattering", "o", 3, 1, "flottering"),
    ("OVERLAY", "stream", "SS", 2, "sSSeam"),
    ("OVERLAY", "stream", "x", 9, "stream"),
    ("OVERLAY", "stream", "x", 3, 99, "stx"),
    ("SUBSTRING", "streams", 3, "reams"),
    ("SUBSTRING", "streams", 3, 2, "re"),
    ("SUBSTRING", "streams", -4, 2, "ea"),
    ("SUBSTRING", "streams", -40, "",),
    ("SUBSTRING", "streams", 0, 3, "str"),
    ("SUBSTRING", "streams", 20, 3, ""),
    ("SUBSTRING", "streams", 2, -1, ""),
    ("REPLACE", "a-b-c", "-", "+", "a+b+c"),
    ("REPLACE", "a-b-c", "-", None, None),
    ("TRANSLATE", "a.b.c", "abc", "xy", "x.y."),
    ("TRANSLATE", "abc", "a", None, "bc"),
    ("TRANSLATE", None, "a", "b", None),
    ("INITCAP", "two wORDS-and 3things", "Two Words-And 3things"),
    ("CONCAT", "a", "b", "c", "abc"),
    ("CONCAT", "a", None, None),
    ("CONCAT_WS", "-", "a", None, "b", "a-b"),
    ("CONCAT_WS", "-", None, None, ""),
    ("CONCAT_WS", None, "a", "b", None),
    ("LPAD", "7", 3, "0", "007"),
    ("LPAD", "12345", 3, "0", "123"),
    ("LPAD", "a", 3, "", None),
    ("LPAD", "a", -1, "x", None),
    ("RPAD", "ab", 5, "xyz", "abxyz"),
    ("RPAD", "ab", 0, "x", ""),
    ("ASCII", "Az", 65),
    ("ASCII", "", 0),
    ("CHR", 97, "a"),
    ("CHR", 353, "a"),
    ("CHR", -1, ""),
    ("INSTR", "banana", "an", 2),
    ("INSTR", "banana", "an", 1, 2, 4),
    ("INSTR", "banana", "an", -1, 4),
    ("INSTR", "banana", "x", 0),
    ("LEFT", "stream", 3, "str"),
    ("LEFT", "stream", -3, ""),
    ("RIGHT", "stream", 3, "eam"),
    ("RIGHT", "stream", 0, ""),
    ("LOCATE", "a", "banana", 3, 4),
    ("REVERSE", "abc", "cba"),
    ("ELT", 2, "a", "b", "b"),
    ("ELT", 3, "a", "b", None),
    ("STARTSWITH", "stream", "str", True),
    ("STARTSWITH", b"\x01\x02", b"\x02", False),
    ("ENDSWITH", "stream", "", True),
    ("ENDSWITH", None, "m", None),
    ("IS_DIGIT", "0123", True),
    ("IS_DIGIT", "", False),
    ("IS_ALPHA", "ab1", False),
    ("IS_DECIMAL", "-1.5e3", True),
    ("IS_DECIMAL", "1.2.3", False),
    # patterns
    ("LIKE", "stream", "str%", True),
    ("LIKE", "stream", "%tre%", True),
    ("LIKE", "stream", "%am", True),
    ("LIKE", "stream", "s_r%m", True),
    ("LIKE", "stream", "stream", True),
    ("LIKE", "stream", "", False),
    ("LIKE", "", "%", True),
    ("LIKE", "a\nb", "a%b", True),
    ("LIKE", "50%", "50!%", "!", True),
    ("LIKE", "500", "50!%", "!", False),
    ("LIKE", "a.c", "a.c", True),
    ("LIKE", "abc", "a.c", False),
    ("LIKE", None, "a", None),
    ("ILIKE", "Stream", "sTR%", True),
    ("SIMILAR TO", "abab", "(ab)+", True),
    ("SIMILAR TO", "a1", "a[0-9]", True),
    ("SIMILAR TO", "a1", "a[[:ALPHA:]]", False),
    ("SIMILAR TO", "axxb", "a%b", True),
    ("REGEXP", "stream 7", "\\d", True),
    ("REGEXP", "stream", "", False),
    ("REGEXP", "stream", "(", False),
    ("REGEXP_COUNT", "a1b22", "\\d+", 2),
    ("REGEXP_COUNT", "a", "(", None),
    ("REGEXP_EXTRACT", "foothebar", "foo(.*?)(bar)", 2, "bar"),
    ("REGEXP_EXTRACT", "foothebar", "foo(.*?)(bar)", 3, None),
    ("REGEXP_EXTRACT", "x", "y", None),
    ("REGEXP_EXTRACT_ALL", "a1 b2", "([a-z])(\\d)", ["a", "b"]),
    ("REGEXP_EXTRACT_ALL", "a1 b2", "([a-z])(\\d)", 0, ["a1", "b2"]),
    ("REGEXP_INSTR", "ab12", "\\d", 3),
    ("REGEXP_INSTR", "ab", "\\d", 0),
    ("REGEXP_REPLACE", "a-b", "(\\w)-(\\w)", "$2-$1", "b-a"),
    ("REGEXP_REPLACE", "a-b", "", "x", None),
    ("REGEXP_SUBSTR", "ab12", "\\p{Alpha}+", "ab"),
    # encodings
    ("TO_BASE64", "hé", "aMOp"),
    ("FROM_BASE64", "aMOp", "hé"),
    ("DECODE", "hé".encode("utf-16-le"), "utf-16le", "hé"),
    ("ENCODE", "é", "ISO-8859-1", b"\xe9"),
    ("ENCODE", "é", "US-ASCII", b"?"),
    ("ENCODE", "a", "UTF-16", b"\xfe\xff\x00a"),
    ("HEX", 255, "FF"),
    ("HEX", -1, "FFFFFFFFFFFFFFFF"),
    ("HEX", "hé", "68C3A9"),
    ("UNHEX", "68C3", b"h\xc3"),
    ("UNHEX", "F68", b"\x00h"),
    ("UNHEX", "zz", None),
    ("URL_ENCODE", "a b/ü~", "a+b%2F%C3%BC%7E"),
    ("URL_DECODE", "a+b%2F%C3%BC", "a b/ü"),
    ("URL_DECODE", "100%", None),
    ("PARSE_URL", "http://u:p@h.org:80/a/b?x=1&y=2#top", "HOST", "h.org"),
    ("PARSE_URL", "http://u:p@h.org:80/a/b?x=1&y=2#top", "AUTHORITY", "u:p@h.org:80"),
    ("PARSE_URL", "http://u:p@h.org:80/a/b?x=1&y=2#top", "USERINFO", "u:p"),
    ("PARSE_URL", "http://u:p@h.org:80/a/b?x=1&y=2#top", "FILE", "/a/b?x=1&y=2"),
    ("PARSE_URL", "http://u:p@h.org:80/a/b?x=1&y=2#top", "REF", "top"),
    ("PARSE_URL", "http://h.org/a?x=1&y=2", "QUERY", "y", "2"),
    ("PARSE_URL", "http://h.org/a", "QUERY", None),
    ("INET_ATON", "10.0.5.9", 167773449),
    ("INET_ATON", "10.9", 167772169),
    ("INET_ATON", "1.2.3.4.5", None),
    ("INET_ATON", "1.2.3.x", None),
    ("INET_NTOA", 167773449, "10.0.5.9"),
    ("INET_NTOA", -1, None),
    ("MD5", "abc", "900150983cd24fb0d6963f7d28e17f72"),
    ("SHA1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ("SHA224", "abc", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
    ("SHA256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("SHA2", "abc", 224, "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
    ("SHA256", None, None),
    # taking apart
    ("SPLIT", "a,b,,c,", ",", ["a", "b", "", "c", ""]),
    ("SPLIT", "abc", "", ["a", "b", "c"]),
    ("SPLIT", "abc", ",", ["abc"]),
    ("SPLIT_INDEX", "a;b;c", ";", 1, "b"),
    ("SPLIT_INDEX", "a;b;c", 59, 2, "c"),
    ("SPLIT_INDEX", "a;b;c", ";", 5, None),
    ("SPLIT_INDEX", "a;b;c", ";", -1, None),
    ("STR_TO_MAP", "a=1,b=2,a=3", {"a": "3", "b": "2"}),
    ("STR_TO_MAP", "a:1|b", "\\|", ":", {"a": "1", "b": None}),
    ("PRINTF", "%s is %d", "x", 5, "x is 5"),
    ("PRINTF", "%05d|%-4s|%.2f", 42, "ab", 1.005, "00042|ab  |1.01"),
    ("PRINTF", "%2$s %1$s", "a", "b", "b a"),
    ("PRINTF", "%d", "x", None),
    ("PRINTF", "%x %,d", 255, 1234567, "ff 1,234,567"),
    ("PRINTF", "%s", None, "null"),
)  # fmt: skip


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: f"{row[0]}{row[1:]!r}"[:80])
def test_a_function_of_strings_gives_the_expected_result(row: tuple[Any, ...]) -> None:
    name, *values, expected = row
    assert called(name, *values) == expected
    assert called(name, *values, column=False) == expected
    for place in range(len(values)):
        assert called(name, *values, only=place) == expected


PATTERNS = ("a", "a.c", "[a-c]+", "(a|b)(c)", "x(y)?", "(a)|(b)", "((a)b)+", "\\d{2,}", "a\\.c", "[^/]*/(\\w+)", "(é+)")
TEXTS = ("", "abc", "a.c", "a\nc", "bc ac", "xy", "x", "b", "abab", "12 345", "p/qq/r", "éé", "aéc")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_kernels_of_arrow_match_as_java_does(pattern: str) -> None:
    column = pa.array([*TEXTS, None])
    for name, plainly, of in (("REGEXP", regexp, BOOLEAN), ("REGEXP_EXTRACT", regexp_extract, STRING)):
        function = function_named(name)
        assert function is not None
        call = KernelCall([column, pa.scalar(pattern)], (STRING, STRING), of, len(column), Session())
        assert function.kernel(call).to_pylist() == [plainly(text, pattern) for text in TEXTS] + [None]
    for group in range(4):
        constants = [pa.scalar(pattern), pa.scalar(group, pa.int32())]
        function = function_named("REGEXP_EXTRACT")
        assert function is not None
        call = KernelCall([column, *constants], (STRING, STRING, INT), STRING, len(column), Session())
        assert function.kernel(call).to_pylist() == [regexp_extract(text, pattern, group) for text in TEXTS] + [None]


def test_patterns_that_arrow_reads_differently_are_left_to_python() -> None:
    for pattern in ("a$", "(?i)a", "a++", "[a&&b]", "\\s", "\\bx", "(?<n>a)", "(", "\\p{Alpha}", "", None):
        assert not plain_pattern(pattern)
    assert one_group("(a)|(b)", 1) is None
    assert one_group("(a)?b", 1) is None
    assert one_group("((a)|b)c", 2) is None
    assert one_group("(x|y)-([^-]*)", 2) == "(?:x|y)-(?P<found>[^-]*)"
    assert one_group("a(b)", 2) is None


def test_trim_removes_characters_of_the_named_side() -> None:
    for side, expected in (("BOTH", "a"), ("LEADING", "ax"), ("TRAILING", "xa")):
        types = (logical.SymbolType("SYMBOL"), STRING, STRING)
        assert called("TRIM", side, "x", "xax", types=types) == expected


def test_a_wrong_pattern_of_like_is_an_error() -> None:
    for pattern in ("ab!", "a!b"):
        with pytest.raises(ProgramError, match="escape"):
            called("LIKE", "ab", pattern, "!")
    for escape in ("!!", "\x00"):
        with pytest.raises(ProgramError, match="one character"):
            called("LIKE", "ab", "ab", escape)


def test_wrong_values_of_strict_encodings_are_errors() -> None:
    for name, values in (("FROM_BASE64", ("?",)), ("DECODE", (b"a", "utf-7")), ("SHA2", ("a", 100))):
        with pytest.raises(ProgramError):
            called(name, *values)


def test_results_have_the_types_of_flink() -> None:
    assert str(result_type("||", CharType(2, nullable=False), CharType(3, nullable=False))) == "CHAR(5) NOT NULL"
    assert str(result_type("||", CharType(2), VarCharType(3, nullable=False))) == "VARCHAR(5)"
    assert str(result_type("UPPER", STRING.as_nullable(False))) == "STRING NOT NULL"
    assert str(result_type("UPPER", STRING)) == "STRING"
    assert str(result_type("REGEXP_COUNT", STRING.as_nullable(False), STRING.as_nullable(False))) == "INT"
    assert str(result_type("ELT", INT, CharType(2, nullable=False), CharType(5, nullable=False))) == "VARCHAR(5)"
    assert str(result_type("STARTSWITH", BYTES.as_nullable(False), BYTES.as_nullable(False))) == "BOOLEAN NOT NULL"


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("UPPER", (INT,)), ("UPPER", ()), ("UPPER", (STRING, STRING)), ("SUBSTRING", (STRING, STRING)),
        ("||", (STRING, BYTES)), ("ELT", (INT, STRING, BYTES)), ("STARTSWITH", (STRING, BYTES)),
        ("SPLIT", (STRING,)), ("TRIM", (STRING,)), ("MD5", (BYTES,)),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(name: str, types: tuple[logical.LogicalType, ...]) -> None:
    with pytest.raises(SignatureError, match="cannot be called with"):
        result_type(name, *types)


def test_an_expensive_function_is_called_once_for_each_value() -> None:
    function = function_named("REGEXP_EXTRACT")
    assert function is not None
    text = pa.array(["a1", "b2", None, "a1"] * 20)
    call = KernelCall([text, pa.scalar("\\d")], (STRING, STRING), STRING, 80, Session())
    assert function.kernel(call).to_pylist() == ["1", "2", None, "1"] * 20
