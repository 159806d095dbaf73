"""A proxy that spoils requests: it delays and drops them, answers 500 and 503, loses answers and cuts them off."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from urllib.parse import urlsplit

FAULTS = ("delay", "drop", "refuse", "lose", "cut", "busy", "broken")
_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_BROKEN = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """One connection carries one request, so that each can be spoiled by itself."""

    def __init__(self, url: str, seed: int, rate: float):
        self._upstream = (urlsplit(url).hostname, urlsplit(url).port)
        self._random = Random(seed)
        self._lock = threading.Lock()
        self.rate = rate  #: how many requests are spoiled
        self.is_away = False  #: no request gets through
        self.spoiled: Counter[str] = Counter()
        self.url = ""

    def fate(self) -> str:
        with self._lock:
            if self.is_away:
                chosen = "refuse"
            elif self._random.random() < self.rate:
                chosen = self._random.choice(FAULTS)
            else:
                return "pass"
            self.spoiled[chosen] += 1
            return chosen

    def handle(self, client: socket.socket) -> None:
        request = _whole(client)
        fate = self.fate()
        if not request or fate in ("drop", "refuse"):
            return  # before the server sees it
        if fate in ("busy", "broken"):
            client.sendall(_BUSY if fate == "busy" else _BROKEN)
            return
        if fate == "delay":
            time.sleep(0.3)
        with socket.create_connection(self._upstream) as server:
            server.sendall(request)
            answer = _whole(server, has_body=not request.startswith(b"HEAD "))
        if fate == "lose":
            return  # the server has carried it out
        client.sendall(answer[: len(answer) // 2] if fate == "cut" else answer)


@contextmanager
def proxy(url: str, *, seed: int = 0, rate: float = 0.0) -> Iterator[Proxy]:
    """Run a proxy before the server at a URL."""
    spoiler = Proxy(url, seed, rate)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(30)
            with suppress(OSError):
                spoiler.handle(self.request)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        spoiler.url = f"http://127.0.0.1:{listening.server_address[1]}"
        yield spoiler
        listening.shutdown()


def _whole(connection: socket.socket, *, has_body: bool = True) -> bytes:
    """One message of HTTP, which is made to end the connection that it came by."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (received := connection.recv(65536)):
            return data
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"connection:", b"expect:"))]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    if has_body and headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        while not body.endswith(b"0\r\n\r\n"):
            if not (received := connection.recv(65536)):
                break
            body += received
    elif b"content-length" in headers and has_body:
        while len(body) < int(headers[b"content-length"]) and (received := connection.recv(65536)):
            body += received
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body
