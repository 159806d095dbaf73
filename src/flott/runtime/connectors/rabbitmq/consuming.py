"""Receives the messages of a RabbitMQ queue. Driver side."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.rabbitmq import RMQConnectionConfig
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.message import Delivery
from flott.runtime.connectors.rabbitmq.connection import connect, declare, explained


class RabbitClient(QueueClient):
    """A consumer of one queue. The broker limits what is not acknowledged to the prefetch count."""

    def __init__(self, config: RMQConnectionConfig, queue: str, use_correlation_id: bool):
        self._config = config
        self._queue = queue
        self._use_correlation_id = use_correlation_id
        self._connection: Any = None
        self._channel: Any = None
        self._arrived: list[Delivery] = []
        self._unacknowledged: deque[int] = deque()  #: in the order of delivery
        self._cancelled = False

    def open(self) -> None:
        self._connection = connect(self._config)
        self._channel = declare(self._connection, self._config, self._queue)
        with explained(self._config, f"consuming queue {self._queue}"):
            self._channel.basic_qos(prefetch_count=self._config.prefetch_count)
            self._channel.add_on_cancel_callback(self._on_cancel)
            self._channel.basic_consume(self._queue, self._on_message)

    def _on_cancel(self, frame: Any) -> None:
        self._cancelled = True

    def _on_message(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        ident = properties.correlation_id if self._use_correlation_id else None
        if self._use_correlation_id and ident is None:
            raise ProgramError(
                f"RabbitMQ queue {self._queue}: a message has no correlation id. Let the producer set one that is"
                " unique, or create the source with use_correlation_id=False."
            )
        headers = None
        if properties.headers:
            headers = {str(key): str(value) for key, value in properties.headers.items()}
        moment = properties.timestamp * 1000 if properties.timestamp else None
        message = QueueMessage(body, ident, method.routing_key, moment, headers)
        self._unacknowledged.append(method.delivery_tag)
        self._arrived.append(Delivery(message, method.delivery_tag))

    def receive(self, room: int, seconds: float) -> list[Delivery]:
        with explained(self._config, f"receiving from queue {self._queue}"):
            self._connection.process_data_events(time_limit=seconds)
        if self._cancelled:
            raise ConnectorError(f"RabbitMQ queue {self._queue} was deleted while it was read.")
        arrived, self._arrived = self._arrived, []
        return arrived

    def acknowledge(self, tags: Sequence[int]) -> None:
        wanted = set(tags)
        with explained(self._config, f"acknowledging to queue {self._queue}"):
            last = None
            while self._unacknowledged and self._unacknowledged[0] in wanted:  # in order: one frame for all of them
                last = self._unacknowledged.popleft()
                wanted.remove(last)
            if last is not None:
                self._channel.basic_ack(last, multiple=True)
            for tag in sorted(wanted):
                self._channel.basic_ack(tag)
                self._unacknowledged.remove(tag)
            # An acknowledgement has no answer, but a broker answers this only after it has processed what came before.
            self._channel.basic_qos(prefetch_count=self._config.prefetch_count)

    def wake(self) -> None:
        try:
            self._connection.add_callback_threadsafe(lambda: None)
        except Exception:
            return  # the connection is closing, so the other thread is not waiting

    def close(self) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.close()
