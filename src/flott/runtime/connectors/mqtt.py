"""MQTT through paho: what the specifications in ``flott.datastream.connectors.mqtt`` create."""

from __future__ import annotations

import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import SinkWriter, SplitEnumerator, WriterContext
from flott.datastream.connectors.mqtt import MqttConnectionOptions, MqttSink, MqttSource
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.enumerator import QueueEnumerator
from flott.runtime.connectors.queues.message import Delivery
from flott.runtime.connectors.queues.publishing import Publisher, PublisherSource, PublishingWriter

#: The broker is given up if it acknowledges nothing for so long.
ACKNOWLEDGE_SECONDS = 60.0
#: More messages than this are not published before some are acknowledged.
MAX_UNACKNOWLEDGED = 1000
#: The reasons of MQTT 5 that the program or its credentials cause.
REFUSED = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8F, 0x90})


class MqttConnection:
    """A connection that a thread of the library runs. It does not connect again: its user makes another."""

    def __init__(self, options: MqttConnectionOptions, client_id: str):
        mqtt = require("paho.mqtt.client", extra="mqtt")
        self.options = options
        self.changed = threading.Condition()
        self.error: FlottError | None = None
        self._connected = False
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=mqtt.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        self.client.connect_timeout = options.timeout_seconds
        if options.user is not None:
            self.client.username_pw_set(options.user, options.password)
        if options.tls_ca_location is not None:
            self.client.tls_set_context(ssl.create_default_context(cafile=options.tls_ca_location))
        self.client.on_connect = self._on_connect
        self.client.on_disconnect = self._on_disconnect

    @property
    def where(self) -> str:
        """Return the address, for messages."""
        return f"MQTT broker {self.options.host}:{self.options.port}"

    def open(self, clean_start: bool, properties: Any = None) -> None:
        """Connect, and wait for the broker's answer."""
        options = self.options
        try:
            self.client.connect(
                options.host, options.port, options.keep_alive_seconds, clean_start=clean_start, properties=properties
            )
        except (OSError, ValueError) as error:
            text = without_secrets(str(error), options.password)
            raise ConnectorError(f"{self.where} cannot be reached: {text}. Check that it runs.") from None
        self.client.loop_start()
        self.wait(lambda: self._connected, options.timeout_seconds, "answer")

    def wait(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for something that a callback notes. Raises the error of the connection, or that of silence."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not reached():
                if self.error is not None:
                    raise self.error
                if not self.changed.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise ConnectorError(f"{self.where} did not {what} within {seconds:g} s.")

    def fail(self, error: FlottError) -> None:
        """Note an error, for the thread that waits."""
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            kind = ProgramError if reason.value in REFUSED else ConnectorError
            self.fail(kind(f"{self.where} refused the connection: {reason}. Check user, password and client id."))
            return
        with self.changed:
            self._connected = True
            self.changed.notify_all()

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self.fail(ConnectorError(f"{self.where}: the connection ended ({reason})."))

    def close(self) -> None:
        """End the connection."""
        self.client.disconnect()
        self.client.loop_stop()


class MqttClient(QueueClient):
    """Subscribes to topics in a session that the broker keeps."""

    thread_safe = True

    def __init__(self, source: MqttSource):
        self._source = source
        self._connection = MqttConnection(source.connection, source.client_id)
        self._arrived: deque[Delivery] = deque()
        self._subscribed = False
        self._woken = False

    def open(self) -> None:
        connection, source = self._connection, self._source
        connection.client.on_message = self._on_message
        connection.client.on_subscribe = self._on_subscribe
        connection.client.max_inflight_messages_set(source.prefetch)
        kinds = require("paho.mqtt.packettypes", extra="mqtt").PacketTypes
        properties = require("paho.mqtt.properties", extra="mqtt").Properties(kinds.CONNECT)
        properties.SessionExpiryInterval = source.session_expiry_seconds
        properties.ReceiveMaximum = source.prefetch
        connection.open(clean_start=False, properties=properties)
        connection.client.subscribe([(topic, 1) for topic in source.topics])
        connection.wait(lambda: self._subscribed, source.connection.timeout_seconds, "confirm the subscription")

    def _on_subscribe(self, client: Any, userdata: Any, mid: int, reasons: Any, properties: Any) -> None:
        refused = [str(reason) for reason in reasons if reason.is_failure]
        if refused:
            self._connection.fail(ProgramError(f"{self._connection.where} refused a subscription: {refused[0]}."))
        with self._connection.changed:
            self._subscribed = True
            self._connection.changed.notify_all()

    def _on_message(self, client: Any, userdata: Any, raw: Any) -> None:
        headers = dict(getattr(raw.properties, "UserProperty", ()) or ())
        ident = headers.get(self._source.id_property) if self._source.id_property is not None else None
        if self._source.id_property is not None and ident is None:
            self._connection.fail(
                ProgramError(
                    f"{self._connection.where}, topic {raw.topic}: a message has no user property"
                    f" {self._source.id_property!r}. Let the producer set one that is unique, or leave out id_property."
                )
            )
            return
        message = QueueMessage(bytes(raw.payload), ident, raw.topic, None, headers or None)
        with self._connection.changed:  # the order of a topic is kept
            self._arrived.append(Delivery(message, (raw.mid, raw.qos), raw.topic))
            self._connection.changed.notify_all()

    def receive(self, room: int, seconds: float) -> list[Delivery]:
        connection = self._connection
        with connection.changed:
            if not self._arrived and connection.error is None and not self._woken:
                connection.changed.wait(seconds)
            self._woken = False
            if connection.error is not None:
                raise connection.error
            return [self._arrived.popleft() for _ in range(min(max(room, 0), len(self._arrived)))]

    def acknowledge(self, tags: Sequence[tuple[int, int]]) -> None:
        for mid, qos in tags:
            if self._connection.error is not None:
                raise self._connection.error
            self._connection.client.ack(mid, qos)

    def wake(self) -> None:
        with self._connection.changed:
            self._woken = True
            self._connection.changed.notify_all()

    def close(self) -> None:
        self._connection.close()


class MqttPublisher(Publisher):
    """Publishes with QoS 1."""

    def __init__(self, sink: MqttSink):
        self._sink = sink
        self._connection = MqttConnection(sink.connection, f"flott-{uuid4().hex}")
        self._unacknowledged = 0
        self._kinds = require("paho.mqtt.packettypes", extra="mqtt").PacketTypes
        self._properties = require("paho.mqtt.properties", extra="mqtt").Properties
        self._connection.client.on_publish = self._on_publish
        self._connection.client.max_queued_messages_set(0)
        try:
            self._connection.open(clean_start=True)
        except BaseException:
            self._connection.close()
            raise

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._connection.fail(ConnectorError(f"{self._connection.where} refused a message: {reason}."))
        with self._connection.changed:
            self._unacknowledged -= 1
            self._connection.changed.notify_all()

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        connection, sink = self._connection, self._sink
        for message in messages:
            if self._unacknowledged >= MAX_UNACKNOWLEDGED:
                self._wait(lambda: self._unacknowledged < MAX_UNACKNOWLEDGED // 2)
            pairs = list((message.headers or {}).items())
            if sink.id_property is not None:
                pairs.append((sink.id_property, message.id or ""))
            properties = None
            if pairs:
                properties = self._properties(self._kinds.PUBLISH)
                properties.UserProperty = pairs
            with connection.changed:
                self._unacknowledged += 1
            topic = message.topic or sink.topic
            sent = connection.client.publish(topic, message.value, 1, sink.retain, properties)
            if sent.rc != 0:
                raise connection.error or ConnectorError(f"{connection.where}: publishing failed (code {sent.rc}).")

    def flush(self) -> None:
        self._wait(lambda: self._unacknowledged == 0)

    def _wait(self, reached: Callable[[], bool]) -> None:
        self._connection.wait(reached, ACKNOWLEDGE_SECONDS, "acknowledge messages")

    def close(self) -> None:
        self._connection.close()


def create_enumerator(source: MqttSource) -> SplitEnumerator:
    """Return the enumerator of a source."""
    return QueueEnumerator(f"MQTT {', '.join(source.topics)}", lambda: MqttClient(source), source.prefetch)


def check_sink(sink: MqttSink) -> None:
    """Connect once, so that a wrong password is found before anything runs."""
    MqttPublisher(sink).close()


def create_writer(sink: MqttSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a sink."""
    publishers = PublisherSource(
        ("mqtt", sink.connection, sink.topic, sink.retain, sink.id_property), lambda: MqttPublisher(sink)
    )
    return PublishingWriter(context, sink.serialization_schema, publishers)
