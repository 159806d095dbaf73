"""Functions of character strings that change, measure and cut them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._functions.signatures import (
    INTEGER,
    TEXT,
    TEXT_OR_BINARY,
    by_row,
    compute,
    define,
)
from flott.table._types.logical import (
    BOOLEAN,
    INT,
    STRING,
    UNLIMITED,
    BinaryType,
    CharType,
    Family,
    LogicalType,
    SymbolType,
    VarBinaryType,
    VarCharType,
)

FAMILY = "string"


# --- || --------------------------------------------------------------------------------------------------------------


def _joined_type(call: CallArguments) -> LogicalType:
    """Return the type of a concatenation: lengths add up, and it is fixed if both are."""
    left, right = call.types
    texts = (CharType, VarCharType)
    for fixed, varying in (texts, (BinaryType, VarBinaryType)):
        if isinstance(left, (fixed, varying)) and isinstance(right, (fixed, varying)):
            length = min(left.length + right.length, UNLIMITED)
            kind = fixed if isinstance(left, fixed) and isinstance(right, fixed) else varying
            return kind(length, nullable=call.nullable)
    if Family.NULL in (left.family, right.family):
        return (right if left.family is Family.NULL else left).as_nullable()
    raise call.refuse("two strings, or two binary strings")


def _join(call: KernelCall) -> Datum:
    left, right = call.arguments
    separator = pa.scalar(b"" if pa.types.is_binary(left.type) else "", type=left.type)
    return pc.binary_join_element_wise(left, right, separator)


# --- CONCAT and CONCAT_WS --------------------------------------------------------------------------------------------


def concat_ws(separator: str | None, *texts: str | None) -> str | None:
    """Return the texts that are there, joined. (Arrow's own kernel loses rows in which none is there.)"""
    return None if separator is None else separator.join([text for text in texts if text is not None])


# --- positions and parts ---------------------------------------------------------------------------------------------


def position(wanted: str, text: str, start: int = 1) -> int:
    """Return where a text is found, counting from 1, at ``start`` or later; 0 if it is not there."""
    if start < 1:
        return 0
    return text.find(wanted, start - 1) + 1


def locate(wanted: str, text: str, start: int = 1) -> int:
    """Return the position of a text, as LOCATE counts it."""
    return position(wanted, text, start)


def instr(text: str, wanted: str, start: int = 1, occurrence: int = 1) -> int:
    """Return the position of an occurrence; a negative start counts from the end and searches backwards."""
    if start == 0 or occurrence <= 0:
        return 0
    if start > 0:
        at = start - 2
        for _ in range(occurrence):
            at = text.find(wanted, at + 1)
            if at < 0:
                return 0
        return at + 1
    limit = len(text) + start
    for at in range(limit, -1, -1):
        if text.startswith(wanted, at):
            occurrence -= 1
            if not occurrence:
                return at + 1
    return 0


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part: positions count from 1, negative ones from the end; 0 is read as 1."""
    if length is not None and length < 0:
        return ""
    first = start - 1 if start > 0 else 0 if start == 0 else len(text) + start
    if first < 0:
        return ""
    return text[first:] if length is None else text[first : first + length]


def _substring(call: KernelCall) -> Datum:
    """Cut with Arrow's kernel where start and length are constants, as they nearly always are."""
    text = call.arguments[0]
    if (
        isinstance(text, pa.Array)
        and pa.types.is_string(text.type)
        and all(call.is_constant(i) for i in range(1, len(call.arguments)))
    ):
        start = call.constant(1)
        length = call.constant(2) if len(call.arguments) > 2 else None
        if start is not None and start > 0 and (len(call.arguments) == 2 or (length is not None and length >= 0)):
            stop = None if len(call.arguments) == 2 else start - 1 + length
            return pc.utf8_slice_codeunits(text, start - 1, stop)
    return by_row(substring)(call)


def left_part(text: str, count: int) -> str:
    """Return the first characters."""
    return text[:count] if count > 0 else ""


def right_part(text: str, count: int) -> str:
    """Return the last characters."""
    return text[-count:] if count > 0 else ""


def overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    """Return a text with a part replaced by another; a start outside of the text changes nothing."""
    if start <= 0 or start > len(text):
        return text
    length = len(other) if length is None else length
    head = text[: start - 1]
    rest = start - 1 + length
    if length <= 0 or rest >= len(text):
        return head + other
    return head + other + text[rest:]


def pad_left(text: str, length: int, fill: str) -> str | None:
    """Return a text filled up on the left, or cut, to a length; None if the fill is empty or the length negative."""
    if length < 0 or fill == "":
        return None
    missing = length - len(text)
    if missing <= 0:
        return text[:length]
    return (fill * (missing // len(fill) + 1))[:missing] + text


def pad_right(text: str, length: int, fill: str) -> str | None:
    """Return a text filled up on the right, or cut, to a length."""
    if length < 0 or fill == "":
        return None
    missing = length - len(text)
    if missing <= 0:
        return text[:length]
    return text + (fill * (missing // len(fill) + 1))[:missing]


def repeat_text(text: str, count: int) -> str:
    """Return a text several times."""
    return text * max(count, 0)


def _changed_case(of_ascii: Callable[[Datum], Datum], of_any: Callable[[str], str]) -> Kernel:
    """Return a kernel for upper or lower case. Letters that become two, such as sharp s, are left to Python."""

    def kernel(call: KernelCall) -> Datum:
        text = call.arguments[0]
        plain = isinstance(text, pa.Array) and pc.all(pc.string_is_ascii(text)).as_py() is not False
        return of_ascii(text) if plain else by_row(of_any)(call)

    return kernel


def _length(call: KernelCall) -> Datum:
    return pc.utf8_length(call.arguments[0])


# --- characters ------------------------------------------------------------------------------------------------------


def translate(text: str | None, old: str | None, new: str | None) -> str | None:
    """Return a text with characters replaced one by one; those without a counterpart are dropped."""
    if text is None or old is None:
        return None
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        if ord(character) not in table:
            table[ord(character)] = new[index] if new is not None and index < len(new) else None
    return text.translate(table)


def initcap(text: str) -> str:
    """Return a text with each word's first letter in upper case; words are runs of letters and digits."""
    result = []
    begins = True
    for character in text:
        if character.isascii() and character.isalnum():
            result.append(character.upper() if begins else character.lower())
            begins = False
        else:
            result.append(character)
            begins = True
    return "".join(result)


def ascii_code(text: str) -> int:
    """Return the code of the first character's first byte; 0 of an empty text."""
    if not text:
        return 0
    return int.from_bytes(text[0].encode("utf-8")[:1], "big", signed=True)


def character(code: int) -> str:
    """Return the character of a code; above 255 its remainder by 256 counts, below 0 there is none."""
    return "" if code < 0 else chr(code % 256)


def elt(index: int | None, *values: object) -> object:
    """Return the value at a position."""
    return None if index is None or not 1 <= index <= len(values) else values[index - 1]


def _elt_type(call: CallArguments) -> LogicalType:
    values = call.types[1:]
    kinds = {of.family for of in values if of.family is not Family.NULL}
    if len(kinds) > 1:
        raise call.refuse("(INT, STRING, ...) or (INT, BYTES, ...)")
    longest = max((getattr(of, "length", 1) for of in values), default=1)
    return VarBinaryType(longest) if kinds == {Family.BINARY} else VarCharType(longest)


def is_decimal(text: str) -> bool:
    """Return whether a text is a number: an optional sign, digits, at most one point, an optional exponent."""
    return _NUMBER.fullmatch(text) is not None


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


# --- trimming --------------------------------------------------------------------------------------------------------


def _trim_type(call: CallArguments) -> LogicalType:
    if not isinstance(call.types[0], SymbolType) or len(call.types) != 3:
        raise call.refuse("([BOTH | LEADING | TRAILING] characters FROM string)")
    if not all(TEXT.takes(of) for of in call.types[1:]):
        raise call.refuse("([BOTH | LEADING | TRAILING] characters FROM string)")
    return STRING.as_nullable(call.nullable or any(of.nullable for of in call.types[1:]))


_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}


def _trimmed(side: str, strip: Callable[..., str]) -> Kernel:
    """Return a kernel that removes blanks or given characters: with Arrow's kernel where those are constant."""

    def kernel(call: KernelCall) -> Datum:
        constant = len(call.arguments) == 1 or call.is_constant(1)
        characters = call.constant(1) if constant and len(call.arguments) > 1 else " "
        if constant and characters and not call.is_constant(0):
            return _TRIMS[side](call.arguments[0], characters=characters)
        return by_row(lambda text, characters=" ": strip(text, characters))(call)

    return kernel


def _replace(call: KernelCall) -> Datum:
    if not call.is_constant(0) and call.is_constant(1) and call.is_constant(2):
        old, new = call.constant(1), call.constant(2)
        if old and new is not None:
            return pc.replace_substring(call.arguments[0], pattern=old, replacement=new)
    return by_row(str.replace)(call)


def _position(call: KernelCall) -> Datum:
    """Search with Arrow's kernel, which counts bytes, where characters are bytes."""
    if len(call.arguments) == 2 and call.is_constant(0) and call.constant(0) and not call.is_constant(1):
        text = call.arguments[1]
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return pc.add(pc.find_substring(text, pattern=call.constant(0)), 1).cast(pa.int32())
    return by_row(position)(call)


def _trim(call: KernelCall) -> Datum:
    sides = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}
    characters = call.arguments[1]
    if isinstance(characters, pa.Scalar) and characters.as_py() and not call.is_constant(2):
        return _TRIMS[call.constant(0)](call.arguments[2], characters=characters.as_py())
    strip = sides[call.constant(0)]
    kernel = by_row(lambda characters, text: strip(text, characters))
    return kernel(KernelCall(call.arguments[1:], call.types[1:], call.type, call.length, call.session))


def _starts(call: KernelCall) -> Datum:
    if call.is_constant(1) and call.constant(1) is not None:
        return pc.starts_with(call.arguments[0], pattern=call.constant(1))
    return by_row(lambda value, start: value.startswith(start))(call)


def _ends(call: KernelCall) -> Datum:
    if call.is_constant(1) and call.constant(1) is not None:
        return pc.ends_with(call.arguments[0], pattern=call.constant(1))
    return by_row(lambda value, end: value.endswith(end))(call)


def _same_family(call: CallArguments) -> LogicalType:
    kinds = {of.family for of in call.types if of.family is not Family.NULL}
    if len(kinds) > 1:
        raise call.refuse("two strings, or two binary strings")
    return BOOLEAN.as_nullable(call.nullable)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "||",
        _joined_type,
        _join,
        coerce=lambda call: (
            tuple(_joined_type(call) if of.family is Family.NULL else of for of in call.types)
            if any(of.family is Family.NULL for of in call.types)
            else None
        ),
        spark=lambda arguments, types, result: f"({arguments[0]} || {arguments[1]})",
        family=FAMILY,
        syntax="string1 || string2",
        description="Returns the two strings joined.",
    ),
    define(
        "CHAR_LENGTH",
        (TEXT,),
        INT,
        _length,
        spark="CHAR_LENGTH",
        aliases=("CHARACTER_LENGTH",),
        family=FAMILY,
        syntax="CHAR_LENGTH(string)",
        description="Returns the number of characters.",
    ),
    define(
        "UPPER",
        (TEXT,),
        STRING,
        _changed_case(pc.ascii_upper, str.upper),
        spark="UPPER",
        family=FAMILY,
        syntax="UPPER(string)",
        description="Returns the string in upper case.",
    ),
    define(
        "LOWER",
        (TEXT,),
        STRING,
        _changed_case(pc.ascii_lower, str.lower),
        spark="LOWER",
        family=FAMILY,
        syntax="LOWER(string)",
        description="Returns the string in lower case.",
    ),
    define(
        "POSITION",
        (TEXT, TEXT, INTEGER),
        INT,
        _position,
        optional=1,
        family=FAMILY,
        syntax="POSITION(string1 IN string2)",
        description="Returns where string1 is first found in string2, counting from 1; 0 if it is not there.",
    ),
    Function(
        "TRIM",
        _trim_type,
        _trim,
        family=FAMILY,
        coerce=lambda call: tuple(STRING if of.family is Family.NULL else of for of in call.types),
        syntax="TRIM([BOTH | LEADING | TRAILING] characters FROM string)",
        description="Returns the string without the given characters at its ends; by default blanks at both.",
    ),
    define(
        "LTRIM",
        (TEXT, TEXT),
        STRING,
        _trimmed("LEADING", str.lstrip),
        optional=1,
        family=FAMILY,
        syntax="LTRIM(string[, characters])",
        description="Returns the string without blanks, or the given characters, at its beginning.",
    ),
    define(
        "RTRIM",
        (TEXT, TEXT),
        STRING,
        _trimmed("TRAILING", str.rstrip),
        optional=1,
        family=FAMILY,
        syntax="RTRIM(string[, characters])",
        description="Returns the string without blanks, or the given characters, at its end.",
    ),
    define(
        "BTRIM",
        (TEXT, TEXT),
        STRING,
        _trimmed("BOTH", str.strip),
        optional=1,
        family=FAMILY,
        syntax="BTRIM(string[, characters])",
        description="Returns the string without blanks, or the given characters, at both ends.",
    ),
    define(
        "REPEAT",
        (TEXT, INTEGER),
        STRING,
        by_row(repeat_text),
        family=FAMILY,
        spark="REPEAT",
        syntax="REPEAT(string, count)",
        description="Returns the string several times.",
    ),
    define(
        "OVERLAY",
        (TEXT, TEXT, INTEGER, INTEGER),
        STRING,
        by_row(overlay),
        optional=1,
        family=FAMILY,
        syntax="OVERLAY(string1 PLACING string2 FROM start [FOR length])",
        description="Returns string1 with a part replaced by string2.",
    ),
    define(
        "SUBSTRING",
        (TEXT, INTEGER, INTEGER),
        STRING,
        _substring,
        optional=1,
        aliases=("SUBSTR",),
        family=FAMILY,
        syntax="SUBSTRING(string FROM start [FOR length])",
        description="Returns the part that begins at a position, counted from 1 or, if negative, from the end.",
    ),
    define(
        "REPLACE",
        (TEXT, TEXT, TEXT),
        STRING,
        _replace,
        family=FAMILY,
        syntax="REPLACE(string, search, replacement)",
        description="Returns the string with every occurrence of a text replaced.",
    ),
    define(
        "TRANSLATE",
        (TEXT, TEXT, TEXT),
        lambda call: STRING.as_nullable(any(of.nullable for of in call.types[:2])),
        by_row(translate, strict=False),
        aliases=("TRANSLATE3",),
        family=FAMILY,
        syntax="TRANSLATE(string, from, to)",
        description="Returns the string with each character of from replaced by the one at its place in to.",
    ),
    define(
        "INITCAP",
        (TEXT,),
        STRING,
        by_row(initcap),
        family=FAMILY,
        syntax="INITCAP(string)",
        description="Returns the string with the first letter of each word in upper case.",
    ),
    define(
        "CONCAT",
        (TEXT,),
        STRING,
        lambda call: pc.binary_join_element_wise(*call.arguments, ""),
        repeats=True,
        spark="CONCAT",
        family=FAMILY,
        syntax="CONCAT(string1, string2, ...)",
        description="Returns the strings joined; NULL if any of them is NULL.",
    ),
    define(
        "CONCAT_WS",
        (TEXT, TEXT),
        lambda call: STRING.as_nullable(call.types[0].nullable),
        by_row(concat_ws, strict=False),
        repeats=True,
        family=FAMILY,
        syntax="CONCAT_WS(separator, string1, string2, ...)",
        description="Returns the strings that are not NULL, joined with a separator.",
    ),
    define(
        "LPAD",
        (TEXT, INTEGER, TEXT),
        STRING,
        by_row(pad_left),
        nullable=True,
        family=FAMILY,
        syntax="LPAD(string, length, fill)",
        description="Returns the string filled up on the left to a length.",
    ),
    define(
        "RPAD",
        (TEXT, INTEGER, TEXT),
        STRING,
        by_row(pad_right),
        nullable=True,
        family=FAMILY,
        syntax="RPAD(string, length, fill)",
        description="Returns the string filled up on the right to a length.",
    ),
    define(
        "ASCII",
        (TEXT,),
        INT,
        by_row(ascii_code),
        family=FAMILY,
        syntax="ASCII(string)",
        description="Returns the code of the first character; 0 of an empty string.",
    ),
    define(
        "CHR",
        (INTEGER,),
        STRING,
        by_row(character),
        family=FAMILY,
        syntax="CHR(integer)",
        description="Returns the character of a code; codes above 255 are taken modulo 256.",
    ),
    define(
        "INSTR",
        (TEXT, TEXT, INTEGER, INTEGER),
        INT,
        by_row(instr),
        optional=2,
        family=FAMILY,
        syntax="INSTR(string1, string2[, start[, occurrence]])",
        description="Returns where string2 is found in string1, counting from 1; 0 if it is not there.",
    ),
    define(
        "LEFT",
        (TEXT, INTEGER),
        STRING,
        by_row(left_part),
        family=FAMILY,
        syntax="LEFT(string, count)",
        description="Returns the first characters.",
    ),
    define(
        "RIGHT",
        (TEXT, INTEGER),
        STRING,
        by_row(right_part),
        family=FAMILY,
        syntax="RIGHT(string, count)",
        description="Returns the last characters.",
    ),
    define(
        "LOCATE",
        (TEXT, TEXT, INTEGER),
        INT,
        by_row(locate),
        optional=1,
        family=FAMILY,
        syntax="LOCATE(string1, string2[, start])",
        description="Returns where string1 is found in string2 from a position on; 0 if it is not there.",
    ),
    define(
        "REVERSE",
        (TEXT,),
        STRING,
        compute(pc.utf8_reverse),
        spark="REVERSE",
        family=FAMILY,
        syntax="REVERSE(string)",
        description="Returns the string backwards.",
    ),
    define(
        "ELT",
        (INTEGER, TEXT_OR_BINARY),
        _elt_type,
        by_row(elt, strict=False),
        repeats=True,
        nullable=True,
        family=FAMILY,
        syntax="ELT(index, value1, value2, ...)",
        description="Returns the value at a position, counting from 1; NULL if there is none.",
    ),
    define(
        "STARTSWITH",
        (TEXT_OR_BINARY, TEXT_OR_BINARY),
        _same_family,
        _starts,
        family=FAMILY,
        syntax="STARTSWITH(value, start)",
        description="Returns whether the value begins with another one.",
    ),
    define(
        "ENDSWITH",
        (TEXT_OR_BINARY, TEXT_OR_BINARY),
        _same_family,
        _ends,
        family=FAMILY,
        syntax="ENDSWITH(value, end)",
        description="Returns whether the value ends with another one.",
    ),
    define(
        "IS_DECIMAL",
        (TEXT,),
        BOOLEAN,
        by_row(is_decimal),
        family=FAMILY,
        syntax="IS_DECIMAL(string)",
        description="Returns whether the string is a number.",
    ),
    define(
        "IS_DIGIT",
        (TEXT,),
        BOOLEAN,
        by_row(lambda text: text != "" and text.isdigit()),
        family=FAMILY,
        syntax="IS_DIGIT(string)",
        description="Returns whether the string consists of digits.",
    ),
    define(
        "IS_ALPHA",
        (TEXT,),
        BOOLEAN,
        by_row(lambda text: text != "" and text.isalpha()),
        family=FAMILY,
        syntax="IS_ALPHA(string)",
        description="Returns whether the string consists of letters.",
    ),
)
