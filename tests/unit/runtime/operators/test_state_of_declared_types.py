"""Operators that keep records of declared types: written by type, converted when the type changes, and else refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import flott.state
from flott.common import JobStatus, Row, Time, Types, WatermarkStrategy
from flott.common.time import Duration
from flott.common.typeinfo import TypeInformation
from flott.datastream import AggregateFunction, DataStream, ProcessWindowFunction
from flott.datastream.functions import ProcessJoinFunction
from flott.datastream.window import (
    CountEvictor,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flott.errors import StateMigrationError
from flott.testing.harness import Cancel, Incarnation, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource

needs_rocksdb = pytest.mark.skipif(importlib.util.find_spec("rocksdict") is None, reason="needs rocksdict")

BEFORE = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.INT()])
AFTER = Types.ROW_NAMED(["gift", "user", "amount"], [Types.BOOLEAN(), Types.STRING(), Types.DOUBLE()])
OTHER = Types.ROW_NAMED(["user", "amount"], [Types.STRING(), Types.STRING()])

USERS = [f"user {number}" for number in range(12)]
#: (user, amount, timestamp)
SCRIPT: list[Any] = [
    *((user, number, number * 100) for number, user in enumerate(USERS)),
    *((user, 1, 2_000 + number) for number, user in enumerate(USERS)),
    EndOfEpoch(),
    *((user, 100, 1_500 + number * 10) for number, user in enumerate(USERS[:6])),
    Abort(),
    *((user, 10, 9_000) for user in USERS[3:9]),
    EndOfEpoch(),
    ("user 0", 5, 9_500),
]
TIME = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(8)).with_timestamp_assigner(
    lambda record, _: int(record[2])
)


def added(one: Row, other: Row) -> Row:
    return Row(**one.as_dict() | {"amount": one.amount + other.amount})


class Whole(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield key, context.window().start, sorted(elements, key=repr)


class Pairs(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


TUMBLING = TumblingEventTimeWindows.of(Time.seconds(2))
SLIDING = SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(1))
LATER = Time.milliseconds(1)

#: What is done with a keyed stream, and the states in which it keeps records.
KINDS: dict[str, tuple[Callable[[Any], DataStream[Any]], tuple[str, ...]]] = {
    "reduce": (lambda keyed: keyed.reduce(added), ("_reduce",)),
    "sum": (lambda keyed: keyed.sum("amount"), ("_reduce",)),
    "aligned fold": (lambda keyed: keyed.window(SLIDING).reduce(added), ("_window-panes",)),
    "aligned elements": (lambda keyed: keyed.window(TUMBLING).process(Whole()), ("_window-element-panes",)),
    "fold": (lambda keyed: keyed.window(TUMBLING).allowed_lateness(LATER).reduce(added), ("_window-contents",)),
    "elements": (
        lambda keyed: keyed.window(TUMBLING).allowed_lateness(LATER).process(Whole()),
        ("_window-elements",),
    ),
    "evicted": (
        lambda keyed: keyed.window(TUMBLING).evictor(CountEvictor.of(2)).process(Whole()),
        ("_window-timestamped-elements",),
    ),
    "sessions": (lambda keyed: keyed.window(SESSIONS).reduce(added), ("_sessions",)),
    "merging elements": (
        lambda keyed: keyed.window(SESSIONS).process(Whole()),
        ("_window-elements", "_merging-windows"),
    ),
    "merging fold": (
        lambda keyed: keyed.window(SESSIONS).allowed_lateness(LATER).reduce(added),
        ("_window-contents", "_merging-windows"),
    ),
    "interval join": (
        lambda keyed: keyed.interval_join(keyed).between(Time.seconds(-1), Time.seconds(1)).process(Pairs()),
        ("_interval-join-left", "_interval-join-right"),
    ),
}


def run(
    folder: Path,
    apply: Callable[[Any], DataStream[Any]],
    declared: TypeInformation | None,
    *,
    stop_after: int | None = None,
    parallelism: int = 2,
    make: Callable[[Any], Any] | None = None,
    **options: str,
) -> tuple[list[Any], Incarnation]:
    """The program on the script, of which an earlier life has read a part already; what this life emits."""
    ledger = Ledger(uuid4().hex)
    env = in_process(parallelism, restart_strategy__type="fixed-delay", **options).set_max_parallelism(16)
    names = declared.get_field_names() if declared is not None else ("user", "amount")  # type: ignore[attr-defined]

    def row(record: Any) -> Row:
        known = {"user": record[0], "amount": record[1], "gift": None}
        return Row(**{name: known[name] for name in names})

    source = env.from_source(ScriptedSource({"all": SCRIPT}), TIME, "records").uid("records")
    keyed = source.map(make or row, declared).uid("rows").key_by(lambda value: value.user, Types.STRING())
    apply(keyed).uid("keeper").name("keeper").rebalance().sink_to(LedgerSink(ledger)).uid("sink")

    def stop(step: str, epoch: int) -> None:
        if step == "committed" and epoch == stop_after:
            raise Cancel

    life = live(env, folder, on_step=stop)
    return sorted(ledger.records, key=repr), life


@pytest.mark.parametrize("backend", ["hashmap", pytest.param("rocksdb", marks=needs_rocksdb)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_goes_on_with_another_type_of_records(kind: str, backend: str, tmp_path: Path) -> None:
    apply, _ = KINDS[kind]
    options = {"state__backend__type": backend}
    run(tmp_path / "straight", apply, AFTER, stop_after=1, **options)
    expected, _ = run(tmp_path / "straight", apply, AFTER, **options)

    run(tmp_path / "changed", apply, BEFORE, stop_after=1, **options)
    found, life = run(tmp_path / "changed", apply, AFTER, parallelism=3, **options)

    assert life.status is JobStatus.FINISHED, life.failure
    assert expected
    assert list(map(repr, found)) == list(map(repr, expected))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_operator_keeps_is_of_the_type_of_its_records(kind: str, tmp_path: Path) -> None:
    apply, tables = KINDS[kind]
    run(tmp_path, apply, BEFORE, stop_after=1)
    operator = flott.state.open(tmp_path).operator("keeper")
    types = {table: operator.state(table).value_type for table in tables}
    row = "row(user: string, amount: int)"
    expected = {"_merging-windows": "tuple(long, long)", "_window-timestamped-elements": f"tuple({row}, long)"}
    assert types == {table: expected.get(table, row) for table in tables}


@pytest.mark.parametrize("kind", KINDS)
def test_another_type_that_does_not_fit_is_refused(kind: str, tmp_path: Path) -> None:
    apply, tables = KINDS[kind]
    run(tmp_path, apply, BEFORE, stop_after=1)
    texts = lambda record: Row(user=record[0], amount=str(record[1]))  # noqa: E731
    _, life = run(tmp_path, apply, OTHER, make=texts)
    assert life.status is JobStatus.FAILED
    assert isinstance(life.failure, StateMigrationError)
    assert f"State {tables[0]!r} (" in str(life.failure)
    assert "of operator 'keeper' (uid 'keeper')" in str(life.failure)
    assert "amount was saved as int and is declared as string now" in str(life.failure)
    found, life = run(tmp_path, apply, BEFORE)  # the former program goes on
    assert life.status is JobStatus.FINISHED, life.failure
    assert found


def test_windows_that_another_operator_held_are_converted_on_their_way(tmp_path: Path) -> None:
    plain, patient, sessions = KINDS["aligned elements"][0], KINDS["elements"][0], KINDS["merging fold"][0]
    for number, (first, second) in enumerate(
        [(plain, patient), (patient, plain), (sessions, KINDS["sessions"][0]), (KINDS["sessions"][0], sessions)]
    ):
        run(tmp_path / f"{number} straight", first, AFTER, stop_after=1)
        expected, _ = run(tmp_path / f"{number} straight", second, AFTER)
        run(tmp_path / f"{number} changed", first, BEFORE, stop_after=1)
        found, life = run(tmp_path / f"{number} changed", second, AFTER)
        assert life.status is JobStatus.FINISHED, life.failure
        assert list(map(repr, found)) == list(map(repr, expected))


class Mean(AggregateFunction[Any, Any, Any]):
    """Its accumulator is a tuple, or what ``form`` makes of one."""

    def __init__(self, form: Callable[[Any], Any] = tuple):
        self.form = form

    def create_accumulator(self) -> Any:
        return self.form((0, 0))

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.form((accumulator[0] + value.amount, accumulator[1] + 1))

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1], type(accumulator).__name__

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self.form((acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]))


LONGS = Types.TUPLE([Types.LONG(), Types.LONG()])
DOUBLES = Types.TUPLE([Types.DOUBLE(), Types.LONG()])


def means(assigner: Any, form: Callable[[Any], Any], declared: TypeInformation | None) -> Any:
    return lambda keyed: keyed.window(assigner).aggregate(Mean(form), accumulator_type=declared)


@pytest.mark.parametrize("assigner", [TUMBLING, SESSIONS], ids=["aligned", "sessions"])
def test_accumulators_are_of_the_type_that_was_said_but_nobody_insists(assigner: Any, tmp_path: Path) -> None:
    expected: list[Any] = []
    for number, form in enumerate((tuple, list)):  # of lists it is wrong, and they stay lists
        apply = means(assigner, form, LONGS)
        run(tmp_path / f"{number}", apply, BEFORE, stop_after=1)
        (held,) = [
            state
            for state in flott.state.open(tmp_path / f"{number}").operator("keeper").states
            if state.name in ("_window-panes", "_sessions")
        ]
        assert held.value_type == "tuple(long, long)"
        found, life = run(tmp_path / f"{number}", apply, BEFORE, parallelism=1)
        assert life.status is JobStatus.FINISHED, life.failure
        assert {kind for _, kind in found} == {form.__name__}
        expected = expected or [mean for mean, _ in found]
        assert [mean for mean, _ in found] == expected


def test_accumulators_get_another_type_or_are_refused(tmp_path: Path) -> None:
    run(tmp_path, means(TUMBLING, tuple, LONGS), BEFORE, stop_after=1)
    found, life = run(tmp_path, means(TUMBLING, tuple, Types.STRING()), BEFORE)
    assert "it was saved as tuple(long, long) and is declared as string now" in str(life.failure)
    found, life = run(tmp_path, means(TUMBLING, tuple, DOUBLES), BEFORE)
    assert life.status is JobStatus.FINISHED, life.failure
    assert found

    run(tmp_path / "lists", means(TUMBLING, list, LONGS), BEFORE, stop_after=1)
    _, life = run(tmp_path / "lists", means(TUMBLING, list, DOUBLES), BEFORE)
    assert isinstance(life.failure, StateMigrationError)
    assert "was saved as tuple(long, long), which it is not" in str(life.failure)
