"""Sockets between slots, and between a slot and the driver. Task side, and on the driver.

Processes of one host are connected by Unix sockets in a folder of the user's own, other hosts by TCP. Every connection
begins with a handshake that proves to the listener that the other side knows the job's secret. Connections by TCP are
encrypted before that, if the job has TLS.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import socket
import ssl
import tempfile
import threading
from collections import deque
from dataclasses import dataclass
from hashlib import sha256
from struct import Struct

from flott.errors import WorkerLostError
from flott.runtime.pipelined.frames import FrameReader
from flott.runtime.pipelined.tls import ConnectionTls, reason_of

log = logging.getLogger("flott.connections")

#: How long slots wait for each other while they start.
START_SECONDS = 120.0
#: How long a listener waits for the proof of one that has connected.
PROOF_SECONDS = 10.0
_NONCE_BYTES = 32
_INDEX = Struct("<i")
_READ_BYTES = 1 << 20
_SOCKET_BUFFER = 1 << 20
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True)
class SlotEndpoint:
    """Where a slot or the driver listens."""

    host: str
    path: str | None  #: of the Unix socket, for processes of the same host
    port: int | None  #: for others; None: there are none


class Listener:
    """Listens on a Unix socket, and on TCP if asked to."""

    def __init__(self, host: str, *, tcp: bool, bind: str = ""):
        self._folder = tempfile.mkdtemp(prefix="flott-")  # no other user may enter it
        path = os.path.join(self._folder, "slot")
        self.sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)]
        self.sockets[0].bind(path)
        port = None
        if tcp:
            self.sockets.append(socket.create_server((bind, 0), backlog=128))
            port = self.sockets[1].getsockname()[1]
        self.sockets[0].listen(128)
        self.endpoint = SlotEndpoint(host, path, port)

    def close(self) -> None:
        """Stop listening."""
        for found in self.sockets:
            found.close()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, "slot"))
            os.rmdir(self._folder)


def connect(
    endpoint: SlotEndpoint, host: str, secret: bytes, index: int, tls: ConnectionTls | None = None
) -> socket.socket:
    """Connect slot ``index`` to another or to the driver, by a Unix socket if it is on this host."""
    if endpoint.path is not None and endpoint.host == host and os.path.exists(endpoint.path):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(START_SECONDS)
        made.connect(endpoint.path)
    elif endpoint.port is not None:
        made = socket.create_connection((endpoint.host, endpoint.port), START_SECONDS)
        if tls is not None:
            made = tls.wrap(made, server_side=False)
    else:
        raise WorkerLostError(f"There is no way from {host} to {endpoint.host}: it listens for its own host only.")
    _set_options(made)
    try:
        nonce = _read(made, _NONCE_BYTES)
        made.sendall(_proof(secret, nonce, index) + _INDEX.pack(index))
    except ssl.SSLError as error:  # with TLS 1.3 the listener's refusal comes after its own handshake
        made.close()
        raise WorkerLostError(
            f"{endpoint.host} has refused the TLS connection of slot {index}: {reason_of(error)}."
        ) from error
    return made


def _set_options(found: socket.socket) -> None:
    """Let a connection send small frames at once. Otherwise they wait for the delayed acknowledgement of the last one.

    Each side does so for what it sends itself: an accepted connection does not have the options of the other side.
    """
    if found.family != socket.AF_UNIX:
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        found.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BUFFER)


# --- the handshake ---------------------------------------------------------------------------------------------------


def admit(accepted: socket.socket, secret: bytes, tls: ConnectionTls | None) -> tuple[int, socket.socket] | None:
    """Return which slot has connected, and its connection; None: it was refused, which the log says."""
    accepted.settimeout(PROOF_SECONDS)
    try:
        found = accepted
        if tls is not None and accepted.family != socket.AF_UNIX:
            found = tls.wrap(accepted, server_side=True)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        found.sendall(nonce)
        proof, packed = _read(found, sha256().digest_size), _read(found, _INDEX.size)
    except (OSError, WorkerLostError) as error:
        log.warning("A connection was refused. %s", error)
        accepted.close()
        return None
    _set_options(found)
    (index,) = _INDEX.unpack(packed)
    if hmac.compare_digest(proof, _proof(secret, nonce, index)):
        return index, found
    log.warning("A connection was refused: the other side does not know the secret of the job.")
    found.close()
    return None


def _proof(secret: bytes, nonce: bytes, index: int) -> bytes:
    return hmac.new(secret, nonce + _INDEX.pack(index), sha256).digest()


def _read(found: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = found.recv(length - len(data))
        if not more:
            raise WorkerLostError("A connection ended during its handshake.")
        data += more
    return data


# --- an open connection ----------------------------------------------------------------------------------------------


class FrameConnection:
    """A connection that never blocks. What cannot be sent at once is kept; flow control keeps it short."""

    def __init__(self, found: socket.socket):
        found.setblocking(False)
        self.socket = found
        self.reader = FrameReader()
        self._unsent: deque[memoryview] = deque()
        self.is_open = True

    def send(self, frame: bytes) -> None:
        """Send a frame, as much of it as possible now."""
        self._unsent.append(memoryview(frame))
        if len(self._unsent) == 1:
            self.flush()

    def flush(self) -> None:
        """Send what is left."""
        unsent = self._unsent
        try:
            while unsent and self.is_open:
                sent = self.socket.send(unsent[0])
                if sent == len(unsent[0]):
                    unsent.popleft()
                else:
                    unsent[0] = unsent[0][sent:]
        except _NOT_NOW:
            pass  # TLS wants the same bytes again, which are still the first ones
        except OSError:
            self.is_open = False  # the reading side notices the end

    @property
    def has_unsent(self) -> bool:
        """Return whether something waits until the other side reads."""
        return bool(self._unsent) and self.is_open

    def receive(self) -> bytes | None:
        """Return what has come; empty bytes at the end, None if nothing is there."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except _NOT_NOW:
            return None
        except OSError:
            return b""
        return data if not data or not isinstance(self.socket, ssl.SSLSocket) else data + self._more(self.socket)

    def _more(self, encrypted: ssl.SSLSocket) -> bytes:
        """Return what else has come. A TLS record is 16 KB at most, and ``select`` does not see what TLS holds."""
        parts, length = [], 0
        with contextlib.suppress(OSError):
            while (length < _READ_BYTES or encrypted.pending()) and (data := encrypted.recv(_READ_BYTES)):
                parts.append(data)
                length += len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Close it."""
        self.is_open = False
        self.socket.close()


class SharedFrameConnection(FrameConnection):
    """A connection that two threads use: a loop, and one that only sends and sees to it that all of it leaves."""

    def __init__(self, found: socket.socket):
        super().__init__(found)
        self._lock = threading.RLock()

    def send(self, frame: bytes) -> None:
        """Send a frame, as much of it as possible now."""
        with self._lock:
            super().send(frame)

    def flush(self) -> None:
        """Send what is left."""
        with self._lock:
            super().flush()

    def receive(self) -> bytes | None:
        """Return what has come; empty bytes at the end, None if nothing is there."""
        with self._lock:
            return super().receive()
