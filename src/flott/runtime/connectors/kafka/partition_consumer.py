"""Reads one partition from one offset to another, or on and on, with a consumer that outlives the epoch. Task side.

A consumer stays where its last slice ended and fetches ahead. The next slice of the partition, which usually begins
there, finds its records in memory. So there is one consumer for each partition that this process reads, up to a limit;
beyond it, the one that was not used for longest moves to another partition. The limit is higher where readers follow
more partitions: those are given back at every checkpoint, and taken again behind it.

A client that has moved may, if the broker answers late, still speak of its former place: its position is the old one,
or a message that it had fetched ahead arrives. Either would end a slice without its records. So what a client says
after it has moved is believed only if it begins with the very offset that was asked for. Otherwise a new client is
asked, which has no former place. That is rare: the slice then begins with offsets that hold no record, such as markers
of transactions, and is not the next one of its consumer.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from flott.common._secrets import Properties
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.datastream.connectors.kafka._source import KafkaSource
from flott.errors import ConnectorError, FlottError
from flott.runtime.connectors.kafka.client_settings import client_settings
from flott.runtime.connectors.kafka.clients import (
    MISSING,
    PASSING,
    ClientErrors,
    KafkaError,
    KafkaWords,
    confluent_kafka,
    make_client,
)
from flott.runtime.connectors.kafka.cluster import gone

log = logging.getLogger("flott.connectors.kafka")

#: Messages that are taken from the client at once. More at once are slower: they leave the processor's caches.
BATCH_MESSAGES = 500
#: Consumers that one process keeps at least, and what each may fetch ahead, in kilobytes.
KEPT_CONSUMERS = 8
AHEAD_KBYTES = 16 * 1024

#: A consumer that is so many offsets behind passes over them: it has fetched them ahead while another process has read
#: them. To move it takes longer, because it waits for the fetch that is under way.
PASSED_OVER = 20_000

#: How long to wait for the answer to the question whether a topic exists, after nothing has come of it for too long.
LAST_QUESTION_SECONDS = 5.0

#: How long to wait for messages at once: short at first, because a wait does not end when only the position moves.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.001, 0.2

Message = confluent_kafka.Message
TopicPartition = confluent_kafka.TopicPartition


class PartitionConsumer:
    """A consumer that is assigned to one partition at a time."""

    def __init__(self, source: KafkaSource):
        self._properties = source.properties
        self._words = KafkaWords(source.properties)
        self._timeout_ms = source.api_timeout_ms
        self._skips_lost = source.properties.get("auto.offset.reset", "none") in ("earliest", "latest")
        self._errors = ClientErrors()
        self._partition: KafkaTopicPartition | None = None
        self._next = -1  #: the offset that comes next
        self._ahead: list[Any] = []  #: messages behind the last slice that were taken from the client already
        self._has_moved = False  #: and has not yet given the record that was asked for
        self._client = self._new_client()

    def _new_client(self) -> Any:
        own = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            **_with_defaults(self._properties),
        }
        return make_client(confluent_kafka.Consumer, self._properties, own, self._errors)

    @property
    def standing(self) -> tuple[KafkaTopicPartition | None, int]:
        """Return which partition it is assigned to, and the offset that comes next."""
        return self._partition, self._next

    def read(self, partition: KafkaTopicPartition, start: int, stop: int) -> Iterator[list[Any]]:
        """Yield the messages from ``start`` to before ``stop``. Offsets may be missing; the position decides."""
        if self._partition != partition or not 0 <= start - self._next <= PASSED_OVER:
            self._move(partition, start)
        while self._next < stop:
            wanted = self._next
            messages = self._ahead or self._await_messages(partition, stop)
            self._ahead = []
            if not self._is_believed(partition, wanted, messages):
                continue
            messages = self._behind(max(start, wanted), messages)
            if messages and messages[-1].offset() >= stop:
                inside = sum(message.offset() < stop for message in messages)
                messages, self._ahead = messages[:inside], messages[inside:]
                self._next = stop
            elif messages:
                self._next = messages[-1].offset() + 1
            if messages:
                yield messages

    def follow(self, partition: KafkaTopicPartition, start: int, most: int) -> Iterator[list[Any]]:
        """Yield the messages from ``start`` on as they come, ``most`` at once, and an empty list when there is none.

        Never waits.
        """
        if self._partition != partition or not 0 <= start - self._next <= PASSED_OVER:
            self._move(partition, start)
        while True:
            wanted = self._next
            messages = self._ahead or self._available(partition, most)
            self._ahead = []
            if messages and self._is_believed(partition, wanted, messages):
                messages = self._behind(max(start, wanted), messages)
                if messages:
                    self._next = messages[-1].offset() + 1
                    yield messages
            else:
                yield []

    def pass_over_markers(self) -> None:
        """Advance to the client's position: the offsets before it that gave no message hold no record."""
        if self._partition is None or self._has_moved or self._ahead:
            return
        asked = [TopicPartition(self._partition.topic, self._partition.partition)]
        self._next = max(self._next, self._client.position(asked)[0].offset)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _is_believed(self, partition: KafkaTopicPartition, wanted: int, messages: list[Any]) -> bool:
        """Return whether the client speaks of its present place. If that is not sure, a new one is asked next."""
        if self._has_moved and not (messages and messages[0].offset() == wanted):
            self._renew(partition, wanted)
            return False
        self._has_moved = False
        return True

    def _behind(self, first: int, messages: list[Any]) -> list[Any]:
        """Return the messages from an offset on."""
        if not messages or messages[0].offset() >= first:
            return messages
        self._next = messages[-1].offset() + 1
        return [message for message in messages if message.offset() >= first]

    def _available(self, partition: KafkaTopicPartition, most: int) -> list[Any]:
        """Return messages that have come, without waiting."""
        client = self._client
        messages: list[Any] = client.consume(most, 0)
        if not messages and (first := client.poll(0)) is not None:  # this also serves what the client has to report
            messages = [first]
        if any(map(Message.error, messages)):
            messages = self._without_errors(partition, messages, None)
        if not messages and self._errors.refusal is not None:
            raise self._silence(partition, None)
        return messages

    def _move(self, partition: KafkaTopicPartition, offset: int) -> None:
        self._has_moved = self._partition is not None
        self._ahead = []
        self._client.assign([TopicPartition(partition.topic, partition.partition, offset)])
        self._partition, self._next = partition, offset

    def _renew(self, partition: KafkaTopicPartition, offset: int) -> None:
        """Begin at an offset with a client that has not been anywhere else."""
        self._client.close()
        self._client, self._partition = self._new_client(), None
        self._move(partition, offset)

    def _await_messages(self, partition: KafkaTopicPartition, stop: int) -> list[Any]:
        """Return messages, or none if the position has reached ``stop`` without any: markers of transactions have
        offsets, too."""
        wanted = min(BATCH_MESSAGES, stop - self._next)
        deadline = time.monotonic() + self._timeout_ms / 1000
        wait = _FIRST_WAIT_SECONDS
        while True:
            client = self._client  # not before the loop: behind lost records there is another
            messages: list[Any] = client.consume(wanted, 0)
            if not messages:
                first = client.poll(wait)
                messages = [] if first is None else [first, *client.consume(wanted - 1, 0)] if wanted > 1 else [first]
            if messages:
                if any(map(Message.error, messages)):
                    messages = self._without_errors(partition, messages, stop)
                if messages or self._next >= stop:
                    return messages
                continue
            position = client.position([TopicPartition(partition.topic, partition.partition)])[0].offset
            if position > self._next:
                self._next = position
                deadline = time.monotonic() + self._timeout_ms / 1000
                if position >= stop:
                    return []
            if self._errors.refusal is not None or time.monotonic() > deadline:
                raise self._silence(partition, stop)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _without_errors(self, partition: KafkaTopicPartition, messages: list[Any], stop: int | None) -> list[Any]:
        """Return the messages that are none; raises if one says that the partition cannot be read."""
        for message in messages:
            error = message.error()
            if error is None:
                continue
            code = error.code()
            if code == KafkaError._AUTO_OFFSET_RESET or code == KafkaError.OFFSET_OUT_OF_RANGE:
                self._skip_lost(partition, stop)
                return []
            if code in MISSING:
                raise ConnectorError(gone(partition, self._next))
            if code not in PASSING:
                doing = f"reading topic {partition.topic}, partition {partition.partition}, offset {self._next}"
                raise self._words.failure(doing, error)
        return [message for message in messages if message.error() is None]

    def _silence(self, partition: KafkaTopicPartition, stop: int | None) -> FlottError:
        """Return the failure to raise when nothing has come for too long: the partition may be gone."""
        try:
            found = self._client.list_topics(partition.topic, timeout=LAST_QUESTION_SECONDS).topics[partition.topic]
            if found.error is not None and found.error.code() in MISSING:
                return ConnectorError(gone(partition, self._next))
        except confluent_kafka.KafkaException:
            pass
        doing = f"reading topic {partition.topic}, partition {partition.partition}, from offset {self._next}"
        doing += "" if stop is None else f" to {stop}"
        return self._words.silence(doing, self._timeout_ms, self._errors)

    def _skip_lost(self, partition: KafkaTopicPartition, stop: int | None) -> None:
        """Go on behind records that the broker does not have any more, if the program says so."""
        asked = TopicPartition(partition.topic, partition.partition)
        try:
            oldest, end = self._client.get_watermark_offsets(asked, timeout=self._timeout_ms / 1000)
        except confluent_kafka.KafkaException as error:
            raise self._words.failure(f"listing the offsets of {partition}", error) from None
        found = f"Topic {partition.topic}, partition {partition.partition}: the job needs offset {self._next}, but the"
        found += f" broker has offsets from {oldest} to {end} only"
        if self._next > end:
            raise ConnectorError(
                f"{found}. The topic was deleted and created again, or the broker has lost records. Start the job"
                " without its old state."
            )
        if not self._skips_lost:
            raise ConnectorError(
                f"{found}: retention has deleted the records before it was read. To continue without them, set the"
                " property auto.offset.reset to earliest; to avoid it, raise retention.ms of the topic."
            )
        log.warning("%s. The records in between are lost; the job continues, as auto.offset.reset says.", found)
        self._renew(partition, oldest if stop is None else min(oldest, stop))


