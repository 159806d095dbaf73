"""Encrypted connections between slots: who is admitted, who is not and why, and that nothing is lost or waits."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flott.common.configuration import Configuration
from flott.errors import ConfigurationError, WorkerLostError
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, admit, connect
from flott.runtime.pipelined.meeting import connect_peers
from flott.runtime.pipelined.messages import Buffer, Channel, TaskAddress
from flott.runtime.pipelined.tls import ConnectionTls
from tests.unit.runtime.pipelined.certificates import make_certificates, tls_of, tls_settings

SECRET = b"of the job"
CHANNEL = Channel(TaskAddress(0, 0), TaskAddress(1, 1))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener("here", tcp=True, bind="127.0.0.1")
    yield made
    made.close()


def tcp_of(listener: Listener) -> SlotEndpoint:
    return SlotEndpoint("127.0.0.1", None, listener.endpoint.port)


def beside(work: Callable[[], object]) -> Callable[[], object]:
    """Do some work in a thread; the result is what it returned or raised."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> object:
        thread.join()
        return found[0]

    return result


def meet(listener: Listener, here: ConnectionTls | None, there: ConnectionTls | None) -> tuple[object, object]:
    """Connect over TCP; return what the listener and what the other side has of it."""
    made = beside(lambda: connect(tcp_of(listener), "elsewhere", SECRET, 7, there))
    admitted = admit(listener.sockets[1].accept()[0], SECRET, here)
    return admitted, made()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_neither_side_lets_small_frames_wait_for_acknowledgements(
    encrypted: bool, listener: Listener, certificates: Path
) -> None:
    tls = tls_of(certificates) if encrypted else None
    admitted, made = meet(listener, tls, tls)
    assert isinstance(admitted, tuple)
    assert isinstance(made, socket.socket)
    for side in (admitted[1], made):
        assert side.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        side.close()


def test_both_sides_show_a_certificate_and_what_they_say_is_encrypted(listener: Listener, certificates: Path) -> None:
    seen = bytearray()
    relay = socket.create_server(("127.0.0.1", 0))

    def pass_on() -> None:
        here = relay.accept()[0]
        there = socket.create_connection(("127.0.0.1", int(listener.endpoint.port or 0)))
        while ready := select.select([here, there], [], [])[0]:
            for one in ready:
                if not (data := one.recv(65536)):
                    here.close()
                    there.close()
                    return
                seen.extend(data)
                (there if one is here else here).sendall(data)

    passing = beside(pass_on)
    tls = tls_of(certificates)
    made = beside(lambda: connect(SlotEndpoint("127.0.0.1", None, relay.getsockname()[1]), "x", SECRET, 7, tls))
    admitted = admit(listener.sockets[1].accept()[0], SECRET, tls)
    assert admitted is not None
    assert admitted[0] == 7
    found = made()
    assert isinstance(found, socket.socket)
    found.sendall(b"a record that nobody else may read")
    assert admitted[1].recv(100) == b"a record that nobody else may read"
    found.close()
    admitted[1].close()
    passing()
    relay.close()
    assert len(seen) > 500
    assert b"nobody else" not in seen


@pytest.mark.parametrize(
    ("name", "ca", "reason"),
    [
        ("stranger", "ca", "certificate verify failed"),
        ("expired", "ca", "certificate has expired"),
    ],
)
def test_a_certificate_that_is_foreign_or_has_expired_is_refused_with_the_reason(
    listener: Listener, certificates: Path, name: str, ca: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "flott.connections"):
        admitted, made = meet(listener, tls_of(certificates), tls_of(certificates, name, ca))
    assert admitted is None
    assert isinstance(made, WorkerLostError)
    assert "refused" in str(made)
    assert reason in caplog.text


def test_a_listener_of_another_ca_is_refused_by_the_one_that_connects(listener: Listener, certificates: Path) -> None:
    _, made = meet(listener, tls_of(certificates, "stranger", "ca"), tls_of(certificates))
    assert isinstance(made, WorkerLostError)
    assert "certificate verify failed" in str(made)


