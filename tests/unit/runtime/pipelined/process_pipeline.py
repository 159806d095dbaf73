"""A pipeline whose slots are processes of their own, connected by sockets as on Spark, but without a JVM."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.pipelined.channels import find_channels, slots_of
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, answer, connect
from flott.runtime.pipelined.control import Command, EndTasks, SlotEvent
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings
from flott.runtime.pipelined.slot_loop import SlotLoop, connect_peers

SECRET = b"only for tests"


class ProcessPipeline:
    """Runs every slot in a child process."""

    def __init__(self, *, tcp: bool = False) -> None:
        self._compactor = LocalCompactor()
        self._tcp = tcp
        self._server: ControlServer | None = None
        self.processes: list[int] = []

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    def check(self, image: JobImage) -> None:
        self._compactor.storage = image.storage

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        slots = slots_of(image)
        listeners = [Listener("here", tcp=self._tcp, bind="127.0.0.1") for _ in range(slots)]
        endpoints = [listener.endpoint for listener in listeners]
        if self._tcp:
            endpoints = [SlotEndpoint("127.0.0.1", None, endpoint.port) for endpoint in endpoints]
        self._server = ControlServer("here", slots, SECRET, on_news, tcp=False)
        settings = SlotSettings(image, start.plan, tuple(find_channels(image)), start.rules, start.run)
        self.processes = [
            self._fork(settings, slot, endpoints, listeners[slot], self._server.endpoint) for slot in range(slots)
        ]
        for listener in listeners:
            for found in listener.sockets:
                found.close()

    def _fork(
        self, settings: SlotSettings, slot: int, endpoints: list[SlotEndpoint], listener: Listener, driver: SlotEndpoint
    ) -> int:
        process = os.fork()
        if process:
            return process
        code = 1
        try:
            peers = connect_peers(slot, endpoints, listener, SECRET)
            made = connect(driver, "here")
            answer(made, SECRET, slot)
            SlotLoop(settings, slot, peers, FrameConnection(made), TaskPlace("here", str(slot))).run()
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
        return self._server.take_events()

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
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
            os.waitpid(process, 0)
        self.processes = []

    def close(self) -> None:
        self.stop()
