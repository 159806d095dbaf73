"""A program as a user has it: a script, a module beside it, arguments. Counts numbers by key and writes each count."""

import argparse

from counter import Count, Tally  # beside this script

from flott.common import Encoder, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSink, RollingPolicy


class Number:
    """A class of the script itself, of which records are made."""

    def __init__(self, value: int):
        self.value = value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--rate", type=float, default=None)
    parser.add_argument("--fail-at", type=int, default=None)
    parser.add_argument("--name", default="tally")
    options = parser.parse_args()

    def number(index: int) -> Number:
        if index == options.fail_at:
            raise ValueError(f"number {index} is not to my liking")
        return Number(index)

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(number, count=options.records, records_per_second=options.rate)
    files = FileSink.for_row_format(options.output, Encoder.simple_string_encoder())
    sink = files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(lambda number: number.value % 5).process(Count()).uid("count")
    counted.map(Tally.text).uid("text").sink_to(sink).uid("sink")
    env.execute(options.name)
    print("the program is done")


if __name__ == "__main__":
    main()
