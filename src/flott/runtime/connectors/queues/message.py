"""A message of a queue, and many messages packed into one JSON value. Driver and task side.

The packed form is written to checkpoints: in the plan of a source, and in the committables of a sink.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import Json

FORMAT_VERSION = 1


@dataclass(slots=True)
class Delivery:
    """A message as the client of a broker hands it over."""

    message: QueueMessage
    tag: Any = None  #: what the client needs to acknowledge it
    order_key: str | None = None  #: messages with the same key stay in order, because one subtask reads them


def pack(messages: Sequence[QueueMessage]) -> dict[str, Json]:
    """Return messages as a JSON value. What no message has is left out.

    >>> unpack(pack([QueueMessage(b"a", id="1"), QueueMessage(b"b")]))[0]
    QueueMessage(value=b'a', id='1', topic=None, timestamp=None, headers=None)
    """
    raw = b"".join([message.value for message in messages])
    packed: dict[str, Json] = {"version": FORMAT_VERSION, "sizes": [len(message.value) for message in messages]}
    compressed = zlib.compress(raw, 1)
    if len(compressed) < len(raw):
        packed["zlib"] = b64encode(compressed).decode()
    else:
        packed["data"] = b64encode(raw).decode()
    for name in ("id", "topic", "timestamp", "headers"):
        values = [getattr(message, name) for message in messages]
        if any(value is not None for value in values):
            packed[name] = values
    return packed


def unpack_values(packed: dict[str, Json]) -> list[bytes]:
    """Return the contents of packed messages."""
    if packed["version"] != FORMAT_VERSION:
        raise ValueError(f"These messages were packed in format {packed['version']}, which this version cannot read.")
    raw = zlib.decompress(b64decode(packed["zlib"])) if "zlib" in packed else b64decode(packed["data"])
    return [raw[start:stop] for start, stop in pairwise(accumulate(packed["sizes"], initial=0))]


def unpack(packed: dict[str, Json]) -> list[QueueMessage]:
    """Return packed messages."""
    values = unpack_values(packed)
    nothing = [None] * len(values)
    rest = [packed.get(name, nothing) for name in ("id", "topic", "timestamp", "headers")]
    return [QueueMessage(*fields) for fields in zip(values, *rest, strict=True)]
