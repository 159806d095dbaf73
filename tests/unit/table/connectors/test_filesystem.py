"""Files as tables: what is written is read again, whatever the format, the cuts and the partitions."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flott.datastream.connectors.base import SliceRequest, WriterContext
from flott.errors import BadRecordError, ProgramError
from flott.table import EnvironmentSettings, TableEnvironment
from flott.table._catalog.catalog_table import MetadataColumn
from flott.table._expressions.expression import Call, InputRef, Literal
from flott.table._types import logical as types
from flott.table._types.arrow import arrow_schema
from flott.testing.harness import in_process
from flott.testing.sinks import commit_permit
from tests.unit.table.connectors.tables import batches_of, declared, rows_of, sink_of, source_of, write

COLUMNS = {
    "id": types.BIGINT,
    "name": types.STRING,
    "at": types.TimestampType(3),
    "seen": types.LocalZonedTimestampType(6),
    "day": types.DATE,
    "noon": types.TIME,
    "price": types.DecimalType(10, 2),
    "score": types.DOUBLE,
    "good": types.BOOLEAN,
    "tags": types.ArrayType(types.STRING),
}

ROWS = [
    {
        "id": 1, "name": 'quote " comma , and\nline', "at": datetime(2026, 1, 31, 12, 30, 0, 250000),
        "seen": datetime(2026, 1, 31, 11, 30, 0, 1, tzinfo=UTC), "day": date(2026, 1, 31), "noon": time(12, 0, 1),
        "price": Decimal("12.50"), "score": 0.1, "good": True, "tags": ["a", "b"],
    },
    {
        "id": -2, "name": "käse 😀", "at": datetime(1969, 12, 31, 23, 59, 59), "seen": None, "day": None, "noon": None,
        "price": None, "score": 1e300, "good": None, "tags": None,
    },
]  # fmt: skip


def options(path: Path, format: str, **more: str) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(path), "format": format, **more}


def batch(rows: list[dict], columns: dict = COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(list(columns), list(columns.values())))


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, format: str) -> None:
    table = declared(COLUMNS, options(tmp_path, format))
    write(sink_of(table), batch(ROWS))
    assert rows_of(source_of(table)) == ROWS


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_only_projected_columns_are_read(tmp_path: Path, format: str) -> None:
    table = declared(COLUMNS, options(tmp_path, format))
    write(sink_of(table), batch(ROWS))
    assert rows_of(source_of(table).projected(("price", "id"))) == [{"price": r["price"], "id": r["id"]} for r in ROWS]
    built = source_of(table).projected(()).build()
    assert sum(one.columns.num_rows for one in batches_of(built)) == 2


@pytest.mark.parametrize("format", ["json", "csv"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_any_cut_of_files_reads_every_row_once(tmp_path: Path, format: str, parallelism: int) -> None:
    columns = {"id": types.INT, "text": types.STRING}
    table = declared(columns, options(tmp_path / "t", format))
    chance = random.Random(3)
    rows = [{"id": n, "text": "x" * chance.randrange(60) + ("\n" if n % 7 == 0 else "")} for n in range(500)]
    write(sink_of(table), batch(rows, columns))
    for max_records in (1, 7, 100, 10_000):
        found = rows_of(source_of(table), max_records=max_records, parallelism=parallelism, restart=True)
        assert sorted(found, key=lambda row: row["id"]) == rows


def test_values_that_the_fast_way_refuses_follow_the_rules_of_json(tmp_path: Path) -> None:
    lines = [
        {"n": "12", "t": 5, "b": "TRUE", "d": "1.005", "m": {"x": 1}},
        {"n": 12.9, "t": {"a": [1]}, "b": "no", "d": 12345678.0, "m": None},
        {"n": None, "t": True, "b": 1, "d": None},
    ]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, lines)))
    columns = {
        "n": types.INT, "t": types.STRING, "b": types.BOOLEAN, "d": types.DecimalType(5, 2),
        "m": types.MapType(types.STRING, types.INT),
    }  # fmt: skip
    assert rows_of(source_of(declared(columns, options(tmp_path, "json")))) == [
        {"n": 12, "t": "5", "b": True, "d": Decimal("1.01"), "m": [("x", 1)]},
        {"n": 12, "t": '{"a":[1]}', "b": False, "d": None, "m": None},
        {"n": None, "t": "true", "b": False, "d": None, "m": None},
    ]


def test_a_bad_line_fails_with_its_place_or_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n{"id": "x"}\nno json\n{"id": 4}\n')
    table = declared({"id": types.INT}, options(tmp_path, "json"))
    with pytest.raises(BadRecordError, match="byte 10"):
        rows_of(source_of(table))
    table = declared({"id": types.INT}, options(tmp_path, "json", **{"json.ignore-parse-errors": "true"}))
    assert rows_of(source_of(table)) == [{"id": 1}, {"id": None}, {"id": 4}]


def test_a_missing_field_fails_if_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n{}\n')
    table = declared({"id": types.INT}, options(tmp_path, "json", **{"json.fail-on-missing-field": "true"}))
    with pytest.raises(BadRecordError, match="'id' is missing"):
        rows_of(source_of(table))


def test_iso_timestamps_are_not_those_of_sql(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"at": "2026-01-31T12:30:00"}\n')
    iso = {"json.timestamp-format.standard": "ISO-8601"}
    table = declared({"at": types.TimestampType(3)}, options(tmp_path, "json", **iso))
    assert rows_of(source_of(table)) == [{"at": datetime(2026, 1, 31, 12, 30)}]
    with pytest.raises(BadRecordError, match=r"not written as 2026-01-31 12:30:00\.5"):
        rows_of(source_of(declared({"at": types.TimestampType(3)}, options(tmp_path, "json"))))


def test_csv_has_its_own_notation(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# comment\n1|'a|b'|n/a\n2||3.5\n")
    more = {
        "csv.field-delimiter": "|", "csv.quote-character": "'", "csv.null-literal": "n/a", "csv.allow-comments": "true"
    }  # fmt: skip
    columns = {"id": types.INT, "text": types.STRING, "score": types.DOUBLE}
    assert rows_of(source_of(declared(columns, options(tmp_path, "csv", **more)))) == [
        {"id": 1, "text": "a|b", "score": None},
        {"id": 2, "text": "", "score": 3.5},
    ]


def test_compressed_files_are_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n{"id": 2}\n'))
    assert rows_of(source_of(declared({"id": types.INT}, options(tmp_path, "json"))), max_records=1) == [
        {"id": 1},
        {"id": 2},
    ]


def test_partitions_are_folders(tmp_path: Path) -> None:
    columns = {"id": types.INT, "day": types.DATE, "country": types.STRING}
    table = declared(columns, options(tmp_path, "json"), partitioned_by=("day", "country"))
    rows = [
        {"id": 1, "day": date(2026, 1, 31), "country": "de/at"},
        {"id": 2, "day": date(2026, 1, 30), "country": None},
        {"id": 3, "day": date(2026, 1, 31), "country": "de/at"},
    ]
    write(sink_of(table), batch(rows, columns))
    folders = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("part-*")}
    assert folders == {"day=2026-01-31/country=de%2Fat", "day=2026-01-30/country=__DEFAULT_PARTITION__"}
    assert sorted(rows_of(source_of(table)), key=lambda row: row["id"]) == rows
    assert sorted(row["id"] for row in rows_of(source_of(table).projected(("id",)))) == [1, 2, 3]


def test_row_groups_without_wanted_rows_are_skipped(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array(range(1000), pa.int32())}), tmp_path / "a.parquet", row_group_size=100)
    source = source_of(declared({"id": types.INT}, options(tmp_path, "parquet")))
    condition = Call(types.BOOLEAN, ">=", (InputRef(types.INT, 0), Literal(types.INT, 950)))
    assert source.applied([condition]) == [condition]
    filtered = replace(source, filters=(condition,))
    assert [row["id"] for row in rows_of(filtered, max_records=64, restart=True)] == list(range(950, 1000))
    read = [batch.columns.num_rows for batch in batches_of(filtered.build())]
    assert sum(read) == 50


def test_narrowed_rows_are_read_from_json_and_parquet(tmp_path: Path) -> None:
    whole = types.row_type({"a": types.INT, "b": types.row_type({"c": types.STRING, "d": types.INT})})
    narrow = types.row_type({"b": types.row_type({"d": types.INT})})
    for format in ("json", "parquet"):
        table = declared({"r": whole}, options(tmp_path / format, format))
        write(sink_of(table), batch([{"r": {"a": 1, "b": {"c": "x", "d": 2}}}], {"r": whole}))
        assert rows_of(replace(source_of(table), types=(narrow,))) == [{"r": {"b": {"d": 2}}}]


def test_metadata_columns_say_where_a_row_comes_from(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    metadata = [MetadataColumn("name", types.STRING, "file.name"), MetadataColumn("file.size", types.BIGINT)]
    table = declared({"id": types.INT}, options(tmp_path, "json"), metadata=metadata)
    assert rows_of(source_of(table)) == [{"id": 1, "name": "a.json", "file.size": 10}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"formt": "json"}, "Did you mean 'format'"),
        ({"json.ignore-parse-error": "true"}, "Did you mean 'json.ignore-parse-errors'"),
        ({"json.ignore-parse-errors": "perhaps"}, "'json.ignore-parse-errors' is"),
        ({"format": "jsn"}, "Did you mean 'json'"),
        ({"connector": "filesytem"}, "Did you mean 'filesystem'"),
        ({"json.timestamp-format.standard": "GERMAN"}, "one of SQL, ISO-8601"),
        ({"source.monitor-interval": "soon"}, "source.monitor-interval"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, changed: dict[str, str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        source_of(declared({"id": types.INT}, {**options(tmp_path, "json"), **changed}))


def test_a_missing_option_is_named() -> None:
    with pytest.raises(ProgramError, match="needs the option 'path'"):
        source_of(declared({"id": types.INT}, {"connector": "filesystem", "format": "json"}))


def test_complete_partitions_are_marked(tmp_path: Path) -> None:
    columns = {"id": types.INT, "day": types.STRING}
    more = {"sink.partition-commit.policy.kind": "success-file", "sink.partition-commit.delay": "1 h"}
    table = declared(columns, options(tmp_path, "json", **more), partitioned_by=("day",))
    sink = sink_of(table).make()
    committer = sink.create_committer()
    assert committer is not None
    committer.open("job", "operator")
    for epoch, (day, minutes) in enumerate([("a", 0), ("b", 30), ("b", 61)], start=1):
        now_ms = 1_000_000 + minutes * 60_000
        writer = sink.create_writer(WriterContext(0, 1, epoch, "first", "job", "operator", now_ms=now_ms))
        writer.write_columns(batch([{"id": epoch, "day": day}], columns), None)
        committer.commit(commit_permit(epoch, now_ms=now_ms), writer.prepare_commit())
        writer.close()
    marked = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.rglob("_SUCCESS"))
    assert marked == ["day=a"]
    again = sink.create_committer()  # after a restart: what is not marked is found
    assert again is not None
    again.open("job", "operator")
    again.commit(commit_permit(4, now_ms=now_ms, final=True), [])
    assert sorted(path.parent.name for path in tmp_path.rglob("_SUCCESS")) == ["day=a", "day=b"]
    assert sorted(row["id"] for row in rows_of(source_of(table))) == [1, 2, 3]


def test_a_watched_folder_never_ends(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    source = source_of(declared({"id": types.INT}, options(tmp_path, "json", **{"source.monitor-interval": "1 s"})))
    assert not source.bounded
    built = source.build()
    enumerator, reader = built.create_enumerator(), built.create_reader()
    enumerator.open()
    found = []
    for now_ms in (0, 500, 1000):
        plan = enumerator.plan(SliceRequest(100, 1, now_ms))
        assert not plan.finished
        for part in plan.slices:
            found += [row["id"] for one in reader.read_batches(part) for row in one.columns.to_pylist()]
        enumerator.advance(plan, {part.split: reader.reached(part) for part in plan.slices})
        (tmp_path / "b.json").write_text('{"id": 2}\n')
    assert found == [1, 2]


def test_files_of_other_partitions_are_not_read(tmp_path: Path) -> None:
    columns = {"id": types.INT, "day": types.DATE}
    table = declared(columns, options(tmp_path, "json"), partitioned_by=("day",))
    write(sink_of(table), batch([{"id": n, "day": date(2026, 1, n)} for n in (1, 2, 3)], columns))
    (tmp_path / "day=2026-01-03").joinpath("bad").write_text("no json")
    source = source_of(table)
    condition = Call(types.BOOLEAN, "<", (InputRef(types.DATE, 1), Literal(types.DATE, date(2026, 1, 3))))
    assert source.applied([condition]) == [condition]
    assert sorted(row["id"] for row in rows_of(replace(source, filters=(condition,)))) == [1, 2]
    remapped = Call(types.BOOLEAN, "<", (InputRef(types.DATE, 0), Literal(types.DATE, date(2026, 1, 3))))
    narrowed = replace(source.projected(("day",)), filters=(remapped,))
    assert sorted(row["day"].day for row in rows_of(narrowed)) == [1, 2]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT a FROM t WHERE a = 1", [1]),
        ("SELECT b FROM t WHERE b = 6", [6]),
        ("SELECT a FROM t WHERE day_ = 'y'", [5]),
        ("SELECT b FROM t WHERE b = 6 AND day_ = 'y'", [6]),
    ],
)
def test_a_query_of_some_columns_is_filtered_by_the_right_ones(tmp_path: Path, query: str, rows: list[int]) -> None:
    for day, line in (("x", {"a": 1, "b": 2}), ("y", {"a": 5, "b": 6})):
        (tmp_path / f"day_={day}").mkdir()
        (tmp_path / f"day_={day}" / "rows.json").write_text(json.dumps(line))
    environment = TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())
    environment.execute_sql(
        "CREATE TABLE t (day_ STRING, a INT, b INT) PARTITIONED BY (day_) WITH"
        f" ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    with environment.execute_sql(query).collect() as found:
        assert [row[0] for row in found] == rows
