"""Prints where tasks have Flott and cloudpickle from, and the interpreter that runs them."""

from __future__ import annotations

import sys

from pyspark import SparkConf, SparkContext

from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment


def describe(value: int) -> tuple[str, str, str, int]:
    import sys

    import cloudpickle

    import flott

    return flott.__file__, cloudpickle.__file__, sys.executable, value


if __name__ == "__main__":
    options = dict(option.split("=", 1) for option in sys.argv[1:])
    if options.pop("context", "") == "of the program":
        SparkContext(conf=SparkConf().setAll(list(options.items())).set("spark.log.level", "ERROR"))
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    found = env.from_collection([1, 2, 3, 4]).key_by(lambda value: value).map(describe)
    for line in found.execute_and_collect("where"):
        print(*line)
