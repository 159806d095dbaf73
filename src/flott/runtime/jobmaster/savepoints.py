"""Savepoints on request: taken of a completed checkpoint, beside the epochs that follow it. Driver side.

    asked for, from any thread -> served by the job between two epochs -> written beside the epochs -> answered

A completed checkpoint is a consistent cut whose output is committed, so a savepoint needs nothing of the job but that
the checkpoint's files stay until they are copied. While one is being written the registry holds on to them; a pin in
the job's directory says what is half written, so that the next start of the job removes it if this process dies.

A savepoint that fails fails its order, never the job. A job that was to end with it continues.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from uuid import uuid4

from flott.common import _options as options
from flott.common._ids import JobId
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, SavepointError
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import Manifest, encode_manifest
from flott.runtime.checkpoint.pins import Pin
from flott.runtime.checkpoint.savepoint import canonical, canonical_work, native
from flott.runtime.checkpoint.savepoint_files import remove_half_written
from flott.runtime.clock import Clock
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.jobmaster.lifecycle import Demand
from flott.runtime.jobmaster.listener import SavepointNews, SavepointStage
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.side_work import SideWork
from flott.runtime.orders import CancelWithSavepoint, SavepointOrder, drains
from flott.runtime.storage import Storage
from flott.runtime.storage.locations import join, resolved

log = logging.getLogger("flott.job")


@dataclass(frozen=True)
class SavepointRequest:
    """An order that waits to be carried out."""

    order: SavepointOrder
    directory: str  #: gets a folder for the savepoint
    path: CompletableFuture[str] = field(default_factory=CompletableFuture)


def target_of(order: SavepointOrder, configuration: Configuration, *, temporary: bool) -> str:
    """Return the folder that gets the savepoint. ``temporary``: the job's own directory is deleted when it ends."""
    directory = order.target or options.read(configuration, options.SAVEPOINT_DIR)
    if directory is None:
        raise ConfigurationError(
            "There is no target for the savepoint: name a directory, or set"
            " execution.checkpointing.savepoint-dir."
        )
    if order.format is SavepointFormatType.NATIVE and temporary:
        raise SavepointError(
            "A native savepoint refers to the job's own files, but this job keeps them in a temporary directory"
            " that goes with it. Set execution.checkpointing.dir, or take a canonical savepoint."
        )
    return resolved(directory)


