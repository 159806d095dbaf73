"""Connections to RabbitMQ, and what their errors mean. Driver and task side."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.rabbitmq import RMQConnectionConfig
from flott.errors import ConnectorError, FlottError, ProgramError


def pika() -> Any:
    """Return the client library. Its log is switched off: it reports each failed attempt in ten lines, and all errors
    are raised."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    return require("pika", extra="rabbitmq")


def parameters(config: RMQConnectionConfig) -> Any:
    """Return pika's parameters of a connection."""
    library = pika()
    if config.uri is not None:
        found = library.URLParameters(config.uri)
    else:
        found = library.ConnectionParameters(
            host=config.host,
            port=config.port,
            virtual_host=config.virtual_host,
            credentials=library.PlainCredentials(config.user_name, config.password),
        )
    if config.ssl_ca_location is not None:
        context = ssl.create_default_context(cafile=config.ssl_ca_location)
        found.ssl_options = library.SSLOptions(context, found.host)
    seconds = config.connection_timeout / 1000
    found.socket_timeout = seconds
    found.stack_timeout = seconds
    found.blocked_connection_timeout = 60.0
    found.heartbeat = config.requested_heartbeat
    if config.requested_channel_max:
        found.channel_max = config.requested_channel_max
    if config.requested_frame_max:
        found.frame_max = config.requested_frame_max
    return found


@contextmanager
def explained(config: RMQConnectionConfig, doing: str) -> Iterator[None]:
    """Turn errors of the library into those of Flott, without secrets."""
    try:
        yield
    except FlottError:
        raise
    except Exception as error:
        raise explain(config, doing, error) from None


def explain(config: RMQConnectionConfig, doing: str, error: BaseException) -> FlottError:
    """Return what an error of the library means."""
    exceptions = pika().exceptions
    found = parameters(config)
    where = f"RabbitMQ at {found.host}:{found.port}, virtual host {found.virtual_host}"
    text = without_secrets(str(error) or type(error).__name__, config.password, config.uri)
    if isinstance(error, (exceptions.AuthenticationError, exceptions.ProbableAuthenticationError)):
        user = found.credentials.username
        return ProgramError(f"{where} refused user {user!r}: {text}. Check user name and password.")
    if isinstance(error, exceptions.ProbableAccessDeniedError):
        return ProgramError(f"{where} denied access: {text}. Check the virtual host and the user's permissions.")
    if isinstance(error, exceptions.ChannelClosedByBroker):
        if error.reply_code in (403, 406):
            return ProgramError(f"{where}, {doing}: refused with code {error.reply_code}: {error.reply_text}.")
        return ConnectorError(f"{where}, {doing}: refused with code {error.reply_code}: {error.reply_text}.")
    if isinstance(error, exceptions.AMQPConnectionError):
        return ConnectorError(f"{where}, {doing}: the connection failed ({text}). Check that the broker runs.")
    return ConnectorError(f"{where}, {doing}: {type(error).__name__}: {text}.")


def connect(config: RMQConnectionConfig) -> Any:
    """Return a blocking connection."""
    library = pika()
    with explained(config, "connecting"):
        return library.BlockingConnection(parameters(config))


def declare(connection: Any, config: RMQConnectionConfig, queue: str) -> Any:
    """Return a channel on which the queue exists. A missing one is created as Flink does: durable, not exclusive."""
    library = pika()
    with explained(config, f"declaring queue {queue}"):
        channel = connection.channel()
        try:
            channel.queue_declare(queue, passive=True)
        except library.exceptions.ChannelClosedByBroker as error:
            if error.reply_code != 404:
                raise
            channel = connection.channel()
            channel.queue_declare(queue, durable=True)
        return channel


def ensure_queue(config: RMQConnectionConfig, queue: str, exchange: str) -> None:
    """Check that a sink can work."""
    connection = connect(config)
    try:
        if exchange:
            with explained(config, f"looking for exchange {exchange}"):
                connection.channel().exchange_declare(exchange, passive=True)
        else:
            declare(connection, config, queue)
    finally:
        connection.close()
