"""Functions that match strings with patterns: LIKE, SIMILAR TO and regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.table._functions.function import Datum, Function, KernelCall
from flott.table._functions.java_patterns import java_pattern, java_replacement, one_group, plain_pattern
from flott.table._functions.signatures import INTEGER, TEXT, by_row, by_value, define
from flott.table._types.logical import BOOLEAN, INT, STRING, ArrayType

# --- LIKE ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def like_pattern(pattern: str, escape: str = "", ignore_case: bool = False) -> re.Pattern[str]:
    """Return the regular expression of a LIKE pattern: ``%`` stands for any text, ``_`` for one character."""
    if len(escape) > 1 or escape == "\x00":
        raise ProgramError(f"The escape of LIKE is {escape!r}. Expected one character that can be seen.")
    result = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if escape and character == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise ProgramError(
                    f"The pattern {pattern!r} of LIKE has the escape {escape!r} before something else than '%', '_' "
                    "or itself. Write the escape twice to match it."
                )
            result.append(re.escape(pattern[at]))
        else:
            result.append(".*" if character == "%" else "." if character == "_" else re.escape(character))
        at += 1
    return re.compile("".join(result), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(text: str, pattern: str, escape: str = "") -> bool:
    """Return whether a text matches a LIKE pattern."""
    return like_pattern(pattern, escape).fullmatch(text) is not None


def _like(call: KernelCall) -> Datum:
    """Use Arrow's kernels for patterns that only say how a text begins, ends, or what it contains."""
    if not call.is_constant(1) or len(call.arguments) > 2 or call.constant(1) is None:
        return by_row(like)(call)
    pattern: str = call.constant(1)
    inner = pattern.strip("%")
    if "\\" in pattern:
        return by_value(like)(call)
    if "%" in inner or "_" in inner:
        return pc.match_like(call.arguments[0], pattern)
    text, before, after = call.arguments[0], pattern.startswith("%"), pattern.endswith("%")
    if not inner:
        return pc.match_substring(text, "") if pattern else pc.equal(text, "")
    if before and after:
        return pc.match_substring(text, inner)
    if before:
        return pc.ends_with(text, pattern=inner)
    return pc.starts_with(text, pattern=inner) if after else pc.equal(text, inner)


# --- SIMILAR TO ------------------------------------------------------------------------------------------------------

_CHARACTER_CLASSES = {
    "[:ALPHA:]": "a-zA-Z", "[:UPPER:]": "A-Z", "[:LOWER:]": "a-z", "[:DIGIT:]": "0-9", "[:ALNUM:]": "a-zA-Z0-9",
    "[:SPACE:]": " ", "[:WHITESPACE:]": "\\s",
}  # fmt: skip


@lru_cache(maxsize=512)
def similar_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return the regular expression of a SIMILAR TO pattern."""
    if len(escape) > 1:
        raise ProgramError(f"The escape of SIMILAR TO is {escape!r}. Expected one character.")
    result = []
    at = 0
    inside = False
    while at < len(pattern):
        character = pattern[at]
        named = next((name for name in _CHARACTER_CLASSES if pattern[at:].upper().startswith(name)), None)
        if escape and character == escape and at + 1 < len(pattern):
            at += 1
            result.append(re.escape(pattern[at]))
        elif named is not None and inside:
            result.append(_CHARACTER_CLASSES[named])
            at += len(named) - 1
        elif inside or character == "[":
            inside = character != "]"
            result.append("\\\\" if character == "\\" else character)
        elif character in "%_":
            result.append(".*" if character == "%" else ".")
        else:
            result.append(character if character in "|*+?(){}," else re.escape(character))
        at += 1
    try:
        return re.compile("".join(result), re.DOTALL)
    except re.error as error:
        raise ProgramError(f"The pattern {pattern!r} of SIMILAR TO is wrong: {error}.") from error


def similar(text: str, pattern: str, escape: str = "") -> bool:
    """Return whether a text matches a SIMILAR TO pattern."""
    return similar_pattern(pattern, escape).fullmatch(text) is not None


# --- regular expressions ---------------------------------------------------------------------------------------------


def _regexp(call: KernelCall) -> Datum:
    """Match with Arrow's kernel where its regular expressions mean the same."""
    if call.is_constant(1) and not call.is_constant(0) and plain_pattern(call.constant(1)):
        return pc.match_substring_regex(call.arguments[0], pattern=call.constant(1))
    return by_value(regexp)(call)


def _regexp_extract(call: KernelCall) -> Datum:
    if not call.is_constant(0) and all(call.is_constant(i) for i in range(1, len(call.arguments))):
        group = call.constant(2) if len(call.arguments) > 2 else 0
        named = None if group is None else one_group(call.constant(1), group)
        if named is not None:
            return pc.struct_field(pc.extract_regex(call.arguments[0], pattern=named), [0])
    return by_value(regexp_extract)(call)


def _pattern(pattern: str) -> re.Pattern[str] | None:
    try:
        return java_pattern(pattern)
    except re.error:
        return None


