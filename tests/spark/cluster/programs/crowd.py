"""Many small jobs from one program: each counts numbers by key, slowly, and writes each count once."""

import argparse
import json
from pathlib import Path

from counter import Count, Tally
from tally import Number  # beside this script

from flott.common import Encoder, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSink, RollingPolicy


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("jobs", type=int)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--fails", type=int, default=None, help="the number of the job that fails")
    options = parser.parse_args()

    Path(options.output).mkdir(parents=True, exist_ok=True)
    started = {}
    for number in range(options.jobs):
        fails = number == options.fails

        def record(index: int, fails: bool = fails) -> Number:
            if fails and index == 10:
                raise ValueError("this one fails")
            return Number(index)

        env = StreamExecutionEnvironment.get_execution_environment()
        source = DataGeneratorSource(record, records_per_second=options.rate)
        files = FileSink.for_row_format(f"{options.output}/{number}", Encoder.simple_string_encoder())
        sink = files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        counted = numbers.key_by(lambda number: number.value % 5).process(Count()).uid("count")
        counted.map(Tally.text).uid("text").sink_to(sink).uid("sink")
        client = env.execute_async(f"crowd {number}")
        started[number] = str(client.get_job_id())
    Path(options.output, "jobs.json").write_text(json.dumps(started))


if __name__ == "__main__":
    main()
