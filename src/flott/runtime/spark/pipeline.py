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
import selectors
import socket
import threading
from collections import deque
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
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.channels import ChannelEdges, find_channels, slots_of
from flott.runtime.pipelined.connection import Connection, Endpoint, Listener, answer, challenge, connect, verify
from flott.runtime.pipelined.control import Command, EndTasks, SlotEvent, SlotLost
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings
from flott.runtime.pipelined.slot_loop import SlotLoop, connect_peers
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.spark_errors import described
from flott.runtime.spark.worker_place import worker_place

#: How long tasks that were told to end may take before Spark is asked to end them.
END_SECONDS = 20.0


class ControlServer:
    """The driver's side of the connections to all slots of one start. A thread of its own reads."""

    def __init__(self, host: str, slots: int, secret: bytes, on_news: Callable[[], None], *, tcp: bool):
        self._listener = Listener(host, tcp=tcp)
        self._slots = slots
        self._secret = secret
        self._on_news = on_news
        self._connections: dict[int, Connection] = {}
        self._unsent: deque[tuple[int, bytes]] = deque()  #: commands for slots, to be sent by the thread
        self._events: deque[SlotEvent] = deque()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = socket.socketpair()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="flott-control", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> Endpoint:
        """Return where slots find the driver."""
        return self._listener.endpoint

    def send(self, slot: int, command: Command) -> None:
        """Send a command. One for a slot that has not connected yet waits for it."""
        with self._lock:
            self._unsent.append((slot, frames.encode_control(command)))
        self._wake()

    def add(self, event: SlotEvent) -> None:
        """Add an event that did not come from a slot."""
        with self._lock:
            self._events.append(event)
        self._on_news()

    def take_events(self) -> list[SlotEvent]:
        """Return what happened since the last call."""
        with self._lock:
            happened = list(self._events)
            self._events.clear()
        return happened

    def close(self) -> None:
        """Close all connections: slots that still run end."""
        self._closed = True
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def _serve(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ)
        for found in self._listener.sockets:
            selector.register(found, selectors.EVENT_READ)
        try:
            while not self._closed:
                self._send_waiting(selector)
                for key, mask in selector.select():
                    if key.fileobj is self._wake_read:
                        self._wake_read.recv(4096)
                    elif key.data is None:
                        assert isinstance(key.fileobj, socket.socket)
                        self._accept(key.fileobj, selector)
                    else:
                        self._exchange(key.data, mask, selector)
        finally:
            for connection in self._connections.values():
                connection.close()
            selector.close()
            self._listener.close()
            self._wake_read.close()
            self._wake_write.close()

    def _send_waiting(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            waiting, self._unsent = self._unsent, deque()
        for slot, frame in waiting:
            if (connection := self._connections.get(slot)) is not None:
                connection.send(frame)
            else:
                with self._lock:
                    self._unsent.append((slot, frame))
        for slot, connection in self._connections.items():
            if connection.is_open:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
                selector.modify(connection.socket, wanted, slot)

    def _accept(self, listening: socket.socket, selector: selectors.BaseSelector) -> None:
        accepted = listening.accept()[0]
        slot = verify(accepted, self._secret, challenge(accepted))
        if slot is None or slot in self._connections or not 0 <= slot < self._slots:
            accepted.close()
            return
        connection = self._connections[slot] = Connection(accepted)
        selector.register(connection.socket, selectors.EVENT_READ, slot)

    def _exchange(self, slot: int, mask: int, selector: selectors.BaseSelector) -> None:
        connection = self._connections[slot]
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if not mask & selectors.EVENT_READ or (data := connection.receive()) is None:
            return
        if not data:
            selector.unregister(connection.socket)
            connection.is_open = False
            if not self._closed:
                self.add(SlotLost(f"The worker of slot {slot} has ended."))
            return
        events = [frames.decode_control(body) for _, body in connection.reader.feed(data)]
        if events:
            with self._lock:
                self._events.extend(events)
            self._on_news()


class PipelineBody:
    """The body of the tasks of the barrier stage: one slot each."""

    def __init__(
        self,
        image: Broadcast[JobImage],
        files: WorkerFiles,
        start: PipelineStart,
        channels: tuple[ChannelEdges, ...],
        driver: Endpoint,
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
            mine = Endpoint(host or place.host, listener.endpoint.path, listener.endpoint.port)
            told = context.allGather(json.dumps({**asdict(mine), "name": place.host}))
            endpoints = _endpoints(told, place.host)
            peers = connect_peers(partition, endpoints, listener, self._secret)
        finally:
            listener.close()
        made = connect(self._driver, place.host)
        answer(made, self._secret, partition)
        start: PipelineStart = pickle.loads(self._start)
        settings = SlotSettings(image, start.plan, self._channels, start.rules, start.run)
        SlotLoop(settings, partition, peers, Connection(made), place).run()
        yield partition


def _endpoints(told: Iterable[str], host: str) -> list[Endpoint]:
    """Return where all slots listen. A slot of this host is reached by its Unix socket."""
    found = []
    for text in told:
        entry = json.loads(text)
        here = entry.pop("name") == host
        found.append(Endpoint(host if here else entry["host"], entry["path"] if here else None, entry["port"]))
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