class SavepointCoordinator:
    """All savepoints of one run of a job."""

    PURPOSE = "savepoint"

    def __init__(
        self,
        job_id: JobId,
        storage: Storage,
        retained: RetainedCheckpoints,
        compactor: StateCompactor,
        beside: SideWork,
        clock: Clock,
        wake: Callable[[], None],
        sync: bool = True,
        tell: Callable[[SavepointNews], None] = lambda news: None,
    ):
        self._job_id = job_id
        self._storage = storage
        self._retained = retained
        self._compactor = compactor
        self._beside = beside
        self._clock = clock
        self._wake = wake
        self._sync = sync
        self._tell = tell
        self._taken = 0
        self._lock = threading.Lock()
        self._waiting: deque[SavepointRequest] = deque()
        self._ended: SavepointError | None = None
        self._work: Future[None] | None = None
        self._works = 0
        self._cancelled = False
        #: The job was drained, but its savepoint failed: its last checkpoint is all there is.
        self.checkpoint_is_needed = False

    # --- from any thread ---------------------------------------------------------------------------------------------

    def request(self, order: SavepointOrder, directory: str) -> CompletableFuture[str]:
        """Have a savepoint taken at the end of the epoch that runs, or at once if none does."""
        request = SavepointRequest(order, directory)
        with self._lock:
            if self._ended is not None:
                return CompletableFuture.failed(self._ended)
            if order.ends_job and any(waiting.order.ends_job for waiting in self._waiting):
                return CompletableFuture.failed(
                    SavepointError("The job is being stopped with a savepoint already: wait for that one.")
                )
            self._waiting.append(request)
        self._wake()
        return request.path

    def cancel(self) -> None:
        """Abort the savepoint that is being written, because the job was cancelled."""
        self._cancelled = True
        self._compactor.stop(self.PURPOSE)

    # --- from the job's thread, between two epochs -------------------------------------------------------------------

    @property
    def is_asked(self) -> bool:
        """Return whether a savepoint waits to be taken, and can be."""
        return bool(self._waiting) and (self._work is None or self._work.done())

    @property
    def ends_job(self) -> bool:
        """Return whether one of those that wait is the last thing the job does."""
        with self._lock:
            return any(request.order.ends_job for request in self._waiting)

    def serve(self, latest: Manifest | None, finished: bool) -> Demand | None:
        """Take what was asked for, of the last completed checkpoint, or say what the job must do first."""
        if self._work is not None:
            if not self._work.done():
                return None  # one at a time; it wakes the job when it is done
            self._work.result()  # what the engine itself raised there is not to be swallowed
            self._work = None
        with self._lock:
            batch = list(takewhile(lambda request: not request.order.ends_job, self._waiting)) or [*self._waiting][:1]
        if not batch:
            return None
        if drains(batch[0].order) and not finished:
            return Demand.DRAIN
        if latest is None or latest.channels:  # a savepoint holds no buffers: they are processed first
            return Demand.EPOCH
        with self._lock:
            for _ in batch:
                self._waiting.popleft()
        self._start(batch, latest)
        return self._conclude(batch[0], latest) if batch[0].order.ends_job else None

    def drain_failed(self, error: Exception) -> None:
        """Refuse the order to drain the job, because its last epoch failed. The job continues."""
        with self._lock:
            request = next((request for request in self._waiting if drains(request.order)), None)
            if request is not None:
                self._waiting.remove(request)
        if request is not None:
            _refuse(request, SavepointError(f"The job could not be drained, so it was not stopped: {error}"))

    def close(self, reason: str) -> None:
        """Finish the savepoint that is being written and refuse those that wait: no epoch will follow."""
        with self._lock:
            self._ended = SavepointError(reason)
            waiting, self._waiting = self._waiting, deque()
        if self._work is not None:
            self._beside.wait(self._work)
        for request in waiting:
            _refuse(request, self._ended)

    def _conclude(self, request: SavepointRequest, latest: Manifest) -> Demand | None:
        """Wait for the savepoint that the job is to end with."""
        assert self._work is not None
        self._beside.wait(self._work)
        self._work.result()
        self._work = None
        if request.path.done() and request.path.exception() is None:
            return Demand.CANCEL if isinstance(request.order, CancelWithSavepoint) else Demand.STOP
        self.checkpoint_is_needed = drains(request.order)
        return None

    # --- beside the epochs -------------------------------------------------------------------------------------------

    def _start(self, batch: list[SavepointRequest], manifest: Manifest) -> None:
        self._works += 1
        owner = f"{self.PURPOSE}-{self._works}"
        self._retained.registry.register(owner, manifest.files)

        def work() -> None:
            for request in batch:
                self._take(request, manifest)
            self._retained.release(owner)
            self._wake()

        self._work = self._beside.start(work, f"flott-{owner}")

    def _take(self, request: SavepointRequest, manifest: Manifest) -> None:
        """Write one savepoint and answer its request."""
        started = self._clock.monotonic()
        self._taken += 1
        news = SavepointNews(
            self._taken, SavepointStage.IN_PROGRESS, manifest.checkpoint_id, request.order.format,
            stops_the_job=request.order.ends_job,
        )  # fmt: skip
        self._tell(news)
        ident = paths.savepoint(self._job_id, uuid4().hex[:12])
        target = self._storage.at(join(request.directory, ident), sync=self._sync)
        try:
            # Before the pin: while this directory cannot be reached, it is not known whether a pin is void.
            self._storage.at(request.directory).prepare()
            if request.order.format is SavepointFormatType.NATIVE:
                size = self._write_native(ident, target, manifest)
            else:
                size = self._write_canonical(ident, target, manifest)
        except Exception as error:
            # It is this process's own, even if another leads by now. If it cannot be removed, the next start of the
            # job tries again: there is the pin.
            if remove_half_written(target.unfenced()):
                with suppress(Exception):  # a pin without a savepoint is void
                    self._retained.unpin(ident)
            log.warning("A savepoint of checkpoint %d failed: %s", manifest.checkpoint_id, error)
            failure = self._failure(request, manifest, error)
            self._tell(replace(news, stage=SavepointStage.FAILED, failure=str(failure)))
            _refuse(request, failure)
            return
        took_ms = (self._clock.monotonic() - started) * 1000
        log.info(
            "Savepoint of checkpoint %d: %s (%s, %d bytes of state, %.0f ms).",
            manifest.checkpoint_id, target.root, request.order.format.name, size, took_ms,
        )  # fmt: skip
        self._tell(replace(news, stage=SavepointStage.COMPLETED, path=target.root, state_bytes=size))
        with suppress(InvalidStateError):  # the caller does not wait any more
            request.path.set_result(target.root)

    def _write_canonical(self, ident: str, target: Storage, manifest: Manifest) -> int:
        self._retained.pin(Pin(ident, target.root, frozenset()))  # it keeps no file, but says what is half written
        work = canonical_work(manifest, target.root)
        orders = list(work.compactions.values())
        compacted = dict(
            zip(work.compactions, self._compactor.compact(orders, self.PURPOSE) if orders else [], strict=True)
        )
        for source, name in work.copies.items():
            target.copy(self._storage.location(source), name)
        savepoint = canonical(manifest, ident, work, compacted)
        for name in target.list("."):
            if name not in savepoint.files:
                target.delete(name)  # of an attempt that was tried again
        if self._sync and not self._storage.sync:
            target.flush(savepoint.files)  # they were written by a job that does not flush its own files
        target.publish(paths.METADATA, encode_manifest(savepoint))
        self._retained.unpin(ident)
        return savepoint.state_bytes

    def _write_native(self, ident: str, target: Storage, manifest: Manifest) -> int:
        home = resolved(self._storage.root)
        self._retained.pin(Pin(ident, target.root, manifest.files))
        target.publish(paths.METADATA, encode_manifest(native(manifest, ident, home)))
        return manifest.state_bytes

    def _failure(self, request: SavepointRequest, manifest: Manifest, error: Exception) -> SavepointError:
        fate = "The job was cancelled." if self._cancelled else "The job goes on."
        if drains(request.order):
            kept = self._storage.location(paths.checkpoint(manifest.checkpoint_id))
            fate = f"The job has been drained and finishes; its last checkpoint is kept: {kept}"
        return SavepointError(f"The savepoint in {request.directory} failed. {error} {fate}")


def _refuse(request: SavepointRequest, error: SavepointError) -> None:
    with suppress(InvalidStateError):
        request.path.set_exception(error)
