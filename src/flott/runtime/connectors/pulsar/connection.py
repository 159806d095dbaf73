"""Clients of Pulsar, message ids, and what errors mean. Driver and task side."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from flott._extras import require
from flott.common._secrets import Properties, without_secrets
from flott.errors import ConnectorError, FlottError, ProgramError

#: How long the broker may take to answer.
OPERATION_SECONDS = 20


def library() -> Any:
    """Return the client library."""
    return require("pulsar", extra="pulsar")


def client(url: str, properties: Properties) -> Any:
    """Return the client of this process for a broker: it is safe for threads, and expensive."""
    return _client(url, properties, os.getpid())


@lru_cache(maxsize=32)
def _client(url: str, properties: Properties, process: int) -> Any:
    pulsar = library()
    settings: dict[str, Any] = {
        "operation_timeout_seconds": OPERATION_SECONDS,
        # Its errors are raised. What it would print besides is dropped.
        "logger": pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    }
    if (token := properties.get("pulsar.client.authParams")) is not None:
        settings["authentication"] = pulsar.AuthenticationToken(token.removeprefix("token:"))
    if (trusted := properties.get("pulsar.client.tlsTrustCertsFilePath")) is not None:
        settings["tls_trust_certs_file_path"] = trusted
    return pulsar.Client(url, **settings)


@contextmanager
def explained(url: str, properties: Mapping[str, str], doing: str) -> Iterator[None]:
    """Turn errors of the library into those of Flott, without secrets."""
    try:
        yield
    except FlottError:
        raise
    except Exception as error:
        secrets = properties.secrets() if isinstance(properties, Properties) else ()
        where = f"Pulsar at {without_secrets(url)}, {doing}"
        text = without_secrets(str(error), *secrets)
        if any(word in text for word in ("Authentication", "Authorization")):
            raise ProgramError(f"{where}: refused ({text}). Check the token and its permissions.") from None
        if "TopicNotFound" in text:
            raise ProgramError(f"{where}: not found ({text}). Create the topic first.") from None
        raise ConnectorError(f"{where}: {text}. Check that the broker runs, and the address.") from None


def id_text(message_id: Any) -> str:
    """Return a message id as text."""
    return b64encode(message_id.serialize()).decode()


def id_of(text: str) -> Any:
    """Return the message id of a text."""
    return library().MessageId.deserialize(b64decode(text))


def order(message_id: Any) -> tuple[int, int, int]:
    """Return where a message stands in its partition."""
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
