"""Avro files: however they are cut into splits and slices, every record comes exactly once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.types import Row
from flott.datastream.connectors.base import Sink, SliceRequest, Source
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    BulkWriterFactory,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    StreamFormat,
)
from flott.datastream.formats.avro import AvroBulkWriters, AvroSchema
from flott.errors import BadRecordError, ProgramError, TypeMismatchError
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.source_run import enumerator_of, run_source
from flott.testing.harness import in_process

SCHEMA = AvroSchema.parse_string(
    '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}]}'
)


def write(path: Path, records: list[Any], interval: int = 40, codec: str = "null") -> None:
    with open(path, "wb") as file:
        fastavro.writer(file, json.loads(str(SCHEMA)), records, codec=codec, sync_interval=interval)


def source_of(format: Any, path: Any, block: int | None = 50) -> FileSource:
    builder = FileSource.for_record_stream_format(format, str(path))
    return builder.set_file_enumerator(FileEnumeratorProvider(block)).build()


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "text": "x" * (number % 13)} for number in range(count)]


@settings(max_examples=60)
@given(
    count=st.integers(0, 60), interval=st.integers(1, 300), block=st.integers(1, 400) | st.none(),
    codec=st.sampled_from(["null", "deflate"]), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_any_cutting_gives_every_record_once(count: int, interval: int, block: int | None, codec: str, seed: int):
    with TemporaryDirectory() as folder:
        write(Path(folder) / "a.avro", rows(count), interval, codec)
        run = run_source(source_of(StreamFormat.avro_format(), folder, block), Random(seed))
        splits = sorted(run.by_split, key=lambda name: int(name.rpartition("@")[2]))
        assert [record for name in splits for record in run.by_split[name]] == rows(count)


def test_records_are_read_as_of_the_schema_of_the_program(tmp_path: Path):
    write(tmp_path / "a.avro", rows(3))
    newer = AvroSchema.parse_string(
        '{"type": "record", "name": "R", "fields": [{"name": "number", "type": "double", "aliases": ["id"]},'
        ' {"name": "blob", "type": "bytes", "default": "z"}]}'
    )
    found = run_source(source_of(StreamFormat.avro_format(newer, "row"), tmp_path), Random(1)).records
    assert found == [Row(number=float(number), blob=b"z") for number in range(3)]


def test_a_compressed_file_is_read_whole(tmp_path: Path):
    write(tmp_path / "a.avro", rows(30))
    with gzip.open(tmp_path / "b.avro.gz", "wb") as file:
        file.write((tmp_path / "a.avro").read_bytes())
    (tmp_path / "a.avro").unlink()
    assert run_source(source_of(StreamFormat.avro_format(), tmp_path), Random(3)).records == rows(30)


def damaged(path: Path, records: int = 40) -> tuple[int, list[int]]:
    """Write a file with one block of garbage; return where the block begins, and the numbers of the others."""
    write(path, rows(records), 60)
    data = bytearray(path.read_bytes())
    with open(path, "rb") as file:
        blocks = list(fastavro.block_reader(file))
    victim = blocks[len(blocks) // 2]
    lost = [record["id"] for record in victim]
    data[victim.offset + victim.size - 30 : victim.offset + victim.size - 16] = b"\xff" * 14  # the end of its content
    path.write_bytes(bytes(data))
    return victim.offset, [number for number in range(records) if number not in lost]


def test_a_damaged_block_is_named_skipped_or_rejected_and_the_others_are_read(tmp_path: Path):
    path = tmp_path / "a.avro"
    offset, good = damaged(path)
    with pytest.raises(BadRecordError, match=f"a.avro, byte {offset}: "):
        run_source(source_of(StreamFormat.avro_format(), path), Random(0))
    for seed in range(5):
        run = run_source(source_of(StreamFormat.avro_format(on_error="skip"), path, 70), Random(seed))
        assert {record["id"] for record in run.records} >= set(good)
        assert [bad.place for bad in run.rejected] == [f"{path}, byte {offset}"]


def test_a_damaged_length_costs_its_block_only(tmp_path: Path):
    path = tmp_path / "a.avro"
    write(path, rows(40), 60)
    with open(path, "rb") as file:
        victim = list(fastavro.block_reader(file))[2]
    lost = {record["id"] for record in victim}
    data = bytearray(path.read_bytes())
    data[victim.offset + 1] = 0x7F  # says that the block is shorter than it is
    path.write_bytes(bytes(data))
    for block in (None, 30):
        run = run_source(source_of(StreamFormat.avro_format(on_error="skip"), path, block), Random(5))
        assert {record["id"] for record in run.records} == set(range(40)) - lost
        assert len(run.rejected) == 1


def test_a_truncated_file_loses_its_last_block_only(tmp_path: Path):
    path = tmp_path / "a.avro"
    write(path, rows(40), 60)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadRecordError, match="expected a block"):
        run_source(source_of(StreamFormat.avro_format(), path), Random(0))
    run = run_source(source_of(StreamFormat.avro_format(on_error="skip"), path), Random(0))
    assert run.records == rows(40)[: len(run.records)]
    assert len(run.records) >= 30


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"PAR1" + b"x" * 100, b"Obj\x01\x00" + b"x" * 16])
def test_a_file_that_is_no_avro_file_says_so(tmp_path: Path, content: bytes):
    (tmp_path / "a.avro").write_bytes(content)
    source = source_of(StreamFormat.avro_format(), tmp_path)
    if not content:
        assert run_source(source, Random(0)).records == []
        return
    with pytest.raises(TypeMismatchError, match="is no Avro file"):
        run_source(source, Random(0))


def test_a_record_is_located_by_its_block(tmp_path: Path):
    write(tmp_path / "a.avro", rows(20))
    source = source_of(StreamFormat.avro_format(), tmp_path, None)
    part = enumerator_of(source, None).plan(SliceRequest(1000, 1, 0, everything=True)).slices[0]
    assert "record 1 of the block after byte" in source.create_reader().locate(part, 1)


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_are_written_by_a_job_and_read_again(tmp_path: Path, codec: str):
    sink = (
        FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(SCHEMA, codec))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    env = in_process(2)
    env.from_collection([*rows(50), Row(id=50, text="row")]).sink_to(sink)
    env.execute()
    found = run_source(source_of(StreamFormat.avro_format(SCHEMA), tmp_path), Random(2)).records
    assert sorted(found, key=lambda record: record["id"]) == [*rows(50), {"id": 50, "text": "row"}]


def test_wrong_schemas_codecs_and_records_are_refused(tmp_path: Path):
    with pytest.raises(ProgramError, match="codec"):
        BulkWriterFactory.avro(SCHEMA, "zip")
    with pytest.raises(ProgramError, match="Avro schema"):
        FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory.avro("{}")).build().validate()
    with pytest.raises(ProgramError, match="'dict' or 'row'"):
        StreamFormat.avro_format(record="list")  # type: ignore[arg-type]
    env = in_process(1, restart_strategy__type="none")
    env.from_collection([3]).sink_to(FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory.avro(SCHEMA)).build())
    with pytest.raises(Exception, match="row or a dict"):
        env.execute()


class TestAvroFiles(SourceConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def source(self, count: int) -> Source[Any]:
        path = self.folder / uuid4().hex
        path.mkdir()
        write(path / "a.avro", rows(count))
        return source_of(StreamFormat.avro_format(), path)

    def number(self, record: Any) -> int:
        return int(record["id"])


class TestAvroFileSink(SinkConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def sink(self) -> Sink[Any]:
        self.path = self.folder / uuid4().hex
        return FileSink.for_bulk_format(str(self.path), AvroBulkWriters.for_generic_record(SCHEMA)).build()

    def record(self, number: int) -> Any:
        return {"id": number, "text": str(number)}

    def visible(self) -> list[Any]:
        found = []
        for path in self.path.rglob("part-*"):
            with open(path, "rb") as file:
                found += list(fastavro.reader(file))
        return found
