"""GROUP BY in columns against the same in Python, row by row: changelogs, crashes, rescaling, time to live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.runtime.operators.operator import EventTime
from flott.table._expressions.expression import UserFunction
from flott.table._functions.aggregates.library import aggregates
from flott.table._functions.aggregates.partial import in_two_phases, partial_schema
from flott.table._functions.function import CallArguments
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.operations import GlobalAggregate, GroupAggregate, LocalAggregate
from flott.table._types.logical import BooleanType, DoubleType, IntType, VarCharType
from flott.table.udf import AggregateFunction, FunctionContext, PandasAggregate
from tests.unit.runtime.operators.columnar.columnar_cluster import Change, ColumnarCluster, folded

STRING = VarCharType(2147483647)
INPUT = Schema(("k", "n", "s", "f", "b"), (STRING, IntType(), STRING, DoubleType(), BooleanType()))
Row = tuple[Any, ...]


def call(function: str, *arguments: int, distinct: bool = False, filter: int | None = None) -> AggregateCall:
    types = tuple(INPUT.types[index] for index in arguments)
    result = aggregates()[function].infer(CallArguments(function, types))
    return AggregateCall(function, arguments, result, f"{function}_{arguments}_{distinct}_{filter}", distinct, filter)


#: Calls, and what they are for the rows of a group.
CALLS: list[tuple[AggregateCall, Callable[[list[Row]], Any]]] = [
    (call("COUNT"), len),
    (call("COUNT", 1), lambda rows: len(some(rows, 1))),
    (call("SUM", 1), lambda rows: sum(some(rows, 1)) if some(rows, 1) else None),
    (call("SUM", 1, filter=4), lambda rows: sum(chosen(rows)) if chosen(rows) else None),
    (call("AVG", 1), lambda rows: int(sum(some(rows, 1)) / len(some(rows, 1))) if some(rows, 1) else None),
    (call("MIN", 2), lambda rows: min(some(rows, 2), default=None)),
    (call("MAX", 1), lambda rows: max(some(rows, 1), default=None)),
    (call("COUNT", 2, distinct=True), lambda rows: len(set(some(rows, 2)))),
    (call("COUNT", 2, distinct=True, filter=4), lambda rows: len({row[2] for row in rows if row[4]} - {None})),
    (call("SUM", 1, distinct=True, filter=4), lambda rows: sum(set(chosen(rows))) if chosen(rows) else None),
]
NAMES = tuple(one.name for one, _ in CALLS)


def some(rows: list[Row], index: int) -> list[Any]:
    return [row[index] for row in rows if row[index] is not None]


def chosen(rows: list[Row]) -> list[int]:
    return [row[1] for row in rows if row[4] and row[1] is not None]


def operation(keys: tuple[int, ...] = (0,), calls: Any = None, **options: Any) -> GroupAggregate:
    calls = tuple(one for one, _ in CALLS) if calls is None else calls
    output = INPUT.pick(keys) + Schema(tuple(c.name for c in calls), tuple(c.type for c in calls))
    return GroupAggregate(input=INPUT, keys=keys, calls=calls, output=output, **options)


class Groups:
    """What Flink does, one row after the other."""

    def __init__(self, keys: tuple[int, ...], update_before: bool):
        self.rows: dict[Row, list[Row]] = {}
        self.keys, self.update_before = keys, update_before

    def result(self, key: Row) -> Row:
        return (*key, *(of(self.rows[key]) for _, of in CALLS))

    def take(self, kind: str, row: Row) -> Iterator[Change]:
        key = tuple(row[index] for index in self.keys)
        held = self.rows.get(key)
        if kind in ("-U", "-D"):
            if not held:
                return
            before = self.result(key)
            held.remove(row)
            if not held:
                del self.rows[key]
                yield "-D", before
                return
        elif held is None:
            self.rows[key] = [row]
            yield "+I", self.result(key)
            return
        else:
            before = self.result(key)
            held.append(row)
        after = self.result(key)
        if before != after:
            if self.update_before:
                yield "-U", before
            yield "+U", after

    def all(self) -> list[Change]:
        return [("+I", self.result(key)) for key in self.rows]


rows = st.tuples(
    st.sampled_from(["a", "b", "c", None, ""]),
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from(["x", "y", ""])),
    st.sampled_from([0.5, None]),
    st.sampled_from([True, False, None]),
)


@st.composite
def changelogs(draw: st.DrawFn, retracts: bool) -> list[Change]:
    """Rows that come, and some of them that go again."""
    held: list[Row] = []
    found: list[Change] = []
    for _ in range(draw(st.integers(0, 40))):
        if retracts and held and draw(st.integers(0, 2)) == 0:
            gone = draw(st.sampled_from(held))
            held.remove(gone)
            found.append((draw(st.sampled_from(["-U", "-D"])), gone))
        else:
            held.append(draw(rows))
            found.append((draw(st.sampled_from(["+I", "+U"])) if retracts else "+I", held[-1]))
    return found


events = st.lists(
    st.one_of(st.just("epoch"), st.just("epoch"), st.just("crash"), st.tuples(st.just("restart"), st.integers(1, 3))),
    max_size=8,
)


def run(cluster: ColumnarCluster, changes: list[Change], happenings: list[Any], size: int) -> list[Change]:
    """Run changes in epochs of a size, while things happen."""
    found: list[Change] = []
    for number, start in enumerate(range(0, len(changes), size)):
        happening = happenings[number] if number < len(happenings) else "epoch"
        part = changes[start : start + size]
        if happening == "crash":
            cluster.epoch(part, crash=True)
        elif happening != "epoch":
            cluster.restart(happening[1])
        found += cluster.epoch(part)
    return found


def by_key(changes: list[Change], width: int) -> dict[Any, list[Change]]:
    found: dict[Any, list[Change]] = {}
    for kind, row in changes:
        found.setdefault(row[:width], []).append((kind, row))
    return found


@settings(max_examples=120)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([(0,), (), (0, 4)]), st.integers(1, 12), events)
def test_every_record_gives_the_change_that_flink_gives(
    data: st.DataObject, retracts: bool, update_before: bool, keys: tuple[int, ...], size: int, happenings: list[Any]
) -> None:
    changes = data.draw(changelogs(retracts))
    cluster = ColumnarCluster(
        operation(keys, update_before=update_before, retracts=(retracts,)), [INPUT], [keys], parallelism=2
    )
    model = Groups(keys, update_before)
    expected = [change for kind, row in changes for change in model.take(kind, row)]
    found = run(cluster, changes, happenings, size)
    assert by_key(found, len(keys)) == by_key(expected, len(keys))
    assert cluster.state_sizes().get("groups", 0) == len(model.rows)


@settings(max_examples=80)
@given(st.data(), st.booleans(), st.sampled_from([(0,), ()]), st.integers(1, 15), events)
def test_with_mini_batches_a_group_changes_once_in_an_epoch(
    data: st.DataObject, retracts: bool, keys: tuple[int, ...], size: int, happenings: list[Any]
) -> None:
    changes = data.draw(changelogs(retracts))
    cluster = ColumnarCluster(operation(keys, mini_batch=True, retracts=(retracts,)), [INPUT], [keys], parallelism=2)
    model = Groups(keys, True)
    found: list[Change] = []
    for number, start in enumerate(range(0, len(changes), size)):
        part = changes[start : start + size]
        before = {key: model.result(key) for key in model.rows}
        for kind, row in part:
            list(model.take(kind, row))
        happening = happenings[number] if number < len(happenings) else "epoch"
        if isinstance(happening, tuple):
            cluster.restart(happening[1])
        elif happening == "crash":
            cluster.epoch(part, crash=True)
        sent = cluster.epoch(part)
        found += sent
        after = {key: model.result(key) for key in model.rows}
        expected: dict[Any, list[Change]] = {}
        for key in {**before, **after}:
            if key not in before:
                expected[key] = [("+I", after[key])]
            elif key not in after:
                expected[key] = [("-D", before[key])]
            elif before[key] != after[key]:
                expected[key] = [("-U", before[key]), ("+U", after[key])]
        assert by_key(sent, len(keys)) == expected
    assert folded(found) == folded(model.all())


@settings(max_examples=60)
@given(st.data(), st.booleans(), st.integers(1, 15))
def test_two_phases_give_what_one_gives(data: st.DataObject, retracts: bool, size: int) -> None:
    changes = data.draw(changelogs(retracts))
    calls = tuple(one for one, _ in CALLS if not one.distinct)
    partial = partial_schema(INPUT, (0,), calls, retracts=retracts)
    output = operation(calls=calls).output
    local = ColumnarCluster(
        LocalAggregate(input=INPUT, keys=(0,), calls=calls, output=partial, retracts=retracts), [INPUT], [(1,)], 2
    )
    united = ColumnarCluster(
        GlobalAggregate(input=INPUT, keys=(0,), calls=calls, output=output, retracts=(retracts,), mini_batch=True),
        [partial], [(0,)], 2,
    )  # fmt: skip
    alone = ColumnarCluster(operation(calls=calls, retracts=(retracts,), mini_batch=True), [INPUT], [(0,)])
    found: list[Change] = []
    expected: list[Change] = []
    for start in range(0, len(changes), size):
        part = changes[start : start + size]
        found += united.epoch(local.epoch(part))
        expected += alone.epoch(part)
    assert by_key(found, 1) == by_key(expected, 1)


def test_a_row_that_is_taken_from_no_group_is_ignored() -> None:
    cluster = ColumnarCluster(operation(calls=(call("SUM", 1),), retracts=(True,)), [INPUT], [(0,)])
    row = ("a", 5, None, None, None)
    assert cluster.epoch([("-D", row), ("-U", row), ("+I", row), ("-D", row), ("-D", row), ("+I", row)]) == [
        ("+I", ("a", 5)), ("-D", ("a", 5)), ("+I", ("a", 5)),
    ]  # fmt: skip
    assert cluster.epoch([("-D", ("b", 1, None, None, None))]) == []
    assert cluster.state_sizes() == {"groups": 1}


def test_a_value_that_is_owed_does_not_count_when_it_comes() -> None:
    """A value may be taken away before it came, where changes of one group overtake each other."""
    cluster = ColumnarCluster(operation(calls=(call("COUNT", 2, distinct=True),), retracts=(True,)), [INPUT], [(0,)])

    def row(text: str) -> Row:
        return ("a", 1, text, None, None)

    assert cluster.epoch([("+I", row("x")), ("-U", row("y"))]) == [("+I", ("a", 1)), ("-D", ("a", 1))]
    assert cluster.epoch([("+I", row("x")), ("+I", row("x")), ("-U", row("y"))])[-1] == ("+I", ("a", 1))
    assert cluster.epoch([("+U", row("y"))]) == []
    assert cluster.epoch([("+U", row("y"))]) == [("-U", ("a", 1)), ("+U", ("a", 2))]


def test_a_group_that_begins_again_has_fresh_accumulators() -> None:
    """0.1 + 0.2 - 0.1 - 0.2 is not zero in floating point."""
    calls = (AggregateCall("SUM", (3,), DoubleType(), "sum"),)
    cluster = ColumnarCluster(operation(calls=calls, retracts=(True,)), [INPUT], [(0,)])

    def row(value: float) -> Row:
        return ("a", None, None, value, None)

    changes = [("+I", row(0.1)), ("+I", row(0.2)), ("-D", row(0.1)), ("-D", row(0.2)), ("+I", row(0.3))]
    assert cluster.epoch(changes)[-1] == ("+I", ("a", 0.3))


def test_groups_are_forgotten_after_their_time_to_live() -> None:
    calls = (call("COUNT"), call("COUNT", 2, distinct=True))
    cluster = ColumnarCluster(operation(calls=calls, ttl_ms=1000), [INPUT], [(0,)])
    row = ("a", 1, "x", None, None)
    cluster.scope.now_ms = 10_000
    assert cluster.epoch([("+I", row)]) == [("+I", ("a", 1, 1))]
    cluster.scope.now_ms = 10_999
    assert cluster.epoch([("+I", row)]) == [("-U", ("a", 1, 1)), ("+U", ("a", 2, 1))]
    cluster.restart()
    cluster.scope.now_ms = 11_998
    assert cluster.epoch() == []
    assert cluster.state_sizes() == {"groups": 1, "distinct 1": 1}
    cluster.scope.now_ms = 11_999
    assert cluster.epoch([("+I", row)]) == [("+I", ("a", 1, 1))]


def test_a_batch_job_has_final_results_only() -> None:
    calls = (call("COUNT"), call("SUM", 1))
    ended = EventTime(1 << 62, ended=True)
    rows = [("+I", ("a", 1, None, None, None)), ("+I", ("a", 2, None, None, None))]
    assert ColumnarCluster(operation(calls=calls), [INPUT], [(0,)], batch=True).epoch(rows, time=ended) == [
        ("+I", ("a", 2, 3))
    ]
    assert ColumnarCluster(operation((), calls), [INPUT], [()], batch=True).epoch(time=ended) == [("+I", (0, None))]
    assert ColumnarCluster(operation(calls=calls), [INPUT], [(0,)], batch=True).epoch(time=ended) == []
    assert ColumnarCluster(operation((), calls), [INPUT], [()]).epoch(time=ended) == []


class OnlyAdds(AggregateFunction[int, list[int]]):
    """A function that cannot merge."""

    def open(self, function_context: FunctionContext) -> None:
        self.step = 1

    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        accumulator[0] += self.step

    def get_value(self, accumulator: list[int]) -> int:
        return accumulator[0]


class Merges(OnlyAdds):
    def merge(self, accumulator: list[int], accumulators: Any) -> None:
        accumulator[0] += sum(other[0] for other in accumulators)


def user_call(function: Any, *arguments: int, style: str = "general") -> AggregateCall:
    user = UserFunction("f", function, kind="aggregate", style=style)
    return AggregateCall("f", arguments, IntType(), "f", user=user)


def test_only_functions_that_merge_are_called_in_two_phases() -> None:
    assert in_two_phases([user_call(Merges(), 1), call("SUM", 1)])
    assert not in_two_phases([user_call(OnlyAdds(), 1)])
    assert not in_two_phases([call("COUNT", 1, distinct=True)])


def test_functions_of_users_are_opened() -> None:
    cluster = ColumnarCluster(operation(calls=(user_call(OnlyAdds(), 1),)), [INPUT], [(0,)])
    assert cluster.epoch([("+I", ("a", 2, None, None, None))]) == [("+I", ("a", 1))]


def test_functions_of_pandas_get_all_values_of_a_group() -> None:
    pytest.importorskip("pandas")
    spread = PandasAggregate(lambda numbers: numbers.max() - numbers.min())
    cluster = ColumnarCluster(
        operation(calls=(user_call(spread, 1, style="pandas"),), retracts=(True,)), [INPUT], [(0,)]
    )
    first, second = ("a", 2, None, None, None), ("a", 7, None, None, None)
    assert cluster.epoch([("+I", first), ("+I", second)])[-1] == ("+U", ("a", 5))
    cluster.restart()
    assert cluster.epoch([("-D", second)])[-1] == ("+U", ("a", 0))


class Longest:
    """An aggregate function of a user."""

    def create_accumulator(self) -> list[str]:
        return []

    def accumulate(self, held: list[str], text: str, extra: int) -> None:
        held.append(text * extra)

    def retract(self, held: list[str], text: str, extra: int) -> None:
        held.remove(text * extra)

    def get_value(self, held: list[str]) -> str | None:
        return max(held, key=len, default=None)


@pytest.mark.parametrize("mini_batch", [True, False])
def test_functions_of_users_accumulate_and_retract(mini_batch: bool) -> None:
    function = UserFunction("longest", Longest(), kind="aggregate")
    calls = (AggregateCall("longest", (2, 1), STRING, "longest", user=function),)
    cluster = ColumnarCluster(operation(calls=calls, retracts=(True,), mini_batch=mini_batch), [INPUT], [(0,)])
    first, second = ("a", 2, "xy", None, None), ("a", 1, "z", None, None)
    assert cluster.epoch([("+I", second)]) == [("+I", ("a", "z"))]
    assert cluster.epoch([("+I", first)]) == [("-U", ("a", "z")), ("+U", ("a", "xyxy"))]
    cluster.restart(3)
    assert cluster.epoch([("-D", first)]) == [("-U", ("a", "xyxy")), ("+U", ("a", "z"))]


