"""Runs a job's tasks continuously, in one barrier stage of Spark. Driver side; ``PipelineBody`` runs in workers.

    driver:  control server ◄───────── sockets ─────────► slot 0, slot 1, …   (one Spark task each)
             thread: RDD.barrier().mapPartitions(body)    slots learn from the driver where the others are

Spark schedules all tasks of the stage at once or none. They occupy their cores until the job ends, changes its
parallelism or fails. If a worker dies, its connections end, which the driver notices before Spark tells it.

A slot prefers the executor where it was before (``task_placement``), since its copy of the state is there. Slots tell
each other where they run; the first one of a host deletes the copies of subtasks that are on other hosts now.
"""

from __future__ import annotations

import pickle
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD, BarrierTaskContext, SparkContext
from pyspark.core.broadcast import Broadcast

from flott.errors import ConfigurationError, WorkerLostError
from flott.runtime.clock import Clock
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.logs.capture import claim_process
from flott.runtime.pipelined.channels import ChannelEdges, find_channels, slots_of
from flott.runtime.pipelined.connection import Listener, SlotEndpoint
from flott.runtime.pipelined.control import Command, EndTasks, SlotEvent, SlotLost, SubtaskLoad, TaskWait
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.local_copies import delete_foreign_copies
from flott.runtime.pipelined.meeting import meet
from flott.runtime.pipelined.network_memory import check_network_memory
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings, TaskSlot
from flott.runtime.pipelined.slot_loop import SlotLoop
from flott.runtime.pipelined.tls import ConnectionTls
from flott.runtime.spark.executors import SparkExecutors
from flott.runtime.spark.files import WorkerFiles
from flott.runtime.spark.missing_slots import MissingSlots
from flott.runtime.spark.spark_errors import described
from flott.runtime.spark.task_placement import TaskPlacement
from flott.runtime.spark.worker_place import worker_place

#: How long tasks that were told to end may take before Spark is asked to end them.
END_SECONDS = 20.0
#: The same if some of them cannot end by themselves.
PROMPT_SECONDS = 1.0


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
        tls: ConnectionTls | None,
    ):
        self._image = image
        self._files = files
        self._start = pickle.dumps(start, protocol=5)
        self._channels = channels
        self._driver = driver
        self._secret = secret
        self._tcp = tcp
        self._tls = tls

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[int]:
        for _ in rows:  # there are none, but Spark gives a worker to the next task only if it has read all of its input
            pass
        context = BarrierTaskContext.get()
        self._files.enter()  # before functions of the user are unpickled
        image = self._image.value
        claim_process(image.settings.logs)
        image.prepare_process()
        place = worker_place()
        # Between hosts, an executor is known by the address that Spark has of it: several may have one host name.
        address = context.getTaskInfos()[partition].address.rpartition(":")[0] if self._tcp else ""
        listener = Listener(address or place.host, tcp=self._tcp)
        try:
            control, peers, places = meet(partition, self._driver, listener, self._secret, self._tls, place)
        finally:
            listener.close()
        start: PipelineStart = pickle.loads(self._start)
        settings = SlotSettings(image, start.plan, self._channels, start.rules, start.run)

        def delete_copies(slot: TaskSlot) -> None:
            delete_foreign_copies(image, partition, [task.task for task in slot.tasks.values()], places)

        SlotLoop(settings, partition, peers, control, place, on_open=delete_copies).run()
        yield partition


