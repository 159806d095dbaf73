"""The slots of a pipelined job are those of executors, whatever the default parallelism of Spark is."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from flott.errors import ConfigurationError
from flott.runtime.spark.executors import SparkExecutors
from tests.spark.conftest import MakeEnvironment


@pytest.mark.parametrize("bent", ["1", "100"])
def test_the_default_parallelism_of_spark_does_not_bend_the_number_of_slots(
    environment: MakeEnvironment, spark: SparkContext, bent: str
) -> None:
    cores = spark.defaultParallelism
    conf = spark._jsc.sc().conf()
    conf.set("spark.default.parallelism", bent)
    try:
        assert spark.defaultParallelism == int(bent)
        assert SparkExecutors(spark).slots() == cores
        env = environment({"execution.mode": "pipelined"}).set_parallelism(cores)
        counted = env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b)
        assert sorted(counted.execute_and_collect()) == [1, 2, 3]
        env = environment({"execution.mode": "pipelined"}).set_parallelism(cores + 1)
        env.from_collection([1, 2, 3]).key_by(lambda n: n).reduce(lambda a, b: a + b).print()
        with pytest.raises(ConfigurationError, match=f"Spark has {cores} cores"):
            env.execute("too wide")
    finally:
        conf.remove("spark.default.parallelism")
