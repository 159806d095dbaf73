"""Messages, credits and control messages as bytes on a connection. Task side, and on the driver for control messages.

A frame is its length (4 bytes), its kind (1 byte) and a body. The body of a message or a credit begins with the
channel: stage and partition of sender and receiver, 2 bytes each. Little-endian.

    BUFFER     channel, edge (2 bytes), the payload as ``flott.runtime.epoch.wire`` has it
    MESSAGE    channel, any other message, pickled
    CREDIT     channel, number of buffers (4 bytes)
    CONTROL    a command of the driver or an event of a slot, pickled

Both sides know the job's secret (``handshake``) before they unpickle anything.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from struct import Struct
from typing import Any

from flott.errors import WorkerLostError
from flott.runtime.epoch.wire import encode_batch
from flott.runtime.pipelined.messages import Buffer, Channel, Message, TaskAddress

BUFFER, MESSAGE, CREDIT, CONTROL = range(4)

_HEAD = Struct("<IB")
_CHANNEL = Struct("<HHHH")
_EDGE = Struct("<H")
_COUNT = Struct("<I")

#: A longer frame is no frame: the connection has lost its place.
LONGEST_FRAME = 1 << 31


def encode_message(channel: Channel, message: Message) -> bytes:
    """Return the frame of a message."""
    address = _CHANNEL.pack(*channel.sender, *channel.receiver)
    if message.__class__ is Buffer:
        payload = message.payload if isinstance(message.payload, bytes) else encode_batch(*message.payload)
        return _frame(BUFFER, address + _EDGE.pack(message.edge), payload)
    return _frame(MESSAGE, address, pickle.dumps(message, protocol=5))


def encode_credit(channel: Channel, credits: int) -> bytes:
    """Return the frame of a credit."""
    return _frame(CREDIT, _CHANNEL.pack(*channel.sender, *channel.receiver), _COUNT.pack(credits))


def encode_control(content: object) -> bytes:
    """Return the frame of a command or an event."""
    return _frame(CONTROL, b"", pickle.dumps(content, protocol=5))


def _frame(kind: int, head: bytes, body: bytes) -> bytes:
    return b"".join((_HEAD.pack(len(head) + len(body) + 1, kind), head, body))


class FrameReader:
    """Cuts what a connection brings into frames."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Take bytes; yield the kind and the body of every frame that is complete."""
        held = self._held
        held += data
        position = 0
        while len(held) - position >= _HEAD.size:
            length, kind = _HEAD.unpack_from(held, position)
            if not 0 < length < LONGEST_FRAME or kind > CONTROL:
                raise WorkerLostError("A connection between two slots has brought something that is no frame.")
            stop = position + 4 + length
            if stop > len(held):
                break
            with memoryview(held) as view:
                body = bytes(view[position + _HEAD.size : stop])
            position = stop
            yield kind, body
        del held[:position]


def decode_buffer(body: bytes) -> tuple[Channel, Buffer]:
    """Return the channel and the buffer of a BUFFER frame."""
    (edge,) = _EDGE.unpack_from(body, _CHANNEL.size)
    return _channel(body), Buffer(edge, body[_CHANNEL.size + _EDGE.size :])


def decode_message(body: bytes) -> tuple[Channel, Message]:
    """Return the channel and the message of a MESSAGE frame."""
    return _channel(body), pickle.loads(memoryview(body)[_CHANNEL.size :])


def decode_credit(body: bytes) -> tuple[Channel, int]:
    """Return the channel and the number of buffers of a CREDIT frame."""
    return _channel(body), _COUNT.unpack_from(body, _CHANNEL.size)[0]


def decode_control(body: bytes) -> Any:
    """Return the command or the event of a CONTROL frame."""
    return pickle.loads(body)


def _channel(body: bytes) -> Channel:
    a, b, c, d = _CHANNEL.unpack_from(body)
    return Channel(TaskAddress(a, b), TaskAddress(c, d))
