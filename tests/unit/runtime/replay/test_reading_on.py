"""A preview without a recorded input: sources are read on from the latest checkpoint, if that takes nothing away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flott.common import SimpleStringSchema, Types, WatermarkStrategy
from flott.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSource
from flott.datastream.state import ValueStateDescriptor
from flott.errors import StateError
from flott.graph.chain import chain
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.connectors.collection import CollectionEnumerator
from flott.runtime.connectors.kafka.enumerator import KafkaEnumerator
from flott.runtime.jobmanager.inspection.preview import preview
from flott.runtime.jobmanager.inspection.questions import PreviewRecords
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.orders import KeepCheckpoints
from flott.runtime.replay.replay import refuse_to_read_beside
from flott.runtime.storage import PosixStorage
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource, _ScriptEnumerator
from tests.unit.runtime.replay import recorded

NUMBERS = 300


class Counted(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield [value, self.count.value()]


def counting(env: StreamExecutionEnvironment) -> None:
    script = [entry for number in range(NUMBERS) for entry in (number, EndOfEpoch())]
    source = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers")
    source.key_by(lambda n: 0, Types.INT()).process(Counted()).uid("counted").print()


def test_a_pipelined_job_is_read_on_from_the_state_and_the_positions_of_its_checkpoint(tmp_path: Path) -> None:
    options = {"execution.mode": "pipelined", "execution.checkpointing.interval": "1 ms"}
    kept = recorded.run(counting, tmp_path, stop_after=1, **options)
    before = kept.digest
    shown = preview(PreviewRecords("counted", limit=1000), str(kept.directory), kept.graph, kept.configuration)
    [latest] = CheckpointStore(PosixStorage(str(kept.directory))).checkpoint_ids()[-1:]
    assert (shown["epoch"], shown["recorded"], shown["failure"]) == (latest + 1, False, None)
    values = [record["value"]["json"] for record in shown["records"]]
    first = values[0][0]
    assert 0 < first < NUMBERS  # the checkpoint has what came before
    assert values == [[number, number + 1] for number in range(first, first + len(values))]
    assert kept.digest == before


class Taking(_ScriptEnumerator):
    """Tells the outside world what was read."""

    def acknowledge(self) -> None:
        """Told."""


class TakingSource(ScriptedSource):
    def create_enumerator(self) -> Any:
        return Taking({}, False, False)


@pytest.mark.parametrize("kind", ["queue", "acknowledging"])
def test_a_source_from_which_reading_takes_away_is_refused(kind: str) -> None:
    env = in_process(1)
    queue = RMQSource(RMQConnectionConfig.Builder().set_host("nowhere").build(), "orders", False, SimpleStringSchema())
    source = queue if kind == "queue" else TakingSource([1])
    env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").print()  # type: ignore[arg-type]
    with pytest.raises(StateError, match="cannot be read a second time"):
        refuse_to_read_beside(chain(env.get_stream_graph()))


def test_sources_with_positions_may_be_read_beside() -> None:
    assert KafkaEnumerator.readable_beside
    assert CollectionEnumerator.readable_beside is None


def test_a_job_keeps_two_checkpoints_while_somebody_looks_and_one_again_later(tmp_path: Path) -> None:
    env, clock = in_process(1, execution__checkpointing__num_retained="1"), ManualClock()
    counting(env)
    kept: dict[int, int] = {}
    masters: list[JobMaster] = []

    def step(name: str, epoch: int) -> None:
        if name == "planned":
            kept[epoch] = len(CheckpointStore(PosixStorage(str(tmp_path))).checkpoint_ids())
        if (name, epoch) == ("planned", 5):
            assert masters[0].submit(KeepCheckpoints(10.0)).done()
        if (name, epoch) == ("planned", 20):
            clock.advance(20_000)

    live(env, tmp_path, clock=clock, on_step=step, on_start=masters.append)
    assert {kept[epoch] for epoch in range(3, 6)} == {1}
    assert {kept[epoch] for epoch in range(7, 21)} == {2}
    assert {kept[epoch] for epoch in range(22, 30)} == {1}
