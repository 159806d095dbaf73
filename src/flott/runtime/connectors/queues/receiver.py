"""The thread that receives the messages of a queue, on the driver.

It owns the client: all calls but ``wake`` come from it, because most client libraries are not safe for threads. When
the connection is lost it connects again, with a delay that grows. What was received by the old connection and not
planned yet is dropped, since the broker delivers it again.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.message import Delivery

log = logging.getLogger("flott.connectors")

#: The receivers of this process that run.
_running: WeakSet[Receiver] = WeakSet()

#: How long the thread waits for messages before it looks whether there is something to acknowledge.
RECEIVE_SECONDS = 0.2
#: How long the first call waits until the broker was asked for messages once.
FIRST_SECONDS = 2.0
#: Delays before the next attempt to connect; the last one is repeated.
RECONNECT_SECONDS = (0.1, 0.3, 1.0, 3.0)
#: The job is told about a lost connection when it could not be made again for so long.
PATIENCE_SECONDS = 30.0
#: An acknowledgement that takes longer is given up; the messages are delivered again and dropped.
ACKNOWLEDGE_SECONDS = 30.0


@dataclass
class _Acknowledgement:
    session: int
    tags: Sequence[Any]
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class Receiver:
    """Receives messages in the background, at most ``prefetch`` that are not acknowledged."""

    def __init__(self, create: Callable[[], QueueClient], label: str, prefetch: int):
        self._create = create
        self._label = label
        self._prefetch = prefetch
        self._client: QueueClient | None = None
        self._lock = threading.Condition()
        self._waiting: deque[Delivery] = deque()
        self._orders: deque[_Acknowledgement] = deque()
        self._unacknowledged = 0  #: of this session
        self._session = 0  #: the number of the connection; tags belong to one
        self._lost_at: float | None = None
        self._attempt = 0  #: at connecting again
        self._last_error: BaseException | None = None
        self._error: BaseException | None = None
        self._stopping = False
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Connect, and begin to receive."""
        self._client = self._connect()
        self._thread = threading.Thread(target=self._run, name=f"flott-receiver-{self._label}", daemon=True)
        self._thread.start()
        _running.add(self)

    @property
    def session(self) -> int:
        """Return the number of the present connection."""
        return self._session

    @property
    def waiting(self) -> int:
        """Return how many messages were received and not taken."""
        return len(self._waiting)

    def take(self, count: int) -> tuple[int, list[Delivery]]:
        """Return the session and at most ``count`` of its messages. Raises if there is no connection for too long.

        The first call waits a moment for what the queue has: a job that restarts often must get somewhere.
        """
        self._asked.wait(FIRST_SECONDS)
        with self._lock:
            self._check()
            return self._session, [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def acknowledge(self, session: int, tags: Sequence[Any], wait: bool = True) -> None:
        """Acknowledge messages. If their connection is gone, nothing is done: they will be delivered again."""
        if not tags:
            return
        with self._lock:
            if session != self._session or self._client is None:
                return
            client, at_once = self._client, wait and self._client.thread_safe
            order = _Acknowledgement(session, tags)
            if not at_once:
                self._orders.append(order)
        if at_once:
            try:
                client.acknowledge(tags)
            finally:  # what could not be acknowledged is delivered again, and counted then
                with self._lock:
                    if session == self._session:
                        self._unacknowledged -= len(tags)
            return
        client.wake()
        if not wait:
            return
        if not order.done.wait(ACKNOWLEDGE_SECONDS):
            raise ConnectorError(f"{self._label} did not take an acknowledgement within {ACKNOWLEDGE_SECONDS:g} s.")
        if order.error is not None:
            raise ConnectorError(
                f"{self._label} did not take an acknowledgement: {order.error}. Its messages will be delivered again."
            ) from order.error

    def close(self) -> None:
        """End the connection. What was not acknowledged goes back to the queue."""
        with self._lock:
            self._stopping = True
            client = self._client
            self._lock.notify_all()
        if client is not None:
            client.wake()
        if self._thread is not None:
            self._thread.join(ACKNOWLEDGE_SECONDS)
        _running.discard(self)

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                if self._client is None:
                    client = self._connect()
                    with self._lock:
                        self._client, self._lost_at = client, None
                    log.info("%s: connected again.", self._label)
                self._serve(self._client)
            except BaseException as error:
                self._lose(error)
        self._drop_client()

    def _serve(self, client: QueueClient) -> None:
        """Receive until the thread is stopped or the connection is lost."""
        while not self._stopping:
            while self._orders:
                self._carry_out(client, self._orders.popleft())
            room = max(0, self._prefetch - self._unacknowledged)
            found = client.receive(room, RECEIVE_SECONDS)
            if found:
                with self._lock:
                    self._waiting.extend(found)
                    self._unacknowledged += len(found)
            self._asked.set()
        while self._orders:  # what is acknowledged now need not be delivered again
            self._carry_out(client, self._orders.popleft())

    def _carry_out(self, client: QueueClient, order: _Acknowledgement) -> None:
        try:
            if order.session == self._session:
                client.acknowledge(order.tags)
                with self._lock:
                    self._unacknowledged -= len(order.tags)
        except BaseException as error:
            order.error = error
            raise
        finally:
            order.done.set()

    def _lose(self, error: BaseException) -> None:
        """Forget a connection, and wait before the next attempt."""
        self._drop_client()
        self._asked.set()
        with self._lock:
            if self._stopping:
                return
            if isinstance(error, ProgramError) or not isinstance(error, Exception):
                self._error, self._stopping = error, True
                return
            now = time.monotonic()
            if self._lost_at is None:
                self._lost_at, self._attempt = now, 0
                log.warning("%s: the connection is lost (%s). Connecting again.", self._label, error)
            self._last_error = error
            delay = RECONNECT_SECONDS[min(self._attempt, len(RECONNECT_SECONDS) - 1)]
            self._attempt += 1
            self._lock.wait(delay)

    def _drop_client(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            self._session += 1
            self._unacknowledged = 0
            self._waiting.clear()
            orders, self._orders = list(self._orders), deque()
        for order in orders:
            order.error = ConnectorError("the connection is lost")
            order.done.set()
        if client is not None:
            _close(client)

    def _connect(self) -> QueueClient:
        client = self._create()
        try:
            client.open()
        except BaseException:
            _close(client)
            raise
        return client

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._lost_at is not None and time.monotonic() - self._lost_at > PATIENCE_SECONDS:
            raise ConnectorError(
                f"{self._label} cannot be reached for {PATIENCE_SECONDS:g} s: {self._last_error}. Check that the broker"
                " runs and that the address is right."
            ) from self._last_error


def _close(client: QueueClient) -> None:
    try:
        client.close()
    except Exception as error:
        log.debug("A connection could not be closed: %s", error)


def close_all() -> None:
    """End all connections of this process, as its death would. For the end of the interpreter, and for tests."""
    for receiver in list(_running):
        receiver.close()


atexit.register(close_all)
