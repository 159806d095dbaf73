"""Submits the small jobs of `control` to a Flink session; runs under PyFlink's interpreter and prints the jobs' ids.

    python -m bench.runners.flink_jobs PORT JOBS RECORDS_PER_SECOND CHECKPOINT_SECONDS

Written in Table API over the generator and the sink that Flink has built in, so that they are Java alone: no Python
process is beside the session. They do what Flott's jobs do, a running count by key.
"""

from __future__ import annotations

import json
import sys
import time

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment


def main() -> None:
    port, jobs, rate, seconds = map(int, sys.argv[1:])
    configuration = Configuration()
    settings = {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": str(port),
        "parallelism.default": "1",
        "execution.checkpointing.interval": f"{seconds} s",
    }
    for name, value in settings.items():
        configuration.set_string(name, value)
    made = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(made)
    tables.execute_sql(
        "CREATE TABLE numbers (k INT) WITH ('connector' = 'datagen',"
        f" 'rows-per-second' = '{rate}', 'fields.k.min' = '0', 'fields.k.max' = '4')"
    )
    tables.execute_sql("CREATE TABLE nowhere (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    for number in range(jobs):
        tables.get_config().set("pipeline.name", f"small-{number}")
        submitted = time.time()
        result = tables.execute_sql("INSERT INTO nowhere SELECT k, COUNT(*) FROM numbers GROUP BY k")
        print(json.dumps([str(result.get_job_client().get_job_id()), submitted]), flush=True)


if __name__ == "__main__":
    main()
