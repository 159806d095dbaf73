"""Operators that accept columns: in a chain, behind an exchange, and next to operators that accept rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flott.common import Types
from flott.common.typeinfo import TypeInformation
from flott.common.types import RowKind
from flott.datastream import DataStream
from flott.datastream.functions import KeyedProcessFunction
from flott.errors import FlottError
from flott.graph.column_key import ColumnKey
from flott.graph.job_graph import JobEdge, VertexId
from flott.graph.partitioning import Hash
from flott.graph.specs import KeySpec, OperatorSpec
from flott.runtime.epoch.exchange import ResultPartition
from flott.runtime.epoch.wire import decode_batch
from flott.runtime.managed_state.key_groups import TargetIndex
from flott.runtime.operators import arrow, build
from flott.runtime.operators.batch import Batch, ColumnBatch, Form, RowBatch
from flott.runtime.operators.operator import EpochScope, Operator, OperatorContext
from flott.testing.harness import in_process

pa = pytest.importorskip("pyarrow")
import pyarrow.compute as pc  # noqa: E402

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])

#: Class and size of every batch that an operator of these tests was given, by the operator's name.
seen: dict[str, list[tuple[type, int]]] = {}
#: How often rows were made of columns, or columns of rows.
conversions: list[str] = []


@dataclass(frozen=True)
class AddSpec(OperatorSpec):
    """Adds a number to the second column, for a whole batch at once."""

    name: str
    amount: int


class AddOperator(Operator):
    """What a vectorised operator looks like."""

    accepts = Form.COLUMNS
    takes_kinds = True

    def __init__(self, context: OperatorContext, spec: AddSpec):
        super().__init__(context)
        self._spec = spec

    def column_type(self, input_index: int) -> TypeInformation:
        return PAIR

    def process(self, batch: ColumnBatch) -> None:
        seen.setdefault(self._spec.name, []).append((type(batch), len(batch)))
        keys, amounts = batch.columns.columns
        added = pa.RecordBatch.from_arrays([keys, pc.add(amounts, self._spec.amount)], schema=batch.columns.schema)
        self.emit(ColumnBatch(added, batch.record_type, batch.timestamps, batch.kinds))


@dataclass(frozen=True)
class KindSpec(OperatorSpec):
    """Makes a changelog of rows."""


class KindOperator(Operator):
    def process(self, batch: RowBatch) -> None:
        self.emit(RowBatch(batch.values, batch.timestamps, bytes(value[0] % 4 for value in batch.values)))


@dataclass(frozen=True)
class ReadKindsSpec(OperatorSpec):
    """Puts the kind of each row into it."""


class ReadKindsOperator(Operator):
    accepts = Form.EITHER
    takes_kinds = True

    def process(self, batch: Batch) -> None:
        rows = batch.to_rows()
        kinds = rows.kinds or bytes(len(rows))
        self.emit(RowBatch([(*v, str(RowKind(k))) for v, k in zip(rows.values, kinds, strict=True)], rows.timestamps))


class Where(KeyedProcessFunction[Any, Any, Any]):
    """Says which subtask has which key."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.subtask


@pytest.fixture(autouse=True)
def operators(monkeypatch: pytest.MonkeyPatch) -> None:
    builders: dict[type[OperatorSpec], Callable[[OperatorContext, Any], Operator]] = {
        AddSpec: AddOperator,
        KindSpec: lambda context, _: KindOperator(context),
        ReadKindsSpec: lambda context, _: ReadKindsOperator(context),
    }
    for spec, builder in builders.items():
        monkeypatch.setitem(build._BUILDERS, spec, builder)
    for name in ("rows_of", "columns_of"):
        convert = getattr(arrow, name)
        monkeypatch.setattr(
            arrow, name, lambda *arguments, _call=convert, _name=name: (conversions.append(_name), _call(*arguments))[1]
        )
    seen.clear()
    conversions.clear()


def pairs(parallelism: int = 2, count: int = 100) -> DataStream[Any]:
    env = in_process(parallelism)
    return env.from_collection([(i % 7, i) for i in range(count)], PAIR)


def add(stream: DataStream[Any], name: str, amount: int) -> DataStream[Any]:
    return stream._apply(name, AddSpec(name, amount), PAIR)


def collected(stream: DataStream[Any]) -> list[Any]:
    with stream.execute_and_collect() as results:
        return sorted(results)


EXPECTED = sorted((i % 7, i + 11) for i in range(100))


def test_columns_pass_an_exchange_without_becoming_rows() -> None:
    sent = add(pairs(), "before", 1).rebalance()
    assert collected(add(sent, "behind", 10)) == EXPECTED
    assert sum(size for _, size in seen["behind"]) == 100
    assert {kind for name in ("before", "behind") for kind, _ in seen[name]} == {ColumnBatch}
    # Rows become columns where they enter the first operator and rows again in front of the sink, nowhere else.
    assert conversions.count("columns_of") == len(seen["before"])
    assert conversions.count("rows_of") == len(seen["behind"])
    assert conversions.index("rows_of") >= len(seen["before"])


def test_columns_are_distributed_by_a_key_column_without_becoming_rows() -> None:
    keyed = add(pairs(), "before", 1).key_by(lambda pair: pair[0])
    assert keyed._key.getter is not None
    assert collected(keyed._apply("behind", AddSpec("behind", 10), PAIR)) == EXPECTED
    assert conversions.count("columns_of") == len(seen["before"])
    assert conversions.count("rows_of") == len(seen["behind"])