def test_one_without_tls_or_with_tls_alone_is_refused(
    listener: Listener, certificates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("flott.runtime.pipelined.connection.PROOF_SECONDS", 0.2)
    with caplog.at_level(logging.WARNING, "flott.connections"):
        plain = socket.create_connection(("127.0.0.1", int(listener.endpoint.port or 0)))
        plain.sendall(b"x" * 200)
        assert admit(listener.sockets[1].accept()[0], SECRET, tls_of(certificates)) is None
        plain.close()
    assert "A TLS connection between two slots was refused" in caplog.text
    made = beside(lambda: connect(tcp_of(listener), "elsewhere", b"another secret", 7, tls_of(certificates)))
    assert admit(listener.sockets[1].accept()[0], SECRET, tls_of(certificates)) is None
    found = made()
    assert isinstance(found, socket.socket)  # the listener closes it
    found.close()
    assert "does not know the secret" in caplog.text


def test_an_encrypted_connection_keeps_what_is_not_read_and_never_blocks(
    listener: Listener, certificates: Path
) -> None:
    tls = tls_of(certificates)
    admitted, made = meet(listener, tls, tls)
    assert isinstance(made, socket.socket)
    assert isinstance(admitted, tuple)
    sender, receiver = FrameConnection(made), FrameConnection(admitted[1])
    assert receiver.receive() is None
    sent = [bytes([n]) * 300_000 for n in range(40)]
    for payload in sent:
        sender.send(frames.encode_message(CHANNEL, Buffer(0, payload)))
        receiver.send(frames.encode_message(CHANNEL, Buffer(1, payload)))
    assert sender.has_unsent
    forth: list[object] = []
    back: list[object] = []
    while len(forth) < len(sent) or len(back) < len(sent):
        # As in the loop of a slot: nothing is read or sent that ``select`` does not announce.
        reading = [one.socket for one in (sender, receiver)]
        writing = [one.socket for one in (sender, receiver) if one.has_unsent]
        ready, free, _ = select.select(reading, writing, [], 10)
        assert ready or free, "something was received that select does not see"
        for one, found in ((sender, back), (receiver, forth)):
            if one.socket in free:
                one.flush()
            if one.socket in ready and (data := one.receive()):
                found += [frames.decode_buffer(body)[1].payload for _, body in one.reader.feed(data)]
    assert forth == back == sent
    sender.close()
    assert receiver.receive() == b""
    receiver.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_slots_connect_in_whatever_order_they_come(tls: bool, certificates: Path) -> None:
    slots = 4
    listeners = [Listener("here", tcp=True, bind="127.0.0.1") for _ in range(slots)]
    endpoints = [tcp_of(listener) for listener in listeners]
    shown = tls_of(certificates) if tls else None
    results = []
    for slot in (0, 3, 2, 1):
        results.append(beside(lambda own=slot: connect_peers(own, endpoints, listeners[own], SECRET, shown)))
        # The connection of slot 0 is the first in the queue of slot 3, if it connects there at once.
        select.select([listeners[slots - 1].sockets[1]], [], [], 0.3)
    for slot, result in zip((0, 3, 2, 1), results, strict=True):
        peers = result()
        assert isinstance(peers, dict), peers
        assert set(peers) == set(range(slots)) - {slot}
        for one in peers.values():
            one.close()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"flott.internal.ssl.key": ""}, "flott.internal.ssl.key is not set"),
        ({"flott.internal.ssl.ca": "/nowhere/ca.pem"}, "/nowhere/ca.pem of flott.internal.ssl.ca cannot be read"),
    ],
)
def test_options_that_name_no_files_are_refused(certificates: Path, change: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        ConnectionTls.of(Configuration.of({**tls_settings(certificates), **change}))


@pytest.mark.parametrize(
    ("name", "ca", "reason"),
    [
        ("stranger", "ca", "certificate verify failed"),
        ("expired", "ca", "certificate has expired"),
        ("slot", "slot.key", "cannot be used"),
    ],
)
def test_files_with_which_no_slot_could_connect_are_refused_before_the_job_runs(
    certificates: Path, name: str, ca: str, reason: str
) -> None:
    (certificates / "slot.key.pem").write_bytes((certificates / "slot.key").read_bytes())
    with pytest.raises(ConfigurationError, match=reason):
        tls_of(certificates, name, ca).check()
    tls_of(certificates).check()


def test_without_the_option_there_is_no_tls_and_the_text_of_a_value_shows_no_key(certificates: Path) -> None:
    assert ConnectionTls.of(Configuration()) is None
    shown = tls_of(certificates)
    assert repr(shown) == str(shown) == "ConnectionTls()"
