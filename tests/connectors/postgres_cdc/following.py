"""A driver process for tests: follows tables and writes the changelog to files, exactly once, until it is killed."""

from __future__ import annotations

import json
import sys
from typing import Any

from flott.common import Encoder, Types, WatermarkStrategy
from flott.datastream.connectors.file_system import BucketAssigner, FileSink
from flott.datastream.connectors.postgres_cdc import ChangelogRowDeserializer, PostgresSource
from flott.runtime.clock import SystemClock
from flott.testing.harness import in_process, live
from tests.servers.postgres import PASSWORD, USER


def line(row: Any) -> str:
    """One change as a line."""
    return json.dumps([row.get_row_kind().name, row.as_dict()])


def main(port: int, database: str, folder: str) -> None:
    source = (
        PostgresSource.builder().hostname("127.0.0.1").port(port).database(database).username(USER).password(PASSWORD)
        .table_list("public.[tf]").slot_name(f"slot_{database}").split_size(7)
        .deserializer(ChangelogRowDeserializer(("table_name",))).build()
    )  # fmt: skip
    env = in_process(
        1,
        flott__epoch__max_records="40",
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000000",
           "restart-strategy.fixed-delay.delay": "100 ms"},
    )  # fmt: skip
    sink = (
        FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    changes = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "changes")
    changes.map(line, Types.STRING()).sink_to(sink)
    ended = live(env, f"{folder}/job", clock=SystemClock())
    raise SystemExit(f"the job ended: {ended.status} {ended.failure}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
