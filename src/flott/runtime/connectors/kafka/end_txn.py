"""Ends transactions whose producer is gone, and says what became of one. Driver side.

librdkafka ends only the transactions that the same producer object has begun. The broker asks for less: any client
that knows the transactional id, the producer id and the producer epoch may send EndTxn. kafka-python has the message
and the connections for it. This module is the only one that uses kafka-python, and the only one that uses what that
library does not declare as public (``_manager``).

Every call has a deadline. A coordinator that moved, loads or restarts is looked for again until then.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from flott._extras import require
from flott.errors import ConnectorError

#: A request that is not answered after this time is sent again.
REQUEST_MS = 5_000
#: How long one call may look for a coordinator that answers.
CALL_SECONDS = 15.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 0.25

#: Errors of EndTxn that no repetition cures: the broker does not have this transaction any more.
GONE = (
    "ProducerFencedError", "InvalidProducerEpochError", "InvalidTxnStateError", "InvalidProducerIdMappingError",
    "TransactionalIdNotFoundError", "UnknownProducerIdError",
)  # fmt: skip


@dataclass(frozen=True)
class Transaction:
    """A transaction at the broker: a producer id and epoch belong to at most one that is open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Fate(Enum):
    """What became of a record that was written in a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    EXPIRED = "expired"  #: the broker has deleted the place where it stood, by retention
    UNKNOWN = "unknown"  #: an older transaction is open, so that the broker does not tell yet


class TransactionClient:
    """A connection to the coordinators of transactions, made when it is needed and again after a failure."""

    def __init__(self, settings: Mapping[str, Any], call_seconds: float = CALL_SECONDS):
        self._settings = settings  #: of kafka-python
        self._call_seconds = call_seconds
        self._admin: Any = None
        self._coordinators: dict[str, int] = {}

    def end(self, transactions: Sequence[Transaction], *, commit: bool) -> list[Exception | None]:
        """Commit or abort transactions, all at once. The answer for each: None, or why the broker has it no more.

        The broker answers before it has written its markers to all partitions. A repetition is answered after that, so
        records are visible when this returns.
        """
        if not transactions:
            return []
        outcomes: list[Exception | None] = self._run(self._end, list(transactions), commit)
        ended = [found for found, outcome in zip(transactions, outcomes, strict=True) if outcome is None]
        self._run(self._end, ended, commit)
        return outcomes

    def ongoing(self, pattern: str) -> list[Transaction]:
        """Return the open transactions whose transactional id matches a regular expression as a whole."""
        return list(self._run(self._ongoing, pattern))

    def fate(self, topic: str, partition: int, offset: int, producer_id: int) -> Fate:
        """Return what became of the record that a producer wrote at an offset."""
        fate: Fate = self._run(self._fate, topic, partition, offset, producer_id)
        return fate

    def close(self) -> None:
        """Close the connections."""
        admin, self._admin = self._admin, None
        self._coordinators.clear()
        if admin is not None:
            admin.close()

    # ---- the loop around every call ----------------------------------------------------------------------------------

    def _run(self, call: Any, *arguments: Any) -> Any:
        errors = require("kafka.errors", "kafka")
        deadline = time.monotonic() + self._call_seconds
        try:
            return self._client(deadline)._manager.run(call, deadline, *arguments)
        except (errors.KafkaError, OSError, RuntimeError) as error:
            self.close()  # the next call begins with new connections
            raise ConnectorError(
                f"The Kafka brokers {self._settings['bootstrap_servers']} did not carry out a request about"
                f" transactions within {self._call_seconds:.0f} s ({type(error).__name__}: {error}). Check that they"
                " run and can be reached from the driver."
            ) from error

    def _client(self, deadline: float) -> Any:
        if self._admin is None:
            kafka = require("kafka", "kafka")
            logger = logging.getLogger("kafka")
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.CRITICAL)  # it logs every lost connection as an error; ours says what fails
            timeout_ms = max(1_000, int((deadline - time.monotonic()) * 1000))
            self._admin = kafka.KafkaAdminClient(
                request_timeout_ms=REQUEST_MS,
                bootstrap_timeout_ms=timeout_ms,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=500,
                **self._settings,
            )
        return self._admin

    async def _pause(self, deadline: float, pause: float, why: Exception) -> float:
        """Wait before the next try, or raise if there is no time for one. Returns the next pause."""
        if time.monotonic() + pause > deadline:
            raise why
        await self._admin._manager._net.sleep(pause)
        return min(2 * pause, LONGEST_PAUSE_SECONDS)

    # ---- end ---------------------------------------------------------------------------------------------------------

    async def _end(self, deadline: float, transactions: list[Transaction], commit: bool) -> list[Exception | None]:
        outcomes: list[Exception | None] = [None] * len(transactions)
        left = list(range(len(transactions)))
        pause = FIRST_PAUSE_SECONDS
        while left:
            answers = await self._send_end([transactions[index] for index in left], commit)
            again: list[int] = []
            why: Exception | None = None
            for index, answer in zip(left, answers, strict=True):
                if answer is None or type(answer).__name__ in GONE:
                    outcomes[index] = answer
                elif getattr(answer, "retriable", False) or type(answer).__name__ == "UnknownBrokerIdError":
                    self._coordinators.pop(transactions[index].transactional_id, None)
                    again.append(index)
                    why = answer
                else:
                    raise answer
            left = again
            if why is not None:
                pause = await self._pause(deadline, pause, why)
        return outcomes

    async def _send_end(self, transactions: list[Transaction], commit: bool) -> list[Exception | None]:
        """Send all requests before the first answer is awaited."""
        errors = require("kafka.errors", "kafka")
        messages = require("kafka.protocol.producer.transaction", "kafka")
        try:
            await self._find_coordinators([found.transactional_id for found in transactions])
        except errors.KafkaError as error:
            return [error] * len(transactions)
        sent: list[Any] = []
        for found in transactions:
            request = messages.EndTxnRequest(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                committed=commit,
            )
            sent.append(self._send(request, self._coordinators[found.transactional_id]))
        answers: list[Exception | None] = []
        for future in sent:
            try:
                if isinstance(future, Exception):
                    raise future
                found_error = errors.for_code((await future).error_code)
                answers.append(None if found_error is errors.NoError else found_error())
            except errors.KafkaError as failure:
                answers.append(failure)
        return answers

    def _send(self, request: Any, node: int | None = None) -> Any:
        """Send a request; a broker that cannot be asked now is an exception in place of a future."""
        try:
            return self._admin._manager.send(request, node_id=node)
        except require("kafka.errors", "kafka").KafkaError as error:
            return error

    async def _ask(self, request: Any, node: int | None = None) -> Any:
        future = self._send(request, node)
        if isinstance(future, Exception):
            raise future
        return await future

    async def _find_coordinators(self, ids: list[str]) -> None:
        """Learn which broker coordinates each transactional id, as far as that is not known."""
        unknown = [ident for ident in dict.fromkeys(ids) if ident not in self._coordinators]
        if not unknown:
            return
        errors = require("kafka.errors", "kafka")
        metadata = require("kafka.protocol.metadata", "kafka")
        request = metadata.FindCoordinatorRequest(key_type=1, coordinator_keys=unknown, min_version=4)
        for found in (await self._ask(request)).coordinators:
            error = errors.for_code(found.error_code)
            if error is not errors.NoError:
                raise error()
            self._coordinators[found.key] = found.node_id

    # ---- list --------------------------------------------------------------------------------------------------------

    async def _ongoing(self, deadline: float, pattern: str) -> list[Transaction]:
        errors = require("kafka.errors", "kafka")
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._list_ongoing(re.compile(pattern))
            except errors.KafkaError as error:
                if not getattr(error, "retriable", False):
                    raise
                self._coordinators.clear()
                pause = await self._pause(deadline, pause, error)

    async def _list_ongoing(self, pattern: re.Pattern[str]) -> list[Transaction]:
        # The broker's own filter by pattern is newer than most brokers. Open transactions are few.
        errors = require("kafka.errors", "kafka")
        messages = require("kafka.protocol.admin.transactions", "kafka")
        ids: list[str] = []
        for broker in list(self._admin._manager.cluster.brokers()):
            request = messages.ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[])
            response = await self._ask(request, broker.node_id)
            error = errors.for_code(response.error_code)
            if error is not errors.NoError:
                raise error()
            ids += [found.transactional_id for found in response.transaction_states]
        ids = [ident for ident in ids if pattern.fullmatch(ident)]
        await self._find_coordinators(ids)
        found: list[Transaction] = []
        for ident in ids:
            request = messages.DescribeTransactionsRequest(transactional_ids=[ident])
            (state,) = (await self._ask(request, self._coordinators[ident])).transaction_states
            error = errors.for_code(state.error_code)
            if error.__name__ == "TransactionalIdNotFoundError":
                continue
            if error is not errors.NoError:
                raise error()
            if state.transaction_state == "Ongoing":
                found.append(Transaction(ident, state.producer_id, state.producer_epoch))
        return found

    # ---- fate --------------------------------------------------------------------------------------------------------

    async def _fate(self, deadline: float, topic: str, partition: int, offset: int, producer_id: int) -> Fate:
        errors = require("kafka.errors", "kafka")
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._fetch_fate(topic, partition, offset, producer_id)
            except errors.KafkaError as error:
                if not getattr(error, "retriable", False):
                    raise
                pause = await self._pause(deadline, pause, error)

    async def _fetch_fate(self, topic: str, partition: int, offset: int, producer_id: int) -> Fate:
        """Fetch as a read-committed consumer does: the answer lists the aborted transactions over what it holds."""
        errors = require("kafka.errors", "kafka")
        messages = require("kafka.protocol.consumer.fetch", "kafka")
        leader = await self._leader(topic, partition)
        fetched = messages.FetchRequest.FetchTopic
        request = messages.FetchRequest(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1,
            session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
            topics=[fetched(topic=topic, partitions=[fetched.FetchPartition(
                partition=partition, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
                log_start_offset=-1, partition_max_bytes=1 << 20,
            )])],
            min_version=4, max_version=12,
        )  # fmt: skip
        response = await self._ask(request, leader)
        answer = response.responses[0].partitions[0]
        error = errors.for_code(answer.error_code)
        if error.__name__ == "OffsetOutOfRangeError":
            return Fate.EXPIRED
        if error is not errors.NoError:
            raise error()
        if answer.last_stable_offset <= offset:
            return Fate.UNKNOWN
        # Transactions of one producer follow one another, so one that covers the offset is the one in question.
        aborted = any(
            found.producer_id == producer_id and found.first_offset <= offset
            for found in answer.aborted_transactions or ()
        )
        return Fate.ABORTED if aborted else Fate.COMMITTED

    async def _leader(self, topic: str, partition: int) -> int:
        errors = require("kafka.errors", "kafka")
        metadata = require("kafka.protocol.metadata", "kafka")
        asked = metadata.MetadataRequest.MetadataRequestTopic(name=topic)
        request = metadata.MetadataRequest(
            topics=[asked], allow_auto_topic_creation=False, min_version=4, max_version=9
        )
        (found,) = (await self._ask(request)).topics
        error = errors.for_code(found.error_code)
        if error is not errors.NoError:
            raise error()
        leader: int = next(known.leader_id for known in found.partitions if known.partition_index == partition)
        if leader < 0:
            raise errors.LeaderNotAvailableError()
        return leader
