"""Regular expressions of Java, which Flink's functions take, as Python's."""

from __future__ import annotations

import re
from functools import lru_cache

_CLASSES = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": "\\x00-\\x7f", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": " \\t", "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9a-fA-F", "Space": " \\t\\n\\x0b\\f\\r", "L": "^\\W\\d_", "N": "\\d", "IsAlphabetic": "^\\W\\d_",
    "IsDigit": "\\d", "Lu": "A-Z", "Ll": "a-z",
}  # fmt: skip
_PROPERTY = re.compile(r"\\([pP])\{(\w+)\}")
_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")


@lru_cache(maxsize=512)
def java_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled form of a Java pattern; raise ``re.error`` if it is none."""
    translated = _GROUP.sub("(?P<", pattern)
    translated = translated.replace("\\z", "\\Z").replace("\\h", "[ \\t]")
    return re.compile(_PROPERTY.sub(_class, translated), re.ASCII)


def _class(found: re.Match[str]) -> str:
    inner = _CLASSES.get(found[2])
    if inner is None:
        raise re.error(f"unknown character class {found[2]}")
    negated = found[1] == "P"
    if inner.startswith("^"):
        return f"[{inner[1:]}]" if negated else f"[{inner}]"
    inside = found.string.rfind("[", 0, found.start()) > found.string.rfind("]", 0, found.start())
    if inside and not negated:
        return inner
    return f"[^{inner}]" if negated else f"[{inner}]"


@lru_cache(maxsize=512)
def java_replacement(replacement: str) -> str:
    r"""Return a Java replacement, with ``$1`` and ``${name}``, in Python's form."""
    result = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        if character == "\\" and at + 1 < len(replacement):
            result.append(replacement[at + 1].replace("\\", "\\\\"))
            at += 2
        elif character == "$":
            found = re.compile(r"\$(?:(\d)|\{(\w+)\})").match(replacement, at)
            if found is None:
                raise re.error("illegal group reference")
            result.append(f"\\g<{found[1] or found[2]}>")
            at = found.end()
        else:
            result.append(character.replace("\\", "\\\\"))
            at += 1
    return "".join(result)


# --- for Arrow's kernels, whose regular expressions are RE2's ---------------------------------------------------------

#: Constructs that RE2 has not, or reads differently: groups with a question mark, the end of the text (Java lets a line
#: break follow it), possessive quantifiers, intersections of classes, and all escapes but those of plain characters,
#: digits and words.
_DIFFERENT = re.compile(r"\(\?|\$|[*+?}]\+|&&|\\[^dDwW.*+?()\[\]{}|^/\-\\]|\[\[|\[\^?\]")


@lru_cache(maxsize=512)
def plain_pattern(pattern: str | None) -> bool:
    """Return whether a pattern means the same for Java and for Arrow's kernels."""
    if not pattern or _DIFFERENT.search(pattern):
        return False
    try:
        java_pattern(pattern)
    except re.error:
        return False
    return True


@lru_cache(maxsize=512)
def one_group(pattern: str | None, group: int) -> str | None:
    """Return a pattern in which only one group is captured, for a kernel that returns named groups.

    None if the pattern means something else there, or if the group may have no part in a match: Java says NULL then,
    and the kernel an empty text.
    """
    if pattern is None or not plain_pattern(pattern):
        return None
    if group == 0:
        return f"(?P<found>{_captureless(pattern, -1)})"
    return _captureless(pattern, group) if _always_taken(pattern, group) else None


def _marks(pattern: str) -> list[tuple[int, str]]:
    """Return the positions of parentheses and bars that are no plain characters."""
    found = []
    at, inside = 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif inside:
            inside = character != "]"
        elif character == "[":
            inside = True
        elif character in "(|)":
            found.append((at, character))
        at += 1
    return found


def _captureless(pattern: str, group: int) -> str:
    """Return a pattern whose groups are not captured, but for one, which is named."""
    result, at, number = [], 0, 0
    for place, mark in _marks(pattern):
        if mark == "(":
            number += 1
            result.append(pattern[at:place] + ("(?P<found>" if number == group else "(?:"))
            at = place + 1
    return "".join(result) + pattern[at:]


def _always_taken(pattern: str, group: int) -> bool:
    """Return whether a group has a part in every match: no choice around it, and it may not be left out."""
    open_groups: list[int] = [0]
    around: dict[int, tuple[int, ...]] = {}
    optional: set[int] = set()
    chosen: set[int] = set()
    number = 0
    for place, mark in _marks(pattern):
        if mark == "(":
            number += 1
            around[number] = tuple(open_groups)
            open_groups.append(number)
        elif mark == "|":
            chosen.add(open_groups[-1])
        else:
            closed = open_groups.pop()
            if pattern[place + 1 : place + 2] in ("?", "*") or pattern[place + 1 : place + 3] == "{0":
                optional.add(closed)
    if group not in around:
        return False
    return group not in optional and not any(one in chosen or one in optional for one in around[group])
