"""A broker in memory that does what real ones do: what is not acknowledged is delivered again, in order, to the next
connection. Acknowledgements of a connection that is gone are refused."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from flott.datastream.connectors._queues import QueueMessage
from flott.errors import ConnectorError
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.message import Delivery


class FakeBroker:
    """One queue."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.queue: deque[QueueMessage] = deque()
        self.unacknowledged: dict[int, QueueMessage] = {}
        self.acknowledged: list[QueueMessage] = []
        self.connection: FakeClient | None = None
        self.next_tag = 0
        self.away = False
        self.lose_acknowledgements = False  #: the connection breaks when the next one arrives

    def send(self, *messages: QueueMessage) -> None:
        with self.lock:
            self.queue.extend(messages)
            self.lock.notify_all()

    def disconnect(self) -> None:
        """Cut the connection, as a network or a SIGKILL would."""
        with self.lock:
            self.connection = None
            self.queue.extendleft(reversed(self.unacknowledged.values()))
            self.unacknowledged.clear()
            self.lock.notify_all()


class FakeClient(QueueClient):
    def __init__(self, broker: FakeBroker, prefetch: int):
        self._broker = broker
        self._prefetch = prefetch
        self._woken = False

    def open(self) -> None:
        if self._broker.away:
            raise ConnectorError("the broker is away")
        self._broker.disconnect()  # the consumer is exclusive
        with self._broker.lock:
            self._broker.connection = self

    def receive(self, room: int, seconds: float) -> list[Delivery]:
        broker = self._broker
        with broker.lock:
            if not self._woken and not broker.queue:
                broker.lock.wait(seconds)
            self._woken = False
            self._check()
            found = []
            while broker.queue and len(found) < room:
                broker.next_tag += 1
                message = broker.queue.popleft()
                broker.unacknowledged[broker.next_tag] = message
                found.append(Delivery(message, broker.next_tag))
            assert len(broker.unacknowledged) <= self._prefetch
            return found

    def acknowledge(self, tags: Sequence[int]) -> None:
        with self._broker.lock:
            self._check()
            if self._broker.lose_acknowledgements:
                self._broker.lose_acknowledgements = False
                self._broker.disconnect()
                raise ConnectorError("the connection broke")
            for tag in tags:
                self._broker.acknowledged.append(self._broker.unacknowledged.pop(tag))

    def wake(self) -> None:
        with self._broker.lock:
            self._woken = True
            self._broker.lock.notify_all()

    def close(self) -> None:
        with self._broker.lock:
            ours = self._broker.connection is self
        if ours:
            self._broker.disconnect()

    def _check(self) -> None:
        if self._broker.connection is not self or self._broker.away:
            raise ConnectorError("the connection is lost")
