"""Producers that are ready for a transaction, and the transactional ids of this process. Task side.

A producer is used for one transaction: librdkafka cannot begin another after its transaction was ended by the driver.
To create and initialise one takes about 100 ms, so a thread of this process does that ahead. A writer takes one at no
cost.

A transactional id belongs to one process. It may be initialised again, which aborts what is open under it, when epoch
``e + 2`` runs if it was used in epoch ``e``: see decision 0028.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flott._extras import require
from flott.errors import ConnectorError
from flott.runtime.connectors.kafka.end_txn import Transaction

#: librdkafka logs every connection that it loses as an error. What fails because of that is reported by the writer, so
#: these lines are shown only if the level of this logger is set.
client_log = logging.getLogger("flott.connectors.kafka.client")
if client_log.level == logging.NOTSET:
    client_log.setLevel(logging.CRITICAL)

#: A transactional id is used again so many epochs after it was used.
EPOCHS_BETWEEN_USES = 2
#: How long the initialisation of a producer may take: the broker may have to abort a transaction first.
INIT_SECONDS = 30.0
#: Producers that are ready are polled at this interval, because they emit statistics.
POLL_SECONDS = 1.0
#: After this time without a writer the producers that are ready are given up.
IDLE_SECONDS = 60.0
#: librdkafka tells the producer id by its statistics only.
STATISTICS_MS = 20


# ---- transactional ids -----------------------------------------------------------------------------------------------


def id_stem(prefix: str, job_id: str, operator_id: str) -> str:
    """Return what the transactional ids of one sink of one job begin with."""
    return f"{prefix}-{job_id}-{operator_id[:16]}"


def ids_of_job(prefix: str, job_id: str, operator_id: str) -> str:
    """Return the pattern of all transactional ids of one sink of one job."""
    return rf"{re.escape(id_stem(prefix, job_id, operator_id))}-[0-9a-f]{{8}}-\d+"


def ids_of_prefix(prefix: str) -> str:
    """Return the pattern of all transactional ids of a prefix, of any job. A longer prefix does not match.

    >>> bool(re.fullmatch(ids_of_prefix("orders"), "orders-" + "0" * 32 + "-cbc357cc-01234567-3"))
    True
    >>> bool(re.fullmatch(ids_of_prefix("orders"), "orders-eu-" + "0" * 32 + "-cbc357cc-01234567-3"))
    False
    """
    return rf"{re.escape(prefix)}-[^-]+-[^-]+-[0-9a-f]{{8}}-\d+"


class TransactionalIds:
    """The transactional ids of one sink in one process.

    >>> ids = TransactionalIds("orders")
    >>> first = ids.acquire(epoch=7)
    >>> ids.release(first, used_in=7)
    >>> ids.acquire(epoch=8) == first, ids.acquire(epoch=9) == first
    (False, True)
    """

    def __init__(self, stem: str):
        self._stem = stem
        self._made = 0
        self._free: dict[str, int | None] = {}  #: id -> the epoch that it was used in

    def acquire(self, epoch: int) -> str:
        """Return an id that may be initialised while an epoch runs."""
        for ident, used_in in self._free.items():
            if used_in is None or used_in + EPOCHS_BETWEEN_USES <= epoch:
                del self._free[ident]
                return ident
        self._made += 1
        return f"{self._stem}-{self._made}"

    def release(self, ident: str, used_in: int | None) -> None:
        """Return an id; None: nothing that was written under it is in a checkpoint."""
        self._free[ident] = used_in


# ---- producers -------------------------------------------------------------------------------------------------------


@dataclass
class TransactionalProducer:
    """An initialised producer, for one transaction."""

    transaction: Transaction
    client: Any  #: a confluent_kafka.Producer
    #: error -> the first record with it; under None the first record that was delivered. ``setdefault`` of this is the
    #: delivery callback: no Python code runs per record.
    outcomes: dict[Any, Any] = field(default_factory=dict)


def create_producer(settings: Mapping[str, Any], transactional_id: str) -> TransactionalProducer:
    """Connect a producer and initialise it. An open transaction of the same id is aborted by that."""
    kafka = require("confluent_kafka", "kafka")
    found: dict[str, int] = {}

    def learn(statistics: str) -> None:
        if not found:
            state = json.loads(statistics).get("eos", {})
            if state.get("producer_id", -1) >= 0 and state.get("txn_state") == "Ready":
                found.update(producer_id=state["producer_id"], producer_epoch=state["producer_epoch"])

    client = kafka.Producer(
        {
            **settings,
            "transactional.id": transactional_id,
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": learn,
        },
        logger=client_log,
    )
    try:
        client.init_transactions(INIT_SECONDS)
    except kafka.KafkaException as error:
        raise ConnectorError(_init_failure(settings, error)) from error
    deadline = time.monotonic() + INIT_SECONDS
    while not found:
        if time.monotonic() > deadline:
            raise ConnectorError(
                f"The Kafka client told no producer id within {INIT_SECONDS:.0f} s after its initialisation."
            )
        client.poll(0.005)
    return TransactionalProducer(Transaction(transactional_id, **found), client)


def _init_failure(settings: Mapping[str, Any], error: Exception) -> str:
    reason = error.args[0]
    text = f"No Kafka transaction can be begun at {settings.get('bootstrap.servers')}: {reason.str()}."
    if reason.name() == "INVALID_TRANSACTION_TIMEOUT":
        text += (
            f" transaction.timeout.ms of the sink is {settings.get('transaction.timeout.ms')}, which is more than"
            " transaction.max.timeout.ms of the broker: make the first smaller or the second larger."
        )
    elif "AUTHORIZATION" in reason.name():
        text += " The user needs the permissions Write and Describe on transactional ids with the sink's prefix."
    return text


class ReadyProducers:
    """The producers of one sink in one process: a thread creates them ahead, and closes those that were used."""

    def __init__(self, stem: str, create: Callable[[str], TransactionalProducer]):
        self._ids = TransactionalIds(f"{stem}-{secrets.token_hex(4)}")
        self._create = create
        self._changed = threading.Condition()
        self._ready: deque[TransactionalProducer] = deque()
        self._to_end: deque[TransactionalProducer] = deque()  #: their transactions are to be aborted
        self._to_drop: deque[TransactionalProducer] = deque()
        self._epoch = 0  #: the last one that a writer was for
        self._takers = [0, 1]  #: how many writers took one, in this epoch and in the epoch before
        self._waiting = 0
        self._making = 0
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._last_taken = 0.0

    def take(self, epoch: int) -> TransactionalProducer:
        """Return a producer for a writer of an epoch."""
        deadline = time.monotonic() + 2 * INIT_SECONDS
        with self._changed:
            if epoch != self._epoch:
                self._epoch, self._takers = epoch, [0, self._takers[0]]
            self._takers[0] += 1
            self._last_taken = time.monotonic()
            self._failure = None
            self._waiting += 1
            try:
                self._wake()
                while not self._ready:
                    if self._failure is not None:
                        raise self._failure
                    if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                        raise ConnectorError(f"No Kafka producer was ready after {2 * INIT_SECONDS:.0f} s.")
                taken = self._ready.popleft()
            finally:
                self._waiting -= 1
            self._wake()
            return taken

    def give_back(self, producer: TransactionalProducer) -> None:
        """Return a producer that has written nothing."""
        with self._changed:
            self._ready.append(producer)
            self._wake()

    def prepared(self, producer: TransactionalProducer, epoch: int) -> None:
        """Return a producer whose transaction the driver ends. It is dropped: it must not write any more.

        It is not closed, because ``close()`` aborts its transaction.
        """
        with self._changed:
            self._ids.release(producer.transaction.transactional_id, used_in=epoch)
            self._to_drop.append(producer)
            self._wake()

    def failed(self, producer: TransactionalProducer) -> None:
        """Return a producer whose transaction is void: it is aborted."""
        with self._changed:
            self._to_end.append(producer)
            self._wake()

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="flott-kafka-producers", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._due():
                    self._changed.wait(POLL_SECONDS)
                if not (self._due() or self._making) and time.monotonic() - self._last_taken > IDLE_SECONDS:
                    self._ready.clear()
                    self._thread = None
                    return
                dropped, self._to_drop = self._to_drop, deque()
                void = self._to_end.popleft() if self._to_end else None
                idents = [self._ids.acquire(self._epoch) for _ in range(self._missing())]
                self._making += len(idents)
                ready = list(self._ready) if void is None and not idents else []
            del dropped  # outside of the lock: their threads end here
            for idle in ready:
                idle.client.poll(0)
            for ident in idents:  # most of the time they wait for the broker
                threading.Thread(target=self._make, args=(ident,), name="flott-kafka-producer", daemon=True).start()
            if void is not None:
                self._abort(void)

    def _due(self) -> bool:
        return bool(self._to_end or self._to_drop) or self._missing() > 0

    def _missing(self) -> int:
        wanted = max(self._waiting, *self._takers) if self._failure is None else 0
        return max(0, wanted - len(self._ready) - self._making)

    def _make(self, ident: str) -> None:
        made: TransactionalProducer | None = None
        failure: Exception | None = None
        try:
            made = self._create(ident)
        except Exception as error:
            failure = error
        with self._changed:
            self._making -= 1
            if made is not None:
                self._ready.append(made)
            else:
                self._ids.release(ident, used_in=None)
                self._failure = failure
            self._changed.notify_all()

    def _abort(self, producer: TransactionalProducer) -> None:
        try:
            producer.client.purge()
            producer.client.abort_transaction(INIT_SECONDS)
        except Exception:
            pass  # the driver, or the time-out, aborts it
        with self._changed:
            self._ids.release(producer.transaction.transactional_id, used_in=None)


_lock = threading.Lock()
_pools: dict[Hashable, ReadyProducers] = {}
_forgotten: list[object] = []
_process = os.getpid()


def ready_producers(settings: Mapping[str, Any], stem: str) -> ReadyProducers:
    """Return the producers of a sink in this process."""
    global _pools, _process
    key = (stem, tuple(sorted((name, str(value)) for name, value in settings.items())))
    with _lock:
        if _process != os.getpid():  # forked: the parent's clients have no threads here and must not be closed
            _forgotten.append(_pools)
            _pools, _process = {}, os.getpid()
        if key not in _pools:
            _pools[key] = ReadyProducers(stem, lambda ident: create_producer(settings, ident))
        return _pools[key]
