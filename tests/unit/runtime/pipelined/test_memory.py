"""A sink that is slower than its source, over many checkpoints: queues stay short and memory stays flat."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flott.common import JobStatus, WatermarkStrategy
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.pipelined.control import SlotEvent
from flott.runtime.pipelined.links import FEWEST_CREDITS, WAITING_BUFFERS
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import ScriptedSource
from tests.unit.runtime.pipelined.test_pipelined_jobs import Counted, expected_counts

CHECKPOINTS = 60
NUMBERS = 3000


class Hasty(ManualClock):
    """A clock that runs on whenever it is looked at, so that checkpoints become due."""

    def now_ms(self) -> int:
        self.advance(1)
        return super().now_ms()


class SlowSink(LocalPipeline):
    """Lets the last stage do one piece of work for six times that the others have done all they can."""

    calls = 0
    blocked = 0
    held_timers = 0  #: how often a task had a timer and a receiver that takes nothing
    longest = 0

    def events(self) -> list[SlotEvent]:
        """Work a little, and look at every queue."""
        self.calls += 1
        for stage in range(self._stages - 1):
            for slot in self.slots:
                while slot.work_in_stage(stage):
                    pass
        for slot in self.slots:
            self._look(slot)
            if self.calls % 6 == 0:
                slot.work_in_stage(self._stages - 1)
        happened = list(self._events)
        self._events.clear()
        return happened

    def _look(self, slot: object) -> None:
        for task in slot.tasks.values():  # type: ignore[attr-defined]
            self.blocked += task.outputs.is_blocked
            if task.outputs.is_blocked and task._wakeup_ms is not None:
                self.held_timers += 1
                assert task.wakeup_ms is None, "a loop that woke for a timer that cannot fire would spin"
            for channel in task.inputs.channels.values():
                # Buffers take credits; event time and a barrier stand between them at most.
                self.longest = max(self.longest, len(channel.queue))
            assert task.outputs.waiting_buffers <= WAITING_BUFFERS * 8


class Reminded(Counted):
    """Has timers that are due while receivers take nothing."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 50)
        yield from super().process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        return iter(())


def test_many_checkpoints_under_back_pressure_leave_nothing_behind(tmp_path: Path) -> None:
    env = in_process(
        2, execution__mode="pipelined", execution__checkpointing__interval="1 ms", flott__epoch__max_records="60"
    )
    ledger = Ledger("pipelined-memory")
    numbers = env.from_source(ScriptedSource(list(range(NUMBERS))), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.key_by(lambda n: n % 3).process(Reminded()).uid("counted")
    counted.key_by(lambda found: found[0]).map(lambda found: found).sink_to(LedgerSink(ledger)).uid("out")
    clock, objects = Hasty(), dict[int, int]()
    pipeline, taken = SlowSink(clock), 0
    found = Counter[object]()

    def on_step(step: str, epoch: int) -> None:
        nonlocal taken
        if step != "committed":
            return
        taken += 1
        found.update(ledger.records)  # what the test itself would keep
        ledger.committed.clear()
        ledger.commits.clear()
        for listener in masters[0].listeners:
            listener.epochs.clear()  # type: ignore[attr-defined]
        if taken % 20 == 0:
            gc.collect()
            objects[taken] = len(gc.get_objects())

    masters: list[object] = []
    settings = TaskSettings(buffer_records=4, input_memory_bytes=1)
    life = live(
        env, tmp_path, clock=clock, pipeline=pipeline, settings=settings, on_step=on_step, on_start=masters.append
    )
    assert life.status is JobStatus.FINISHED, life.failure
    found.update(ledger.records)
    assert found == expected_counts(NUMBERS)
    assert taken >= CHECKPOINTS
    assert pipeline.blocked > 100  # there was back pressure
    assert pipeline.held_timers > 10
    assert pipeline.longest <= 2 * (FEWEST_CREDITS + 3)
    assert objects[max(objects)] - objects[20] < 300, objects
