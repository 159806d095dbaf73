"""Epochs of jobs that share Spark: whoever has waited longest is next, and nothing of a turn is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark import SparkContext

from flott.common import WatermarkStrategy
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.runtime.spark.scheduling import SchedulingPools
from tests.spark.conftest import MakeEnvironment


def pools(spark: SparkContext) -> set[str]:
    """The names of all scheduling pools."""
    jvm_context: Any = spark._jsc.sc()
    found = jvm_context.getAllPools()
    return {found.apply(index).name() for index in range(found.size())}


def test_an_epoch_has_a_pool_of_its_own_which_goes_with_it(
    spark: SparkContext, environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, taken = pools(spark), []
    enter = SchedulingPools.enter

    def watched(self: SchedulingPools) -> str:
        taken.append(enter(self))
        return taken[-1]

    monkeypatch.setattr(SchedulingPools, "enter", watched)
    env = environment({"flott.epoch.max-records": 10, "flott.epoch.initial-records": 10})
    numbers = env.from_source(NumberSequenceSource(0, 79), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 3).reduce(lambda a, b: a + b).sink_to(DiscardSink())
    env.execute("turns")
    assert len(set(taken)) >= 8
    assert taken == sorted(taken)
    assert pools(spark) <= before | {"default"}
