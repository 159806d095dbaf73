"""Cuts SQL text into tokens. Comments and white space are dropped; a hint (``/*+ ... */``) is kept as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flott.table._sql.errors import SqlSyntaxError
from flott.table._sql.nodes.base import Position

#: Kinds of tokens.
WORD, QUOTED, NUMBER, TEXT, BYTES, SIGN, END = "word", "quoted", "number", "text", "bytes", "sign", "end"

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+|--[^\n]*|//[^\n]*|/\*(?!\+)[\s\S]*?\*/)
    | (?P<bytes>[xX]'[0-9A-Fa-f]*')
    | (?P<unicode>[uU]&'(?:[^']|'')*')
    | (?P<escaped>[eE]'(?:[^'\\]|\\[\s\S]|'')*')
    | (?P<text>(?:_[A-Za-z0-9-]+|[nN])?'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)
    | (?P<sign>/\*\+|\*/|\|\||=>|<>|!=|<=|>=|\{-|-\}|/(?!\*)|[-+*%=<>(),.;\[\]{}?:|^$])
    """,
    re.X,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\s\S]))")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token. ``text`` is as written, ``word`` in upper case if it is a word or sign that can be a keyword.

    ``value`` is what a quoted token means: the text without quotes and escapes. ``start`` and ``end`` are offsets.
    """

    kind: str
    text: str
    word: str
    value: str
    start: int
    end: int
    position: Position


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a text, and one of kind END after the last."""
    tokens: list[Token] = []
    offset, line, line_start, match = 0, 1, 0, _TOKEN.match
    while offset < len(text):
        found = match(text, offset)
        position = Position(line, offset - line_start + 1)
        if found is None:
            raise _unreadable(text, offset, position)
        kind, written = str(found.lastgroup), found.group()
        if kind != "blank":
            tokens.append(_token(kind, written, offset, position, text))
        breaks = written.count("\n")
        if breaks:
            line += breaks
            line_start = offset + written.rindex("\n") + 1
        offset = found.end()
    tokens.append(Token(END, "", "", "", offset, offset, Position(line, offset - line_start + 1)))
    return tokens


def _token(kind: str, written: str, offset: int, position: Position, text: str) -> Token:
    end = offset + len(written)
    match kind:
        case "word":
            return Token(WORD, written, written.upper(), written, offset, end, position)
        case "sign" | "number":
            return Token(kind, written, written, written, offset, end, position)
        case "quoted":
            return Token(QUOTED, written, "", written[1:-1].replace("``", "`"), offset, end, position)
        case "bytes":
            if len(written) % 2 == 0:
                raise SqlSyntaxError(f"{written} has an odd number of digits", position, text)
            return Token(BYTES, written, "", written[2:-1], offset, end, position)
    inner = written[written.index("'") + 1 : -1].replace("''", "'")
    if kind == "unicode":
        inner = _unescape(inner, position, text)
    elif kind == "escaped":
        inner = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2]), inner)
    return Token(TEXT, written, "", inner, offset, end, position)


def _unescape(inner: str, position: Position, text: str) -> str:
    """Return the characters of a ``U&'...'`` text, in which ``\\0041`` is a code point and two backslashes are one."""
    parts = re.split(r"\\(\\|[0-9A-Fa-f]{4}|\+[0-9A-Fa-f]{6}|)", inner)
    for index in range(1, len(parts), 2):
        code = parts[index]
        if not code:
            raise SqlSyntaxError("A backslash in U&'...' needs four hexadecimal digits after it", position, text)
        if code != "\\":
            number = int(code.removeprefix("+"), 16)
            if number > 0x10FFFF:
                raise SqlSyntaxError(f"There is no character \\{code}", position, text)
            parts[index] = chr(number)
    return "".join(parts)


def _unreadable(text: str, offset: int, position: Position) -> SqlSyntaxError:
    rest = text[offset : offset + 3]
    for opening, what in (("/*", "comment"), ("'", "text"), ("`", "name")):
        if opening in rest and (opening != "`" or rest[0] == "`"):
            reason = f"Found the end of the text, expected the end of the {what} that begins here"
            return SqlSyntaxError(reason, position, text)
    if rest[0] == '"':
        reason = "Found '\"', expected a text in single quotes or a name in backquotes"
    else:
        reason = f"Found {rest[0]!r}, which begins nothing in SQL"
    return SqlSyntaxError(reason, position, text)
