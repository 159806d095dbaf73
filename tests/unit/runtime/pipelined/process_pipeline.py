"""A pipeline whose slots are processes of their own, connected by sockets as on Spark, but without a JVM."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.pipelined.channels import find_channels, slots_of
from flott.runtime.pipelined.connection import Listener, SlotEndpoint
from flott.runtime.pipelined.control import Command, EndTasks, SlotEvent, SlotLost, SubtaskLoad, TaskWait
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.meeting import meet
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings
from flott.runtime.pipelined.slot_loop import SlotLoop
from flott.runtime.pipelined.tls import ConnectionTls

#: How long a process that was told to end may take.
END_SECONDS = 3.0
SECRET = b"only for tests"


class ProcessPipeline:
    """Runs every slot in a child process."""

    follows_splits = True

    def __init__(
        self,
        *,
        tcp: bool = False,
        tls: ConnectionTls | None = None,
        in_child: Callable[[int], None] = lambda slot: None,
    ) -> None:
        self._in_child = in_child  #: called first in every process, with the number of its slot
        self._compactor = LocalCompactor()
        self._tls = tls
        self._tcp = tcp
        self._server: ControlServer | None = None
        self.processes: list[int] = []
        self._reaped: set[int] = set()  #: those whose end was noticed

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    def check(self, image: JobImage) -> None:
        self._compactor.storage = image.storage

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        slots = slots_of(image)
        self._server = ControlServer(
            "here", slots, SECRET, on_news, tcp=self._tcp, tls=self._tls, silence_ms=start.rules.heartbeat_timeout_ms
        )
        driver = self._server.endpoint
        if self._tcp:
            driver = SlotEndpoint("127.0.0.1", None, driver.port)
        settings = SlotSettings(image, start.plan, tuple(find_channels(image)), start.rules, start.run)
        # None connects before all are there: a later one would inherit the driver's side of its connection.
        gate, opener = os.pipe()
        self.processes = [self._fork(settings, slot, driver, gate) for slot in range(slots)]
        os.write(opener, bytes(slots))
        os.close(gate)
        os.close(opener)

    def _fork(self, settings: SlotSettings, slot: int, driver: SlotEndpoint, gate: int) -> int:
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            self._in_child(slot)
            os.read(gate, 1)
            listener = Listener("here", tcp=self._tcp, bind="127.0.0.1")
            try:
                if self._tcp:
                    listener.endpoint = SlotEndpoint("127.0.0.1", None, listener.endpoint.port)
                control, peers, _ = meet(slot, driver, listener, SECRET, self._tls)
            finally:
                listener.close()
            SlotLoop(settings, slot, peers, control, TaskPlace("here", str(slot))).run()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def send(self, slot: int, command: Command) -> None:
        assert self._server is not None
        self._server.send(slot, command)

    def events(self) -> list[SlotEvent]:
        assert self._server is not None
        self._notice_deaths(self._server)
        return self._server.take_events()

    def _notice_deaths(self, server: ControlServer) -> None:
        """Tell the driver which processes have died, as Spark does: some have no connection yet that could end."""
        for slot, process in enumerate(self.processes):
            if process in self._reaped:
                continue
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                self._reaped.add(process)
                if status:
                    server.add(SlotLost(f"The process of slot {slot} has died."))

    def waits(self) -> tuple[TaskWait, ...]:
        return () if self._server is None else self._server.waits()

    def take_loads(self) -> tuple[SubtaskLoad, ...]:
        return () if self._server is None else self._server.take_loads()

    @property
    def wakeup_ms(self) -> int | None:
        return None

    def interrupt(self) -> None:
        """Do nothing: the job's thread stops the tasks."""

    def stop(self) -> None:
        if self._server is None:
            return
        for slot in range(len(self.processes)):
            self._server.send(slot, EndTasks())
        self._server.close()
        self._server = None
        for process in self.processes:
            if process not in self._reaped:
                _end(process)
        self.processes, self._reaped = [], set()

    def close(self) -> None:
        self.stop()


def _end(process: int) -> None:
    """Wait for a process, and kill it if it does not end, as Spark does."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)
    until = time.monotonic() + END_SECONDS
    while not os.waitpid(process, os.WNOHANG)[0]:
        if time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
