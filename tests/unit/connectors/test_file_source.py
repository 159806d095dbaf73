"""The file source: however files are cut into blocks and epochs, every record comes exactly once."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import logging
import lzma
import os
import pickle
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.time import Duration
from flott.common.types import Row
from flott.datastream.connectors.base import Boundedness, Slice, SliceRequest
from flott.datastream.connectors.file_system import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)
from flott.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flott.errors import BadRecordError, ProgramError, StorageError, TypeMismatchError
from flott.runtime.connectors.files.lines import LineCursor, split_lines
from flott.testing.connectors.source_run import SourceRun, enumerator_of, run_source, through_json

TEXT = StreamFormat.text_line_format()
seeds = st.integers(0, 2**32)
lines = st.lists(
    st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=("Cs",)), max_size=30), max_size=40
)


def source_of(format: Any, *paths: Any, block_bytes: int | None = 20, watch_ms: int | None = None) -> FileSource:
    build = FileSource.for_bulk_file_format if isinstance(format, BulkFormat) else FileSource.for_record_stream_format
    builder = build(format, *map(str, paths)).set_file_enumerator(FileEnumeratorProvider(block_bytes))
    if watch_ms is not None:
        builder.monitor_continuously(Duration.of_millis(watch_ms))
    return builder.build()


def read_all(source: FileSource, seed: int = 0, **options: Any) -> list[Any]:
    return run_source(source, Random(seed), **options).records


# ---- lines ------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    content=st.lists(st.tuples(st.text("aä\u2028😀\r\x0b", max_size=8), st.sampled_from(["\n", "\r\n"])), max_size=30),
    tail=st.text("bß", max_size=5),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    chunk=st.integers(1, 40),
)
def test_any_cutting_of_a_file_gives_every_line_exactly_once(
    content: list[tuple[str, str]], tail: str, cuts: list[int], chunk: int
) -> None:
    data = ("".join(line + end for line, end in content) + tail).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    expected = [line[:-1] if line.endswith("\r") else line for line in data.decode().split("\n")]
    found: list[str] = []
    for start, stop in pairwise(edges):
        cursor = LineCursor(io.BytesIO(data), "memory", start, len(data))
        cursor.skip_partial_line()
        while block := cursor.take(stop, chunk):
            found += split_lines(block.decode())
        assert cursor.position >= stop
    assert found == (expected if expected[-1] else expected[:-1])


@settings(max_examples=100)
@given(files=st.lists(st.tuples(lines, st.booleans(), st.sampled_from(["\n", "\r\n"])), max_size=4),
       block=st.integers(1, 200), seed=seeds)  # fmt: skip
def test_text_files_give_every_line_once_in_the_order_of_each_block(
    files: list[tuple[list[str], bool, str]], block: int, seed: int
) -> None:
    with TemporaryDirectory() as folder:
        expected = []
        for number, (content, trailing, end) in enumerate(files):
            text = end.join(content) + (end if trailing and content else "")
            Path(folder, f"{number}.txt").write_bytes(text.encode())
            rows = [row[:-1] if row.endswith("\r") else row for row in text.split("\n")]
            expected.append(rows if rows[-1] else rows[:-1])
        run = run_source(source_of(TEXT, folder, block_bytes=block), Random(seed))
        for number, rows in enumerate(expected):
            path = f"{folder}/{number}.txt"
            blocks = sorted((int(name.rpartition("@")[2]), name) for name in run.by_split if name.startswith(path))
            assert [line for _, name in blocks for line in run.by_split[name]] == rows


def test_a_line_much_longer_than_a_block_belongs_to_the_block_it_starts_in(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 1000 + "\nshort\n")
    for seed in range(20):
        run = run_source(source_of(TEXT, tmp_path, block_bytes=50), Random(seed))
        assert run.records == ["x" * 1000, "short"]


def test_blocks_of_one_file_are_read_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n:09d}\n" for n in range(1000)))
    plan = enumerator_of(source_of(TEXT, tmp_path, block_bytes=1000), None).plan(SliceRequest(10**6, 4, 0))
    assert len(plan.slices) == 10
    assert plan.finished


def test_a_file_is_not_cut_if_the_enumerator_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("line\n" * 1000)
    builder = FileSource.for_record_stream_format(TEXT, str(tmp_path))
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    source = builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner()).build()
    run = run_source(source, Random(0))
    assert len(run.by_split) == 1
    assert run.records == ["line"] * 1000


def test_the_budget_follows_the_size_of_the_records(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 50_000)
    enumerator = enumerator_of(source := source_of(TEXT, tmp_path, block_bytes=None), None)
    counts = []
    for _ in range(4):
        plan = enumerator.plan(SliceRequest(100, 1, 0))
        reader = source.create_reader()
        counts.append(len(list(reader.read(plan.slices[0]))))
        enumerator.advance(plan, {plan.slices[0].split: reader.reached(plan.slices[0])})
    assert counts == [6400, 100, 100, 100]  # the first is a guess: 128 bytes a record


# ---- which files ------------------------------------------------------------------------------------------------


def test_directories_are_read_recursively_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/b/c.txt", ".hidden", "_SUCCESS", "_tmp/x.txt", "a/.part/y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name + "\n")
    run = run_source(source_of(TEXT, tmp_path), Random(0), troubled=False, parallelism=lambda rng: 1)
    assert run.records == ["a/b/c.txt", "a/z.txt", "b.txt"]


def test_patterns_and_single_files_may_overlap(tmp_path: Path) -> None:
    for name in ("x1.log", "x2.log", "y.log"):
        (tmp_path / name).write_text(name + "\n")
    found = read_all(source_of(TEXT, tmp_path / "x*.log", tmp_path / "x1.log", f"file://{tmp_path}/y.log"))
    assert sorted(found) == ["x1.log", "x2.log", "y.log"]


def test_missing_paths_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / "*.txt"):
        with pytest.raises(ProgramError, match=str(path).replace("*", r"\*")):
            enumerator_of(source_of(TEXT, path), None)
    with pytest.raises(ProgramError, match="ftp"):
        source_of(TEXT, "ftp://bucket/key")


def test_empty_directories_and_empty_files_end_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    assert read_all(source_of(TEXT, tmp_path)) == []


def test_a_file_that_grows_is_read_to_the_size_it_had(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\nthr")

    def grow(run: SourceRun) -> None:
        with file.open("a") as more:
            more.write("ee\nfour\n")

    assert read_all(source_of(TEXT, tmp_path), troubled=False, budgets=(1, 1), on_epoch=grow) == ["one", "two", "thr"]


def test_a_file_that_shrank_is_an_error_and_so_is_one_that_vanished(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    source = source_of(TEXT, tmp_path, block_bytes=None)
    part = enumerator_of(source, None).plan(SliceRequest(100, 1, 0)).slices[0]
    file.write_text("one\n")
    with pytest.raises(StorageError, match="had 8 when"):
        list(source.create_reader().read(part))
    file.unlink()
    with pytest.raises(StorageError, match="still there"):
        list(source.create_reader().read(part))


def test_many_small_files_are_read_in_few_epochs_with_a_small_state(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number:04d}.txt").write_text(f"{number}\n" * 3)
    run = run_source(source_of(TEXT, tmp_path), Random(0), budgets=(5000, 5000), parallelism=lambda rng: 2)
    assert sorted(run.records) == sorted(str(number) for number in range(500) for _ in range(3))
    assert run.epochs <= 20
    assert run.largest_state < 2000


def test_only_some_splits_are_half_read_at_any_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n:09d}\n" for n in range(5000)))
    run = run_source(
        source_of(TEXT, tmp_path, block_bytes=500), Random(0), budgets=(1, 60), parallelism=lambda rng: 2
    )
    assert len(run.records) == 5000
    assert run.largest_state < 200 + 8 * (len(str(tmp_path)) + 60)  # of a hundred splits


# ---- watching ---------------------------------------------------------------------------------------------------


def test_a_watched_directory_gives_each_file_once_whenever_it_appears(tmp_path: Path) -> None:
    source = source_of(TEXT, tmp_path, watch_ms=200)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    written: list[str] = []
    rng = Random(7)

    def drop_files(run: SourceRun) -> None:
        if run.epochs % 5 == 0 and len(written) < 120:
            name = f"{rng.randint(0, 999):03d}-{run.epochs}"
            content = [f"{name}:{n}" for n in range(rng.randint(1, 10))]
            (tmp_path / f".{name}").write_text("\n".join(content))
            os.rename(tmp_path / f".{name}", tmp_path / name)
            (tmp_path / f".{name}.tmp").write_text("unfinished")
            written.extend(content)

    run = run_source(source, Random(3), on_epoch=drop_files, until=lambda run: len(run.records) == len(written) > 100)
    assert sorted(run.records) == sorted(written)


def test_watching_asks_to_be_woken_at_the_next_listing_and_lists_no_sooner(tmp_path: Path) -> None:
    enumerator = enumerator_of(source_of(TEXT, tmp_path, watch_ms=1000), None)
    assert enumerator.plan(SliceRequest(10, 1, 5000)).wake_at_ms == 6000
    (tmp_path / "a").write_text("x\n")
    assert not enumerator.plan(SliceRequest(10, 1, 5500)).slices
    plan = enumerator.plan(SliceRequest(10, 1, 6000))
    assert len(plan.slices) == 1
    assert not plan.finished


def test_a_watched_pattern_may_match_nothing_yet(tmp_path: Path) -> None:
    plan = enumerator_of(source_of(TEXT, tmp_path / "*.txt", watch_ms=10), None).plan(SliceRequest(10, 1, 0))
    assert not plan.slices
    assert not plan.finished


# ---- compressed files and character sets ------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_compressed_files_are_read_whole(tmp_path: Path, suffix: str, pack: Any) -> None:
    (tmp_path / f"a.txt.{suffix}").write_bytes(pack(b"one\r\ntwo\n" * 500))
    (tmp_path / "b.txt").write_text("three\n")
    run = run_source(source_of(TEXT, tmp_path), Random(1))
    assert sorted(run.records) == ["one"] * 500 + ["three"] + ["two"] * 500
    assert len([name for name in run.by_split if suffix in name]) == 1


def test_a_damaged_compressed_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n" * 1000)[:-10])
    with pytest.raises(StorageError, match=r"a\.gz"):
        read_all(source_of(TEXT, tmp_path))


@pytest.mark.parametrize("charset", ["latin-1", "utf-16", "utf-8-sig", "shift_jis"])
def test_other_character_sets(tmp_path: Path, charset: str) -> None:
    content = ["eins", "zwei", "日本" if charset != "latin-1" else "äöü", ""]
    (tmp_path / "a.txt").write_bytes("\n".join(content).encode(charset))
    assert read_all(source_of(StreamFormat.text_line_format(charset), tmp_path, block_bytes=None)) == content[:-1]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nb\xffd\ngood\n")
    with pytest.raises(BadRecordError, match=r"a\.txt, byte 6: .*UTF-8.*b'b\\xffd\\n'"):
        read_all(source_of(TEXT, tmp_path, block_bytes=None))
    with pytest.raises(ProgramError, match="klingon"):
        StreamFormat.text_line_format("klingon")


# ---- JSON lines -------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(records=st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=9) | st.none()),
                        max_size=30), block=st.integers(1, 300), seed=seeds)  # fmt: skip
def test_json_lines_come_back_as_they_were(records: list[dict[str, Any]], block: int, seed: int) -> None:
    with TemporaryDirectory() as folder:
        rng = Random(seed)
        text = "".join(
            rng.choice(["", " "]) + json.dumps(record, ensure_ascii=rng.random() < 0.5) + rng.choice(["\n", " \r\n"])
            for record in records
        )
        Path(folder, "a.jsonl").write_bytes(text.encode())
        run = run_source(source_of(StreamFormat.json_lines_format(), folder, block_bytes=block), rng)
        blocks = sorted(run.by_split, key=lambda name: int(name.rpartition("@")[2]))
        assert [record for name in blocks for record in run.by_split[name]] == records


def test_malformed_json_is_named_or_skipped_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bad = b'{"a": 2\n[1\n2]\n3,4\n{"a": "\xff"}\n' + b"x" * 500
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n\n' + bad + b'\n{"a": 3}\n')
    with pytest.raises(BadRecordError, match=r"a\.jsonl, byte 10: .*expected a line of JSON"):
        read_all(source_of(StreamFormat.json_lines_format(), tmp_path))
    source = source_of(StreamFormat.json_lines_format(on_error="skip"), tmp_path, block_bytes=None)
    reader = source.create_reader()
    part = enumerator_of(source, None).plan(SliceRequest(1000, 1, 0)).slices[0]
    with caplog.at_level(logging.WARNING):
        assert list(reader.read(part)) == [{"a": 1}, {"a": 3}]
    assert reader.skipped == 6  # type: ignore[attr-defined]
    assert "Left out 6 unreadable records" in caplog.text
    assert "byte 10" in caplog.text
    with pytest.raises(ProgramError, match="ignore"):
        StreamFormat.json_lines_format("ignore")  # type: ignore[arg-type]


# ---- CSV --------------------------------------------------------------------------------------------------------

fields = st.text(st.characters(blacklist_characters="\r\0", blacklist_categories=("Cs",)), max_size=12)


@settings(max_examples=100)
@given(rows=st.lists(st.tuples(fields, fields), max_size=30), seed=seeds, end=st.sampled_from(["\n", "\r\n"]))
def test_csv_with_quoted_line_ends_comes_back_as_it_was(rows: list[tuple[str, str]], seed: int, end: str) -> None:
    with TemporaryDirectory() as folder:
        for number in range(2):
            with open(f"{folder}/{number}.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator=end)
                writer.writerow(["k", "v"])
                writer.writerows(rows)
        run = run_source(source_of(StreamFormat.csv_format(), folder), Random(seed))
        for records in run.by_split.values():
            assert records == [{"k": key, "v": value} for key, value in rows]


def test_csv_without_a_header_gives_tuples_and_types_convert(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1;"a;b";\n2;c;2.5\n')
    assert read_all(source_of(StreamFormat.csv_format(header=False, delimiter=";"), tmp_path)) == [
        ("1", "a;b", ""), ("2", "c", "2.5"),
    ]  # fmt: skip
    typed = StreamFormat.csv_format(header=False, delimiter=";", types=[int, str, float])
    assert read_all(source_of(typed, tmp_path)) == [(1, "a;b", None), (2, "c", 2.5)]
    named = StreamFormat.csv_format(header=False, delimiter=";", names=["x", "y", "z"], types={"x": int})
    assert read_all(source_of(named, tmp_path))[1] == {"x": 2, "y": "c", "z": "2.5"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("k,v\n1,2\n3\n", "byte 8: .*expected 2 fields, found 1"),
        ('k,v\n1,2\n"3"x,4\n', "byte 8: .*expected separated values"),
        ("k,v\n1,2\nx,4\n", "byte 8: .*'x' is no int"),
        ('k,v\n1,2\n3,"open\n', "byte 8: .*unexpected end of data"),
        ("k,v\n1,2\n3,\udcff\n", "byte 8: .*can't decode byte 0xff"),
    ],
)
def test_malformed_csv_is_named_or_skipped(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadRecordError, match=rf"a\.csv, {reason}"):
        read_all(source_of(StreamFormat.csv_format(types={"k": int}), tmp_path))
    lenient = StreamFormat.csv_format(types={"k": int}, on_error="skip")
    assert read_all(source_of(lenient, tmp_path)) == [{"k": 1, "v": "2"}]


def test_compressed_csv(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'k,v\n1,"x\ny"\n2,z\n'))
    assert read_all(source_of(StreamFormat.csv_format(), tmp_path)) == [{"k": "1", "v": "x\ny"}, {"k": "2", "v": "z"}]


def test_a_csv_schema_gives_rows(tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder().add_number_column("id").add_string_column("name").add_boolean_column("ok")
        .add_array_column("tags", "#").set_column_separator("|").set_use_header().set_strict_headers()
        .set_null_value("NULL").build()
    )  # fmt: skip
    (tmp_path / "a.csv").write_text("id|name|ok|tags\n1|Ada|true|x#y\n2|NULL|false|\n")
    assert read_all(source_of(CsvReaderFormat.for_schema(schema), tmp_path)) == [
        Row(id=1, name="Ada", ok=True, tags=["x", "y"]),
        Row(id=2, name=None, ok=False, tags=None),
    ]
    (tmp_path / "a.csv").write_text("id|nom|ok|tags\n")
    with pytest.raises(TypeMismatchError, match="header"):
        read_all(source_of(CsvReaderFormat.for_schema(schema), tmp_path))


# ---- Parquet ----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 200), max_size=3),
    group=st.integers(1, 60),
    block=st.none() | st.integers(1, 2000),
    seed=seeds,
)
def test_parquet_files_give_every_row_once(sizes: list[int], group: int, block: int | None, seed: int) -> None:
    with TemporaryDirectory() as folder:
        for number, size in enumerate(sizes):
            table = pa.table({"file": [number] * size, "row": list(range(size))})
            pq.write_table(table, f"{folder}/{number}.parquet", row_group_size=group)
        run = run_source(source_of(BulkFormat.parquet(), folder, block_bytes=block), Random(seed))
        blocks = sorted(run.by_split, key=lambda name: (name.rpartition("@")[0], int(name.rpartition("@")[2])))
        assert [record for name in blocks for record in run.by_split[name]] == [
            {"file": number, "row": row} for number, size in enumerate(sizes) for row in range(size)
        ]


def test_parquet_slices_end_between_row_groups_where_that_is_near(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(1000))}), tmp_path / "a.parquet", row_group_size=100)
    source = source_of(BulkFormat.parquet(["n"]), tmp_path, block_bytes=None)
    plan = enumerator_of(source, None).plan(SliceRequest(370, 1, 0))
    assert [(part.start, part.stop, part.records) for part in plan.slices] == [(0, 300, 300)]
    assert source.create_reader().locate(plan.slices[0], 7).endswith("a.parquet, row 7")


def test_parquet_columns_are_chosen_and_checked(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "a.parquet")
    assert read_all(source_of(BulkFormat.parquet(["b"]), tmp_path)) == [{"b": "x"}, {"b": "y"}]
    with pytest.raises(TypeMismatchError, match="no column c"):
        read_all(source_of(BulkFormat.parquet(["c"]), tmp_path))
    (tmp_path / "b.parquet").write_text("no parquet")
    with pytest.raises(StorageError, match=r"b\.parquet"):
        read_all(source_of(BulkFormat.parquet(), tmp_path))


# ---- the rest ---------------------------------------------------------------------------------------------------


def test_a_record_is_located_by_its_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.csv").write_text('k\n"a\nb"\nc\n')
    text = source_of(TEXT, tmp_path / "a.txt", block_bytes=None)
    part = enumerator_of(text, None).plan(SliceRequest(100, 1, 0)).slices[0]
    assert text.create_reader().locate(part, 2) == f"{tmp_path}/a.txt, byte 8"
    middle = Slice(part.split, 2, part.stop, detail=part.detail)
    assert text.create_reader().locate(middle, 0) == f"{tmp_path}/a.txt, byte 4"
    table = source_of(StreamFormat.csv_format(), tmp_path / "b.csv")
    part = enumerator_of(table, None).plan(SliceRequest(100, 1, 0)).slices[0]
    assert table.create_reader().locate(part, 1) == f"{tmp_path}/b.csv, byte 8"


def test_the_state_is_json_and_the_source_travels(tmp_path: Path) -> None:
    source = source_of(StreamFormat.csv_format(types={"a": int}), tmp_path)
    assert pickle.loads(pickle.dumps(source)) == source
    enumerator = enumerator_of(source, None)
    assert through_json(enumerator.snapshot()) == enumerator.snapshot()


def test_a_source_needs_a_path_and_a_watch_an_interval() -> None:
    with pytest.raises(ProgramError, match="at least one path"):
        FileSource.for_record_stream_format(TEXT)
    with pytest.raises(ProgramError, match="millisecond"):
        FileSource.for_record_stream_format(TEXT, "/x").monitor_continuously(Duration.of_millis(0))
