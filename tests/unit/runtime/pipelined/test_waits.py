"""What waiting tasks are said to wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from flott.common._ids import EpochId
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.runtime.jobmaster.execution_mode import pipelined_policy
from flott.runtime.pipelined.control import InjectBarrier, TaskWait
from flott.runtime.pipelined.links import WAITING_BUFFERS
from flott.runtime.pipelined.local_pipeline import LocalPipeline
from flott.runtime.pipelined.messages import Barrier, Buffer, TaskAddress
from flott.runtime.pipelined.waits import lasting, waits_of
from flott.testing.clock import ManualClock
from flott.testing.harness import live
from tests.unit.runtime.pipelined.test_slot_processes import program


class Paused(BaseException):
    """The job is left as it is."""


@pytest.fixture
def pipeline(tmp_path: Path) -> LocalPipeline:
    """The tasks of a job that has begun: two readers, two receivers."""
    made = LocalPipeline(ManualClock())

    def pause(step: str, epoch: int) -> None:
        raise Paused

    made.stop = lambda: None  # type: ignore[method-assign]
    (tmp_path / "out").mkdir()
    with pytest.raises(Paused):
        live(program(tmp_path / "out", tmp_path / "mark", None), tmp_path, pipeline=made, on_step=pause)
    return made


def told(pipeline: LocalPipeline) -> dict[str, str]:
    return {wait.name: wait.reason for wait in pipeline.waits()}


def test_idle_tasks_wait_for_nothing(pipeline: LocalPipeline) -> None:
    assert told(pipeline) == {}


def test_a_task_waits_for_the_barriers_that_have_not_come(pipeline: LocalPipeline) -> None:
    receiver = TaskAddress(1, 1)
    task = pipeline.slots[1].tasks[receiver]
    task.inputs.receive(TaskAddress(0, 0), Barrier(EpochId(9)))
    task.step()
    task.inputs.receive(TaskAddress(0, 0), Buffer(0, b""))
    awaited = "the barrier of checkpoint 9 has not come from Source: numbers (2/2)"
    assert told(pipeline) == {
        "KeyedProcess -> Sink: Folder (2/2)": f"{awaited}, and 1 messages of other inputs are held back"
    }


def test_a_task_waits_for_receivers_that_take_no_more(pipeline: LocalPipeline) -> None:
    task = pipeline.slots[0].tasks[TaskAddress(0, 0)]
    receiver = TaskAddress(1, 1)
    channel = task.outputs._channels[receiver]
    channel.credits = 0
    for _ in range(WAITING_BUFFERS):
        task.outputs.put(receiver, Buffer(0, b""))
    assert told(pipeline) == {}, "it has nothing to do"
    (source,) = task.inputs.sources
    task.inputs.order(InjectBarrier(source, EpochId(9)))
    reason = "no more of its output is taken by KeyedProcess -> Sink: Folder (2/2)"
    assert told(pipeline) == {"Source: numbers (1/2)": reason}
    (wait,) = waits_of(pipeline.slots[0].settings.image, [task])
    assert wait.subtask == 0
    assert len(wait.vertices) == 1


def test_a_wait_lasts_while_its_kind_is_the_same() -> None:
    def wait(reason: str) -> TaskWait:
        return TaskWait((), 0, "task", reason)  # type: ignore[arg-type]

    first = lasting((), [wait("a call: line 1")], 1000)
    second = lasting(first, [wait("a call: line 2")], 1500)
    assert str(second[0]) == "task has made no progress for 2 s 500 ms: a call: line 2"
    assert lasting(second, [wait("something else")], 10)[0].waited_ms == 10
    assert lasting(second, [], 10) == ()


def test_a_timeout_that_is_no_longer_than_the_interval_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"heartbeat\.timeout \(5000 ms\) must be more"):
        pipelined_policy(Configuration.of({"heartbeat.timeout": "5 s"}))
