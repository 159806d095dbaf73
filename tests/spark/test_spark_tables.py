"""DataFrames as input and tables of Spark as output: every row once, also if the driver dies at the end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flott.common import Row, Types, WatermarkStrategy
from flott.datastream.connectors.base import WriterContext
from flott.datastream.connectors.spark import DataFrameSource, SparkTableSink
from flott.errors import JobFailedError, ProgramError, StateError
from flott.runtime.spark.tables import SparkTables, offer_tables
from flott.testing.connectors.source_run import through_json
from flott.testing.sinks import commit_permit
from tests.spark.conftest import MakeEnvironment

SCHEMA = {"id": "int64", "name": "string"}


@pytest.fixture
def sql(spark: SparkContext) -> SparkSession:
    return SparkSession.builder.getOrCreate()


@pytest.fixture
def table(sql: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table that is not there yet, in a database of its own."""
    database = f"flott_{uuid4().hex[:8]}"
    sql.sql(f"CREATE DATABASE {database} LOCATION 'file://{tmp_path}/{database}'")
    yield f"{database}.orders"
    sql.sql(f"DROP DATABASE {database} CASCADE")


def ids(sql: SparkSession, table: str) -> list[int]:
    return sorted(row["id"] for row in sql.table(table).collect())


def test_a_dataframe_goes_through_a_job_into_a_table(
    environment: MakeEnvironment, sql: SparkSession, table: str, tmp_path: Path
) -> None:
    frame = sql.range(1000).selectExpr("id", "concat('n', id) AS name")
    env = environment({"execution.checkpointing.dir": str(tmp_path / "checkpoints"), "flott.epoch.max-records": 300})
    rows = env.from_spark(frame)
    doubled = rows.map(
        lambda row: Row(id=row["id"] * 2, name=row["name"]),
        Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]),
    )
    doubled.to_spark(table, SCHEMA)
    env.execute()
    assert ids(sql, table) == list(range(0, 2000, 2))
    staging = tmp_path / "checkpoints" / "spark-staging"
    assert not list(staging.glob("dataframe-*")), "the rows of the DataFrame are deleted when they were read"
    assert not list(staging.rglob("*.parquet"))


def test_rows_keep_their_types(environment: MakeEnvironment, sql: SparkSession, tmp_path: Path) -> None:
    frame = sql.sql(
        "SELECT 1L AS id, DATE'2026-11-18' AS day, TIMESTAMP_NTZ'2026-11-18 03:04:05.678901' AS at,"
        " array(1, 2) AS numbers, named_struct('a', 1) AS nested, CAST(NULL AS STRING) AS nothing, X'00FF' AS data"
    )
    env = environment()
    with env.from_spark(frame, staging_folder=str(tmp_path)).execute_and_collect() as results:
        (row,) = list(results)
    assert row == Row(
        id=1, day=date(2026, 11, 18), at=datetime(2026, 11, 18, 3, 4, 5, 678901), numbers=[1, 2], nested={"a": 1},
        nothing=None, data=b"\x00\xff",
    )  # fmt: skip


def test_a_table_is_overwritten_or_appended_to(
    environment: MakeEnvironment, sql: SparkSession, table: str, tmp_path: Path
) -> None:
    for mode, expected in (("append", [1, 2]), ("append", [1, 1, 2, 2]), ("overwrite", [1, 2])):
        env = environment()
        stream = env.from_collection([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        stream.to_spark(table, SCHEMA, mode=mode, staging_folder=str(tmp_path / "staging"))
        env.execute()
        assert ids(sql, table) == expected


def staged(sink: SparkTableSink, first: int, epoch: int, attempt: str = "a") -> list[Any]:
    writer = sink.create_writer(WriterContext(0, 1, epoch, f"{attempt}-{epoch}", "job", "operator", now_ms=0))
    writer.write([(number, "n") for number in range(first, first + 10)], None)
    committables = writer.prepare_commit()
    writer.close()
    return through_json(committables)  # type: ignore[no-any-return]


def committer_of(sink: SparkTableSink) -> Any:
    committer = sink.create_committer()
    committer.open("job", "operator")
    return committer


class Died(BaseException):
    """A simulated death of the driver."""


@pytest.mark.parametrize("written", [False, True])
def test_a_driver_that_dies_around_the_append_does_not_append_twice(
    sql: SparkSession, table: str, tmp_path: Path, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_tables()
    sink = SparkTableSink.for_table(table, SCHEMA).with_staging_folder(str(tmp_path / "staging")).build()
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0), staged(sink, 0, 1))
    staged(sink, 500, 2, "failed")
    last = staged(sink, 10, 2)
    write = SparkTables.write

    def die(self: Any, *arguments: Any) -> None:
        if written:
            write(self, *arguments)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(SparkTables, "write", die)
        with pytest.raises(Died):
            committer.commit(commit_permit(2, 0, final=True), last)
    for _ in range(2):
        again = committer_of(sink)
        again.commit(commit_permit(2, 0, replay=True, final=True), last)
        again.discard(frozenset({"a-2"}))
        assert ids(sql, table) == list(range(20))


def test_what_cannot_be_decided_is_left_to_a_person(
    sql: SparkSession, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_tables()
    sink = SparkTableSink.for_table(table, SCHEMA).with_staging_folder(str(tmp_path / "staging")).build()
    last = staged(sink, 0, 1)

    def others_write(self: Any, name: str, mode: str, files: Any) -> None:
        sql.createDataFrame([(99, "theirs")], "id LONG, name STRING").write.saveAsTable(name)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(SparkTables, "write", others_write)
        with pytest.raises(Died):
            committer_of(sink).commit(commit_permit(1, 0, final=True), last)
    with pytest.raises(StateError, match=r"which had 0 rows\. It has 1 now"):
        committer_of(sink).commit(commit_permit(1, 0, replay=True, final=True), last)
    fresh = sink.create_committer()
    fresh.open("another job", "operator")
    with pytest.raises(StateError, match="continues another one's savepoint"):
        fresh.commit(commit_permit(5, 0, replay=True), [])


def test_wrong_programs_are_refused(
    environment: MakeEnvironment, sql: SparkSession, table: str, tmp_path: Path
) -> None:
    env = environment()
    with pytest.raises(ProgramError, match="takes a DataFrame"):
        env.from_spark([1, 2])
    frame = sql.range(3)
    with pytest.raises(ProgramError, match="different names"):
        env.from_spark(frame.crossJoin(sql.range(2)), staging_folder=str(tmp_path))
    with pytest.raises(ProgramError, match="needs a schema"):
        env.from_collection([{"id": 1}]).to_spark(table)
    with pytest.raises(ProgramError, match="append or overwrite"):
        env.from_collection([{"id": 1}]).to_spark(table, SCHEMA, mode="upsert")


def test_rows_that_were_deleted_are_missed(sql: SparkSession, environment: MakeEnvironment, tmp_path: Path) -> None:
    source = DataFrameSource.of(sql.range(3), str(tmp_path))
    env = environment({"restart-strategy.type": "none"})
    env.from_source(source, WatermarkStrategy.no_watermarks(), "rows").print()
    for file in Path(source.folder).iterdir():
        file.unlink()
    with pytest.raises((JobFailedError, StateError), match="they are not there"):
        env.execute()
