"""The buffers of a slot fit into ``taskmanager.memory.network.max``, at receivers and senders together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Configuration, JobStatus, WatermarkStrategy
from flott.errors import ConfigurationError
from flott.runtime.entrypoint.task_settings import task_settings
from flott.runtime.epoch.exchange import BUFFER_BYTES
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.pipelined.channels import ChannelEdges
from flott.runtime.pipelined.control import SlotEvent
from flott.runtime.pipelined.links import FEWEST_CREDITS, MOST_CREDITS, credits_per_channel
from flott.runtime.pipelined.messages import Buffer, Channel, TaskAddress
from flott.runtime.pipelined.network_memory import buffers_needed, buffers_of_senders, credits_of
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource
from tests.unit.runtime.pipelined.test_memory import Hasty, SlowSink
from tests.unit.runtime.pipelined.test_pipelined_jobs import Counted, expected_counts

addresses = st.builds(TaskAddress, st.integers(0, 3), st.integers(0, 5))


@given(st.dictionaries(st.builds(Channel, addresses, addresses), st.integers(1, 3), min_size=1), st.integers(0, 500))
def test_all_buffers_of_a_slot_fit_if_the_fewest_fit(edges: dict[Channel, int], spare: int) -> None:
    channels = [ChannelEdges(channel, tuple(range(count))) for channel, count in edges.items()]
    memory = (buffers_needed(channels) + spare) * BUFFER_BYTES
    settings = TaskSettings(network_memory_bytes=memory)
    held = buffers_of_senders(channels)
    for channel in edges:
        credits = credits_of(channel.receiver, channels, settings)
        assert FEWEST_CREDITS <= credits <= MOST_CREDITS
        held[channel.receiver.partition] += credits
    assert max(held.values()) * BUFFER_BYTES <= memory


def test_without_the_option_each_task_has_the_memory_of_an_exchange() -> None:
    one, other = TaskAddress(0, 0), TaskAddress(1, 0)
    channels = [ChannelEdges(Channel(one, other), (0,)), ChannelEdges(Channel(one, TaskAddress(2, 0)), (1,))]
    settings = TaskSettings(input_memory_bytes=5 * BUFFER_BYTES)
    assert credits_of(other, channels, settings) == credits_per_channel(5 * BUFFER_BYTES, 1, BUFFER_BYTES) == 5


def test_the_option_of_flink_is_read() -> None:
    def memory(**values: str) -> int | None:
        return task_settings(Configuration.of(values)).network_memory_bytes

    assert memory() is None
    assert memory(**{"taskmanager.memory.network.max": "3 mb"}) == 3 << 20


# --- jobs ------------------------------------------------------------------------------------------------------------

NUMBERS = 2000
#: What the job below needs: a slot has 4 channels out, with 3 buffers each, and takes 2 from each of 4.
FEWEST_BUFFERS = 4 * 3 + 4 * FEWEST_CREDITS


class MeasuredPipeline(SlowSink):
    """Looks at how many buffers the tasks of each slot hold."""

    most = 0

    def events(self) -> list[SlotEvent]:
        happened = super().events()
        for slot in self.slots:
            held = Counter[str]()
            for task in slot.tasks.values():
                held["sent"] += task.outputs.waiting_buffers
                for channel in task.inputs.channels.values():
                    held["received"] += sum(isinstance(message, Buffer) for message in channel.queue)
            self.most = max(self.most, held.total())
        return happened


@pytest.mark.parametrize("spare", [0, 8])
def test_a_slow_sink_fills_no_more_than_the_memory_of_the_slot(tmp_path: Path, spare: int) -> None:
    env = in_process(
        2, execution__mode="pipelined", execution__checkpointing__interval="1 ms", flott__epoch__max_records="60"
    )
    ledger = Ledger(f"network-memory-{spare}")
    numbers = env.from_source(ScriptedSource(list(range(NUMBERS))), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.key_by(lambda n: n % 3).process(Counted()).uid("counted")
    counted.key_by(lambda found: found[0]).map(lambda found: found).sink_to(LedgerSink(ledger)).uid("out")
    memory = FEWEST_BUFFERS + spare
    settings = TaskSettings(buffer_records=64, network_memory_bytes=memory * BUFFER_BYTES)
    clock = Hasty()
    pipeline = MeasuredPipeline(clock)
    life = live(env, tmp_path, clock=clock, pipeline=pipeline, settings=settings)
    assert life.status is JobStatus.FINISHED, life.failure
    assert Counter(ledger.records) == expected_counts(NUMBERS)
    assert pipeline.blocked > 50
    assert spare < pipeline.most <= memory


def test_a_job_whose_buffers_do_not_fit_is_refused_with_the_size_it_needs(tmp_path: Path) -> None:
    env = in_process(2, execution__mode="pipelined")
    numbers = env.from_source(ScriptedSource([1, 2, 3]), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n).process(Counted()).key_by(lambda found: found[0]).map(lambda found: found).print()
    settings = TaskSettings(network_memory_bytes=FEWEST_BUFFERS * BUFFER_BYTES - 1)
    with pytest.raises(ConfigurationError, match=f"needs at least {FEWEST_BUFFERS * BUFFER_BYTES // 1024} kb"):
        live(env, tmp_path, settings=settings)
