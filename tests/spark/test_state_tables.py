"""State as DataFrames, read by Spark tasks; savepoints made of DataFrames, and jobs on Spark that start from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import flott.state
from flott.common import Instant, Time, Types
from flott.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.state import StateSnapshot, new_savepoint
from tests.spark.conftest import MakeEnvironment
from tests.unit.snapshots.snapshots import ledger, orders, snapshot_of


@pytest.fixture(scope="module")
def session(spark: SparkContext) -> SparkSession:
    return SparkSession.builder.getOrCreate()


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> StateSnapshot:
    return snapshot_of(ledger, tmp_path_factory.mktemp("job"))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_every_kind_of_keyed_state_is_a_dataframe(session: SparkSession, snapshot: StateSnapshot) -> None:
    operator = snapshot.operator("ledger")
    total = operator.state("total").to_dataframe(session)
    assert total.dtypes == [("key", "string"), ("value", "bigint")]
    assert rows(total) == [("alice", 9), ("bob", 5), ("carol", 1)]
    assert rows(operator.state("items").to_dataframe(session))[:2] == [("alice", 0, "apple"), ("alice", 1, "cherry")]
    assert ("alice", "apple", 5) in rows(operator.state("amounts").to_dataframe(session))
    assert ("bob", 5000) in rows(operator.state("_event-time-timers").to_dataframe(session))
    last = operator.state("last").to_dataframe(session)
    assert last.dtypes == [("key", "string"), ("value", "struct<f0:string,f1:bigint>")]
    text = operator.state("last").to_dataframe(session, value_type=Types.PICKLED_BYTE_ARRAY())
    assert ("bob", "('bread', 5)") in rows(text)


def test_a_dataframe_of_state_is_joined_and_aggregated_as_any_other(
    session: SparkSession, snapshot: StateSnapshot
) -> None:
    operator = snapshot.operator("ledger")
    totals, amounts = operator.state("total").to_dataframe(), operator.state("amounts").to_dataframe()
    sums = amounts.groupBy("key").agg(F.sum("value").alias("sum"))
    assert rows(totals.join(sums, "key").where("value <> sum")) == []


def test_a_large_state_is_read_by_several_tasks(
    session: SparkSession, snapshot: StateSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flott.snapshots.views.TASK_BYTES", 100)
    frame = snapshot.operator("ledger").state("total").to_dataframe(session)
    assert frame.rdd.getNumPartitions() > 4
    assert rows(frame) == [("alice", 9), ("bob", 5), ("carol", 1)]


def test_windows_are_a_dataframe_with_start_and_end(session: SparkSession, tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> None:
        stream = orders(env).key_by(lambda order: order[0], Types.STRING())
        windows = stream.window(TumblingEventTimeWindows.of(Time.seconds(4)))
        windows.reduce(lambda a, b: (a[0], a[1], a[2] + b[2])).uid("windows").print()

    found = snapshot_of(program, tmp_path)
    (panes,) = found.operator("windows").states
    frame = panes.to_dataframe(session).select("key", "window_start", "window_end", "value.f2")
    assert ("alice", 0, 4000, 5) in rows(frame)


@dataclass(frozen=True)
class Everything:
    flag: bool
    number: int
    share: float
    name: str
    raw: bytes
    day: date
    at: datetime
    price: Decimal
    tags: list[str]
    counts: dict[str, int]
    pair: tuple[int, str]
    nothing: str | None


THING = Everything(
    True, 7, 0.5, "x", b"\x00\xff", date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5), Decimal("1.50"), ["a"], {"k": 1},
    (3, "y"), None,
)  # fmt: skip


def test_every_type_has_a_column(session: SparkSession, tmp_path: Path) -> None:
    states = {
        "things": flott.state.value_state({"a": THING}, key_type=str, value_type=Everything),
        "instants": flott.state.value_state({"a": Instant.of_epoch_milli(1500)}, value_type=Types.INSTANT()),
    }
    made = new_savepoint().with_operator("x", keyed=states).write(tmp_path / "first")
    (row,) = made.state("x", "things").to_dataframe(session).collect()
    assert row.asDict(recursive=True) == {
        "key": "a", "flag": True, "number": 7, "share": 0.5, "name": "x", "raw": bytearray(b"\x00\xff"),
        "day": date(2026, 1, 2), "at": datetime(2026, 1, 2, 3, 4, 5), "price": "1.50", "tags": ["a"],
        "counts": {"k": 1}, "pair": {"f0": 3, "f1": "y"}, "nothing": None,
    }  # fmt: skip
    instants = made.state("x", "instants").to_dataframe(session)
    assert instants.select(F.unix_millis("value")).first() == (1500,)
    assert made.state("x", "things").to_arrow().to_pylist()[0]["pair"] == {"f0": 3, "f1": "y"}


class Adding(KeyedProcessFunction[Any, Any, Any]):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.total.update((self.total.value() or 0) + 1)
        yield value, self.total.value()


def test_a_job_on_spark_starts_from_a_dataframe(
    session: SparkSession, environment: MakeEnvironment, tmp_path: Path
) -> None:
    history = session.range(1000).select(
        F.concat(F.lit("user-"), F.col("id").cast("string")).alias("user"), (F.col("id") * 10).alias("orders")
    )
    total = flott.state.value_state(history, key="user", value="orders", key_type=str, value_type=Types.LONG())
    made = new_savepoint().with_operator("totals", keyed={"total": total}).write(tmp_path / "first")
    assert made.operator("totals").keyed("total").key_count == 1000
    assert rows(made.state("totals", "total").to_dataframe(session).agg(F.sum("value"))) == [(4_995_000,)]
    env = environment({"execution.state-recovery.path": str(tmp_path / "first")})
    found: list[Any] = []
    stream = env.from_collection(["user-1", "user-999", "new"]).key_by(lambda user: user, Types.STRING())
    stream.process(Adding()).uid("totals").sink_to(CallableSink(found.append))
    env.execute("from a DataFrame")
    assert sorted(found) == [("new", 1), ("user-1", 11), ("user-999", 9991)]


def test_what_a_dataframe_was_made_of_may_be_gone(session: SparkSession, tmp_path: Path) -> None:
    found = snapshot_of(ledger, tmp_path)
    frame = found.operator("ledger").state("total").to_dataframe(session)
    for name in found.manifest.files:
        (tmp_path / name).unlink()
    with pytest.raises(Exception, match="does not exist any more"):
        frame.collect()
