"""A long epoch says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flott.common import WatermarkStrategy
from flott.runtime.console import RunningEpoch
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmaster.listener import JobListener
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource


def test_a_short_epoch_says_nothing_and_asks_nobody() -> None:
    clock = ManualClock()
    running = RunningEpoch(4, clock, lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    clock.advance(2_900)
    assert running.text() is None


def test_a_long_epoch_shows_its_tasks_and_asks_once_a_second() -> None:
    clock = ManualClock()
    asked: list[int] = []

    def progress() -> TaskProgress:
        asked.append(clock.now_ms())
        return TaskProgress(len(asked), 8)

    running = RunningEpoch(1, clock, progress)
    shown = []
    for _ in range(10):
        clock.advance(500)
        shown.append(running.text())
    assert shown[4] is None
    assert shown[5] == "epoch 1 running for 3 s, 1 of 8 tasks done"
    assert shown[9] == "epoch 1 running for 5 s, 3 of 8 tasks done"
    assert len(asked) == 3


def test_a_carrier_that_knows_nothing_leaves_the_time() -> None:
    clock = ManualClock()
    running = RunningEpoch(1, clock, lambda: None)
    clock.advance(61_000)
    assert running.text() == "epoch 1 running for 61 s"


class Watch(JobListener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.progress: Callable[[], TaskProgress | None] = lambda: None

    def on_start(self, epoch: int, progress: Callable[[], TaskProgress | None]) -> None:
        self.epochs.append(epoch)
        self.progress = progress


def test_listeners_are_told_of_every_epoch_and_can_ask_how_far_it_is(tmp_path: Path) -> None:
    env, watch = in_process(parallelism=2), Watch()
    env.from_source(ScriptedSource([1, EndOfEpoch(), 2]), WatermarkStrategy.no_watermarks(), "n").key_by(
        lambda n: n
    ).reduce(max).print()
    live(env, tmp_path, listeners=[watch])
    assert watch.epochs == [1, 2]
    assert watch.progress() == TaskProgress(4, 4)
