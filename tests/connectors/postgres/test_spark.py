"""PostgreSQL from Spark's worker processes, which live longer than an epoch and are used by any subtask."""

from __future__ import annotations

import pytest

from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.jdbc import CommitBy
from flott.datastream.connectors.number_seq import NumberSequenceSource
from tests.connectors.databases import RECORDS, TestedDatabase


@pytest.mark.spark
def test_rows_are_written_once_from_spark(database: TestedDatabase) -> None:
    tables = {way: database.new_table() for way in CommitBy}
    latest = database.new_table(key="id")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, 9999), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.map(lambda number: (number, f"name {number}", number / 2), output_type=RECORDS)
    for way, table in tables.items():
        rows.sink_to(database.builder(table).commit_by(way).build())
    rows.key_by(lambda row: row.id).map(lambda row: row, output_type=RECORDS).sink_to(
        database.builder(latest).upsert("id").build()
    )
    env.execute("to PostgreSQL")
    for table in (*tables.values(), latest):
        assert database.run(f"SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM {table}") == [(10000, 10000, 49995000)]
    assert database.run("SELECT COUNT(*) FROM flott_stages") == [(0,)]
