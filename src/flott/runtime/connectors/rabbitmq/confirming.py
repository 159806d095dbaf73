"""Publishes to RabbitMQ and waits for confirmations. Task and driver side.

Confirmations come many at a time while messages are sent, so the connection is run by a thread of its own. pika's
blocking channel waits for each message alone, which allows some hundred messages per second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.rabbitmq import RMQConnectionConfig
from flott.errors import ConnectorError, FlottError
from flott.runtime.connectors.queues.publishing import Publisher
from flott.runtime.connectors.rabbitmq.connection import explain, parameters, pika

#: More messages than this are not sent before some are confirmed.
MAX_UNCONFIRMED = 20_000
#: The broker is given up if it confirms nothing for so long.
CONFIRM_SECONDS = 60.0


class RabbitPublisher(Publisher):
    """A channel in confirm mode."""

    def __init__(self, config: RMQConnectionConfig, exchange: str, routing_key: str):
        self._config = config
        self._exchange = exchange
        self._routing_key = routing_key
        self._changed = threading.Condition()
        self._unconfirmed: dict[int, None] = {}  #: delivery tags in the order of sending
        self._queued = 0  #: messages that the thread has not sent yet
        self._sent = 0
        self._error: FlottError | None = None
        self._channel: Any = None
        self._ready = False
        library = pika()
        self._persistent: Callable[..., Any] = library.BasicProperties
        self._connection = library.SelectConnection(
            parameters(config),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=lambda connection, error: self._fail(error),
            on_close_callback=lambda connection, error: self._fail(error),
        )
        self._thread = threading.Thread(target=self._run, name="flott-rabbitmq-publisher", daemon=True)
        self._thread.start()
        try:
            self._await(lambda: self._ready, config.connection_timeout / 1000, "connect")
        except BaseException:
            self.close()
            raise

    # --- the caller's thread -----------------------------------------------------------------------------------------

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        for start in range(0, len(messages), 1000):
            some = messages[start : start + 1000]
            self._await(lambda: self._queued + len(self._unconfirmed) < MAX_UNCONFIRMED, CONFIRM_SECONDS, "confirm")
            with self._changed:
                self._queued += len(some)
            self._connection.ioloop.add_callback_threadsafe(partial(self._send, some))

    def flush(self) -> None:
        self._await(lambda: not self._queued and not self._unconfirmed, CONFIRM_SECONDS, "confirm")

    def _await(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        with self._changed:
            while not reached():
                if self._error is not None:
                    raise self._error
                before = self._queued + len(self._unconfirmed)
                if not self._changed.wait(seconds) and before == self._queued + len(self._unconfirmed):
                    raise ConnectorError(
                        f"RabbitMQ did not {what} within {seconds:g} s, with {before} messages to be confirmed."
                    )
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        loop = self._connection.ioloop
        try:
            loop.add_callback_threadsafe(self._end)
        except Exception:
            return
        self._thread.join(5)

    # --- the connection's thread -------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._connection.ioloop.start()
        except BaseException as error:
            self._fail(error)

    def _end(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        else:
            self._connection.ioloop.stop()

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(lambda channel, error: self._fail(error))
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirmation, callback=self._on_ready)

    def _on_ready(self, frame: Any) -> None:
        with self._changed:
            self._ready = True
            self._changed.notify_all()

    def _send(self, messages: Sequence[QueueMessage]) -> None:
        publish, exchange = self._channel.basic_publish, self._exchange
        try:
            for message in messages:
                headers = dict(message.headers) if message.headers else None
                properties = self._persistent(
                    delivery_mode=2, message_id=message.id, correlation_id=message.id, headers=headers
                )
                publish(exchange, message.topic or self._routing_key, message.value, properties, True)
                self._sent += 1
                self._unconfirmed[self._sent] = None
        except Exception as error:
            self._fail(error)
            return
        with self._changed:
            self._queued -= len(messages)
            self._changed.notify_all()

    def _on_confirmation(self, frame: Any) -> None:
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        with self._changed:
            if frame.method.NAME != "Basic.Ack":
                self._error = ConnectorError(
                    f"RabbitMQ refused messages for {self._routing_key} (nack). The queue may be full."
                )
            if multiple:
                for sent in list(takewhile(lambda sent: sent <= tag, self._unconfirmed)):
                    del self._unconfirmed[sent]
            else:
                self._unconfirmed.pop(tag, None)
            self._changed.notify_all()

    def _on_return(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        with self._changed:
            self._error = ConnectorError(
                f"RabbitMQ returned a message: no queue is bound to routing key {method.routing_key!r} of exchange"
                f" {method.exchange!r} ({method.reply_text}). Declare the queue, or bind it."
            )

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._error is None:
                self._error = explain(self._config, "publishing", error)
            self._changed.notify_all()
        self._connection.ioloop.stop()
