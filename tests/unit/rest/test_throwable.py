"""Failures as Java's serialization writes them, byte by byte."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flott.rest.throwable import modified_utf8, serialized_throwable


@dataclass
class Reader:
    """Reads what the specification says, and nothing else."""

    data: bytes
    at: int = 0

    def take(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        assert len(found) == count
        self.at += count
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0]

    def utf(self) -> str:
        return self.text(self.number("H"))

    def text(self, length: int) -> str:
        """Modified UTF-8, decoded unit by unit as DataInputStream.readUTF does."""
        raw, units, at = self.take(length), [], 0
        while at < len(raw):
            first = raw[at]
            if first < 0x80:
                assert first != 0
                units.append(first)
                at += 1
            elif first >> 5 == 0b110:
                units.append((first & 0x1F) << 6 | raw[at + 1] & 0x3F)
                at += 2
            else:
                assert first >> 4 == 0b1110
                units.append((first & 0x0F) << 12 | (raw[at + 1] & 0x3F) << 6 | raw[at + 2] & 0x3F)
                at += 3
        return struct.pack(f">{len(units)}H", *units).decode("utf-16-be", "surrogatepass")

    def string(self) -> str | None:
        tag = self.take(1)
        if tag == b"\x70":
            return None
        assert tag in (b"\x74", b"\x7c")
        return self.utf() if tag == b"\x74" else self.text(self.number("Q"))

    def description(self) -> tuple[str, int, int, list[tuple[str, str, str | None]]]:
        assert self.take(1) == b"\x72"
        name, uid, flags = self.utf(), self.number("q"), self.number("B")
        fields = [(self.take(1).decode(), self.utf(), self.string()) for _ in range(self.number("H"))]
        assert self.take(1) == b"\x78"
        return name, uid, flags, fields


def read(encoded: str) -> tuple[list[Any], list[str | None]]:
    reader = Reader(base64.b64decode(encoded, validate=True))
    assert reader.take(5) == b"\xac\xed\x00\x05\x73"
    classes = [reader.description() for _ in range(3)]
    assert reader.take(1) == b"\x70"  # no superclass any more
    cause, message, stack, suppressed = (reader.string() for _ in range(4))
    assert (cause, stack, suppressed) == (None, None, None)
    assert reader.take(1) == b"\x78"  # the end of what Throwable writes itself
    trace, name, exception = (reader.string() for _ in range(3))
    assert exception is None
    assert reader.at == len(reader.data)
    return classes, [message, trace, name]


def test_the_classes_are_those_of_flink_and_java() -> None:
    classes, texts = read(serialized_throwable("flott.JobNotFound", "no job 0123", "trace"))
    string = "Ljava/lang/String;"
    assert classes == [
        (
            "org.apache.flink.util.SerializedThrowable",
            7284183123441947635,
            2,
            [
                ("L", "fullStringifiedStackTrace", string),
                ("L", "originalErrorClassName", string),
                ("[", "serializedException", "[B"),
            ],
        ),
        ("java.lang.Exception", -3387516993124229948, 2, []),
        (
            "java.lang.Throwable",
            -3042686055658047285,
            3,
            [
                ("L", "cause", "Ljava/lang/Throwable;"),
                ("L", "detailMessage", string),
                ("[", "stackTrace", "[Ljava/lang/StackTraceElement;"),
                ("L", "suppressedExceptions", "Ljava/util/List;"),
            ],
        ),
    ]
    assert texts == ["flott.JobNotFound: no job 0123", "trace", "flott.JobNotFound"]


@given(st.text(), st.text(st.characters()), st.text(max_size=20))
def test_any_text_comes_through(message: str, trace: str, name: str) -> None:
    assert read(serialized_throwable(name, message, trace))[1] == [f"{name}: {message}", trace, name]


def test_long_texts_have_a_long_length() -> None:
    long = "x" * 70_000
    assert read(serialized_throwable("a.B", long, long))[1] == [f"a.B: {long}", long, "a.B"]


def test_java_writes_nul_and_high_characters_in_its_own_way() -> None:
    assert modified_utf8("a\0ä€") == b"a\xc0\x80\xc3\xa4\xe2\x82\xac"
    assert modified_utf8("\U0001f600") == b"\xed\xa0\xbd\xed\xb8\x80"


def test_the_bytes_are_those_flinks_client_accepted() -> None:
    """Of ("a.B", "m", "t"): taken down when Flink 2.3's own client read them."""
    assert serialized_throwable("a.B", "m", "t") == ACCEPTED


ACCEPTED = (
    "rO0ABXNyAClvcmcuYXBhY2hlLmZsaW5rLnV0aWwuU2VyaWFsaXplZFRocm93YWJsZWUWnfUfpxPzAgADTAAZZnVsbFN0cmluZ2lm"
    "aWVkU3RhY2tUcmFjZXQAEkxqYXZhL2xhbmcvU3RyaW5nO0wAFm9yaWdpbmFsRXJyb3JDbGFzc05hbWV0ABJMamF2YS9sYW5nL1N0"
    "cmluZztbABNzZXJpYWxpemVkRXhjZXB0aW9udAACW0J4cgATamF2YS5sYW5nLkV4Y2VwdGlvbtD9Hz4aOxzEAgAAeHIAE2phdmEu"
    "bGFuZy5UaHJvd2FibGXVxjUnOXe4ywMABEwABWNhdXNldAAVTGphdmEvbGFuZy9UaHJvd2FibGU7TAANZGV0YWlsTWVzc2FnZXQA"
    "EkxqYXZhL2xhbmcvU3RyaW5nO1sACnN0YWNrVHJhY2V0AB5bTGphdmEvbGFuZy9TdGFja1RyYWNlRWxlbWVudDtMABRzdXBwcmVz"
    "c2VkRXhjZXB0aW9uc3QAEExqYXZhL3V0aWwvTGlzdDt4cHB0AAZhLkI6IG1wcHh0AAF0dAADYS5CcA=="
)
