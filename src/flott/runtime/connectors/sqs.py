"""Amazon SQS through boto3: what the specifications in ``flott.datastream.connectors.sqs`` create."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import Committer, SinkWriter, SplitEnumerator, WriterContext
from flott.datastream.connectors.sqs import SqsSink, SqsSource
from flott.runtime.connectors import aws
from flott.runtime.connectors.queues.client import QueueClient
from flott.runtime.connectors.queues.enumerator import QueueEnumerator
from flott.runtime.connectors.queues.message import Delivery
from flott.runtime.connectors.queues.publishing import (
    Publisher,
    PublisherSource,
    PublishingWriter,
    StagedCommitter,
    StagedWriter,
)

#: A request takes or gives at most so many messages; SQS allows no more.
REQUEST = 10
#: How many requests run at the same time.
THREADS = 8
#: How long an empty queue is left alone: at first, and after it was found empty often.
FIRST_IDLE_SECONDS, IDLE_SECONDS = 0.05, 1.0


class SqsClient(QueueClient):
    """Receives messages by several requests at a time, and keeps them hidden from others until they are deleted."""

    thread_safe = True

    def __init__(self, source: SqsSource):
        self._source = source
        self._doing = f"SQS queue {source.queue_url}"
        self._sqs: Any = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="flott-sqs")
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._idle_seconds = FIRST_IDLE_SECONDS
        self._held: dict[str, float] = {}  #: receipt handles, each with the time until which the message is hidden

    def open(self) -> None:
        self._sqs = aws.client("sqs", self._source.properties, "sqs")
        check_queue(self._source.queue_url, self._source.properties, self._sqs)

    def receive(self, room: int, seconds: float) -> list[Delivery]:
        with aws.explained(self._doing, self._source.properties):
            self._woken.clear()
            self._prolong()
            if room <= 0:
                self._woken.wait(seconds)
                return []
            found = self._request(min(room, REQUEST))
            if not found:
                # Not SQS's own waiting: a request that waits cannot be ended, and may still take messages.
                self._woken.wait(self._idle_seconds)
                self._idle_seconds = min(2 * self._idle_seconds, IDLE_SECONDS)
                return []
            self._idle_seconds = FIRST_IDLE_SECONDS
            if len(found) == min(room, REQUEST):  # there may be much more
                wanted = min(THREADS * 4, (room - len(found)) // REQUEST)
                for more in self._threads.map(lambda _: self._request(REQUEST), range(wanted)):
                    found += more
            return found

    def _request(self, count: int) -> list[Delivery]:
        answer = self._sqs.receive_message(
            QueueUrl=self._source.queue_url,
            MaxNumberOfMessages=count,
            VisibilityTimeout=self._source.visibility_timeout_seconds,
            AttributeNames=["SentTimestamp", "MessageGroupId"],
            MessageAttributeNames=["All"],
        )
        hidden_until = time.monotonic() + self._source.visibility_timeout_seconds
        found = []
        for raw in answer.get("Messages", ()):
            facts = raw.get("Attributes", {})
            group = facts.get("MessageGroupId")
            headers = {key: value.get("StringValue", "") for key, value in raw.get("MessageAttributes", {}).items()}
            moment = int(facts["SentTimestamp"]) if "SentTimestamp" in facts else None
            message = QueueMessage(raw["Body"].encode(), raw["MessageId"], group, moment, headers or None)
            found.append(Delivery(message, raw["ReceiptHandle"], group))
        with self._lock:
            self._held |= {delivery.tag: hidden_until for delivery in found}
        return found

    def _prolong(self) -> None:
        """Keep messages hidden of which half the time is over."""
        timeout, now = self._source.visibility_timeout_seconds, time.monotonic()
        with self._lock:
            due = [handle for handle, until in self._held.items() if until - now < timeout / 2]
        if due:
            self._change(due, timeout)
            with self._lock:
                self._held |= {handle: now + timeout for handle in due if handle in self._held}

    def _change(self, handles: Sequence[str], timeout: int) -> None:
        def change(some: Sequence[str]) -> None:
            entries = [
                {"Id": str(i), "ReceiptHandle": handle, "VisibilityTimeout": timeout} for i, handle in enumerate(some)
            ]
            self._sqs.change_message_visibility_batch(QueueUrl=self._source.queue_url, Entries=entries)

        list(self._threads.map(change, _parts(handles)))

    def acknowledge(self, tags: Sequence[str]) -> None:
        def delete(some: Sequence[str]) -> None:
            def send(entries: Sequence[Any]) -> list[tuple[Any, str]]:
                answer = self._sqs.delete_message_batch(QueueUrl=self._source.queue_url, Entries=entries)
                return _refused(entries, answer)

            aws.send_all([{"Id": str(i), "ReceiptHandle": tag} for i, tag in enumerate(some)], send, self._doing)

        try:
            with aws.explained(self._doing, self._source.properties):
                list(self._threads.map(delete, _parts(tags)))
        finally:
            with self._lock:  # a message that could not be deleted is not kept hidden either: it comes again
                for tag in tags:
                    self._held.pop(tag, None)

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Show messages to others again, now rather than when their time is over."""
        try:
            if self._held:
                self._change(list(self._held), 0)
        finally:
            self._threads.shutdown(wait=False)


