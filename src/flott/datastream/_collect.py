"""``execute_and_collect``: passes results from the job's thread to the thread that iterates. Driver side.

    job thread --Handover.put--> [CAPACITY unread records and one batch more, at most] --Handover.take--> consumer

``put`` blocks while too many records are unread, and with it the job: this is the backpressure. It does not block after
the consumer has closed. The job's end, or its failure, follows the last result. No thread is started here.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Self, TypeVar

from flott.common.job_client import JobClient

T = TypeVar("T")

#: The number of unread records at which the job waits.
CAPACITY = 10_000

#: How long ``close`` waits for the end of the cancelled job.
CANCEL_TIMEOUT_SECONDS = 60.0


class Handover(Generic[T]):
    """A bounded queue of batches between two threads that either side can end."""

    def __init__(self, capacity: int = CAPACITY):
        self._capacity = capacity
        self._changed = threading.Condition()
        # These are guarded by _changed:
        self._batches: deque[Sequence[T]] = deque()
        self._unread = 0
        self._finished = False  #: no more batches will be put
        self._closed = False  #: no more batches will be taken
        self._failure: BaseException | None = None

    def put(self, values: Sequence[T]) -> None:
        """Add a batch, and wait while too many records are unread. Called by the job."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._unread < self._capacity)
            if values and not self._closed:
                self._batches.append(values)
                self._unread += len(values)
                self._changed.notify_all()

    def finish(self, failure: BaseException | None) -> None:
        """End the queue. A failure is raised after the remaining batches."""
        with self._changed:
            self._finished = True
            self._failure = None if self._closed else failure  # after a close, the failure is the job's cancellation
            self._changed.notify_all()

    def take(self) -> Sequence[T] | None:
        """Return the next batch, or ``None`` at the end.

        Wait for it. Raise the job's failure once. Called by the consumer.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._finished or self._closed)
            if self._batches:
                batch = self._batches.popleft()
                self._unread -= len(batch)
                self._changed.notify_all()
                return batch
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return None

    def close(self) -> None:
        """Drop all unread and future batches. The producer continues immediately."""
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._unread = 0
            self._failure = None
            self._changed.notify_all()


class CloseableIterator(Generic[T]):
    """The results of a running job in the order of arrival. Close it, or use it in a ``with`` statement::

        with stream.execute_and_collect() as results:
            for value in results:
                ...

    Closing before the end cancels the job. A failure of the job is raised behind the results that came before it.
    """

    def __init__(self, handover: Handover[T], client: JobClient):
        self._handover = handover
        self._client = client
        self._result = client.get_job_execution_result()
        self._batch: Iterator[T] = iter(())
        self._closed = False
        # An iterator that is garbage-collected must not block its job.
        weakref.finalize(self, handover.close)
        finish = handover.finish  # not self, because the job would keep the iterator alive
        self._result.when_done(lambda result: finish(_failure_of(result.result)))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        while True:
            for value in self._batch:
                return value
            batch = self._handover.take()
            if batch is None:
                raise StopIteration
            self._batch = iter(batch)

    def next(self) -> T:
        """Return the next result. Raise ``StopIteration`` at the end."""
        return self.__next__()

    def get_job_client(self) -> JobClient:
        """Return the job that computes the results. Not in PyFlink."""
        return self._client

    def close(self) -> None:
        """Drop unread results and cancel the job, unless it has ended. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._batch = iter(())
        self._handover.close()
        if not self._result.done():
            self._cancel()

    def _cancel(self) -> None:
        try:
            self._client.cancel().result(CANCEL_TIMEOUT_SECONDS)
        except Exception:
            if not self._result.done():  # otherwise it ended before it could be cancelled
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _failure_of(outcome: Callable[[], object]) -> BaseException | None:
    try:
        outcome()
    except BaseException as failure:
        return failure
    return None
