"""A TCP proxy that can stop forwarding without closing a connection, as a network that stalls does."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE = 65536


class TcpProxy:
    """Forwards connections to a server until it is stalled."""

    def __init__(self, upstream: tuple[str, int], port: int = 0):
        self._upstream = upstream
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listening.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = False
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Stop forwarding, in all connections. New ones are accepted, and nothing comes through them."""
        self._flowing.clear()

    def resume(self) -> None:
        """Forward again, also what was sent in the meantime."""
        self._flowing.set()

    def cut(self) -> None:
        """Close all connections."""
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close everything."""
        self._closed = True
        self._listening.close()
        self._flowing.set()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flowing.wait()
        try:
            server = socket.create_connection(self._upstream)
        except OSError:
            client.close()
            return
        ways = {client: server, server: client}
        self._sockets |= {client, server}
        with client, server, selectors.DefaultSelector() as ready:
            for each in ways:
                ready.register(each, selectors.EVENT_READ)
            with suppress(OSError):
                while not self._closed:
                    for key, _ in ready.select():
                        source = key.fileobj
                        assert isinstance(source, socket.socket)
                        if not (piece := source.recv(_PIECE)):
                            return
                        self._flowing.wait()
                        ways[source].sendall(piece)
        self._sockets -= {client, server}


@contextmanager
def tcp_proxy(upstream: tuple[str, int], port: int = 0) -> Iterator[TcpProxy]:
    """Run a proxy before a server, at a port of its own or at a given one."""
    proxy = TcpProxy(upstream, port)
    try:
        yield proxy
    finally:
        proxy.close()
