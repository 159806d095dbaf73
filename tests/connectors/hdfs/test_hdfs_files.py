"""File source and file sink on a real HDFS: parts appear by renames, each record once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flott.common.serialization import Encoder
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import WriterContext
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    BulkWriterFactory,
    FileSink,
    FileSource,
    StreamFormat,
)
from flott.datastream.formats.csv import CsvEncoder
from flott.errors import ProgramError, StateError, StorageError
from flott.runtime.connectors.files import hdfs
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.source_run import through_json
from flott.testing.harness import collect, in_process
from flott.testing.sinks import commit_permit
from tests.connectors.pages import run_page
from tests.servers.hdfs import serve
from tests.servers.process import NoServer
from tests.servers.sharing import shared

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("hdfs_native", reason="no client: pip install 'flott[hdfs]'")
    try:
        with shared("hdfs", serve) as facts:
            yield facts["url"]
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture
def folder(server: str) -> str:
    return f"{server}/tests/{uuid4().hex}"


def put(location: str, data: bytes) -> None:
    client, path = hdfs.hdfs_client(location), hdfs.path_of(location)
    client.mkdirs(path.rpartition("/")[0], create_parent=True)
    with client.create(path) as file:
        file.write(data)


def content(folder: str) -> dict[str, str]:
    """The files that a reader sees, by their place below the folder."""
    found = {}
    for location, _ in hdfs.hdfs_files(folder):
        if not location.rpartition("/")[2].startswith("."):
            with hdfs.open_hdfs(location) as file:
                found[location.removeprefix(f"{folder}/")] = file.read().decode()
    return found


def lines_sink(folder: str) -> FileSink:
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def staged(sink: FileSink, records: list[Any], epoch: int = 1, attempt: str = "a") -> list[Any]:
    writer = sink.create_writer(WriterContext(0, 1, epoch, f"{attempt}-{epoch}", "job", "operator", now_ms=0))
    writer.write(records, None)
    committables = writer.prepare_commit()
    writer.close()
    return through_json(committables)  # type: ignore[no-any-return]


def committer_of(sink: FileSink) -> Any:
    committer = sink.create_committer()
    committer.open("job", "operator")
    return committer


def test_lines_in_large_and_small_files_are_read_side_by_side(folder: str) -> None:
    lines = [f"line {number}" for number in range(200_000)]
    put(f"{folder}/a/large.txt", "".join(f"{line}\n" for line in lines[:-2]).encode())
    put(f"{folder}/b/small with spaces.txt", "".join(f"{line}\n" for line in lines[-2:]).encode())
    put(f"{folder}/b/.hidden", b"nothing")
    env = in_process(flott__epoch__max_records="60000")
    for pattern in (folder, f"{folder}/*/*.txt"):
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), pattern).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        assert sorted(collect(stream)) == sorted(lines)


def test_parquet_is_written_and_read(folder: str) -> None:
    sink = FileSink.for_bulk_format(folder, BulkWriterFactory.parquet({"id": "int64"})).build()
    env = in_process()
    env.from_collection([{"id": number} for number in range(100)]).sink_to(sink)
    env.execute()
    source = FileSource.for_bulk_file_format(BulkFormat.parquet(), folder).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").map(lambda row: row["id"])
    assert sorted(collect(stream)) == list(range(100))
    (location, _), *_ = hdfs.hdfs_files(folder)
    assert pq.ParquetFile(hdfs.open_hdfs(location)).schema_arrow == pa.schema([("id", pa.int64())])


def test_parts_of_a_row_format_begin_with_their_header(folder: str) -> None:
    builder = FileSink.for_row_format(folder, CsvEncoder(("id",), with_header=True))
    sink = builder.with_bucket_assigner(lambda row: f"day={row['id']}").build()
    committer_of(sink).commit(commit_permit(1, 0), staged(sink, [{"id": 1}, {"id": 2}, {"id": 1}]))
    assert {name.rpartition("/")[0]: text for name, text in content(folder).items()} == {
        "day=1": "id\n1\n1\n",
        "day=2": "id\n2\n",
    }


def test_two_committers_at_once_publish_once(folder: str) -> None:
    sink = lines_sink(folder)
    committables = [entry for epoch in range(1, 21) for entry in staged(sink, [f"{epoch}"], epoch)]
    committers = [committer_of(sink) for _ in range(2)]
    threads = [
        threading.Thread(target=committer.commit, args=(commit_permit(20, 0, replay=True), committables))
        for committer in committers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(content(folder).values(), key=int) == [f"{epoch}\n" for epoch in range(1, 21)]


def test_a_lost_staged_file_and_a_job_that_was_set_back_are_noticed(folder: str) -> None:
    sink = lines_sink(folder)
    committer = committer_of(sink)
    committables = staged(sink, ["a"])
    hdfs.hdfs_client(folder).delete(hdfs.path_of(f"{folder}/{committables[0]['staged']}"))
    with pytest.raises(StateError, match="neither staged nor published"):
        committer.commit(commit_permit(1, 0), committables)
    committer.commit(commit_permit(2, 0), staged(sink, ["b"], 2))
    with pytest.raises(StateError, match="set back"):
        committer.commit(commit_permit(2, 0), staged(sink, ["other"], 2, "b"))


def test_what_failed_attempts_staged_is_removed(folder: str) -> None:
    sink = lines_sink(folder)
    staged(sink, ["failed"])
    live = staged(sink, ["live"], 1, "b")
    committer = committer_of(sink)
    committer.discard(frozenset({"b-1"}))
    assert len(hdfs.hdfs_files(folder)) == 1
    committer.commit(commit_permit(1, 0), live)
    assert list(content(folder).values()) == ["live\n"]


def test_a_place_that_is_a_file_or_not_there_is_refused(folder: str) -> None:
    put(folder, b"x")
    with pytest.raises(ProgramError, match="that is a file"):
        lines_sink(folder).validate()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{folder}-nowhere").build()
    with pytest.raises(ProgramError, match="no file at or below"):
        source.create_enumerator().open()


def test_a_name_node_that_does_not_answer_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "CALL_SECONDS", 1.0)
    with pytest.raises(StorageError, match="does not answer within 1 s"):
        lines_sink("hdfs://127.0.0.1:1/out").validate()


class TestHdfsSink(SinkConformance):
    """The promises of every sink, on HDFS."""

    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, server: str) -> None:
        self._url = server

    def sink(self) -> FileSink:
        self.folder = f"{self._url}/kit/{uuid4().hex}"
        return lines_sink(self.folder)

    def visible(self) -> list[Any]:
        return [line for text in content(self.folder).values() for line in text.splitlines()]


class TestHdfsSource(SourceConformance):
    """The promises of every source, on HDFS."""

    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, server: str) -> None:
        self._url = server

    def source(self, count: int) -> FileSource:
        folder = f"{self._url}/kit/{uuid4().hex}"
        for first in range(0, count, 20):
            put(f"{folder}/{first}.txt", "".join(f"{n}\n" for n in range(first, min(count, first + 20))).encode())
        return FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()


def test_the_program_of_the_page_runs(folder: str) -> None:
    put(f"{folder}/logs/a.txt", b"INFO fine\nERROR no room\n")
    run_page("hdfs.md", {"hdfs://namenode:8020": folder})
    assert "".join(content(f"{folder}/errors").values()) == "ERROR no room\n"
