"""The parallelism follows the load: up quickly, down slowly, and to rest."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Configuration, WatermarkStrategy
from flott.datastream.functions import MapFunction
from flott.errors import ConfigurationError
from flott.runtime.epoch.local_runner import LocalRunner
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import EpochEnded, OnEvent, RunnerEvent
from flott.runtime.jobmaster.adaptive import EpochLoad, LoadTrend, ScalingPolicy, follow, next_parallelism
from flott.testing.clock import ManualClock
from flott.testing.harness import in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import EndOfEpoch, ScriptedSource, Wait

POLICY = ScalingPolicy(up_epochs=3, down_ms=10_000, cooldown_ms=5_000)
BOUNDS = (1, 8)
BUSY = EpochLoad(0, 2, backlog=True, busy=0.9)
QUIET = EpochLoad(0, 4, backlog=False, busy=0.1)


def after(*loads: EpochLoad, policy: ScalingPolicy = POLICY) -> LoadTrend:
    """The trend after epochs that took a second each."""
    trend: LoadTrend | None = None
    for number, load in enumerate(loads):
        trend = follow(policy, trend, EpochLoad(1000 * number, load.parallelism, load.backlog, load.busy))
    assert trend is not None
    return trend


def decision(*loads: EpochLoad, bounds: tuple[int, int] = BOUNDS) -> int | None:
    return next_parallelism(POLICY, after(*loads), 1000 * (len(loads) - 1), bounds)


def test_several_busy_epochs_with_a_backlog_double_the_parallelism() -> None:
    assert [decision(*[BUSY] * n) for n in (1, 2, 3)] == [None, None, 4]


def test_one_epoch_that_keeps_up_starts_the_count_anew() -> None:
    kept_up = EpochLoad(0, 2, backlog=False, busy=0.9)
    assert decision(BUSY, BUSY, kept_up, BUSY, BUSY) is None
    assert decision(BUSY, BUSY, kept_up, BUSY, BUSY, BUSY) == 4


def test_a_backlog_of_tasks_that_are_not_busy_is_nothing_that_more_of_them_could_help() -> None:
    assert decision(*[EpochLoad(0, 2, backlog=True, busy=0.4)] * 20) is None


def test_being_busy_without_a_backlog_is_as_it_should_be() -> None:
    assert decision(*[EpochLoad(0, 2, backlog=False, busy=0.99)] * 20) is None


def test_the_parallelism_goes_no_further_than_the_bounds() -> None:
    assert decision(*[BUSY] * 3, bounds=(1, 3)) == 3
    assert decision(*[BUSY] * 3, bounds=(1, 2)) is None
    assert decision(*[QUIET] * 20, bounds=(3, 8)) == 3


def test_a_parallelism_outside_of_the_bounds_returns_to_them_at_once() -> None:
    assert decision(BUSY, bounds=(1, 1)) == 1
    assert decision(BUSY, bounds=(3, 8)) == 3


def test_a_load_that_stays_low_long_enough_takes_parallelism_away() -> None:
    assert decision(*[QUIET] * 10) is None
    assert decision(*[QUIET] * 11) == 1


def test_as_many_stay_as_the_busiest_of_the_quiet_epochs_needed() -> None:
    assert decision(*[QUIET] * 10, EpochLoad(0, 4, backlog=False, busy=0.25)) == 3
    assert decision(*[EpochLoad(0, 2, backlog=False, busy=0.29)] * 11) is None, "one alone would be too busy"


def test_nothing_changes_soon_after_a_change() -> None:
    changed = [BUSY, EpochLoad(0, 4, True, 0.9)]
    assert after(*changed).changed_at_ms == 1000
    assert decision(*changed, *[EpochLoad(0, 4, True, 0.9)] * 4) is None
    assert decision(*changed, *[EpochLoad(0, 4, True, 0.9)] * 5) == 8


@given(
    st.floats(0.05, 20), st.integers(1, 12), st.integers(1, 12), st.floats(0.5, 1), st.floats(0, 30), st.integers(0, 2)
)
def test_a_constant_load_leads_to_one_parallelism_and_stays_there(
    load: float, start: int, highest: int, scaling: float, queue: float, skipped: int
) -> None:
    """``load`` is what one subtask could do if it were alone; with more of them each does a little less."""

    def capacity(parallelism: int) -> float:
        return float(parallelism**scaling)

    parallelism, trend, changed = start, None, []
    for second in range(600):
        able = capacity(parallelism)
        waiting = queue + load
        done = min(waiting, able)
        queue = waiting - done
        if second % (skipped + 1) == 0:
            trend = follow(POLICY, trend, EpochLoad(1000 * second, parallelism, queue > 0, done / able))
            wanted = next_parallelism(POLICY, trend, 1000 * second, (1, highest))
            if wanted is not None:
                assert 1 <= wanted <= highest
                assert wanted != parallelism
                changed.append((second, wanted - parallelism))
                parallelism = wanted
    directions = [step > 0 for _, step in changed if not (step < 0 and changed[0] == (0, step))]
    turns = sum(one != two for one, two in pairwise(directions))
    assert turns <= 1, f"up, and once down when the backlog is gone: {changed}"
    assert len(changed) <= 12
    if queue == 0:
        assert all(second < 540 for second, _ in changed), "it rests"
    else:
        assert parallelism == highest, "all there is, and not enough"


# --- configuration ---------------------------------------------------------------------------------------------------


def configured(**options: str) -> ScalingPolicy | None:
    configuration = Configuration()
    for name, value in options.items():
        configuration.set_string(name.replace("__", ".").replace("_", "-"), value)
    return ScalingPolicy.of(configuration)


def test_the_parallelism_stays_as_it_is_unless_asked_for() -> None:
    assert configured() is None
    assert configured(jobmanager__scheduler="Default") is None
    assert configured(jobmanager__scheduler="Adaptive") == ScalingPolicy()


def test_options_are_also_known_by_the_names_of_flinks_autoscaler() -> None:
    policy = configured(
        jobmanager__scheduler="adaptive", job__autoscaler__vertex__max_parallelism="6",
        job__autoscaler__scale_down__interval="5 min", jobmanager__adaptive_scheduler__scaling_interval__min="7 s",
    )  # fmt: skip
    assert policy == ScalingPolicy(max_parallelism=6, down_ms=300_000, cooldown_ms=7_000)


def test_bounds_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"utilization\.min \(0\.7\) must be above 0 and below .*max \(0\.6\)"):
        configured(jobmanager__scheduler="adaptive", flott__adaptive__utilization__min="0.7")
    with pytest.raises(ConfigurationError, match=r"max-parallelism \(2\) is below .*min-parallelism \(3\)"):
        configured(
            jobmanager__scheduler="adaptive", flott__adaptive__min_parallelism="3", flott__adaptive__max_parallelism="2"
        )


@pytest.mark.parametrize(
    ("policy", "slots", "limit", "bounds"),
    [
        (ScalingPolicy(), 6, 128, (1, 6)),
        (ScalingPolicy(max_parallelism=4), 6, 128, (1, 4)),
        (ScalingPolicy(max_parallelism=9), 6, 128, (1, 6)),
        (ScalingPolicy(max_parallelism=9), None, 128, (1, 9)),
        (ScalingPolicy(min_parallelism=5), 2, 128, (2, 2)),
        (ScalingPolicy(), 6, 3, (1, 3)),
    ],
)
def test_the_bounds_respect_slots_and_the_maximum_parallelism(
    policy: ScalingPolicy, slots: int | None, limit: int, bounds: tuple[int, int]
) -> None:
    assert policy.bounds(slots, limit) == bounds


# --- a whole job -----------------------------------------------------------------------------------------------------


def test_a_job_grows_with_its_backlog_and_shrinks_when_the_load_is_low(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, ledger = ManualClock(0), Ledger(uuid4().hex)
    busy = [entry for n in range(12) for entry in (*range(8 * n, 8 * n + 8), EndOfEpoch())]
    quiet = [entry for n in range(60) for entry in (Wait(10_000), 1000 + n, EndOfEpoch())]
    env = in_process(
        1, jobmanager__scheduler="adaptive", flott__adaptive__max_parallelism="4",
        flott__adaptive__scale_down__interval="60 s",
        jobmanager__adaptive_scheduler__executing__cooldown_after_rescaling="5 s",
    )  # fmt: skip
    numbers = env.from_source(ScriptedSource([*busy, *quiet]), WatermarkStrategy.no_watermarks(), "n")
    numbers.rebalance().map(Same()).sink_to(LedgerSink(ledger))
    _work_takes_time(monkeypatch, clock)
    with caplog.at_level(logging.INFO, "flott.job"):
        incarnation = live(env, tmp_path, clock=clock)
    parallelisms = [epoch.parallelism for epoch in incarnation.history.epochs]
    steps = [one for one, two in pairwise(parallelisms) if one != two] + parallelisms[-1:]
    assert steps == [1, 2, 4, 1]
    assert sorted(ledger.records) == [*range(96), *range(1000, 1060)]
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Adaptive")]
    assert [line.rsplit("goes ", 1)[1] for line in said] == ["from 1 to 2.", "from 2 to 4.", "from 4 to 1."]
    assert "with a backlog" in said[0]
    assert "with a backlog" not in said[-1]


class Same(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value


def _work_takes_time(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """Every record of an epoch is a second of work, divided by the parallelism, by the clock and by the reports."""
    taken: list[float] = []
    run = LocalRunner.run

    def working(runner: LocalRunner, plan: EpochPlan, on_event: OnEvent) -> None:
        ended: list[RunnerEvent] = []
        run(runner, plan, ended.append)
        result = next(event.result for event in ended if isinstance(event, EpochEnded))
        records = sum(o.records_in for report in result.reports for o in report.operators.values()) / 2
        assert runner._image is not None
        taken[:] = [records / runner._image.topology.stages[-1].width]
        clock.advance(int(1000 * taken[0]) + 100)
        for event in ended:
            on_event(event)

    monkeypatch.setattr(LocalRunner, "run", working)
    monkeypatch.setattr(EpochResult, "busy_seconds", lambda result, topology: taken[0])