def test_the_same_keys_meet_whether_they_are_read_from_rows_or_from_columns() -> None:
    def keys_of_subtasks(stream: DataStream[Any]) -> list[Any]:
        return collected(stream.key_by(lambda pair: pair[0]).process(Where(), Types.TUPLE([Types.LONG()] * 2)))

    assert keys_of_subtasks(add(pairs(), "before", 0)) == keys_of_subtasks(pairs())


def test_columns_are_cut_by_key_columns_without_a_key_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TargetIndex, "__missing__", lambda index, key: pytest.fail(f"{key} was looked up"))
    changes = add(pairs(), "before", 1)
    keyed = changes.key_by(ColumnKey((0, 1)))
    assert isinstance(keyed._key.selector, ColumnKey)
    assert collected(keyed._apply("behind", AddSpec("behind", 10), PAIR)) == EXPECTED
    assert {kind for kind, _ in seen["behind"]} == {ColumnBatch}


def test_columns_and_rows_of_one_key_meet_in_one_subtask() -> None:
    def subtasks(stream: DataStream[Any]) -> list[Any]:
        return collected(stream.key_by(ColumnKey((0,))).process(Where(), Types.TUPLE([Types.LONG()] * 2)))

    assert subtasks(add(pairs(), "before", 0)) == subtasks(pairs())


def test_large_columns_are_cut_into_buffers_and_small_ones_are_joined() -> None:
    sent: list[Any] = []
    partition = _partition(sent.append)
    narrow = pa.RecordBatch.from_arrays([pa.array(range(200_000)), pa.array(range(200_000))], ["f0", "f1"])
    partition.emit(ColumnBatch(narrow, PAIR))
    partition.flush()
    sizes = [len(row[-1]) for row in sent]
    assert 3_200_000 < sum(sizes) < 3_400_000
    assert 60_000 < max(sizes) < 300_000
    sent.clear()
    for start in range(1000):
        partition.emit(ColumnBatch(narrow.slice(start * 10, 10), PAIR))
    partition.flush()
    assert len(sent) == 2  # one for each target, of about 80 kB
    received = [decode_batch(row[-1])[0].to_rows().values for row in sorted(sent, key=lambda row: row[5])]
    assert sorted(pair for part in received for pair in part) == [(n, n) for n in range(10_000)]


def _partition(send: Callable[[Any], None]) -> ResultPartition:
    edge = JobEdge(0, VertexId("a"), 0, VertexId("b"), 0, Hash(KeySpec(ColumnKey((0,)))))
    return ResultPartition(
        edge=edge,
        sender=None,  # type: ignore[arg-type]  # only failures name it
        subtask=0,
        parallelism=1,
        target_parallelism=2,
        target_max_parallelism=128,
        target_stage=1,
        scope=EpochScope(),
        max_records=1024,
        send=send,
    )


def test_operators_of_a_chain_hand_columns_to_each_other() -> None:
    env_stream = pairs(parallelism=1)
    assert collected(add(add(env_stream, "first", 1), "second", 10)) == EXPECTED
    assert conversions == ["columns_of", "rows_of"] * len(seen["first"])


@pytest.mark.parametrize("how", ["key_by", "broadcast", "custom", "global", "forward"])
def test_columns_take_every_kind_of_edge(how: str) -> None:
    stream = add(pairs(), "before", 1)
    redistributed: dict[str, Callable[[], DataStream[Any]]] = {
        "key_by": lambda: stream.key_by(lambda pair: pair[0]).map(lambda pair: pair, PAIR),
        "broadcast": lambda: stream.broadcast().map(lambda pair: pair, PAIR).set_parallelism(2),
        "custom": lambda: stream.partition_custom(lambda key, n: key % n, lambda pair: pair[0]),
        "global": lambda: stream.rescale(),
        "forward": lambda: stream.disable_chaining().map(lambda pair: pair, PAIR),
    }
    times = 2 if how == "broadcast" else 1
    assert collected(add(redistributed[how](), "behind", 10)) == sorted(EXPECTED * times)


def test_rows_and_columns_of_two_inputs_meet_in_one_edge() -> None:
    rows = pairs()
    columns = add(rows.map(lambda pair: (pair[0], -pair[1]), PAIR), "before", 0)
    both = rows.union(columns).rebalance().map(lambda pair: pair)
    assert collected(both) == sorted((i % 7, sign * i) for i in range(100) for sign in (1, -1))


def test_row_kinds_travel_with_rows_and_with_columns() -> None:
    changes = pairs()._apply("kinds", KindSpec(), PAIR)
    expected = sorted((i % 7, i, str(RowKind(i % 7 % 4))) for i in range(100))
    by_key = changes.partition_custom(lambda key, n: key % n, lambda pair: pair[0])
    assert collected(by_key._apply("read", ReadKindsSpec())) == expected
    changes = pairs()._apply("kinds", KindSpec(), PAIR)
    assert collected(add(changes.rebalance(), "columns", 0).rebalance()._apply("read", ReadKindsSpec())) == expected


def test_an_operator_that_takes_inserts_only_refuses_a_changelog() -> None:
    changes = pairs()._apply("kinds", KindSpec(), PAIR)
    with pytest.raises(FlottError, match="takes inserts only"):
        collected(changes.map(lambda pair: pair))
