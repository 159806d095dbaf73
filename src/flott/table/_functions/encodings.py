"""Functions between text, bytes and their encodings: Base64, hexadecimal, character sets, URLs, addresses, hashes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from urllib.parse import quote_plus, unquote_to_bytes, urlsplit

from flott.errors import ProgramError
from flott.table._functions.function import Function
from flott.table._functions.signatures import (
    BINARY,
    INTEGER,
    LONG,
    TEXT,
    TEXT_OR_BINARY,
    Parameter,
    by_row,
    by_value,
    define,
)
from flott.table._types.logical import BIGINT, BYTES, STRING, Family

FAMILY = "string"

#: Java's names of character sets, with those of Python.
_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16",
}  # fmt: skip


def _charset(name: str) -> str:
    known = _CHARSETS.get(name.upper())
    if known is None:
        raise ProgramError(f"The character set is {name!r}. Expected one of {', '.join(_CHARSETS)}.")
    return known


def decode(value: bytes, charset: str) -> str:
    """Return bytes as text; bytes without a meaning become the replacement character."""
    name = _charset(charset)
    if name == "utf-16" and value[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        name = "utf-16-be"
    return value.decode(name, "replace")


def encode(text: str, charset: str) -> bytes:
    """Return text as bytes; characters that the set lacks become question marks."""
    name = _charset(charset)
    return b"\xfe\xff" + text.encode("utf-16-be") if name == "utf-16" else text.encode(name, "replace")


def from_base64(text: str | bytes) -> str:
    """Return the text that Base64 stands for."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except binascii.Error as error:
        raise ProgramError(f"{text!r} is not Base64: {error}.") from error


def to_base64(value: str | bytes) -> str:
    """Return a value in Base64."""
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def to_hex(value: int | str) -> str:
    """Return a number, or the bytes of a text, in hexadecimal digits; a negative number as 64 bits."""
    return value.encode().hex().upper() if isinstance(value, str) else f"{value & 0xFFFFFFFFFFFFFFFF:X}"


