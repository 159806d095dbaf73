"""Records that a file source cannot read go to files of JSON lines, each exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import BadRecord, OnError, Sink, Source
from flott.datastream.connectors.file_system import (
    FileDeadLetterSink,
    FileEnumeratorProvider,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flott.datastream.connectors.file_system._dead_letters import BadRecordEncoder
from flott.errors import BadRecordError, ProgramError
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.source_run import run_source
from flott.testing.harness import collect, in_process


def letters(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(folder.rglob("dead-letters-*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_unreadable_lines_become_dead_letters(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b'{"id": 1}\nno json\n{"id": 2}\n\xff\xfe\n{"id": 3}\n')
    sink = FileDeadLetterSink(str(tmp_path / "dead"))
    source = (
        FileSource.for_record_stream_format(StreamFormat.json_lines_format(), str(tmp_path / "in"))
        .set_on_error(OnError.dead_letter(sink))
        .build()
    )
    env = in_process(2)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    assert sorted(record["id"] for record in collect(stream)) == [1, 2, 3]
    first, second = sorted(letters(tmp_path / "dead"), key=lambda letter: letter["place"])
    assert first["place"] == f"{tmp_path}/in/a.jsonl, byte 10"
    assert first["value"] == "no json\n"
    assert "JSON" in first["error"]
    assert second["value_base64"] == "//4K"


def test_a_line_tells_all_that_is_known_of_a_record():
    bad = BadRecord("topic t, partition 0, offset 7", "no 'x'", None, b"k", (("h", b"\xff"), ("i", None)), 5)
    assert json.loads(BadRecordEncoder().encode(bad)) == {
        "place": "topic t, partition 0, offset 7",
        "error": "no 'x'",
        "value": None,
        "key": "k",
        "headers": [{"name": "h", "value_base64": "/w=="}, {"name": "i", "value": None}],
        "timestamp": 5,
    }
    json.loads(BadRecordEncoder().encode(BadRecord("p", "lone \ud800", b"")))


def test_the_format_or_the_source_says_what_becomes_of_bad_records(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"k,v\n1,2\n3\n5,6\n")
    plain = FileSource.for_record_stream_format(StreamFormat.csv_format(), str(tmp_path))
    with pytest.raises(BadRecordError, match="expected 2 fields"):
        run_source(plain.build(), Random(0))
    assert plain.build().on_error == OnError.fail()
    skipping = FileSource.for_record_stream_format(StreamFormat.csv_format(on_error="skip"), str(tmp_path)).build()
    assert skipping.on_error == OnError.skip()
    kept = OnError.dead_letter(FileDeadLetterSink(str(tmp_path / "dead")))
    by_format = FileSource.for_record_stream_format(StreamFormat.csv_format(on_error=kept), str(tmp_path)).build()
    assert by_format.on_error == kept
    for source in (plain.set_on_error(OnError.skip()).build(), skipping, by_format):
        run = run_source(source, Random(0))
        assert run.records == [{"k": "1", "v": "2"}, {"k": "5", "v": "6"}]
        assert [bad.value for bad in run.rejected] == [b"3\n"]
    with pytest.raises(ProgramError, match="OnError"):
        plain.set_on_error("skip")  # type: ignore[arg-type]


class TestJsonLines(SourceConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def source(self, count: int) -> Source[Any]:
        return self.bad_source(count, frozenset(), OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        path = self.folder / uuid4().hex
        path.mkdir()
        lines = [b"{" if number in bad else b"%d" % number for number in range(count)]
        (path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        builder = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), str(path))
        return builder.set_file_enumerator(FileEnumeratorProvider(40)).set_on_error(on_error).build()


class TestFileDeadLetterSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def sink(self) -> Sink[Any]:
        self.path = self.folder / uuid4().hex
        every_checkpoint = RollingPolicy.on_checkpoint_rolling_policy()
        return FileDeadLetterSink(str(self.path), rolling_policy=every_checkpoint)

    def record(self, number: int) -> Any:
        return BadRecord(f"offset {number}", "no JSON", b"x")

    def visible(self) -> list[Any]:
        return [BadRecord(each["place"], each["error"], each["value"].encode()) for each in letters(self.path)]
