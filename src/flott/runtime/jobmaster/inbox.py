"""What other threads want of a job: events and orders that wait for the job's thread, and its waits. Driver side.

Orders whose result depends on more than the next epoch wait with the part that carries them out: savepoints in
``savepoints``, rescaling in ``deployment``. Both call ``wake``, so that an idle job looks at them at once.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import InvalidStateError
from contextlib import suppress

from flott.common._ids import EpochId
from flott.common.completable_future import CompletableFuture
from flott.errors import FlottError
from flott.runtime.clock import Clock
from flott.runtime.jobmaster.lifecycle import CancelRequested, RunEvent, SuspendRequested


class Inbox:
    """Requests to one job. ``put``, ``request_checkpoint`` and ``wake`` may be called from any thread."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._lock = threading.Lock()
        self._events: deque[RunEvent] = deque()
        self._checkpoints: deque[CompletableFuture[EpochId]] = deque()
        self._closed: FlottError | None = None
        self._woken = False
        self._signal = threading.Event()  #: ends a wait for input
        self._ending = threading.Event()  #: ends every wait: the job is to end

    # --- from any thread ---------------------------------------------------------------------------------------------

    def put(self, event: CancelRequested | SuspendRequested) -> None:
        """Add an event that ends the job. It ends every wait, now and later."""
        with self._lock:
            self._events.append(event)
        self._ending.set()
        self.wake()

    def request_checkpoint(self) -> CompletableFuture[EpochId]:
        """Ask for a completed epoch, with or without input. It may be the one that runs now."""
        answer: CompletableFuture[EpochId] = CompletableFuture()
        with self._lock:
            if self._closed is not None:
                return CompletableFuture.failed(self._closed)
            self._checkpoints.append(answer)
        self.wake()
        return answer

    def wake(self) -> None:
        """End a wait for input, or the next one if there is none now."""
        with self._lock:
            self._woken = True
            self._signal.set()

    # --- from the job's thread ---------------------------------------------------------------------------------------

    def take(self) -> RunEvent | None:
        """Return the next event, a suspension before a cancellation; None if there is none."""
        with self._lock:
            suspensions = [event for event in self._events if isinstance(event, SuspendRequested)]
            if suspensions:
                self._events.remove(suspensions[0])
                return suspensions[0]
            return self._events.popleft() if self._events else None

    @property
    def is_ending(self) -> bool:
        """Return whether an event waits that ends the job."""
        return bool(self._events)

    @property
    def wants_checkpoint(self) -> bool:
        """Return whether an epoch is wanted with or without input."""
        return bool(self._checkpoints)

    def checkpoint_completed(self, epoch: EpochId) -> None:
        """Answer all requests for a checkpoint."""
        for answer in self._take_checkpoints():
            with suppress(InvalidStateError):  # the caller does not wait any more
                answer.set_result(epoch)

    def close(self, reason: FlottError) -> None:
        """Refuse what waits for a checkpoint, and what comes later."""
        with self._lock:
            self._closed = reason
        for answer in self._take_checkpoints():
            with suppress(InvalidStateError):
                answer.set_exception(reason)

    def _take_checkpoints(self) -> list[CompletableFuture[EpochId]]:
        with self._lock:
            answers, self._checkpoints = list(self._checkpoints), deque()
        return answers

    def wait(self, delay_ms: int) -> None:
        """Wait until the time has passed, or an event or a wake-up comes."""
        signalled = self._clock.wait(self._signal, delay_ms)
        with self._lock:
            clock_ended = signalled and not self._woken
            self._woken = False
            self._signal.clear()  # before the job looks at what was requested: a later request signals again
        if clock_ended:
            self._end_by_clock()

    def pause(self, delay_ms: int) -> bool:
        """Wait until the time has passed or the job is to end; return whether it is."""
        requested = self._ending.is_set()
        ending = self._clock.wait(self._ending, delay_ms)
        if ending and not requested and not self._events:
            self._end_by_clock()
        return ending

    def _end_by_clock(self) -> None:
        """End the job: a clock that sets what waits for it has come to its end, as in tests of endless jobs."""
        self.put(CancelRequested())