def unhex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal digits; of an odd number of them the first is read as zero."""
    try:
        return bytes.fromhex("00" + text[1:] if len(text) % 2 else text) if _is_hex(text) else None
    except ValueError:
        return None


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdefABCDEF" for character in text)


def url_encode(text: str) -> str:
    """Return a text in the form of URL parameters."""
    return quote_plus(text, safe=".-*_").replace("~", "%7E")


def url_decode(text: str) -> str | None:
    """Return the text of URL parameters; None if an escape is wrong."""
    pieces = text.split("%")[1:]
    if not all(len(piece) >= 2 and _is_hex(piece[:2]) for piece in pieces):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL, or with a key the value of a parameter of its query."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if not parts.scheme:
        return None
    query = parts.query if "?" in url.partition("#")[0] else None
    if key is not None:
        pairs = [pair.partition("=") for pair in (query or "").split("&")] if part == "QUERY" else []
        return next((value for name, equals, value in pairs if name == key and equals), None)
    user = parts.netloc.rpartition("@")
    found: dict[str, str | None] = {
        "PROTOCOL": parts.scheme,
        "HOST": parts.netloc.rpartition("@")[2].rpartition(":")[0] or parts.netloc.rpartition("@")[2] or host,
        "PATH": parts.path,
        "QUERY": query,
        "REF": parts.fragment if "#" in url else None,
        "AUTHORITY": parts.netloc,
        "FILE": parts.path if query is None else f"{parts.path}?{query}",
        "USERINFO": user[0] if user[1] else None,
    }
    return found.get(part)


def inet_aton(address: str) -> int | None:
    """Return an IPv4 address as a number. A short one leaves out bytes in its middle: 10.1 is 10.0.0.1."""
    parts = address.split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if max(numbers) > 255:
        return None
    *first, last = numbers
    return sum(number << (24 - 8 * index) for index, number in enumerate(first)) + last


def inet_ntoa(number: int) -> str | None:
    """Return the IPv4 address of a number."""
    if not 0 <= number < 1 << 32:
        return None
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


# --- hashes ----------------------------------------------------------------------------------------------------------


def _digest(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode()).hexdigest()


def sha2(text: str, bits: int) -> str:
    """Return the SHA-2 hash of a length."""
    if bits not in (0, 224, 256, 384, 512):
        raise ProgramError(f"SHA2 has no hash of {bits} bits. Expected 224, 256, 384 or 512.")
    return hashlib.new(f"sha{bits or 256}", text.encode()).hexdigest()


def _hash(name: str, shown: str) -> Function:
    return define(
        name, (TEXT,), STRING, by_row(_digest(name.lower())), family="hash", spark="MD5" if name == "MD5" else None,
        syntax=f"{name}(string)", description=f"Returns the {shown} hash of the string in hexadecimal digits.",
    )  # fmt: skip


_NUMBER_OR_TEXT = Parameter("BIGINT or STRING", frozenset({Family.INTEGER, Family.CHARACTER}), STRING)

FUNCTIONS: tuple[Function, ...] = (
    define(
        "FROM_BASE64",
        (TEXT_OR_BINARY,),
        STRING,
        by_row(from_base64),
        may_fail=True,
        family=FAMILY,
        syntax="FROM_BASE64(string)",
        description="Returns the text that a Base64 string stands for.",
    ),
    define(
        "TO_BASE64",
        (TEXT_OR_BINARY,),
        STRING,
        by_row(to_base64),
        family=FAMILY,
        syntax="TO_BASE64(string)",
        description="Returns the string in Base64.",
    ),
    define(
        "DECODE",
        (BINARY, TEXT),
        STRING,
        by_row(decode),
        may_fail=True,
        family=FAMILY,
        syntax="DECODE(binary, charset)",
        description="Returns the text of bytes in a character set: US-ASCII, ISO-8859-1, UTF-8, UTF-16BE, UTF-16LE or "
        "UTF-16.",
    ),
    define(
        "ENCODE",
        (TEXT, TEXT),
        BYTES,
        by_row(encode),
        may_fail=True,
        family=FAMILY,
        syntax="ENCODE(string, charset)",
        description="Returns the bytes of the string in a character set.",
    ),
    define(
        "HEX",
        (_NUMBER_OR_TEXT,),
        STRING,
        by_row(to_hex),
        family="arithmetic",
        spark="HEX",
        syntax="HEX(number) or HEX(string)",
        description="Returns an integer, or the bytes of a string, in hexadecimal digits.",
    ),
    define(
        "UNHEX",
        (TEXT,),
        BYTES,
        by_row(unhex),
        nullable=True,
        family="arithmetic",
        syntax="UNHEX(string)",
        description="Returns the bytes of hexadecimal digits; NULL if they are none.",
    ),
    define(
        "URL_ENCODE",
        (TEXT,),
        STRING,
        by_row(url_encode),
        family=FAMILY,
        syntax="URL_ENCODE(string)",
        description="Returns the string in the form of URL parameters.",
    ),
    define(
        "URL_DECODE",
        (TEXT,),
        STRING,
        by_row(url_decode),
        nullable=True,
        family=FAMILY,
        syntax="URL_DECODE(string)",
        description="Returns the string of its form in URL parameters; NULL if that is wrong.",
    ),
    define(
        "PARSE_URL",
        (TEXT, TEXT, TEXT),
        STRING,
        by_value(parse_url),
        optional=1,
        nullable=True,
        family=FAMILY,
        syntax="PARSE_URL(url, part[, key])",
        description="Returns a part of a URL: PROTOCOL, HOST, PATH, QUERY, REF, AUTHORITY, FILE or USERINFO; with a "
        "key the value of a parameter of its query.",
    ),
    define(
        "INET_ATON",
        (TEXT,),
        BIGINT,
        by_row(inet_aton),
        nullable=True,
        family=FAMILY,
        syntax="INET_ATON(address)",
        description="Returns an IPv4 address as a number; NULL if it is none.",
    ),
    define(
        "INET_NTOA",
        (LONG,),
        STRING,
        by_row(inet_ntoa),
        nullable=True,
        family=FAMILY,
        syntax="INET_NTOA(number)",
        description="Returns the IPv4 address of a number.",
    ),
    _hash("MD5", "MD5"),
    _hash("SHA1", "SHA-1"),
    _hash("SHA224", "SHA-224"),
    _hash("SHA256", "SHA-256"),
    _hash("SHA384", "SHA-384"),
    _hash("SHA512", "SHA-512"),
    define(
        "SHA2",
        (TEXT, INTEGER),
        STRING,
        by_row(sha2),
        may_fail=True,
        family="hash",
        syntax="SHA2(string, bits)",
        description="Returns the SHA-2 hash of 224, 256, 384 or 512 bits.",
    ),
)
