"""A failure as a Java-serialized ``SerializedThrowable``, the only form that Flink's own clients read. Pure.

    magic · object(class SerializedThrowable > Exception > Throwable > null) · the fields of Throwable · the fields of
    SerializedThrowable

The layout is that of the Java Object Serialization Specification (protocol version 2): big-endian numbers, texts in
modified UTF-8, a class described by name, serial version, flags and fields, then by its superclass.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from typing_extensions import TypedDict

FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str, "serialized-throwable": str})

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _CLASS, _OBJECT, _STRING, _END_OF_BLOCK, _LONG_STRING = (bytes([tag]) for tag in b"\x70\x72\x73\x74\x78\x7c")
_SERIALIZABLE, _WRITES_ITSELF = 2, 1

_TEXT = "Ljava/lang/String;"
_THROWABLE_FIELDS = (
    ("cause", "Ljava/lang/Throwable;"),
    ("detailMessage", _TEXT),
    ("stackTrace", "[Ljava/lang/StackTraceElement;"),
    ("suppressedExceptions", "Ljava/util/List;"),
)
_SERIALIZED_THROWABLE_FIELDS = (
    ("fullStringifiedStackTrace", _TEXT),
    ("originalErrorClassName", _TEXT),
    ("serializedException", "[B"),
)


def failure_cause(name: str, message: str, trace: str) -> FailureCause:
    """Return a failure with class, message and trace as Flink's clients read it."""
    return {"class": name, "stack-trace": trace, "serialized-throwable": serialized_throwable(name, message, trace)}


def serialized_throwable(name: str, message: str, trace: str) -> str:
    """Return a failure with class, message and trace, serialized and base64-encoded."""
    classes = (
        _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, _SERIALIZED_THROWABLE_FIELDS)
        + _class("java.lang.Exception", -3387516993124229948, ())
        + _class("java.lang.Throwable", -3042686055658047285, _THROWABLE_FIELDS, _WRITES_ITSELF)
        + _NULL
    )
    of_throwable = _NULL + _string(f"{name}: {message}") + _NULL + _NULL + _END_OF_BLOCK
    of_serialized = _string(trace) + _string(name) + _NULL
    return base64.b64encode(_MAGIC + _OBJECT + classes + of_throwable + of_serialized).decode()


def _class(name: str, version: int, fields: Sequence[tuple[str, str]], flags: int = 0) -> bytes:
    described = b"".join(kind[0].encode() + _short(field) + _string(kind) for field, kind in fields)
    return (
        _CLASS
        + _short(name)
        + struct.pack(">qBH", version, flags | _SERIALIZABLE, len(fields))
        + described
        + _END_OF_BLOCK
    )


def _string(text: str) -> bytes:
    data = modified_utf8(text)
    if len(data) < 1 << 16:
        return _STRING + struct.pack(">H", len(data)) + data
    return _LONG_STRING + struct.pack(">Q", len(data)) + data


def _short(text: str) -> bytes:
    data = modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def modified_utf8(text: str) -> bytes:
    """Encode a text as Java does: NUL takes two bytes, characters beyond the basic plane are two surrogates."""
    if text.isascii() and "\0" not in text:
        return text.encode()
    units = (
        struct.unpack(f">{len(encoded) // 2}H", encoded)
        if (encoded := text.encode("utf-16-be", "surrogatepass"))
        else ()
    )
    return b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
