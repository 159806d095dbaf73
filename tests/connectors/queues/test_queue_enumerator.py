"""The enumerator of message queues, with a broker in memory: crashes at any step, lost connections, redelivery."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from json import dumps, loads
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import OnError, Slice, SlicePlan, SliceRequest
from flott.errors import BadRecordError, ConnectorError, ProgramError, StateError
from flott.runtime.connectors.queues import receiver as receiving
from flott.runtime.connectors.queues.enumerator import QueueEnumerator, deal
from flott.runtime.connectors.queues.message import Delivery, pack, unpack
from flott.runtime.connectors.queues.reader import QueueReader
from flott.runtime.connectors.queues.recent_ids import RecentIds
from tests.connectors.queues.fake_broker import FakeBroker, FakeClient

WATCHDOG_SECONDS = 120


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "RECONNECT_SECONDS", (0.001,))


def enumerator_of(broker: FakeBroker, state: object = None, prefetch: int = 50) -> QueueEnumerator:
    enumerator = QueueEnumerator("test queue", lambda: FakeClient(broker, prefetch), prefetch)
    enumerator.open()
    if state is not None:
        enumerator.restore(loads(dumps(state)))
    enumerator.acknowledge()
    return enumerator


def request(records: int = 1000, parallelism: int = 2) -> SliceRequest:
    return SliceRequest(records, parallelism, now_ms=0)


def durable(plan: SlicePlan) -> SlicePlan:
    return SlicePlan(tuple(Slice(**part) for part in loads(dumps([asdict(part) for part in plan.slices]))))


def read(plan: SlicePlan) -> list[str]:
    reader = QueueReader("test queue", SimpleStringSchema(), OnError.fail())
    return [record for part in plan.slices for record in reader.read(part)]


def reached(plan: SlicePlan) -> dict[str, object]:
    return {part.split: part.stop for part in plan.slices}


def plan_some(enumerator: QueueEnumerator, wanted: SliceRequest, stop: Callable[[], bool] = lambda: False) -> SlicePlan:
    """Ask for a plan until it holds something. A plan that holds nothing must change nothing."""
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while time.monotonic() < deadline:
        before = enumerator.snapshot()
        plan = enumerator.plan(wanted)
        assert enumerator.snapshot() == before
        if plan.slices or stop():
            return plan
        time.sleep(0.0005)
    raise AssertionError("nothing arrived")


def messages(count: int, ids: bool = True) -> list[QueueMessage]:
    return [QueueMessage(str(n).encode(), f"id-{n}" if ids else None) for n in range(count)]


@given(seed=st.integers(0, 2**32), ids=st.booleans())
def test_each_message_takes_effect_once_or_at_least_once_whatever_dies(seed: int, ids: bool) -> None:
    rng = Random(seed)
    broker, count = FakeBroker(), rng.randint(1, 60)
    broker.send(*messages(count, ids))
    state: object = None
    fixed: SlicePlan | None = None  # the durable plan of the next epoch
    effects: list[str] = []  # of completed checkpoints
    enumerator = enumerator_of(broker, state)

    def crash() -> None:
        nonlocal enumerator
        if rng.random() < 0.5:
            broker.disconnect()  # SIGKILL: nobody closes anything
        enumerator.close()
        enumerator = enumerator_of(broker, state)

    def done() -> bool:
        return not broker.queue and not broker.unacknowledged

    for _ in range(500):
        if done() and fixed is None:
            break
        if rng.random() < 0.1:
            broker.disconnect()
        if fixed is None:
            plan = plan_some(enumerator, request(rng.randint(1, 30), rng.randint(1, 3)), done)
            if rng.random() < 0.1:
                crash()  # before the plan is durable
                continue
            if not plan.slices:
                continue
            fixed = durable(plan)
        if rng.random() < 0.2:
            crash()  # the epoch fails, its plan is durable
            continue
        records = read(fixed)
        enumerator.advance(fixed, reached(fixed))
        if rng.random() < 0.1:
            crash()  # before the checkpoint is complete
            continue
        state, fixed = enumerator.snapshot(), None
        effects += records
        if rng.random() < 0.2:
            crash()  # after the checkpoint, before the acknowledgement
            continue
        broker.lose_acknowledgements = rng.random() < 0.1
        with suppress(ConnectorError):  # the job logs it and goes on
            enumerator.acknowledge()
    enumerator.close()
    assert done(), "all messages were acknowledged in the end"
    found, expected = Counter(effects), Counter(str(n) for n in range(count))
    assert found >= expected, "a message is lost"
    if ids:
        assert found == expected, "a message took effect twice"


def test_messages_are_not_acknowledged_before_their_checkpoint() -> None:
    broker = FakeBroker()
    broker.send(*messages(3))
    enumerator = enumerator_of(broker)
    plan = plan_some(enumerator, request())
    enumerator.advance(plan, reached(plan))
    assert broker.acknowledged == []
    enumerator.snapshot()
    enumerator.acknowledge()
    assert len(broker.acknowledged) == len(plan_values(plan))
    enumerator.close()


def plan_values(plan: SlicePlan) -> list[bytes]:
    return [message.value for part in plan.slices for message in unpack(part.detail)]


def test_a_plan_that_was_not_used_is_proposed_again() -> None:
    broker = FakeBroker()
    broker.send(*messages(5))
    enumerator = enumerator_of(broker)
    first = plan_some(enumerator, request())
    again = enumerator.plan(request())
    assert plan_values(again)[: len(plan_values(first))] == plan_values(first)
    enumerator.close()


def test_the_messages_of_a_durable_plan_are_dropped_when_they_come_again() -> None:
    broker = FakeBroker()
    broker.send(*messages(5))
    enumerator = enumerator_of(broker)
    plan = durable(plan_some(enumerator, request(5)))
    taken = len(plan_values(plan))
    broker.disconnect()
    enumerator.close()
    successor = enumerator_of(broker)
    successor.advance(plan, reached(plan))
    rest = plan_some(successor, request(), lambda: len(broker.acknowledged) == 5)
    assert len(plan_values(rest)) == 5 - taken
    assert [m.value for m in broker.acknowledged] == [str(n).encode() for n in range(taken)]
    successor.close()


def test_a_message_that_is_sent_twice_with_one_id_is_taken_once() -> None:
    broker = FakeBroker()
    broker.send(QueueMessage(b"a", "1"), QueueMessage(b"a", "1"), QueueMessage(b"b", "2"))
    enumerator = enumerator_of(broker)
    values: list[bytes] = []
    while len(broker.acknowledged) < 3:
        plan = plan_some(enumerator, request(), lambda: len(broker.acknowledged) == 3)
        values += plan_values(plan)
        enumerator.advance(plan, reached(plan))
        enumerator.acknowledge()
    assert values == [b"a", b"b"]
    enumerator.close()


def test_no_more_than_the_prefetch_count_is_received_without_an_acknowledgement() -> None:
    broker = FakeBroker()
    broker.send(*messages(100))
    enumerator = enumerator_of(broker, prefetch=10)  # the fake client asserts the limit
    total = 0
    while total < 100:
        plan = plan_some(enumerator, request())
        total += len(plan_values(plan))
        enumerator.advance(plan, reached(plan))
        enumerator.acknowledge()
    assert len(broker.acknowledged) == 100
    enumerator.close()


def test_a_broker_that_stays_away_fails_the_epoch_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "PATIENCE_SECONDS", 0.0)
    broker = FakeBroker()
    enumerator = enumerator_of(broker)
    broker.away = True
    broker.disconnect()
    with pytest.raises(ConnectorError, match=r"test queue cannot be reached for 0 s: .*Check that the broker runs"):
        plan_some(enumerator, request())
    enumerator.close()


def test_a_broker_that_comes_back_is_used_again() -> None:
    broker = FakeBroker()
    enumerator = enumerator_of(broker)
    broker.away = True
    broker.disconnect()
    broker.send(*messages(1))
    assert not enumerator.plan(request()).slices
    broker.away = False
    assert plan_values(plan_some(enumerator, request())) == [b"0"]
    enumerator.close()


def test_an_error_of_the_program_is_raised_by_the_plan() -> None:
    broker = FakeBroker()

    class Refused(FakeClient):
        def receive(self, room: int, seconds: float) -> list[Delivery]:
            raise ProgramError("The user may not read.")

    enumerator = QueueEnumerator("test queue", lambda: Refused(broker, 10), 10)
    enumerator.open()
    with pytest.raises(ProgramError, match="may not read"):
        plan_some(enumerator, request())
    enumerator.close()


def test_a_newer_state_is_refused() -> None:
    enumerator = QueueEnumerator("test queue", lambda: FakeClient(FakeBroker(), 10), 10)
    with pytest.raises(StateError, match="version 2"):
        enumerator.restore({"version": 2, "next": 0, "recent": ""})


# --- the parts --------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=5)), st.integers(1, 10))
def test_the_window_of_ids_holds_the_newest(ids: list[str], size: int) -> None:
    recent = RecentIds(size)
    recent.add(ids)
    newest = list(dict.fromkeys(reversed(ids)))
    again = RecentIds(size)
    again.restore(recent.snapshot())
    for window in (recent, again):
        assert len(window) == min(size, len(newest))
        assert all(ident in window for ident in newest[:size])
        assert not any(ident in window for ident in newest[size:])


@given(
    st.lists(
        st.builds(
            QueueMessage,
            st.binary(max_size=300),
            st.none() | st.text(),
            st.none() | st.text(),
            st.none() | st.integers(0, 2**40),
            st.none() | st.dictionaries(st.text(), st.text(), max_size=2),
        )
    )
)
def test_packed_messages_survive_json(some: list[QueueMessage]) -> None:
    assert unpack(loads(dumps(pack(some)))) == some


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=1000), st.integers(1, 8))
def test_messages_with_the_same_order_key_stay_together_and_in_order(keys: list[str], parallelism: int) -> None:
    deliveries = [Delivery(QueueMessage(str(n).encode()), n, key) for n, key in enumerate(keys)]
    parts = deal(deliveries, parallelism)
    assert sorted(d.tag for part in parts for d in part) == list(range(len(keys)))
    for part in parts:
        assert [d.tag for d in part] == sorted(d.tag for d in part)
    for key in set(keys):
        assert sum(any(d.order_key == key for d in part) for part in parts) == 1


def test_all_subtasks_get_work() -> None:
    deliveries = [Delivery(QueueMessage(b""), n) for n in range(1000)]
    assert [len(part) for part in deal(deliveries, 4)] == [250] * 4
    assert [len(part) for part in deal(deliveries[:10], 4)] == [10]


def test_a_message_that_cannot_be_decoded_is_named() -> None:
    part = Slice("1", 0, 2, detail=pack([QueueMessage(b"fine"), QueueMessage(b"\xff", "id-7", "orders")]))
    reader = QueueReader("test queue", SimpleStringSchema(), OnError.fail())
    with pytest.raises(BadRecordError, match=r"test queue, topic orders, message id-7: the record cannot be decoded"):
        list(reader.read(part))
    lenient = QueueReader("test queue", SimpleStringSchema(), OnError.skip())
    (batch,) = lenient.read_batches(part)
    assert batch.values == ["fine"]
    assert batch.rejected is not None
    assert [bad.place for bad in batch.rejected] == ["test queue, topic orders, message id-7"]
