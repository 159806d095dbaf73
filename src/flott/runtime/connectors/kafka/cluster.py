"""Asks a Kafka cluster about topics and offsets, many partitions with one request. Driver side."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from flott._extras import require
from flott.common._secrets import Properties
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.datastream.connectors.kafka._source import KafkaSubscription
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.kafka.clients import (
    MISSING,
    PASSING,
    ClientErrors,
    KafkaError,
    KafkaException,
    KafkaWords,
    code_of,
    confluent_kafka,
    make_client,
)

admin = require("confluent_kafka.admin", "kafka")

#: Topics that Kafka keeps for itself; a pattern does not select them.
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

#: How long to wait before a cluster is asked again that was not ready to answer.
ASK_AGAIN_SECONDS = 0.05
#: How long a running job waits when it looks for new partitions.
DISCOVERY_SECONDS = 2.0
#: How long a partition must be missing until it counts as deleted.
CONFIRM_SECONDS = 1.0
#: How long one request waits. One that was sent to a broker which died is not repeated by librdkafka.
ONE_REQUEST_SECONDS = 5.0

Offsets = dict[KafkaTopicPartition, int]


class NoAnswerYet(Exception):
    """The cluster has not answered in the time that the caller can wait."""


class KafkaCluster:
    """The connection of one source to its cluster."""

    def __init__(self, properties: Properties, reads_committed: bool, timeout_ms: int):
        self.words = KafkaWords(properties)
        self._errors = ClientErrors()
        self._timeout_ms = timeout_ms
        self._properties = properties
        self._client = self._new_client(quiet=False)
        level = confluent_kafka.IsolationLevel
        self._isolation = level.READ_COMMITTED if reads_committed else level.READ_UNCOMMITTED

    def _new_client(self, quiet: bool) -> Any:
        # Answers must not wait for a connection attempt that was put off for long.
        own = {"reconnect.backoff.max.ms": self._properties.get("reconnect.backoff.max.ms", "1000")}
        return make_client(admin.AdminClient, self._properties, own, self._errors, quiet=quiet)

    # ---- topics ------------------------------------------------------------------------------------------------------

    def partitions_of(self, subscription: KafkaSubscription, *, at_start: bool = False) -> list[KafkaTopicPartition]:
        """Return the partitions that are read. Topics and partitions that are named must exist. Later than at the start
        it does not wait long: the job has other things to do."""
        if subscription.pattern is not None:
            chosen = self._matching(subscription.pattern, at_start)
        else:
            names = subscription.topics or tuple(dict.fromkeys(wanted.topic for wanted in subscription.partitions))
            chosen = self._described(names, at_start)
        if subscription.partitions:
            if missing := [str(wanted) for wanted in subscription.partitions if wanted not in set(chosen)]:
                raise ProgramError(
                    f"The partitions {', '.join(missing)} do not exist. Check set_partitions(), or add them to the"
                    " topic."
                )
            return list(subscription.partitions)
        return chosen

    def _matching(self, pattern: str, at_start: bool) -> list[KafkaTopicPartition]:
        try:
            found = self._client.list_topics(timeout=self._patience(at_start)).topics
        except KafkaException as error:
            self._client.poll(0)
            raise self.words.failure("listing topics", self._errors.refusal or error, at_start=at_start) from None
        matches = re.compile(pattern).fullmatch
        return sorted(
            KafkaTopicPartition(name, partition)
            for name, topic in found.items()
            if name not in INTERNAL_TOPICS and matches(name)
            for partition in topic.partitions
        )

    def _described(self, topics: Iterable[str], at_start: bool) -> list[KafkaTopicPartition]:
        doing = f"describing the topics {', '.join(topics)}"
        wanted = confluent_kafka.TopicCollection(list(topics))
        asked = self._client.describe_topics(wanted, request_timeout=self._patience(at_start))
        found = []
        for topic, answer in asked.items():
            try:
                described = self._await(answer, doing, at_start)
            except KafkaException as error:
                if code_of(error) in MISSING:
                    raise ProgramError(
                        f"The topic {topic} does not exist at this cluster. Create it, or check set_topics(). For"
                        " topics that are created later, use set_topic_pattern()."
                    ) from None
                raise self.words.failure(doing, error, at_start=at_start) from None
            found += [KafkaTopicPartition(topic, partition.id) for partition in described.partitions]
        return sorted(found)

    # ---- offsets -----------------------------------------------------------------------------------------------------

    def earliest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the offsets of the oldest records."""
        return self._offsets(dict.fromkeys(partitions, admin.OffsetSpec.earliest()))

    def latest(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return the ends: behind the last record, or before the first open transaction if only committed records are
        read."""
        return self._offsets(dict.fromkeys(partitions, admin.OffsetSpec.latest()))

    def since(self, partitions: Iterable[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        """Return the first offsets whose records are not older. Partitions without such a record are not in it."""
        found = self._offsets(dict.fromkeys(partitions, admin.OffsetSpec.for_timestamp(timestamp_ms)))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def ask_latest(self, partitions: Iterable[KafkaTopicPartition]) -> AskedOffsets:
        """Like :meth:`latest`, without waiting for the answer."""
        return AskedOffsets(self, dict.fromkeys(partitions, admin.OffsetSpec.latest()))

    def _offsets(self, specs: Mapping[KafkaTopicPartition, Any]) -> Offsets:
        try:
            return AskedOffsets(self, specs).result(self._timeout_ms)
        except NoAnswerYet as last:
            raise self.silence("listing offsets") from last

    def forget_leaders(self) -> None:
        """Start with a new client: librdkafka keeps the epochs of leaders that it knew for minutes."""
        self._client = self._new_client(quiet=True)

    def ask(self, specs: Mapping[KafkaTopicPartition, Any]) -> dict[KafkaTopicPartition, Any]:
        """Ask for offsets of partitions; the answers come later."""
        if not specs:
            return {}
        asked = self._client.list_offsets(
            {confluent_kafka.TopicPartition(p.topic, p.partition): spec for p, spec in specs.items()},
            isolation_level=self._isolation,
            request_timeout=min(self._limit, ONE_REQUEST_SECONDS),
        )
        return {KafkaTopicPartition(found.topic, found.partition): answer for found, answer in asked.items()}

    def committed(self, group: str, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        """Return what a group has committed. Partitions for which it has not are not in it."""
        wanted = [confluent_kafka.TopicPartition(p.topic, p.partition) for p in partitions]
        doing = f"reading the offsets of group {group}"
        request = [confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)]
        asked = self._client.list_consumer_group_offsets(request, request_timeout=self._limit)[group]
        try:
            found = self._await(asked, doing).topic_partitions
        except KafkaException as error:
            raise self.words.failure(doing, error) from None
        return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def commit(self, group: str, offsets: Offsets) -> Any:
        """Tell a group how far the job has come; return the answer that is awaited, or not."""
        told = [confluent_kafka.TopicPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
        request = [confluent_kafka.ConsumerGroupTopicPartitions(group, told)]
        return self._client.alter_consumer_group_offsets(request, request_timeout=self._limit)[group]

    # ---- waiting -----------------------------------------------------------------------------------------------------

    @property
    def _limit(self) -> float:
        return self._timeout_ms / 1000

    def _patience(self, at_start: bool) -> float:
        return self._limit if at_start else min(self._limit, DISCOVERY_SECONDS)

    def _await(self, answer: Any, doing: str, at_start: bool = False) -> Any:
        try:
            return self.await_until(time.monotonic() + self._limit, answer, doing, at_start)
        except NoAnswerYet:
            raise self.words.silence(doing, self._timeout_ms, self._errors, at_start=at_start) from None

    def await_until(self, deadline: float, answer: Any, doing: str, at_start: bool = False) -> Any:
        """Return an answer. A refused login is noticed at once: the request itself would wait for its time-out."""
        while True:
            left = deadline - time.monotonic()
            try:
                return answer.result(max(0.0, min(left, 0.2)))
            except TimeoutError:
                self._client.poll(0)
                if self._errors.refusal is not None:
                    raise self.words.failure(doing, self._errors.refusal, at_start=at_start) from None
                if left <= 0:
                    raise NoAnswerYet from None

    def silence(self, doing: str) -> FlottError:
        """Return the failure to raise when an answer took too long."""
        return self.words.silence(doing, self._timeout_ms, self._errors)

    def describe_silence(self) -> str:
        """Return what the client has reported lately."""
        self._client.poll(0)
        return self.words.text(self._errors.last) if self._errors.last is not None else "it does not answer"


class AskedOffsets:
    """Offsets that a cluster was asked for. Partitions whose leader is being elected are asked for again."""

    def __init__(self, cluster: KafkaCluster, specs: Mapping[KafkaTopicPartition, Any]):
        self._cluster = cluster
        self._specs = specs
        self._answers = cluster.ask(specs)
        self._found: Offsets = {}
        self._missing_since: float | None = None

    def result(self, wait_ms: int) -> Offsets:
        """Return the offsets; raises :class:`NoAnswerYet` if they do not come in this time."""
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            self._collect(deadline)
            again = {partition: spec for partition, spec in self._specs.items() if partition not in self._found}
            if not again:
                return self._found
            self._answers = self._cluster.ask(again)
            if time.monotonic() > deadline:
                raise NoAnswerYet
            time.sleep(ASK_AGAIN_SECONDS)

    def _collect(self, deadline: float) -> None:
        doing, stale = "listing offsets", False
        missing: list[KafkaTopicPartition] = []
        for partition, answer in self._answers.items():
            try:
                offset = int(self._cluster.await_until(deadline, answer, doing).offset)
                # After a lost connection librdkafka answers without an error, and without an offset.
                if offset != confluent_kafka.OFFSET_INVALID:
                    self._found[partition] = offset
            except KafkaException as error:
                if code_of(error) in MISSING:
                    missing.append(partition)
                elif code_of(error) not in PASSING:
                    raise self._cluster.words.failure(doing, error) from None
                stale = stale or code_of(error) == KafkaError.FENCED_LEADER_EPOCH
        if stale:
            self._cluster.forget_leaders()
        self._confirm(missing)

    def _confirm(self, missing: list[KafkaTopicPartition]) -> None:
        """Raise if partitions stay missing: a broker that has just started may not know them for a moment."""
        if not missing:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = time.monotonic()
        elif time.monotonic() - self._missing_since > CONFIRM_SECONDS:
            raise ConnectorError(gone(missing[0]))


def gone(partition: KafkaTopicPartition, position: int | None = None) -> str:
    """Return the message about a partition that does not exist any more."""
    where = f" The job has read it up to offset {position}." if position is not None else ""
    return (
        f"Partition {partition.partition} of topic {partition.topic} does not exist any more: the topic was deleted."
        f"{where} Create it again and start the job without its old state, or take the topic out of set_topics() (or"
        " of the pattern) and continue: partitions that are not read any more are left out of the state."
    )
