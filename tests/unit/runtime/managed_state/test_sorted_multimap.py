"""Sorted multimaps against a list that is sorted: on both backends, through crashes, rescaling and compaction."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.errors import StateError, TypeMismatchError
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.files.sections import decode_delta, encode_delta
from flott.runtime.managed_state.files.sequence_reader import open_sequence
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.sorted_multimap import (
    ALL,
    SORTED_MULTIMAPS,
    SortedDelta,
    SortedMultimapTable,
    order_bytes,
)
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.schema.type_schema import schema_of
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive
from tests.unit.runtime.managed_state.kind_cluster import KindCluster, events

KEYS = ["a", "b", 3, (4, "d")]

keys = st.sampled_from(KEYS)
sort_keys = st.integers(-3, 8)
bounds = st.none() | sort_keys
steps = st.one_of(
    st.tuples(st.just("add"), keys, sort_keys, st.integers(0, 99)),
    st.tuples(st.just("add"), keys, sort_keys, st.integers(0, 99)),
    st.tuples(st.just("remove"), keys, bounds, bounds),
    st.tuples(st.just("happen"), events),
)


class Model:
    """Rows of each key in the order in which they were added; sorting them is stable."""

    def __init__(self) -> None:
        self.rows: dict[Any, list[tuple[int, int]]] = {}

    def add(self, key: Any, sort_key: int, value: int) -> None:
        self.rows.setdefault(key, []).append((sort_key, value))

    def scan(self, key: Any, start: int | None = None, stop: int | None = None) -> list[tuple[int, int]]:
        rows = [row for row in self.rows.get(key, ()) if _within(row[0], start, stop)]
        return sorted(rows, key=lambda row: row[0])

    def remove(self, key: Any, start: int | None, stop: int | None) -> None:
        self.rows[key] = [row for row in self.rows.get(key, ()) if not _within(row[0], start, stop)]


def _within(sort_key: int, start: int | None, stop: int | None) -> bool:
    return (start is None or sort_key >= start) and (stop is None or sort_key < stop)


@settings(max_examples=60)
@given(st.booleans(), st.lists(steps, max_size=40))
def test_it_holds_what_a_sorted_list_holds_whatever_happens(rocksdb: bool, history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        cluster, model, saved = KindCluster(SORTED_MULTIMAPS, Path(folder), rocksdb), Model(), Model()
        for step in [*history, ("happen", ("follow",))]:
            match step:
                case "add", key, sort_key, value:
                    cluster.table(key).add(key, sort_key, value)
                    model.add(key, sort_key, value)
                case "remove", key, start, stop:
                    assert list(cluster.table(key).scan(key, start, stop)) == model.scan(key, start, stop)
                    cluster.table(key).remove_range(key, start, stop)
                    model.remove(key, start, stop)
                case "happen", event:
                    if cluster.happen(event):
                        model.rows = {key: list(rows) for key, rows in saved.rows.items()}
                    elif event != ("put aside",):
                        saved.rows = {key: list(rows) for key, rows in model.rows.items()}
            for key in KEYS:
                assert list(cluster.table(key).scan(key)) == model.scan(key)
        assert sum(table.size() for table in cluster.tables()) == sum(map(bool, model.rows.values()))
        for subtask in cluster.subtasks:
            follower = SORTED_MULTIMAPS.entries(subtask.follower.table(SORTED_MULTIMAPS, "t"))
            for key, _, pairs in follower:
                assert pairs == model.scan(key)
            with open_sequence(subtask.sequence, subtask.groups, cluster.storage) as reader:
                _check_lookups(reader, model)
        cluster.close()


def _check_lookups(reader: Any, model: Model) -> None:
    """What a look-up of single keys reads from files, newest first, until older ones cannot matter."""
    for group in reader.held_groups():
        for key in KEYS:
            parts = []
            for delta, is_last in reader.newest_deltas(group, "t"):
                part, settled = SORTED_MULTIMAPS.part(delta, lambda entry, key=key: entry == key)
                parts.append(part)
                if settled or is_last:
                    break
            table = SortedMultimapTable()
            for part in reversed(parts):
                table.apply(part)
            if table.entries:
                assert list(table.scan(key)) == model.scan(key)


@settings(max_examples=300)
@given(
    st.sampled_from([st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.text(), st.binary()])
    .flatmap(lambda kind: st.tuples(kind, kind, st.lists(kind, max_size=3), st.lists(kind, max_size=3)))
)
def test_bytes_sort_as_sort_keys_do(case: tuple[Any, Any, list[Any], list[Any]]) -> None:
    one, other, *lists = case
    assert (order_bytes(one) < order_bytes(other)) == (one < other)
    assert (order_bytes(one) == order_bytes(other)) == (one == other)
    first, second = map(tuple, lists)
    assert (order_bytes(first) < order_bytes(second)) == (first < second)


@pytest.mark.parametrize("sort_key", [None, True, 1 << 63, float("nan"), object(), [1], (1, None)])
def test_what_cannot_be_sorted_is_refused(sort_key: Any) -> None:
    with pytest.raises(StateError, match="cannot be a sort key"):
        SortedMultimapTable().add("k", sort_key, 1)


def test_an_epoch_saves_the_rows_it_adds_and_the_ranges_it_removes() -> None:
    table = SortedMultimapTable()
    for number in range(1000):
        table.add("k", number, number)
    table.drain(lambda entry: 0)
    table.add("k", 500, "new")
    table.remove_range("k", None, 300)
    table.remove_range("k", 300, 400)
    (delta,) = table.drain(lambda entry: 0).values()
    assert delta == SortedDelta([("k", [(b"", order_bytes(400))])], [("k", [500], [1000], ["new"])])
    table.remove_range("k")
    assert table.drain(lambda entry: 0) == {0: SortedDelta([("k", [ALL])], [])}


def test_a_row_that_comes_and_goes_within_an_epoch_is_never_written() -> None:
    table = SortedMultimapTable()
    table.add("k", 1, "x")
    table.remove_range("k")
    assert not table.has_changes()
    assert table.drain(lambda entry: 0) == {}


@pytest.mark.parametrize("typed", [True, False])
def test_changes_come_back_from_bytes(typed: bool) -> None:
    schemas = [schema_of(kind) for kind in (Types.STRING(), Types.DOUBLE(), Types.LONG())] if typed else []
    header = TableHeader("t", SORTED_MULTIMAPS.name, False, *schemas)
    cuts = [("a", [(b"", b"x"), (b"y", b"\xff")]), ("b", [ALL])]
    delta = SortedDelta(cuts, [("a", [1, 2], [7, 8], [1.5, None]), ("c", [3], [0], [2.0])])
    found = decode_delta(header, encode_delta(header, delta))
    assert found == delta
    assert isinstance(found, SortedDelta)


@pytest.mark.parametrize("rocksdb", [False, True])
def test_rows_expire_on_their_own(tmp_path: Path, rocksdb: bool) -> None:
    ttl = TimeToLive(100, sweep_entries=1000)
    cluster = KindCluster(SORTED_MULTIMAPS, tmp_path, rocksdb)
    (subtask,) = cluster.subtasks
    table = subtask.state.table(SORTED_MULTIMAPS, "t")
    for number in range(10):
        table.add("k", number, (number, 10 * (number % 5)))
    cluster.happen(("checkpoint",))
    lifetimes = subtask.state.lifetimes
    lifetimes.begin(130, 0)
    expiry = lifetimes.declare("other", table, ttl)
    assert expiry is not None
    expiry.touches = 10
    lifetimes.sweep(0)
    assert list(table.scan("k")) == [(number, (number, 40)) for number in (4, 9)]
    cluster.happen(("checkpoint",))
    assert len(list(cluster.table("k").scan("k"))) == 2
    cluster.close()


def test_a_base_leaves_out_what_is_gone() -> None:
    base = SortedDelta([], [("a", [1, 2], [0, 1], [("x", 5), ("y", 6)]), ("b", [1], [0], [("x", 5)])])
    assert SORTED_MULTIMAPS.drop_expired(base, 5, detached=False) == SortedDelta([], [("a", [2], [1], [("y", 6)])])


@pytest.mark.parametrize("rocksdb", [False, True])
def test_declared_types_are_checked_and_converted(tmp_path: Path, rocksdb: bool) -> None:
    cluster = KindCluster(SORTED_MULTIMAPS, tmp_path, rocksdb)
    (subtask,) = cluster.subtasks
    cluster.table("k").add("k", 1, 2)
    subtask.state.schemas.declare(("t",), StateTypes(Types.DOUBLE(), Types.LONG()))
    cluster.happen(("checkpoint",))
    ((sort_key, value),) = cluster.table("k").scan("k")
    assert (sort_key, value, type(value)) == (1, 2.0, float)
    cluster.table("k").add("k", 1, "text")
    with pytest.raises(TypeMismatchError, match="State 't' of operator op, key 'k'"):
        cluster.checkpoint()
    cluster.close()


@pytest.mark.parametrize("rocksdb", [False, True])
def test_a_migration_rewrites_values(tmp_path: Path, rocksdb: bool) -> None:
    cluster = KindCluster(SORTED_MULTIMAPS, tmp_path, rocksdb)
    cluster.subtasks[0].state.schemas.declare(("t",), StateTypes(Types.INT(), Types.LONG()))
    for number in range(5):
        cluster.table("k").add("k", number, number)
    cluster.happen(("checkpoint",))
    cluster.happen(("restart",))
    cluster.happen(("restart",))
    cluster.subtasks[0].state.schemas.declare(("t",), StateTypes(Types.LONG(), Types.LONG()))
    cluster.table("k").remove_range("k", 0, 2)
    cluster.happen(("checkpoint",))
    assert list(cluster.table("k").scan("k")) == [(2, 2), (3, 3), (4, 4)]
    cluster.close()


def test_users_see_a_row_for_every_row_and_may_change_them() -> None:
    table = SortedMultimapTable()
    table.add("k", 2, "y")
    table.add("k", 1, "x")
    assert list(SORTED_MULTIMAPS.entries(table)) == [("k", None, [(1, "x"), (2, "y")])]
    assert list(SORTED_MULTIMAPS.items([(1, "x"), (2, "y")])) == [(1, "x"), (2, "y")]
    SORTED_MULTIMAPS.transform(table, lambda key, namespace, pairs: [(9, "z"), *pairs])
    assert list(table.scan("k")) == [(1, "x"), (2, "y"), (9, "z")]
    SORTED_MULTIMAPS.transform(table, lambda key, namespace, pairs: None)
    assert not table.entries


def test_a_scan_sees_the_rows_of_when_it_began(tmp_path: Path) -> None:
    for rocksdb in (False, True):
        cluster = KindCluster(SORTED_MULTIMAPS, tmp_path / str(rocksdb), rocksdb)
        for number in range(4):
            cluster.table("k").add("k", number, number)
        cluster.happen(("checkpoint",))
        table = cluster.table("k")
        table.add("k", 9, 9)
        scan = table.scan("k")
        table.remove_range("k", 2)
        cluster.happen(("put aside",))
        table.add("k", 10, 10)
        assert list(scan) == [(0, 0), (1, 1), (2, 2), (3, 3), (9, 9)]
        cluster.close()


def test_a_program_asks_for_it_by_its_kind() -> None:
    state = KeyedState("op", 4, range(4))
    assert isinstance(state.table(SORTED_MULTIMAPS, "t", namespaced=True), SortedMultimapTable)


operations = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("ab"), sort_keys, st.integers(0, 99)),
    st.tuples(st.just("remove"), st.sampled_from("ab"), bounds, bounds),
)


@settings(max_examples=300)
@given(st.lists(st.lists(operations, max_size=6), min_size=2, max_size=6), st.data())
def test_merged_changes_may_be_applied_over_a_part_of_themselves(
    epochs: list[list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    live, model, deltas = SortedMultimapTable(), Model(), []
    for epoch in epochs:
        for name, key, *arguments in epoch:
            getattr(live, "add" if name == "add" else "remove_range")(key, *arguments)
            getattr(model, name)(key, *arguments)
        deltas.append(live.drain(lambda entry: 0).get(0, SortedDelta([], [])))
    known = data.draw(st.integers(0, len(deltas)), "how many of the merged changes the copy has")
    start = data.draw(st.integers(0, known), "where the merged changes begin")
    copied = SortedMultimapTable()
    for delta in deltas[:known]:
        copied.apply(delta)
    copied.apply(SortedMultimapTable.merge(deltas[start:]))
    for key in "ab":
        assert list(copied.scan(key)) == model.scan(key)
    base = SortedMultimapTable()
    for delta in copied.dump(lambda entry: 0).values():
        base.apply(delta)
    assert list(SORTED_MULTIMAPS.entries(base)) == list(SORTED_MULTIMAPS.entries(copied))
