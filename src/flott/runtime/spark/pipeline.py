"""Runs a job's tasks continuously, in one barrier stage of Spark. Driver side; ``PipelineBody`` runs in workers.

    driver:  control server ◄───────── sockets ─────────► slot 0, slot 1, …   (one Spark task each)
             thread: RDD.barrier().mapPartitions(body)    slots exchange their addresses by allGather, and connect

Spark schedules all tasks of the stage at once or none. They occupy their cores until the job ends, changes its
parallelism or fails. If a worker dies, its connections end, which the driver notices before Spark tells it.
"""

from __future__ import annotations

import json
import pickle
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import BarrierTaskContext, SparkContext
from pyspark.core.broadcast import Broadcast

from flott.errors import ConfigurationError, WorkerLostError
from flott.runtime.clock import Clock
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.logs.capture import claim_process
from flott.runtime.pipelined.channels import ChannelEdges, find_channels, slots_of
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, answer, connect
from flott.runtime.pipelined.control import Command, EndTasks, SlotEvent, SlotLost
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings
from flott.runtime.pipelined.slot_loop import SlotLoop, connect_peers
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.spark_errors import described
from flott.runtime.spark.worker_place import worker_place

#: How long tasks that were told to end may take before Spark is asked to end them.
END_SECONDS = 20.0


class PipelineBody:
    """The body of the tasks of the barrier stage: one slot each."""

    def __init__(
        self,
        image: Broadcast[JobImage],
        files: WorkerFiles,
        start: PipelineStart,
        channels: tuple[ChannelEdges, ...],
        driver: SlotEndpoint,
        secret: bytes,
        *,
        tcp: bool,
    ):
        self._image = image
        self._files = files
        self._start = pickle.dumps(start, protocol=5)
        self._channels = channels
        self._driver = driver
        self._secret = secret
        self._tcp = tcp

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[int]:
        context = BarrierTaskContext.get()
        self._files.enter()  # before functions of the user are unpickled
        image = self._image.value
        claim_process(image.settings.logs)
        image.prepare_process()
        place = worker_place()
        listener = Listener(place.host, tcp=self._tcp)
        try:
            # TCP is reached by the address that Spark knows the executor by.
            host = context.getTaskInfos()[partition].address.rpartition(":")[0] if self._tcp else place.host
            mine = SlotEndpoint(host or place.host, listener.endpoint.path, listener.endpoint.port)
            told = context.allGather(json.dumps({**asdict(mine), "name": place.host}))
            endpoints = _endpoints(told, place.host)
            peers = connect_peers(partition, endpoints, listener, self._secret)
        finally:
            listener.close()
        made = connect(self._driver, place.host)
        answer(made, self._secret, partition)
        start: PipelineStart = pickle.loads(self._start)
        settings = SlotSettings(image, start.plan, self._channels, start.rules, start.run)
        SlotLoop(settings, partition, peers, FrameConnection(made), place).run()
        yield partition


def _endpoints(told: Iterable[str], host: str) -> list[SlotEndpoint]:
    """Return where all slots listen. A slot of this host is reached by its Unix socket."""
    found = []
    for text in told:
        entry = json.loads(text)
        here = entry.pop("name") == host
        found.append(SlotEndpoint(host if here else entry["host"], entry["path"] if here else None, entry["port"]))
    return found


class SparkPipeline:
    """Runs the tasks of one job in a barrier stage."""

    def __init__(self, context: SparkContext, log_file: Path, files: WorkerFiles, clock: Clock, *, one_host: bool):
        self._context = context
        self._log_file = log_file
        self._files = files
        self._clock = clock
        self._one_host = one_host
        self._compactor = LocalCompactor()
        self._server: ControlServer | None = None
        self._broadcast: Broadcast[JobImage] | None = None
        self._thread: threading.Thread | None = None
        self._group = ""
        self._starts = 0
        self._slots = 0

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    def check(self, image: JobImage) -> None:
        self._compactor.storage = image.storage
        conf = self._context.getConf()
        if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
            raise ConfigurationError(
                "A pipelined job occupies its slots as long as it runs, which dynamic allocation of executors excludes."
                " Set spark.dynamicAllocation.enabled to false and start as many executors as the job needs, or set"
                " execution.mode to epochs."
            )
        needed, there = slots_of(image), int(self._context.defaultParallelism)
        if needed > there:
            raise ConfigurationError(
                f"The pipelined job needs {needed} slots at the same time, one for each subtask of its widest vertex,"
                f" but Spark has {there} cores. Give Spark {needed} cores (spark.master, executors), lower"
                f" parallelism.default to {there}, or set execution.mode to epochs."
            )

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        self._starts += 1
        self._slots = slots_of(image)
        self._group = f"flott-{image.job_id}-pipelined-{start.run}"
        secret, tcp = secrets.token_bytes(32), not self._one_host
        host = worker_place().host if self._one_host else str(self._context.getConf().get("spark.driver.host", ""))
        server = self._server = ControlServer(host, self._slots, secret, on_news, tcp=tcp)
        try:
            self._broadcast = self._context.broadcast(image)
            channels = tuple(find_channels(image))
            body = PipelineBody(self._broadcast, self._files, start, channels, server.endpoint, secret, tcp=tcp)
            stage = self._context.parallelize(range(self._slots), self._slots).barrier()
        except Py4JError as error:
            self.stop()
            raise WorkerLostError(f"Spark could not start the tasks: {described(error, self._log_file)}") from error

        def run() -> None:
            try:
                self._context.setJobGroup(self._group, image.job_name, interruptOnCancel=True)
                stage.mapPartitionsWithIndex(body).collect()
            except Exception as error:
                reason = described(error, self._log_file) if isinstance(error, Py4JError) else str(error)
                server.add(SlotLost(f"Spark could not run the tasks: {reason}"))

        self._thread = threading.Thread(target=run, name="flott-pipeline", daemon=True)
        self._thread.start()

    def send(self, slot: int, command: Command) -> None:
        assert self._server is not None
        self._server.send(slot, command)

    def events(self) -> list[SlotEvent]:
        assert self._server is not None
        return self._server.take_events()

    @property
    def wakeup_ms(self) -> int | None:
        return None  # slots know their timers

    def interrupt(self) -> None:
        """Do nothing: the job's thread stops the tasks as soon as it looks."""

    def stop(self) -> None:
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None:
            for slot in range(self._slots):
                server.send(slot, EndTasks())
        if thread is not None:
            thread.join(END_SECONDS / 4)
        if server is not None:
            server.close()  # slots that did not listen see the end of their connection
        if thread is not None:
            thread.join(END_SECONDS)
            if thread.is_alive():
                with suppress(Py4JError):
                    self._context._jsc.sc().cancelJobGroup(self._group)
                thread.join(END_SECONDS)
        if self._broadcast is not None:
            with suppress(Py4JError):
                self._broadcast.destroy()
            self._broadcast = None

    def close(self) -> None:
        self.stop()
