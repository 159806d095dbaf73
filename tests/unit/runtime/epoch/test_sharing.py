"""Records that are handed to tasks of the same process as they are: only those that cannot change."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import WatermarkStrategy
from flott.common.types import Row
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.graph.job_graph import JobEdge, VertexId
from flott.graph.partitioning import Broadcast, Forward, Hash, Partitioning
from flott.graph.specs import KeySpec
from flott.runtime.epoch.exchange import BUFFER_BYTES, ResultPartition
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.epoch.sharing import cannot_change
from flott.runtime.epoch.wire import decode_batch
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.operator import EpochScope
from flott.testing.harness import in_process, live
from flott.testing.sources import EndOfEpoch, ScriptedSource


class Point(NamedTuple):
    x: int
    name: str


class Labelled(namedtuple("Labelled", "x")):  # a subclass without __slots__ takes attributes
    pass


class Color(Enum):
    RED = 1


@dataclass(frozen=True)
class Frozen:
    values: list[int]


ATOMS = st.one_of(st.integers(), st.text(), st.floats(), st.binary(), st.booleans(), st.none(), st.decimals())
CONSTANTS = st.recursive(ATOMS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
CHANGEABLE = st.one_of(
    st.lists(st.integers()), st.dictionaries(st.integers(), st.integers()), st.sets(st.integers()), st.just(Row(1)),
    st.just(Frozen([1])), st.just(bytearray()), st.just(Labelled(1)), st.just(object()),
)  # fmt: skip


@given(st.lists(CONSTANTS, max_size=8), st.integers(0, 8), CHANGEABLE, st.integers(0, 3))
def test_a_batch_with_one_value_that_can_change_is_not_shared(
    constants: list[Any], place: int, changeable: Any, depth: int
) -> None:
    for _ in range(depth):
        changeable = (0, changeable)
    assert not cannot_change([*constants[:place], changeable, *constants[place:]])


@given(st.lists(st.one_of(ATOMS, st.tuples(ATOMS, st.tuples(ATOMS, ATOMS))), max_size=8))
def test_numbers_texts_and_tuples_of_them_are_shared(values: list[Any]) -> None:
    assert cannot_change(values)
    assert cannot_change([*values, Point(1, "a"), Color.RED, Decimal(1)])


def test_what_a_named_tuple_holds_counts() -> None:
    assert not cannot_change([Point([1], "a")])  # type: ignore[arg-type]


# --- the exchange ----------------------------------------------------------------------------------------------------


def partition(
    partitioning: Partitioning, send: Callable[[Any], None], here: Callable[[int], bool], max_records: int = 4
) -> ResultPartition:
    made = ResultPartition(
        edge=JobEdge(0, VertexId("a"), 0, VertexId("b"), 0, partitioning),
        sender=None,  # type: ignore[arg-type]  # only failures name it
        subtask=0,
        parallelism=1,
        target_parallelism=1 if isinstance(partitioning, Forward) else 2,
        target_max_parallelism=128,
        target_stage=1,
        scope=EpochScope(),
        max_records=max_records,
        send=send,
        hands_over=here,
    )
    made.begin()
    return made


@pytest.mark.parametrize("partitioning", [Hash(KeySpec(itemgetter(0))), Broadcast()])
def test_only_the_targets_of_this_process_get_records_as_they_are(partitioning: Partitioning) -> None:
    sent: list[Any] = []
    records = [(n, f"text {n}") for n in range(40)]
    made = partition(partitioning, sent.append, here=lambda target: target == 1)
    for start in range(0, 40, 10):
        made.emit(RowBatch(records[start : start + 10], list(range(start, start + 10))))
    made.flush()
    found: dict[int, list[Any]] = {0: [], 1: []}
    for _, target, _, _, _, _, payload in sent:
        assert isinstance(payload, bytes) == (target == 0)
        batch, _ = decode_batch(payload) if isinstance(payload, bytes) else payload
        rows = batch.to_rows()
        assert rows.timestamps == [records.index(value) for value in rows.values]
        found[target] += rows.values
    assert all(any(value is record for record in records) for value in found[1])
    if isinstance(partitioning, Broadcast):
        assert found == {0: records, 1: records}
    else:
        assert sorted(found[0] + found[1]) == records
        assert min(len(found[0]), len(found[1])) > 0


def test_a_buffer_that_was_handed_over_does_not_change_with_what_is_sent_later() -> None:
    sent: list[Any] = []
    made = partition(Hash(KeySpec(itemgetter(0))), sent.append, here=lambda target: True)
    values, stamps = [(1, 1), (1, 2)], [1, 2]
    made.emit(RowBatch(values, stamps))
    made.flush()
    made.emit(RowBatch([(1, 3)], [3]))
    made.flush()
    values.clear()
    stamps.clear()
    assert [(row[-1][0].values, row[-1][0].timestamps) for row in sent] == [([(1, 1), (1, 2)], [1, 2]), ([(1, 3)], [3])]


@pytest.mark.parametrize("here", [True, False])
def test_buffers_of_large_records_are_small_handed_over_or_not(here: bool) -> None:
    sent: list[Any] = []
    made = partition(Forward(), sent.append, here=lambda target: here, max_records=1024)
    for n in range(200):
        made.emit(RowBatch([(n, "x" * (BUFFER_BYTES // 10)) for _ in range(10)]))
    made.flush()
    sizes = [len((row[-1] if here else decode_batch(row[-1]))[0]) for row in sent]
    assert sum(sizes) == 2000
    assert max(sizes[1:]) <= 10


# --- in a job --------------------------------------------------------------------------------------------------------


class Growing(KeyedProcessFunction[Any, Any, Any]):
    """Changes one list in its state, and emits it each time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.numbers = runtime_context.get_state(ValueStateDescriptor("numbers"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        numbers = self.numbers.value() or []
        numbers.append(value)
        self.numbers.update(numbers)
        yield numbers


class Previous(KeyedProcessFunction[Any, Any, Any]):
    """Emits the record before, which it keeps in its state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield list(self.last.value() or [])
        self.last.update(value)


@pytest.mark.parametrize("mode", ["epochs", "pipelined"])
def test_a_record_that_its_sender_changes_afterwards_is_not_changed_at_its_receiver(tmp_path: Path, mode: str) -> None:
    assert _previous(tmp_path, mode) == [[], [0], [0, 1], [0, 1, 2]]


def test_with_object_reuse_it_is_the_same_object(tmp_path: Path) -> None:
    assert _previous(tmp_path, "pipelined", TaskSettings(object_reuse=True)) == [
        [], [0, 1], [0, 1, 2], [0, 1, 2, 3],
    ]  # fmt: skip


def _previous(tmp_path: Path, mode: str, settings: TaskSettings | None = None) -> list[list[int]]:
    found: list[list[int]] = []
    env = in_process(1, execution__mode=mode, execution__checkpointing__interval="1 h")
    script = [n for number in range(4) for n in (number, EndOfEpoch())]
    numbers = env.from_source(ScriptedSource(script), WatermarkStrategy.no_watermarks(), "numbers")
    grown = numbers.key_by(lambda n: 0).process(Growing())
    grown.key_by(lambda numbers: 0).process(Previous()).sink_to(CallableSink(found.append))
    live(env, tmp_path, settings=settings)
    return found
