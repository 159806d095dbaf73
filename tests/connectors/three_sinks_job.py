"""A job from Kafka through keyed state to Kafka, PostgreSQL and files, in a process that tests kill.

Run as a module with a JSON argument. It is the job of ``tests.connectors.kafka.survival_job`` with three more sinks: a
table to which every result is appended (by staging, and by prepared transactions), a table with the last result of each
key, and files.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flott.common.serialization import Encoder
from flott.common.typeinfo import Types
from flott.datastream.connectors.file_system import FileSink, RollingPolicy
from flott.datastream.connectors.jdbc import CommitBy, JdbcTableSink
from flott.datastream.data_stream import DataStream
from tests.connectors.kafka.survival_job import main

RESULTS = Types.ROW_NAMED(["id", "n", "total"], [Types.STRING(), Types.LONG(), Types.LONG()])


def to_tables_and_files(accounts: DataStream[str], options: dict[str, Any]) -> None:
    """Add the sinks."""

    def to_row(line: str) -> tuple[str, int, int]:
        key, count, total = line.split(",")
        return key, int(count), int(total)

    rows = accounts.map(to_row, output_type=RESULTS).uid("rows")
    url, user, password = options["postgres"]
    for table, way in (("staged", CommitBy.STAGING), ("prepared", CommitBy.PREPARED_TRANSACTION)):
        appending = JdbcTableSink.builder().set_url(url, user, password).set_table(table).commit_by(way)
        rows.sink_to(appending.build()).uid(table)
    last = JdbcTableSink.builder().set_url(url, user, password).set_table("latest").upsert("id")
    rows.key_by(lambda row: row.id).map(lambda row: row, output_type=RESULTS).uid("by-id").sink_to(last.build()).uid(
        "latest"
    )
    files = FileSink.for_row_format(options["files"], Encoder.simple_string_encoder())
    accounts.sink_to(files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("files")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), to_tables_and_files)
