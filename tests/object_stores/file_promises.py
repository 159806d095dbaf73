"""The promises of file source and file sink, for any object store: the conformance kit over ``place()``."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import uuid4

from flott.common.serialization import Encoder
from flott.datastream.connectors.base import OnError
from flott.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, RollingPolicy, StreamFormat
from flott.runtime.storage.opening import open_object_storage
from flott.testing.connectors import SinkConformance, SourceConformance

#: Makes lines as long as a source expects them before it has read any: then epochs are as small as they should be.
PADDING = "." * 120


def write(place: str, files: dict[str, str]) -> None:
    """Put files into a folder."""
    storage = open_object_storage(place)
    for name, text in files.items():
        storage.write(name, text.encode())


def visible_lines(place: str) -> list[str]:
    """Return what a reader of a folder reads."""
    storage = open_object_storage(place)
    shown = [
        location
        for location, _ in storage.files_at(".")
        if not any(part.startswith((".", "_")) for part in location.removeprefix(place).split("/"))
    ]
    return [line for location in shown for line in storage.read(location).decode().splitlines()]


class FilesWritten(SinkConformance):
    """Part files of lines, which appear with their checkpoint."""

    seeds: ClassVar[int] = 2
    bucket: ClassVar[str]  #: the address of a bucket

    def sink(self) -> FileSink:
        self.place = f"{self.bucket}/{uuid4().hex[:12]}"
        builder = FileSink.for_row_format(self.place, Encoder.simple_string_encoder())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        return builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()

    def visible(self) -> list[Any]:
        return visible_lines(self.place)


class FilesRead(SourceConformance):
    """Lines of text, in files of several folders."""

    seeds: ClassVar[int] = 2
    bucket: ClassVar[str]

    def source(self, count: int) -> FileSource:
        place = f"{self.bucket}/{uuid4().hex[:12]}"
        lines = [f"{number:04d}{PADDING}\n" for number in range(count)]
        write(place, {f"day={part}/lines.txt": "".join(lines[part::3]) for part in range(3)})
        write(place, {".hidden": "no line\n"})
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), place).build()

    def number(self, record: Any) -> int:
        return int(record.rstrip("."))

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> FileSource:
        place = f"{self.bucket}/{uuid4().hex[:12]}"
        lines = ["nothing\n" if number in bad else f'"{number:04d}{PADDING}"\n' for number in range(count)]
        write(place, {"lines.jsonl": "".join(lines)})
        builder = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), place)
        return builder.set_on_error(on_error).build()
