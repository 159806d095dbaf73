"""Processes die at every step of a checkpoint, connections break in the middle of a frame, disks are slow. Exact."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.clock import SystemClock
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection
from flott.runtime.pipelined.control import CheckpointSaved, InjectBarrier, RoundRead
from flott.runtime.pipelined.file_writing import BackgroundWriter
from flott.runtime.pipelined.links import OutputChannels
from flott.runtime.pipelined.messages import Barrier, Channel, Message
from flott.runtime.pipelined.slot import TaskSlot
from flott.runtime.pipelined.slot_loop import SlotLoop, SocketLinks
from flott.runtime.pipelined.task import PipelinedTask
from flott.runtime.storage import PosixStorage
from flott.testing.harness import Incarnation, live
from tests.unit.runtime.pipelined.process_pipeline import ProcessPipeline
from tests.unit.runtime.pipelined.test_slot_processes import committed, expected, program

#: What fails does so at the second time, so that there is a checkpoint to continue from.
TIMES = 2


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Once:
    """Does something at the second of its times, in one process of the job, and never again."""

    def __init__(self, mark: Path, act: Callable[[], None] = kill):
        self.mark, self.act, self.times = mark, act, 0

    def __call__(self) -> None:
        self.times += 1
        if self.times >= TIMES and not self.mark.exists():
            self.mark.touch()
            self.act()


def before(owner: type, name: str, when: Callable[..., bool], then: Callable[[], None]) -> None:
    """Do something before each call of a method with such arguments. In a child process, so it is never undone."""
    real = getattr(owner, name)

    def replaced(*args: Any) -> Any:
        if when(*args):
            then()
        return real(*args)

    setattr(owner, name, replaced)


def after(owner: type, name: str, when: Callable[..., bool], then: Callable[[], None]) -> None:
    """The same after each call."""
    real = getattr(owner, name)

    def replaced(*args: Any) -> Any:
        found = real(*args)
        if when(*args):
            then()
        return found

    setattr(owner, name, replaced)


def is_barrier(_: object, *args: object) -> bool:
    return any(isinstance(one, Barrier) for one in args)


STEPS: dict[str, Callable[[Once], None]] = {
    "the driver has asked for the barrier": lambda once: before(
        TaskSlot, "obey", lambda _, command: isinstance(command, InjectBarrier), once
    ),
    "a barrier has come from another task": lambda once: before(TaskSlot, "receive", is_barrier, once),
    "the state is about to be saved": lambda once: before(PipelinedTask, "_save", lambda *args: True, once),
    "the barrier was passed on": lambda once: after(OutputChannels, "send_barrier", is_barrier, once),
    "files are about to be written": lambda once: before(BackgroundWriter, "write", lambda *args: True, once),
    "files are being written": lambda once: before(PosixStorage, "write", lambda *args: True, once),
    "files were written": lambda once: before(BackgroundWriter, "finish", lambda *args: True, once),
    "the checkpoint is about to be reported": lambda once: before(
        SlotLoop, "_report", lambda _, event: isinstance(event, CheckpointSaved), once
    ),
    "the checkpoint was reported": lambda once: after(
        SlotLoop, "_report", lambda _, event: isinstance(event, CheckpointSaved), once
    ),
    "a round was read": lambda once: before(SlotLoop, "_report", lambda _, event: isinstance(event, RoundRead), once),
}


def run(tmp_path: Path, pipeline: ProcessPipeline, **settings: Any) -> Incarnation:
    (tmp_path / "out").mkdir(exist_ok=True)
    options = settings.pop("options", {})
    env = program(tmp_path / "out", tmp_path / "unused", None, **options)
    return live(env, tmp_path / "job", clock=SystemClock(), pipeline=pipeline, **settings)


def expect_exact(tmp_path: Path, life: Incarnation, restarts: int = 1) -> None:
    assert life.status is JobStatus.FINISHED, life.failure
    assert (tmp_path / "mark").exists(), "nothing has failed"
    assert len(life.history.restarts) == restarts
    assert committed(tmp_path / "out") == expected()


@pytest.mark.parametrize(("step", "slot"), [(step, number % 2) for number, step in enumerate(STEPS)])
def test_a_slot_dies_at_a_step_of_a_checkpoint(step: str, slot: int, tmp_path: Path) -> None:
    def in_child(own: int) -> None:
        if own == slot:
            STEPS[step](Once(tmp_path / "mark"))

    expect_exact(tmp_path, run(tmp_path, ProcessPipeline(in_child=in_child)))


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed"])
def test_a_slot_dies_at_a_step_of_the_driver(step: str, tmp_path: Path) -> None:
    pipeline = ProcessPipeline()
    once = Once(tmp_path / "mark", lambda: os.kill(pipeline.processes[1], signal.SIGKILL))

    def on_step(name: str, epoch: int) -> None:
        if name == step:
            once()

    # The last checkpoint of the job must not be the first one: behind that, a slot that dies is not missed.
    options = {"execution__checkpointing__interval": "1 ms"}
    expect_exact(tmp_path, run(tmp_path, pipeline, on_step=on_step, options=options))


# --- connections that break ------------------------------------------------------------------------------------------


def cut_in_frame(kind: int, once: Once) -> None:
    """Send half of a frame of this kind, then end the connection."""
    real = FrameConnection.send
    chosen: list[FrameConnection] = []
    once.act = lambda: chosen.append(sender[0])
    sender: list[FrameConnection] = []

    def send(self: FrameConnection, frame: bytes) -> None:
        sender[:] = [self]
        if frame[4] == kind and len(frame) > 40:
            once()
        if self in chosen:
            if self.is_open and not self.has_unsent:
                self.socket.setblocking(True)
                self.socket.sendall(frame[: len(frame) // 2])
                self.socket.shutdown(socket.SHUT_RDWR)
                self.is_open = False
            return
        real(self, frame)

    FrameConnection.send = send  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", [frames.BUFFER, frames.MESSAGE, frames.CONTROL], ids=["buffer", "message", "control"])
def test_a_connection_is_cut_in_the_middle_of_a_frame(kind: int, tmp_path: Path) -> None:
    def in_child(own: int) -> None:
        if own == 0:
            cut_in_frame(kind, Once(tmp_path / "mark"))

    expect_exact(tmp_path, run(tmp_path, ProcessPipeline(in_child=in_child)))


def lose_barriers(once: Once) -> None:
    """Lose a barrier that is sent to another slot, and go on as if nothing was."""
    real = SocketLinks.transmit
    lost: list[bool] = []
    once.act = lambda: lost.append(True)

    def transmit(self: SocketLinks, channel: Channel, message: Message) -> None:
        if isinstance(message, Barrier) and channel.receiver.partition != channel.sender.partition:
            lost.clear()
            once()
            if lost:
                return
        real(self, channel, message)

    SocketLinks.transmit = transmit  # type: ignore[method-assign]


def test_a_checkpoint_whose_barrier_is_lost_is_given_up_and_the_tasks_restart(tmp_path: Path) -> None:
    def in_child(own: int) -> None:
        if own == 0:
            lose_barriers(Once(tmp_path / "mark"))

    limit = {"execution__checkpointing__timeout": "1500 ms"}
    life = run(tmp_path, ProcessPipeline(in_child=in_child), options=limit)
    expect_exact(tmp_path, life)
    assert "took longer than" in life.history.restarts[0][0]


def test_a_barrier_is_lost_with_its_connection(tmp_path: Path) -> None:
    def in_child(own: int) -> None:
        if own == 0:
            once = Once(tmp_path / "mark", lambda: None)

            def cut(self: SocketLinks, channel: Channel, message: Message) -> bool:
                if isinstance(message, Barrier) and channel.receiver.partition != 0 and not once.mark.exists():
                    once()
                    if once.mark.exists():
                        self._peers[channel.receiver.partition].socket.shutdown(socket.SHUT_RDWR)
                return False

            before(SocketLinks, "transmit", cut, lambda: None)

    expect_exact(tmp_path, run(tmp_path, ProcessPipeline(in_child=in_child)))


# --- slow disks, and a driver that dies ------------------------------------------------------------------------------


def test_on_a_slow_disk_records_are_processed_while_files_are_written(tmp_path: Path) -> None:
    def in_child(own: int) -> None:
        real = PosixStorage.write

        def write(self: PosixStorage, name: str, data: bytes) -> None:
            time.sleep(0.2)
            (tmp_path / "mark").touch()
            real(self, name, data)

        PosixStorage.write = write  # type: ignore[method-assign,assignment]

    expect_exact(tmp_path, run(tmp_path, ProcessPipeline(in_child=in_child)), restarts=0)


def test_when_the_driver_is_killed_its_slots_end_and_another_driver_continues(tmp_path: Path) -> None:
    driver = os.fork()
    if driver == 0:
        pipeline = ProcessPipeline()

        def on_step(name: str, epoch: int) -> None:
            if name == "completed" and epoch == TIMES:
                (tmp_path / "slots").write_text(" ".join(map(str, pipeline.processes)))
                (tmp_path / "mark").touch()
                kill()

        run(tmp_path, pipeline, on_step=on_step)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(driver, 0)[1])
    slots = [int(word) for word in (tmp_path / "slots").read_text().split()]
    while any(map(lives, slots)):
        time.sleep(0.01)
    expect_exact(tmp_path, run(tmp_path, ProcessPipeline()), restarts=0)


def lives(process: int) -> bool:
    try:
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            return True
        return len(os.listdir(f"/proc/{process}/task")) > 1  # its other threads may end after the first one
    except (FileNotFoundError, ProcessLookupError):
        return False
