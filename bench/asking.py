"""Clients of a REST API that keep their connections and their distance: latency under light load, not throughput."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from bench.control import Answer, Question

CLIENTS = 2
#: The mean of the pauses a client makes after each answer. They vary, so as not to keep step with anything else.
PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 60


class Clients:
    """So many threads, each with one connection."""

    def __init__(self, url: str, clients: int = CLIENTS):
        self._host = urlsplit(url).netloc
        self._threads = ThreadPoolExecutor(clients, thread_name_prefix="client")
        self._own = threading.local()
        self._order = random.Random(7)

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        """The answers, of questions put in an order that is the same in every run."""
        mixed = list(questions)
        self._order.shuffle(mixed)
        pauses = [self._order.expovariate(1 / PAUSE_SECONDS) for _ in mixed]
        return list(self._threads.map(self._ask, mixed, pauses))

    def get(self, path: str) -> Any:
        """The JSON at an address; what is not found there is an error."""
        return self.send("GET", path)

    def status(self, path: str) -> int:
        """The status of the answer."""
        return self._exchange("GET", path)[0]

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Have something done, or asked."""
        status, data = self._exchange(method, path, None if body is None else json.dumps(body).encode())
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {data[:500].decode(errors='replace')}")
        return json.loads(data)

    def close(self) -> None:
        """End the threads; their connections go with them."""
        self._threads.shutdown()

    def _ask(self, question: Question, pause: float) -> Answer:
        began = time.perf_counter()
        status, _ = self._exchange("GET", question.path)
        took = time.perf_counter() - began
        time.sleep(pause)
        return Answer(question.endpoint, took * 1_000, status)

    def _exchange(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            return self._once(method, path, body, headers)  # a server closes unused connections

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT_SECONDS)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()
            self._own.connection = None
            raise