class SparkPipeline:
    """Runs the tasks of one job in a barrier stage."""

    follows_splits = True

    def __init__(
        self,
        context: SparkContext,
        log_file: Path,
        files: WorkerFiles,
        clock: Clock,
        *,
        one_host: bool,
        tls: ConnectionTls | None = None,
        placement: TaskPlacement | None = None,
    ):
        self._context = context
        self._executors = SparkExecutors(context)
        self._placement = placement  #: that of epochs, too; None: there are no executors
        self._log_file = log_file
        self._files = files
        self._clock = clock
        self._one_host = one_host
        self._tls = None if one_host else tls
        self._compactor = LocalCompactor()
        self._server: ControlServer | None = None
        self._broadcast: Broadcast[JobImage] | None = None
        self._thread: threading.Thread | None = None
        self._group = ""
        self._missing: MissingSlots | None = None
        self._ending = threading.Event()
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
        if self._tls is not None:
            self._tls.check()
        check_network_memory(image)
        needed, most = slots_of(image), self._executors.most_slots(self._executors.slots())
        if most is not None and needed > most:
            raise ConfigurationError(
                f"The pipelined job needs {needed} slots at the same time, one for each subtask of its widest vertex,"
                f" but Spark has {most} cores. Give Spark {needed} cores (spark.master, executors), lower"
                f" parallelism.default to {most}, or set execution.mode to epochs."
            )

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        self._starts += 1
        self._slots = slots_of(image)
        self._group = f"flott-{image.job_id}-pipelined-{start.run}"
        secret, tcp = secrets.token_bytes(32), not self._one_host
        host = worker_place().host if self._one_host else str(self._context.getConf().get("spark.driver.host", ""))
        server = self._server = ControlServer(
            host,
            self._slots,
            secret,
            on_news,
            tcp=tcp,
            tls=self._tls,
            silence_ms=start.rules.heartbeat_timeout_ms,
            clock=self._clock,
        )
        try:
            self._broadcast = self._context.broadcast(image)
            channels = tuple(find_channels(image))
            body = PipelineBody(
                self._broadcast, self._files, start, channels, server.endpoint, secret, tcp=tcp, tls=self._tls
            )
            rows: RDD[Any] = self._context.parallelize([], self._slots)  # without a Python process to make them
            if self._placement is not None:
                rows = self._placement.prefer_slots(rows, self._slots)
            stage = rows.barrier()
        except (Py4JError, OSError) as error:
            self.stop()
            raise WorkerLostError(f"Spark could not start the tasks: {described(error, self._log_file)}") from error

        missing = MissingSlots(self._executors, image, server, self._clock, start.rules.slots_timeout_ms)
        ending = self._ending = threading.Event()

        def run() -> None:
            try:
                if not missing.await_executors(ending):
                    return
                self._context.setJobGroup(self._group, image.job_name, interruptOnCancel=True)
                stage.mapPartitionsWithIndex(body).collect()
            except Exception as error:
                reason = described(error, self._log_file) if isinstance(error, (Py4JError, OSError)) else str(error)
                server.add(SlotLost(f"Spark could not run the tasks: {reason}"))

        self._missing = missing
        self._thread = threading.Thread(target=run, name="flott-pipeline", daemon=True)
        self._thread.start()

    def send(self, slot: int, command: Command) -> None:
        assert self._server is not None
        self._server.send(slot, command)

    def events(self) -> list[SlotEvent]:
        assert self._server is not None
        return self._server.take_events()

    def waits(self) -> tuple[TaskWait, ...]:
        if self._server is None or self._missing is None:
            return ()
        return self._missing.waits() or self._server.waits()

    def take_loads(self) -> tuple[SubtaskLoad, ...]:
        return () if self._server is None else self._server.take_loads()

    @property
    def wakeup_ms(self) -> int | None:
        return None  # slots know their timers

    def interrupt(self) -> None:
        """Do nothing: the job's thread stops the tasks as soon as it looks."""

    def stop(self) -> None:
        server, thread = self._server, self._thread
        self._server = self._thread = None
        self._ending.set()
        if server is not None:
            if self._placement is not None:
                self._placement.note_slots(dict(server.places))
            for slot in range(self._slots):
                server.send(slot, EndTasks())
        # A slot that has stopped does not end by itself, and one that was not started has nothing to end.
        is_prompt = server is None or (server.is_ready and not server.has_silent_slots)
        patience = END_SECONDS if is_prompt else PROMPT_SECONDS
        if thread is not None:
            thread.join(patience / 4)
        if server is not None:
            server.close()  # slots that did not listen see the end of their connection
        if thread is not None:
            thread.join(patience)
            if thread.is_alive():
                with suppress(Py4JError, OSError):
                    self._context._jsc.sc().cancelJobGroup(self._group)
                thread.join(END_SECONDS)
        if self._broadcast is not None:
            with suppress(Py4JError, OSError):
                self._broadcast.destroy()
            self._broadcast = None

    def close(self) -> None:
        self.stop()
