"""Clients of external systems that outlive an epoch. Task and driver side.

A reader or writer lives for one epoch, a connection for many: to open one takes tens of milliseconds. A pool keeps the
clients of this process by a key that names everything they depend on (address, properties, subtask). A client is used
by one borrower at a time. One that a borrower failed with is closed, because its state is unknown.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

log = logging.getLogger("flott.connectors")

C = TypeVar("C")

#: A client that was not borrowed for so long is closed: servers close idle connections, too.
IDLE_SECONDS = 300.0


@dataclass
class _Kept(Generic[C]):
    client: C
    close: Callable[[C], object]
    since: float


class ClientPool(Generic[C]):
    """The idle clients of one kind in this process.

    >>> pool = ClientPool[list]("example")
    >>> with pool.borrow("a", list, list.clear) as first:
    ...     first.append(1)
    >>> with pool.borrow("a", list, list.clear) as again:
    ...     again
    [1]
    """

    def __init__(self, name: str, idle_seconds: float = IDLE_SECONDS, monotonic: Callable[[], float] = time.monotonic):
        self._name = name
        self._idle_seconds = idle_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._idle: dict[Hashable, list[_Kept[C]]] = {}
        atexit.register(self.close)

    @contextmanager
    def borrow(self, key: Hashable, create: Callable[[], C], close: Callable[[C], object]) -> Iterator[C]:
        """Lend a client for a block. It is kept for the next borrower if the block ends without an exception."""
        client = self.take(key, create)
        try:
            yield client
        except BaseException:
            _close(self._name, client, close)
            raise
        self.give_back(key, client, close)

    def take(self, key: Hashable, create: Callable[[], C]) -> C:
        """Return an idle client, or a new one. The caller gives it back, or closes it."""
        stale: list[_Kept[C]] = []
        found: C | None = None
        with self._lock:
            self._forget_if_forked()
            stale = self._expired()
            if kept := self._idle.get(key):
                found = kept.pop().client
                if not kept:
                    del self._idle[key]
        for each in stale:
            _close(self._name, each.client, each.close)
        return create() if found is None else found

    def give_back(self, key: Hashable, client: C, close: Callable[[C], object]) -> None:
        """Keep a client for the next borrower."""
        with self._lock:
            self._forget_if_forked()
            self._idle.setdefault(key, []).append(_Kept(client, close, self._monotonic()))

    def close(self) -> None:
        """Close all idle clients."""
        with self._lock:
            self._forget_if_forked()
            idle = [each for kept in self._idle.values() for each in kept]
            self._idle.clear()
        for each in idle:
            _close(self._name, each.client, each.close)

    def _expired(self) -> list[_Kept[C]]:
        """Take out clients that were idle for too long."""
        limit = self._monotonic() - self._idle_seconds
        stale: list[_Kept[C]] = []
        for key, kept in list(self._idle.items()):
            stale += [each for each in kept if each.since < limit]
            kept[:] = [each for each in kept if each.since >= limit]
            if not kept:
                del self._idle[key]
        return stale

    def _forget_if_forked(self) -> None:
        """Forget clients of the parent process. They must not be closed here: the parent uses the same sockets."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._forgotten = self._idle  # referenced, so that their finalizers do not run
            self._idle = {}


def _close(name: str, client: C, close: Callable[[C], Any]) -> None:
    try:
        close(client)
    except Exception as error:
        log.debug("A client of %s could not be closed: %s", name, error)
