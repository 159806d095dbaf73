"""The buffer of changes, the cutting into requests, retries and rejected changes: no server needed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.datastream.connectors._stores import BulkLimits, RetryPolicy
from flott.datastream.connectors.base import BadRecord, OnError, WriterContext
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.stores.actions import (
    DONE,
    SUPERSEDED,
    Action,
    ActionOutcome,
    ActionVerdict,
    Unavailable,
    version_of,
)
from flott.runtime.connectors.stores.buffer import ChangeBuffer, requests
from flott.runtime.connectors.stores.delivery import deliver
from flott.runtime.connectors.stores.rejections import dead_letter_committer
from flott.runtime.connectors.stores.writer import Store, StoreWriter
from flott.testing.sinks import Ledger, LedgerSink, commit_permit


class _Hand:
    """A clock that does not wait, and remembers for how long it was asked to."""

    def __init__(self) -> None:
        self.delays: list[int] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        self.delays.append(delay_ms)
        return False


CONTEXT = WriterContext(0, 1, 7, "attempt", "job", "op", now_ms=1000)


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(1, 40)), max_size=60),
    st.integers(1, 10),
    st.integers(1, 100),
)
def test_the_buffer_sends_the_last_change_of_each_key_in_requests_within_their_limits(changes, actions, size):
    limits = BulkLimits(max_actions=actions, max_bytes=size)
    buffer = ChangeBuffer(limits)
    buffer.extend([Action(key, number, size) for number, (key, size) in enumerate(changes)])
    sent = list(buffer.drain())
    assert all(len(request) <= actions for request in sent)
    assert all(len(request) == 1 or sum(action.size for action in request) <= size for request in sent)
    last = {key: number for number, (key, _) in enumerate(changes) if key is not None}
    added = [number for number, (key, _) in enumerate(changes) if key is None]
    flat = [action for request in sent for action in request]
    assert {action.key: action.body for action in flat if action.key is not None} == last
    assert [action.body for action in flat if action.key is None] == added
    assert len(flat) == len(last) + len(added)
    assert len(buffer) == 0
    assert list(buffer.drain()) == []


def test_the_buffer_counts_only_what_it_keeps():
    buffer = ChangeBuffer(BulkLimits(buffer_bytes=100))
    buffer.extend([Action("k", number, 60) for number in range(10)])
    assert not buffer.is_full
    buffer.extend([Action("other", 0, 60)])
    assert buffer.is_full


def test_requests_of_nothing_are_none():
    assert list(requests([], BulkLimits())) == []


@given(st.integers(1, 100), st.floats(0, 1), st.floats(1, 10), st.integers(0, 1000), st.floats(0, 1))
def test_delays_grow_up_to_a_limit_and_keep_their_share(attempts, chance, multiplier, initial, jitter):
    policy = RetryPolicy(initial_delay_ms=initial, max_delay_ms=5000, multiplier=multiplier, jitter=jitter)
    assert 0 <= policy.delay_ms(attempts, chance) <= policy.delay_ms(attempts, 0.0) <= 5000
    assert policy.delay_ms(attempts, 0.0) <= policy.delay_ms(attempts + 1, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [{"max_attempts": 0}, {"initial_delay_ms": -1}, {"initial_delay_ms": 20, "max_delay_ms": 10}, {"jitter": 2}],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ProgramError):
        RetryPolicy(**wrong)


def test_only_what_may_succeed_is_sent_again_after_growing_delays():
    sent: list[list[str]] = []
    clock = _Hand()

    def send(actions: list[str]) -> Sequence[ActionOutcome]:
        sent.append(actions)
        if len(sent) == 1:
            raise Unavailable("503 Service Unavailable", retry_after_ms=7000)
        busy, bad = ActionOutcome(ActionVerdict.RETRY, "429"), ActionOutcome(ActionVerdict.REJECTED, "no such field")
        if len(sent) == 2:
            return [DONE, busy, bad, SUPERSEDED]
        return [DONE]

    policy = RetryPolicy(initial_delay_ms=100, jitter=0)
    assert deliver(["a", "b", "c", "d"], send, policy, clock, Random(0), "the store") == [("c", "no such field")]
    assert sent == [["a", "b", "c", "d"], ["a", "b", "c", "d"], ["b"]]
    assert clock.delays == [7000, 200]


def test_patience_ends_with_an_error_that_says_what_the_store_said():
    def send(actions: list[str]) -> Sequence[ActionOutcome]:
        return [ActionOutcome(ActionVerdict.RETRY, "queue full")] * len(actions)

    clock = _Hand()
    with pytest.raises(ConnectorError, match=r"the store did not accept 2 changes in 3 attempts; it last said: queue"):
        deliver(["a", "b"], send, RetryPolicy(max_attempts=3), clock, Random(0), "the store")
    assert len(clock.delays) == 2


@given(st.integers(0, 2**42), st.integers(0, 2**21), st.integers(0, 2**21))
def test_versions_of_a_later_epoch_are_higher_and_fit_into_63_bits(now_ms, flush, other):
    assert version_of(now_ms, flush) < version_of(now_ms + 1, other) < 2**63


class _Shelf(Store[Any]):
    """A store in memory that rejects what is negative."""

    name = "the shelf"

    def __init__(self) -> None:
        self.requests: list[tuple[int, list[Any]]] = []
        self.closed = 0

    def actions(self, values: Sequence[Any]) -> Iterable[Action]:
        return [Action(key, number, 10) for key, number in values]

    def send(self, actions: list[Action], version: int) -> Sequence[ActionOutcome]:
        self.requests.append((version, [(action.key, action.body) for action in actions]))
        return [
            DONE if action.body >= 0 else ActionOutcome(ActionVerdict.REJECTED, "is negative") for action in actions
        ]

    def rejected(self, action: Action, reason: str) -> BadRecord:
        return BadRecord(f"key {action.key}", reason, str(action.body).encode())

    def close(self) -> None:
        self.closed += 1


def test_the_writer_sends_at_the_end_of_the_epoch_or_when_its_buffer_is_full():
    shelf = _Shelf()
    writer = StoreWriter(shelf, CONTEXT, BulkLimits(buffer_actions=3), RetryPolicy(), OnError.fail(), _Hand())
    writer.write([("a", 1), ("a", 2)], None)
    assert shelf.requests == []
    writer.write([("b", 1), ("c", 1)], None)
    writer.write([("a", 3)], None)
    assert writer.prepare_commit() == []
    writer.close()
    assert shelf.requests == [
        (version_of(1000, 0), [("a", 2), ("b", 1), ("c", 1)]),
        (version_of(1000, 1), [("a", 3)]),
    ]
    assert shelf.closed == 1


def test_a_rejected_change_fails_with_its_key_and_reason_or_is_skipped():
    writer = StoreWriter(_Shelf(), CONTEXT, BulkLimits(), RetryPolicy(), OnError.fail(), _Hand())
    writer.write([("a", -1)], None)
    with pytest.raises(ConnectorError, match="the shelf rejected key a: is negative"):
        writer.prepare_commit()
    skipping = StoreWriter(_Shelf(), CONTEXT, BulkLimits(), RetryPolicy(), OnError.skip(), _Hand())
    skipping.write([("a", -1), ("b", 1)], None)
    assert skipping.prepare_commit() == []


def test_dead_letters_are_published_when_the_checkpoint_is_and_only_once():
    ledger = Ledger("dead letters of the shelf")
    on_rejected = OnError.dead_letter(LedgerSink(ledger))
    writer = StoreWriter(_Shelf(), CONTEXT, BulkLimits(), RetryPolicy(), on_rejected, _Hand())
    writer.write([("a", -1), ("b", 1)], None)
    committables = writer.prepare_commit()
    writer.close()
    assert ledger.records == []
    for replay in (False, True):
        committer = dead_letter_committer(on_rejected)
        assert committer is not None
        committer.open("job", "op")
        committer.commit(commit_permit(7, 0, replay=replay), committables)
    assert ledger.records == [BadRecord("key a", "is negative", b"-1")]
