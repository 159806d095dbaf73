"""A program that wants three records of a source without end, and then ends."""

from __future__ import annotations

from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    endless = env.add_source(DataGeneratorSource(lambda index: index))
    print(len(endless.key_by(lambda value: value % 10).reduce(max).execute_and_collect("three", limit=3)))