def _with_defaults(properties: Properties) -> dict[str, Any]:
    """Return Flott's values for what the program does not set."""
    defaults = {
        "group.id": "flott",  # librdkafka wants one; nothing is asked or told in its name
        "isolation.level": "read_uncommitted",
        "queued.max.messages.kbytes": str(AHEAD_KBYTES),
        "fetch.wait.max.ms": "100",  # a fetch for which there is nothing lasts so long, and a consumer moves after it
        "fetch.queue.backoff.ms": "5",  # how long it stops to fetch when enough is there: a second by default
        "reconnect.backoff.max.ms": "1000",
    }
    return {key: value for key, value in defaults.items() if key not in client_settings(properties, quiet=True)}


class ConsumerPool:
    """The idle consumers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._idle: dict[tuple[Properties, KafkaTopicPartition], PartitionConsumer] = {}  # the oldest first
        self._followed: WeakKeyDictionary[object, int] = WeakKeyDictionary()  #: partitions by reader
        atexit.register(self.close)

    def take(self, source: KafkaSource, partition: KafkaTopicPartition) -> PartitionConsumer:
        """Return the consumer that has read this partition, or one that is not needed, or a new one."""
        with self._lock:
            self._forget_if_forked()
            own = [key for key in self._idle if key[0] == source.properties]
            key = (source.properties, partition)
            if key not in self._idle and len(own) >= self._limit:
                key = own[0]
            found = self._idle.pop(key, None)
        return found if found is not None else PartitionConsumer(source)

    def give_back(self, source: KafkaSource, consumer: PartitionConsumer) -> None:
        """Keep a consumer for the next slice of its partition."""
        partition, _ = consumer.standing
        assert partition is not None
        with self._lock:
            self._forget_if_forked()
            replaced: list[PartitionConsumer | None] = [self._idle.pop((source.properties, partition), None)]
            self._idle[source.properties, partition] = consumer
            replaced += self._beyond_limit()
        for each in replaced:
            if each is not None:
                each.close()

    def follow(self, reader: object, partitions: int) -> None:
        """Keep consumers for the partitions that a reader follows from now on, beside those of other readers."""
        with self._lock:
            self._forget_if_forked()
            self._followed[reader] = partitions
            replaced = self._beyond_limit()
        for each in replaced:
            each.close()

    @property
    def _limit(self) -> int:
        return max(KEPT_CONSUMERS, sum(self._followed.values()))

    def _beyond_limit(self) -> list[PartitionConsumer]:
        """Take out the consumers that are too many, those first that were not used for longest."""
        return [self._idle.pop(next(iter(self._idle))) for _ in range(len(self._idle) - self._limit)]

    def close(self, properties: Properties | None = None) -> None:
        """Close the idle consumers with these properties, or all: they would go on fetching."""
        with self._lock:
            self._forget_if_forked()
            unwanted = [key for key in self._idle if properties is None or key[0] == properties]
            idle = [self._idle.pop(key) for key in unwanted]
        for consumer in idle:
            consumer.close()

    def _forget_if_forked(self) -> None:
        """Forget consumers of the parent process. They must not be closed here: their threads are not in this one."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._forgotten = self._idle  # referenced, so that their finalizers do not run
            self._idle = {}
            self._followed = WeakKeyDictionary()


POOL = ConsumerPool()
