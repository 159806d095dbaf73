"""The time of an epoch: fixed before it runs, the same when it is repeated, and never before that of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from flott.common import WatermarkStrategy
from flott.datastream.connectors.base import Sink, SinkWriter, WriterContext
from flott.testing.clock import ManualClock
from flott.testing.harness import Crash, in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource


class _Times(Sink[Any]):
    """Remembers the epoch and the time of every writer."""

    seen: ClassVar[list[tuple[int, int]]] = []

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        self.seen.append((context.epoch, context.now_ms))
        return _Nothing()


class _Nothing(SinkWriter[Any]):
    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None: ...


def job() -> Any:
    env = in_process(1)
    script = [1, EndOfEpoch(), 2, EndOfEpoch(), 3]
    env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").sink_to(
        _Times()
    )
    return env


def test_a_process_whose_clock_is_behind_does_not_take_time_back(tmp_path: Path) -> None:
    _Times.seen.clear()

    def crash(step: str, epoch: int) -> None:
        if (step, epoch) == ("ran", 2):
            raise Crash

    live(job(), tmp_path, clock=ManualClock(5_000_000), on_step=crash)
    assert not live(job(), tmp_path, clock=ManualClock(1_000)).crashed
    times = [time for _, time in _Times.seen]
    repeated = [time for epoch, time in _Times.seen if epoch == 2]
    assert len(repeated) == 2
    assert repeated[0] == repeated[1]
    assert times == sorted(times)
    assert min(times) >= 5_000_000
