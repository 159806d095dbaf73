"""What goes through a connection comes out of it, however the bytes are cut."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.errors import WorkerLostError
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.wire import decode_batch
from flott.runtime.operators.batch import RowBatch
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, admit, connect
from flott.runtime.pipelined.messages import (
    Barrier,
    Buffer,
    Channel,
    EventTimes,
    LatencyMarker,
    Message,
    TaskAddress,
)

CHANNEL = Channel(TaskAddress(0, 3), TaskAddress(2, 1))

messages = st.one_of(
    st.builds(Buffer, st.integers(0, 65535), st.binary(max_size=300)),
    st.builds(Barrier, st.integers(1, 10).map(EpochId), st.booleans()),
    st.builds(LatencyMarker, st.integers(0, 65535), st.integers(), st.just(OperatorId("ab" * 16)), st.integers(0, 9)),
    st.builds(EventTimes, st.just(((1, 5, False, True), (2, -(2**63), True, False)))),
)


@given(st.lists(messages, max_size=20), st.integers(1, 64))
def test_messages_come_out_as_they_were_sent(sent: list[Message], step: int) -> None:
    data = b"".join(frames.encode_message(CHANNEL, message) for message in sent) + frames.encode_credit(CHANNEL, 5)
    reader, found = frames.FrameReader(), []
    for start in range(0, len(data), step):
        for kind, body in reader.feed(data[start : start + step]):
            decode = {frames.BUFFER: frames.decode_buffer, frames.MESSAGE: frames.decode_message}
            found.append(decode[kind](body) if kind in decode else frames.decode_credit(body))
    assert found == [*((CHANNEL, message) for message in sent), (CHANNEL, 5)]


def test_a_batch_that_was_never_encoded_is_encoded_for_another_process() -> None:
    data = frames.encode_message(CHANNEL, Buffer(4, (RowBatch([1, "a"], [10, 20]), ("first", "last"))))
    ((_, body),) = frames.FrameReader().feed(data)
    channel, buffer = frames.decode_buffer(body)
    assert channel == CHANNEL
    assert isinstance(buffer.payload, bytes)
    batch, origin = decode_batch(buffer.payload)
    assert (batch.to_rows().values, batch.to_rows().timestamps, origin) == ([1, "a"], [10, 20], ("first", "last"))


def test_bytes_that_are_no_frame_are_refused() -> None:
    with pytest.raises(WorkerLostError, match="no frame"):
        list(frames.FrameReader().feed(b"GET / HTTP/1.1\r\n\r\n"))


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
def test_a_listener_accepts_those_who_know_the_secret_and_no_others(tcp: bool) -> None:
    listener = Listener("localhost", tcp=tcp, bind="127.0.0.1")
    endpoint = listener.endpoint
    if tcp:
        endpoint = SlotEndpoint("127.0.0.1", None, endpoint.port)
    try:
        for secret, expected in ((b"right", 3), (b"wrong", None)):
            thread = threading.Thread(target=lambda known=secret: connect(endpoint, "localhost", known, 3).close())
            thread.start()
            accepted = listener.sockets[1 if tcp else 0].accept()[0]
            admitted = admit(accepted, b"right", None)
            assert (admitted and admitted[0]) == expected
            thread.join()
            accepted.close()
    finally:
        listener.close()


def test_a_connection_keeps_what_the_other_side_does_not_read_and_never_blocks() -> None:
    here, there = socket.socketpair()
    sender, receiver = FrameConnection(here), FrameConnection(there)
    sent = [bytes([n]) * 100_000 for n in range(40)]
    for payload in sent:
        sender.send(frames.encode_message(CHANNEL, Buffer(0, payload)))
    assert sender.has_unsent
    found: list[bytes | object] = []
    while len(found) < len(sent):
        sender.flush()
        if data := receiver.receive():
            found += [frames.decode_buffer(body)[1].payload for _, body in receiver.reader.feed(data)]
    assert found == sent
    assert not sender.has_unsent
    receiver.close()
    sender.close()
