"""Sends requests with records. Task side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import httpx

from flott.common._secrets import without_secrets
from flott.datastream.connectors._stores import BulkLimits
from flott.datastream.connectors.base import BadRecord, Json, WriterContext
from flott.datastream.connectors.http import HttpSink
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.stores.actions import DONE, Action, ActionOutcome, ActionVerdict, Unavailable
from flott.runtime.connectors.stores.http_answers import PASSING_STATUS, retry_after_ms
from flott.runtime.connectors.stores.json_documents import json_bytes
from flott.runtime.connectors.stores.writer import Store, StoreWriter

_POOL: ClientPool[httpx.Client] = ClientPool("http")
_SHOWN = 300


def webhook_writer(sink: HttpSink, context: WriterContext) -> WebhookWriter:
    """Return the writer of a webhook sink."""
    at_once = sink.concurrent_requests
    limits = BulkLimits(max_actions=at_once, buffer_actions=at_once, max_bytes=1 << 40)
    return WebhookWriter(Webhook(sink, context), context, limits, sink.retries, sink.on_rejected)


class WebhookWriter(StoreWriter):
    """Sends requests as soon as their records are there; the last one may have fewer."""

    _store: Webhook

    def prepare_commit(self) -> list[Json]:
        self._buffer.extend(self._store.last_request())
        return super().prepare_commit()


class Webhook(Store[Any]):
    """A server, as one subtask sends to it in one epoch. An action is a request: its URL, its key and its body."""

    def __init__(self, sink: HttpSink, context: WriterContext):
        self._sink = sink
        self.name = f"The server at {sink.address}"
        self._keys = f"{context.job_id}-{context.operator_id}-{context.epoch}-{context.subtask}"
        self._requests = 0
        self._collected: list[Any] = []
        content = "application/json" if sink.serializer is None else "application/octet-stream"
        self._headers = {"content-type": content, **sink.headers}
        self._asked_ms: list[int] = []  #: the delays that the last answers asked for

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        size = self._sink.batch_size
        if size == 1:
            return [self._request(self._url(value), self._body(value)) for value in values]
        self._collected += values
        whole = len(self._collected) // size * size
        batches = [self._collected[start : start + size] for start in range(0, whole, size)]
        self._collected = self._collected[whole:]
        return [self._request(self._url(None), self._bodies(batch)) for batch in batches]

    def last_request(self) -> list[Action]:
        """Return a request with the records that did not fill one."""
        rest, self._collected = self._collected, []
        return [self._request(self._url(None), self._bodies(rest))] if rest else []

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        self._asked_ms = []
        with _POOL.borrow((self._sink.timeout_ms,), self._connect, httpx.Client.close) as client:
            if len(actions) == 1:
                outcomes = [self._send_one(client, actions[0])]
            else:
                with ThreadPoolExecutor(len(actions)) as threads:
                    outcomes = list(threads.map(lambda action: self._send_one(client, action), actions))
        if self._asked_ms and all(one.verdict is ActionVerdict.RETRY for one in outcomes):
            raise Unavailable(outcomes[0].reason, max(self._asked_ms))
        return outcomes

    def rejected(self, action: Action, reason: str) -> BadRecord:
        url, key, body = action.body
        return BadRecord(f"the request {key} to {without_secrets(url)}", reason, body, key.encode())

    def _url(self, value: Any) -> str:
        return self._sink.url if isinstance(self._sink.url, str) else self._sink.url(value)

    def _body(self, value: Any) -> bytes:
        schema = self._sink.serializer
        return json_bytes(value) if schema is None else schema.serialize(value)

    def _bodies(self, values: list[Any]) -> bytes:
        schema = self._sink.serializer
        return json_bytes(values) if schema is None else b"\n".join(schema.serialize_batch(values)) + b"\n"

    def _request(self, url: str, body: bytes) -> Action:
        # The content is part of the key: if a repeated epoch has its records in another order, the same number must not
        # stand for another record, which the server would then drop.
        key = f"{self._keys}-{self._requests}-{sha256(body).hexdigest()[:16]}"
        self._requests += 1
        return Action(None, (url, key, body), len(body))

    def _connect(self) -> httpx.Client:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        return httpx.Client(timeout=self._sink.timeout_ms / 1000, limits=limits, trust_env=False)

    def _send_one(self, client: httpx.Client, action: Action) -> ActionOutcome:
        url, key, body = action.body
        headers = {**self._headers, "idempotency-key": key}
        try:
            response = client.request(self._sink.method, url, content=body, headers=headers)
        except httpx.InvalidURL as error:
            return ActionOutcome(ActionVerdict.REJECTED, f"the URL cannot be used: {error}")
        except httpx.HTTPError as error:
            return ActionOutcome(ActionVerdict.RETRY, f"{type(error).__name__}: {error}")
        status = response.status_code
        if status < 300:
            return DONE
        reason = f"HTTP {status} {response.text[:_SHOWN]}".rstrip()
        if status in PASSING_STATUS:
            if (asked := retry_after_ms(response.headers)) is not None:
                self._asked_ms.append(asked)
            return ActionOutcome(ActionVerdict.RETRY, reason)
        return ActionOutcome(ActionVerdict.REJECTED, reason)