class SqsPublisher(Publisher):
    """Sends messages in batches."""

    def __init__(self, sink: SqsSink):
        self._sink = sink
        self._doing = f"SQS queue {sink.queue_url}"
        self._sqs = aws.client("sqs", sink.properties, "sqs")
        self._threads = ThreadPoolExecutor(1 if sink.is_fifo else THREADS, thread_name_prefix="flott-sqs")

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        entries = [self._entry(number, message) for number, message in enumerate(messages)]
        with aws.explained(self._doing, self._sink.properties):  # of a FIFO queue, one batch after the other
            list(self._threads.map(lambda part: aws.send_all(part, self._send, self._doing), _parts(entries)))

    def _entry(self, number: int, message: QueueMessage) -> dict[str, Any]:
        entry: dict[str, Any] = {"Id": str(number % REQUEST), "MessageBody": message.value.decode()}
        if message.headers:
            entry["MessageAttributes"] = {
                key: {"DataType": "String", "StringValue": value} for key, value in message.headers.items()
            }
        if self._sink.is_fifo:
            entry["MessageGroupId"] = message.topic or "flott"
            # SQS takes 128 characters.
            entry["MessageDeduplicationId"] = blake2b((message.id or "").encode(), digest_size=32).hexdigest()
        return entry

    def _send(self, entries: Sequence[Any]) -> list[tuple[Any, str]]:
        return _refused(entries, self._sqs.send_message_batch(QueueUrl=self._sink.queue_url, Entries=entries))

    def flush(self) -> None:
        """Do nothing: each request is answered before the next."""

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _parts(entries: Sequence[Any]) -> list[Sequence[Any]]:
    return [entries[start : start + REQUEST] for start in range(0, len(entries), REQUEST)]


def _refused(entries: Sequence[Any], answer: Mapping[str, Any]) -> list[tuple[Any, str]]:
    reasons = {failed["Id"]: str(failed.get("Message") or failed.get("Code")) for failed in answer.get("Failed", ())}
    return [(entry, reasons[entry["Id"]]) for entry in entries if entry["Id"] in reasons]


def check_queue(url: str, properties: Mapping[str, str], sqs: Any = None) -> None:
    """Raise ProgramError if the queue does not exist or may not be used."""
    with aws.explained(f"SQS queue {url}", properties):
        (sqs or aws.client("sqs", properties, "sqs")).get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])


def create_enumerator(source: SqsSource) -> SplitEnumerator:
    """Return the enumerator of a source."""
    return QueueEnumerator(f"SQS queue {source.queue_url}", lambda: SqsClient(source), source.prefetch)


def create_writer(sink: SqsSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a sink."""
    if sink.is_fifo:
        return StagedWriter(f"SQS queue {sink.queue_url}", context, sink.serialization_schema)
    return PublishingWriter(context, sink.serialization_schema, _publishers(sink))


def create_committer(sink: SqsSink) -> Committer | None:
    """Return the committer of a sink to a FIFO queue."""
    return StagedCommitter(f"SQS queue {sink.queue_url}", _publishers(sink)) if sink.is_fifo else None


def _publishers(sink: SqsSink) -> PublisherSource:
    return PublisherSource(("sqs", sink.queue_url, sink.properties), lambda: SqsPublisher(sink))
