"""How a slot that starts finds the driver and all others. Task side.

    slot ── connects, proves itself ─────► driver
         ── SlotListens ─────────────────►          where this slot listens
         ◄──────────────── SlotAddresses ──         where all do, as soon as the driver knows it
         ── connects ────────────────────► slots after it, while those before it connect to this one
         ── SlotReady ───────────────────► driver   which sends commands from now on

Barrier tasks of Spark can exchange values themselves, but wait for each other in steps of a second.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from contextlib import suppress

from flott.errors import WorkerLostError
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import (
    START_SECONDS,
    FrameConnection,
    Listener,
    SharedFrameConnection,
    SlotEndpoint,
    admit,
    connect,
)
from flott.runtime.pipelined.control import SlotAddresses, SlotListens, SlotLost, SlotReady
from flott.runtime.pipelined.tls import ConnectionTls


def meet(
    partition: int,
    driver: SlotEndpoint,
    listener: Listener,
    secret: bytes,
    tls: ConnectionTls | None = None,
    place: TaskPlace | None = None,
) -> tuple[SharedFrameConnection, dict[int, FrameConnection], tuple[TaskPlace, ...]]:
    """Connect a slot with the driver and with all others, and return where all run.

    The driver learns why if it fails.
    """
    control = SharedFrameConnection(connect(driver, listener.endpoint.host, secret, partition, tls))
    try:
        control.send(frames.encode_control(SlotListens(listener.endpoint, place or TaskPlace())))
        told = _await_addresses(partition, control)
        peers = connect_peers(partition, told.endpoints, listener, secret, tls)
        control.send(frames.encode_control(SlotReady()))
    except Exception as error:
        with suppress(OSError):
            control.send(frames.encode_control(SlotLost(f"Slot {partition} could not start: {error}")))
        control.close()
        raise
    return control, peers, told.places


def _await_addresses(partition: int, control: FrameConnection) -> SlotAddresses:
    """Return where all slots listen. The driver sends nothing else before it knows that this slot has connected."""
    while True:
        with selectors.DefaultSelector() as selector:
            selector.register(
                control.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if control.has_unsent else 0)
            )
            ready = selector.select(START_SECONDS)
        if not ready:
            raise WorkerLostError(
                f"The driver has not said within two minutes where the slots of the job listen: slot {partition} has"
                " started, but another one has not."
            )
        control.flush()
        data = control.receive()
        if data is None:
            continue
        if not data:
            raise WorkerLostError(f"The driver has ended the connection while slot {partition} waited for the others.")
        for _, body in list(control.reader.feed(data)):  # to its end, or the reader keeps the frame
            told = frames.decode_control(body)
            assert isinstance(told, SlotAddresses)
            return told


def connect_peers(
    partition: int,
    endpoints: Sequence[SlotEndpoint],
    listener: Listener,
    secret: bytes,
    tls: ConnectionTls | None = None,
) -> dict[int, FrameConnection]:
    """Connect a slot with all others, once each: those before it connect to it, then it connects to those after it.

    A slot that connects does nothing else until it is admitted, and slots wait only for those before them. So none
    waits in vain, in whatever order they come.
    """
    peers: dict[int, socket.socket] = {}
    while len(peers) < partition:
        admitted = admit(_accept(listener), secret, tls)
        if admitted is not None and admitted[0] not in peers and 0 <= admitted[0] < partition:
            peers[admitted[0]] = admitted[1]
        elif admitted is not None:
            admitted[1].close()
    for peer in range(partition + 1, len(endpoints)):
        peers[peer] = connect(endpoints[peer], listener.endpoint.host, secret, partition, tls)
    return {peer: FrameConnection(found) for peer, found in peers.items()}


def _accept(listener: Listener) -> socket.socket:
    with selectors.DefaultSelector() as selector:
        for found in listener.sockets:
            selector.register(found, selectors.EVENT_READ)
        ready = selector.select(START_SECONDS)
        if not ready:
            raise WorkerLostError("Another slot of the job has not connected within two minutes.")
        listening = ready[0][0].fileobj
        assert isinstance(listening, socket.socket)
        return listening.accept()[0]
