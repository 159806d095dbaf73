"""What listeners are told about an epoch: its phases, and who failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.errors import StorageError, UserCodeError
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.metrics._engine_metrics import TASK_BYTES_IN, TASK_BYTES_OUT, TASK_RECORDS_OUT, WATERMARK_OUT
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.epoch.failure import Blame, FailureCard
from flott.runtime.epoch.report import EpochResult, OperatorReport, SubtaskReport
from flott.runtime.epoch.topology import lay_out
from flott.runtime.jobmaster.epoch_outcome import failure_of, raise_failures, statistics_of
from flott.testing.harness import in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource


def _graph() -> JobGraph:
    env = in_process(1)
    env.from_source(ScriptedSource([1]), WatermarkStrategy.no_watermarks(), "numbers").print()
    return chain(env.get_stream_graph())


TRAFFIC = (TASK_RECORDS_OUT, TASK_BYTES_IN, TASK_BYTES_OUT)
GRAPH = _graph()


def _result(started_ms: int) -> EpochResult:
    vertex = GRAPH.vertices[0]
    operators = {operator.id: OperatorReport() for operator in vertex.operators}
    return EpochResult((SubtaskReport(vertex.id, 0, "a", {}, operators, None, 0.5, 1, started_ms=started_ms),))


@given(st.integers(-(10**6), 10**6), st.floats(0, 100))
def test_the_wait_for_the_first_task_is_a_part_of_the_run_whatever_the_clocks_say(skew_ms: int, run_s: float) -> None:
    statistics = statistics_of(
        GRAPH, EpochInput(1, 0, {}), _result(1_000_000 + skew_ms), Manifest("j", "n", 1, 5, 0), 0,
        [0.001, run_s, 0.002, 0.003], handed_over_ms=1_000_000,
    )  # fmt: skip
    assert 0 <= statistics.schedule_ms <= statistics.run_ms
    assert sum(statistics.phases.values()) == pytest.approx(statistics.total_ms)
    if 0 <= skew_ms <= statistics.run_ms:
        assert statistics.schedule_ms == skew_ms


def test_a_failure_names_the_task_and_keeps_the_card() -> None:
    card = FailureCard(
        Blame.USER_CODE, "ValueError: no", "", 3, 0, 0, GRAPH.vertices[0].name, operator="numbers",
        host="there", executor="2",
    )  # fmt: skip
    with pytest.raises(UserCodeError) as raised:
        raise_failures(EpochResult(failures=(card,)), GRAPH, lay_out(GRAPH))
    failure = failure_of(raised.value, GRAPH)
    assert (failure.name, failure.operator, failure.host, failure.executor) == ("ValueError", "numbers", "there", "2")
    assert failure.task == f"{GRAPH.vertices[0].name} (1/1)"


def test_a_failure_without_a_card_is_the_jobs() -> None:
    failure = failure_of(StorageError("The disk is full."), GRAPH)
    assert (failure.name, failure.text, failure.task) == ("StorageError", "The disk is full.", None)


def test_every_subtask_is_told_with_its_operators(tmp_path: Path) -> None:
    env = in_process(2)
    numbers = env.from_source(ScriptedSource([1, 2, EndOfEpoch(), 3]), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n).map(lambda n: n).name("Map").print()
    first, last = live(env, tmp_path).history.epochs
    assert {(s.vertex, s.subtask) for s in first.subtasks} == {(s.vertex, s.subtask) for s in last.subtasks}
    assert len(first.subtasks) == 4
    for statistics in (first, last):
        total = {m.name: sum(s.measures.get(m.name, 0) for s in statistics.subtasks) for m in TRAFFIC}
        assert total[TASK_RECORDS_OUT.name] == statistics.records_in
        assert total[TASK_BYTES_OUT.name] == total[TASK_BYTES_IN.name] > 0
        assert all(s.ended_ms >= s.started_ms > 0 for s in statistics.subtasks)
        assert {s.place.executor for s in statistics.subtasks} == {"in-process"}
    reached = {o.measures[WATERMARK_OUT.name] for s in last.subtasks for o in s.operators.values()}
    assert reached == {MAX_WATERMARK}
