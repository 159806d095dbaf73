"""How long a busy task collects records before it sends them: ``execution.buffer-timeout``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration, WatermarkStrategy
from flott.datastream.connectors.base import (
    Followed,
    Pause,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flott.datastream.connectors.discard import DiscardSink
from flott.runtime.jobmaster.execution_mode import pipelined_policy
from flott.runtime.pipelined.links import LocalLinks
from flott.runtime.pipelined.messages import Buffer, Channel, Message
from flott.runtime.pipelined.task import DEFAULT_SETTLING_MS, TaskRules
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from tests.unit.runtime.pipelined.test_open_slices import FollowingPipeline

#: Records, each a batch, and how long the processing of one takes.
RECORDS, EACH_MS = 20, 30


class OneRound(SplitEnumerator):
    """Plans all records at once, in a slice with an end or in one that is followed."""

    def __init__(self, is_open: bool):
        self.is_open, self.reached = is_open, 0

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self.is_open:
            return SlicePlan((Slice("all", self.reached, None, is_open=True),))
        return SlicePlan((Slice("all", 0, RECORDS, ends_split=True),), finished=True)

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        self.reached = reached["all"]

    def snapshot(self) -> Any:
        return self.reached


class SingleRecords(SourceReader[int]):
    """Brings a batch of one record after the other, without a pause."""

    def read(self, part: Slice) -> Any:
        raise AssertionError("it reads batches")

    def read_batches(self, part: Slice) -> Iterator[Records[int]]:
        yield from (Records([number]) for number in range(part.start, RECORDS))

    def follow(self, parts: Sequence[Slice]) -> Followed[int]:
        for batch in self.read_batches(parts[0]):
            yield parts[0], batch
        while True:
            yield Pause()

    def reached(self, part: Slice) -> Any:
        return RECORDS


@dataclass(frozen=True)
class SingleRecordSource(Source[int]):
    is_open: bool

    def create_enumerator(self) -> SplitEnumerator:
        return OneRound(self.is_open)

    def create_reader(self) -> SourceReader[int]:
        return SingleRecords()


#: The last one is that of the present test: functions are pickled, and find it here.
CLOCKS: list[ManualClock] = []


def slowly(number: int) -> int:
    CLOCKS[-1].advance(EACH_MS)
    return number


def buffers_of(folder: Path, monkeypatch: pytest.MonkeyPatch, *, followed: bool, **options: str) -> list[int]:
    """Return how many records are in each buffer that a busy source sends."""
    clock, sizes = ManualClock(0, until_ms=5_000), list[int]()
    CLOCKS.append(clock)
    transmit = LocalLinks.transmit

    def noting(self: LocalLinks, channel: Channel, message: Message) -> None:
        if isinstance(message, Buffer):
            assert isinstance(message.payload, tuple)  # in one process they are not encoded
            sizes.append(len(message.payload[0]))
        transmit(self, channel, message)

    monkeypatch.setattr(LocalLinks, "transmit", noting)
    env = in_process(1, execution__mode="pipelined", execution__checkpointing__interval="1 h", **options)
    numbers = env.from_source(SingleRecordSource(followed), WatermarkStrategy.no_watermarks(), "numbers").map(slowly)
    numbers.key_by(lambda n: 0).map(lambda n: n).sink_to(DiscardSink())
    live(env, folder, clock=clock, pipeline=FollowingPipeline(clock))
    assert sum(sizes) == RECORDS
    return sizes


# A task looks at the clock before each piece of work: what it sends at 120 ms has also the record of that piece.
@pytest.mark.parametrize(("followed", "sizes"), [(False, [5, 4, 4, 4, 3]), (True, [5, 5, 5, 5])])
def test_a_busy_task_collects_records_for_as_long_as_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: bool, sizes: list[int]
) -> None:
    timeout = {"execution__buffer_timeout__interval": "100 ms"}
    assert buffers_of(tmp_path, monkeypatch, followed=followed, **timeout) == sizes


@pytest.mark.parametrize("followed", [False, True])
def test_without_any_timeout_it_sends_after_every_piece_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: bool
) -> None:
    timeout = {"execution__buffer_timeout__interval": "0 ms"}
    assert buffers_of(tmp_path, monkeypatch, followed=followed, **timeout) == [1] * RECORDS


def test_with_the_timeout_disabled_only_full_buffers_leave_a_busy_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disabled = {"execution__buffer_timeout__enabled": "false", "execution__buffer_timeout__interval": "0 ms"}
    assert buffers_of(tmp_path, monkeypatch, followed=False, **disabled) == [RECORDS]


def test_with_the_timeout_disabled_event_time_still_follows_a_busy_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disabled = {"execution__buffer_timeout__enabled": "false", "pipeline__auto_watermark_interval": "200 ms"}
    assert buffers_of(tmp_path, monkeypatch, followed=True, **disabled) == [8, 8, 4]  # at 210 ms, 450 ms and the pause


def test_a_task_settles_by_the_buffer_timeout_or_else_by_the_interval_of_watermarks() -> None:
    assert TaskRules(buffer_timeout_ms=0, watermark_interval_ms=300).settles_after_ms == 0
    assert TaskRules(buffer_timeout_ms=None, watermark_interval_ms=300).settles_after_ms == 300
    assert TaskRules(buffer_timeout_ms=None, watermark_interval_ms=0).settles_after_ms == DEFAULT_SETTLING_MS


def test_the_options_of_flink_are_read() -> None:
    def timeout(**values: str) -> int | None:
        return pipelined_policy(
            Configuration.of({f"execution.{k}": v for k, v in values.items()})
        ).rules.buffer_timeout_ms

    assert timeout() == 100
    assert timeout(**{"buffer-timeout": "7 ms"}) == 7
    assert timeout(**{"buffer-timeout.interval": "0 ms"}) == 0
    assert timeout(**{"buffer-timeout.enabled": "false", "buffer-timeout.interval": "7 ms"}) is None