def regexp(text: str, pattern: str) -> bool:
    """Return whether a part of a text matches; an empty or wrong pattern matches nothing."""
    compiled = _pattern(pattern) if pattern else None
    return compiled is not None and compiled.search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 0) -> str | None:
    """Return a group of the first match."""
    compiled = _pattern(pattern)
    found = compiled.search(text) if compiled is not None else None
    return None if found is None or compiled is None or not 0 <= group <= compiled.groups else found[group]


def regexp_extract_all(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
    """Return a group of every match."""
    compiled = _pattern(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    return [found[group] for found in compiled.finditer(text)]


def regexp_replace(text: str, pattern: str, replacement: str) -> str | None:
    """Return a text with every match replaced; NULL if the pattern is empty or wrong."""
    compiled = _pattern(pattern) if pattern else None
    if compiled is None:
        return None
    try:
        return compiled.sub(java_replacement(replacement), text)
    except (re.error, IndexError):
        return None


def regexp_count(text: str, pattern: str) -> int | None:
    """Return how often a pattern matches."""
    compiled = _pattern(pattern)
    return None if compiled is None else sum(1 for _ in compiled.finditer(text))


def regexp_instr(text: str, pattern: str) -> int | None:
    """Return where the first match begins, counting from 1; 0 if there is none."""
    compiled = _pattern(pattern)
    if compiled is None:
        return None
    found = compiled.search(text)
    return 0 if found is None else found.start() + 1


def regexp_substr(text: str, pattern: str) -> str | None:
    """Return the first match."""
    return regexp_extract(text, pattern)


_TEXTS = (TEXT, TEXT)
_WITH_ESCAPE = (TEXT, TEXT, TEXT)
_SAFE: dict[str, Any] = {"nullable": True, "family": "string"}

FUNCTIONS: tuple[Function, ...] = (
    define(
        "LIKE",
        _WITH_ESCAPE,
        BOOLEAN,
        _like,
        optional=1,
        may_fail=True,
        family="comparison",
        syntax="string LIKE pattern [ESCAPE character]",
        description="Returns whether the string matches a pattern in which % stands for any text and _ for one "
        "character.",
    ),
    define(
        "ILIKE",
        _WITH_ESCAPE,
        BOOLEAN,
        optional=1,
        may_fail=True,
        family="comparison",
        kernel=by_row(lambda text, pattern, escape="": bool(like_pattern(pattern, escape, True).fullmatch(text))),
        syntax="string ILIKE pattern [ESCAPE character]",
        description="Returns whether the string matches a pattern of LIKE, in any case.",
    ),
    define(
        "SIMILAR TO",
        _WITH_ESCAPE,
        BOOLEAN,
        by_value(similar),
        optional=1,
        may_fail=True,
        family="comparison",
        syntax="string SIMILAR TO pattern [ESCAPE character]",
        description="Returns whether the string matches a regular expression of SQL.",
    ),
    define(
        "REGEXP",
        _TEXTS,
        BOOLEAN,
        _regexp,
        aliases=("RLIKE",),
        family="string",
        syntax="REGEXP(string, regex)",
        description="Returns whether a part of the string matches a Java regex.",
    ),
    define(
        "REGEXP_COUNT",
        _TEXTS,
        INT,
        by_value(regexp_count),
        syntax="REGEXP_COUNT(string, regex)",
        description="Returns how often a Java regex matches; NULL if it is wrong.",
        **_SAFE,
    ),
    define(
        "REGEXP_EXTRACT",
        (TEXT, TEXT, INTEGER),
        STRING,
        _regexp_extract,
        optional=1,
        syntax="REGEXP_EXTRACT(string, regex[, group])",
        description="Returns a group of the first match of a Java regex, by default all of it; NULL if there is none.",
        **_SAFE,
    ),
    define(
        "REGEXP_EXTRACT_ALL",
        (TEXT, TEXT, INTEGER),
        ArrayType(STRING),
        by_value(regexp_extract_all),
        optional=1,
        syntax="REGEXP_EXTRACT_ALL(string, regex[, group])",
        description="Returns a group, by default the first, of every match of a Java regex.",
        **_SAFE,
    ),
    define(
        "REGEXP_INSTR",
        _TEXTS,
        INT,
        by_value(regexp_instr),
        syntax="REGEXP_INSTR(string, regex)",
        description="Returns where the first match of a Java regex begins, counting from 1; 0 if there is none.",
        **_SAFE,
    ),
    define(
        "REGEXP_REPLACE",
        (TEXT, TEXT, TEXT),
        STRING,
        by_value(regexp_replace),
        syntax="REGEXP_REPLACE(string, regex, replacement)",
        description="Returns the string with every match of a Java regex replaced; $1 stands for its first group.",
        **_SAFE,
    ),
    define(
        "REGEXP_SUBSTR",
        _TEXTS,
        STRING,
        by_value(regexp_substr),
        syntax="REGEXP_SUBSTR(string, regex)",
        description="Returns the first match of a Java regex; NULL if there is none.",
        **_SAFE,
    ),
)
