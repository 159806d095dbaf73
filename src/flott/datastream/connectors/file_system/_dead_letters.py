"""Dead letters in files: records that a source could not decode, one line of JSON each. Values only; runs in tasks."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from flott.common.serialization import Encoder
from flott.datastream.connectors.base import BadRecord
from flott.datastream.connectors.file_system._bulk_writers import BulkWriterFactory
from flott.datastream.connectors.file_system._parts import OutputFileConfig
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.datastream.connectors.file_system._sink import FileSink


@dataclass(frozen=True)
class BadRecordEncoder(Encoder):
    """Writes a bad record as a line of JSON. Bytes that are no text in UTF-8 are base64, under another name.

    >>> BadRecordEncoder().encode(BadRecord("topic t, partition 0, offset 7", "no JSON", b"x", key=b"\\xff"))
    b'{"place":"topic t, partition 0, offset 7","error":"no JSON","value":"x","key_base64":"/w=="}\\n'
    """

    def encode(self, element: BadRecord) -> bytes:
        fields: dict[str, Any] = {"place": element.place, "error": element.error}
        fields |= _named("value", element.value)
        if element.key is not None:
            fields |= _named("key", element.key)
        if element.headers:
            fields["headers"] = [{"name": name, **_named("value", value)} for name, value in element.headers]
        if element.timestamp is not None:
            fields["timestamp"] = element.timestamp
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace") + b"\n"


def _named(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}


@dataclass(frozen=True)
class FileDeadLetterSink(FileSink):
    """Writes records that a source could not decode to files of JSON lines, each exactly once. Flott only.

    >>> from flott.datastream.connectors.base import OnError
    >>> OnError.dead_letter(FileDeadLetterSink("/tmp/dead-letters"))
    OnError.dead_letter(FileDeadLetterSink)
    """

    encoder: Encoder | BulkWriterFactory = field(default_factory=BadRecordEncoder)
    output_file_config: OutputFileConfig = field(default_factory=lambda: OutputFileConfig("dead-letters", ".jsonl"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_path", absolute_path(self.base_path))
