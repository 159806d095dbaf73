"""The writer that all sinks of stores share; a connector supplies how actions are made and sent. Task side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Generic, TypeVar

from flott.datastream.connectors._stores import BulkLimits, RetryPolicy
from flott.datastream.connectors.base import BadRecord, Json, OnError, SinkWriter, WriterContext
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.connectors.stores.actions import Action, ActionOutcome, version_of
from flott.runtime.connectors.stores.buffer import ChangeBuffer
from flott.runtime.connectors.stores.delivery import deliver
from flott.runtime.connectors.stores.rejections import Rejections

T = TypeVar("T")


class Store(ABC, Generic[T]):
    """One store as a writer sees it."""

    name: str  #: what it is and where, for messages; without secrets

    @abstractmethod
    def actions(self, values: Sequence[T]) -> Iterable[Action]:
        """Return the changes that records ask for."""

    @abstractmethod
    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        """Send a request; return one outcome for each action, or raise ``Unavailable`` if none is known."""

    @abstractmethod
    def rejected(self, action: Action, reason: str) -> BadRecord:
        """Return a rejected action as a dead letter."""

    def close(self) -> None:
        """Give back the connection."""


class StoreWriter(SinkWriter[Any]):
    """Buffers changes, sends them in bulk, and reports what was rejected."""

    def __init__(
        self,
        store: Store[Any],
        context: WriterContext,
        limits: BulkLimits,
        retries: RetryPolicy,
        on_rejected: OnError,
        clock: Clock | None = None,
    ):
        self._store = store
        self._now_ms = context.now_ms
        self._buffer = ChangeBuffer(limits)
        self._retries = retries
        self._clock = clock or SystemClock()
        self._random = Random(context.attempt_id)
        self._flushes = 0
        self._rejections = Rejections(on_rejected, context, store.name)

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._buffer.extend(self._store.actions(values))
        if self._buffer.is_full:
            self._flush()

    def prepare_commit(self) -> list[Json]:
        self._flush()
        return self._rejections.prepare_commit()

    def close(self) -> None:
        self._rejections.close()
        self._store.close()

    def _flush(self) -> None:
        store, version = self._store, version_of(self._now_ms, self._flushes)
        for request in self._buffer.drain():
            rejected = deliver(
                request,
                lambda actions: store.send(actions, version),
                self._retries,
                self._clock,
                self._random,
                store.name,
            )
            for action, reason in rejected:
                self._rejections.report(store.rejected(action, reason))
        self._flushes += 1
