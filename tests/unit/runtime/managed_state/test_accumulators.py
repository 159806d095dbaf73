"""Columnar accumulators against a dict of numbers: on both backends, through crashes, rescaling and compaction."""

from __future__ import annotations

import builtins
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.errors import ConfigurationError, StateError, StateMigrationError
from flott.runtime.managed_state.files.sections import decode_delta, encode_delta
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.kinds.accumulators import ACCUMULATORS, AccumulatorDelta, AccumulatorTable
from flott.runtime.managed_state.schema.type_schema import schema_of
from tests.unit.runtime.managed_state.kind_cluster import MAX_PARALLELISM, KindCluster, events

numpy = pytest.importorskip("numpy")

FIELDS = [("count", "<i8"), ("sum", "<f8")]
KEYS = ["a", "b", 3, (4, "d"), *range(10, 90)]

batches = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-5, 5)), min_size=1, max_size=120)
steps = st.one_of(
    st.tuples(st.just("update"), batches),
    st.tuples(st.just("update"), batches),
    st.tuples(st.just("discard"), st.lists(st.sampled_from(KEYS), max_size=5)),
    st.tuples(st.just("happen"), events),
)


def declared(table: AccumulatorTable) -> None:
    table.declare(FIELDS)


def updated(cluster: KindCluster, batch: list[tuple[Any, int]]) -> None:
    """Update the accumulators of a batch, those of each subtask at once."""
    by_table: dict[int, tuple[Any, list[tuple[Any, int]]]] = {}
    for key, amount in batch:
        table = cluster.table(key)
        by_table.setdefault(id(table), (table, []))[1].append((key, amount))
    for table, pairs in by_table.values():
        slots = table.slots([key for key, _ in pairs])
        table.accumulate("count", numpy.add, slots, 1)
        table.accumulate("sum", numpy.add, slots, [amount for _, amount in pairs])


def seen(cluster: KindCluster) -> dict[Any, tuple[int, float]]:
    return {
        key: (held["count"], held["sum"])
        for table in cluster.tables()
        for key, _, held in ACCUMULATORS.entries(table)
    }


@settings(max_examples=60)
@given(st.booleans(), st.lists(steps, max_size=25))
def test_it_holds_what_a_dict_of_numbers_holds_whatever_happens(rocksdb: bool, history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        cluster = KindCluster(ACCUMULATORS, Path(folder), rocksdb, declared)
        model: dict[Any, tuple[int, float]] = {}
        saved: dict[Any, tuple[int, float]] = {}
        for step in [*history, ("happen", ("follow",))]:
            match step:
                case "update", batch:
                    updated(cluster, batch)
                    for key, amount in batch:
                        count, total = model.get(key, (0, 0.0))
                        model[key] = (count + 1, total + amount)
                case "discard", keys:
                    for key in keys:
                        cluster.table(key).discard([key])
                        model.pop(key, None)
                case "happen", event:
                    if cluster.happen(event):
                        model = dict(saved)
                    elif event != ("put aside",):
                        saved = dict(model)
            for key in KEYS[:6]:
                assert cluster.table(key).read([key])[0].item() == model.get(key, (0, 0.0))
        assert seen(cluster) == model
        assert sum(table.size() for table in cluster.tables()) == len(model)
        followers = [subtask.follower.table(ACCUMULATORS, "t") for subtask in cluster.subtasks]
        followed = {key: tuple(held.values()) for table in followers for key, _, held in ACCUMULATORS.entries(table)}
        assert followed == model
        cluster.close()


def test_a_delta_is_the_changed_rows_and_no_others() -> None:
    table = AccumulatorTable()
    table.declare(FIELDS)
    table.accumulate("sum", numpy.add, table.slots(range(1000)), numpy.arange(1000))
    (first,) = table.drain(lambda entry: 0).values()
    assert (len(first.entries), len(first.rows)) == (1000, 16_000)
    slots = table.slots([7, 500, 7])
    table.accumulate("sum", numpy.add, slots, 1)
    table.discard([3, "nothing"])
    (delta,) = table.drain(lambda entry: 0).values()
    assert (delta.entries, delta.deleted) == ([7, 500], [3])
    assert numpy.frombuffer(delta.rows, dtype=FIELDS)["sum"].tolist() == [9.0, 501.0]
    assert not table.has_changes()


def test_a_slot_that_was_free_begins_with_zeros() -> None:
    table = AccumulatorTable()
    table.declare(FIELDS)
    table.accumulate("sum", numpy.add, table.slots(["a"]), 5)
    table.discard(["a"])
    assert table.slots(["b"]).tolist() == [0]
    assert table.read(["a", "b"])["sum"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("typed", [True, False])
def test_changes_come_back_from_bytes(typed: bool) -> None:
    header = TableHeader("t", ACCUMULATORS.name, False, schema_of(Types.STRING()) if typed else None)
    delta = AccumulatorDelta([("n", "<i8")], ["a", "b"], b"12345678abcdefgh", ["c"])
    found = decode_delta(header, encode_delta(header, delta))
    assert found == delta
    assert list(found.by_entry()) == [("a", b"12345678"), ("b", b"abcdefgh")]


@pytest.mark.parametrize("rocksdb", [False, True])
def test_fields_may_be_widened_added_and_dropped(tmp_path: Path, rocksdb: bool) -> None:
    fields: list[Any] = [[("n", "<i4"), ("old", "<f8")]]
    cluster = KindCluster(ACCUMULATORS, tmp_path, rocksdb, lambda table: table.declare(fields[-1]))
    table = cluster.table("k")
    table.accumulate("n", numpy.add, table.slots(["k", "l"]), [1, 2])
    cluster.happen(("checkpoint",))
    fields.append([("n", "<i8"), ("new", "<i8")])
    cluster.happen(("restart",))
    cluster.happen(("restart",))
    table = cluster.table("k")
    assert table.read(["k"])[0].item() == (1, 0)
    table.accumulate("n", numpy.add, table.slots(["k"]), 1 << 40)
    cluster.happen(("checkpoint",))
    cluster.happen(("compact", 0, 9))
    held = {key: held for table in cluster.tables() for key, _, held in ACCUMULATORS.entries(table)}
    assert held == {"k": {"n": (1 << 40) + 1, "new": 0}, "l": {"n": 2, "new": 0}}
    cluster.close()


@pytest.mark.parametrize("rocksdb", [False, True])
def test_a_field_that_would_lose_values_is_refused(tmp_path: Path, rocksdb: bool) -> None:
    fields: list[Any] = [[("n", "<i8")]]
    cluster = KindCluster(ACCUMULATORS, tmp_path, rocksdb, lambda table: table.declare(fields[-1]))
    cluster.table("k").slots(["k"])
    cluster.happen(("checkpoint",))
    fields.append([("n", "<i4")])
    with pytest.raises(StateMigrationError, match=r"field 'n' was saved as <i8 and is now declared as <i4"):
        cluster.happen(("restart",))
    cluster.close()


@pytest.mark.parametrize("rocksdb", [False, True])
def test_files_of_former_fields_may_come_after_those_of_new_ones(tmp_path: Path, rocksdb: bool) -> None:
    """Subtasks that changed nothing since the fields were widened are united with others that did."""
    fields: list[Any] = [[("n", "<i4")]]
    cluster = KindCluster(ACCUMULATORS, tmp_path, rocksdb, lambda table: table.declare(fields[-1]))
    cluster.happen(("rescale", 3))
    for key in range(30):
        cluster.table(key).accumulate("n", numpy.add, cluster.table(key).slots([key]), key)
    cluster.happen(("checkpoint",))
    fields.append([("n", "<i8"), ("new", "<i8")])
    cluster.happen(("restart",))
    key = next(key for key in range(30) if cluster.table(key) is next(cluster.tables()))
    cluster.table(key).accumulate("n", numpy.add, cluster.table(key).slots([key]), 1 << 40)
    cluster.happen(("rescale", 1))
    cluster.happen(("compact", 0, 9))
    held = {one: held["n"] for one, _, held in ACCUMULATORS.entries(cluster.table(0))}
    assert held == {one: one + (1 << 40 if one == key else 0) for one in range(30)}
    cluster.close()


@pytest.mark.parametrize("fields", [float, [("text", "U4")], [("any", object)]])
def test_what_has_no_fixed_width_is_refused(fields: Any) -> None:
    with pytest.raises(StateError, match="is no type of an accumulator"):
        AccumulatorTable().declare(fields)


def test_a_table_that_is_used_before_it_is_declared_says_what_to_do() -> None:
    with pytest.raises(StateError, match=r"Say with declare\(\)"):
        AccumulatorTable().slots(["a"])


def test_a_batch_is_one_multi_get_and_is_written_back_at_once(tmp_path: Path) -> None:
    cluster = KindCluster(ACCUMULATORS, tmp_path, True, declared)
    updated(cluster, [(key, 1) for key in range(500)])
    cluster.happen(("checkpoint",))
    store = cluster.table(0)._store
    asked: list[int] = []
    single: list[bytes] = []
    get_many, get = store.get_many, store.get

    def counted(rows: list[bytes]) -> list[bytes | None]:
        asked.append(len(rows))
        return get_many(rows)  # type: ignore[no-any-return]

    def one(row: bytes) -> bytes | None:
        single.append(row)
        return get(row)  # type: ignore[no-any-return]

    store.get_many, store.get = counted, one
    updated(cluster, [(key, 1) for key in range(600)])
    assert asked == [600]
    assert len(single) <= 2  # what the rows are made of
    store.get_many, store.get = get_many, get
    cluster.happen(("checkpoint",))
    assert cluster.table(0).read([0, 599])["count"].tolist() == [2, 1]
    cluster.close()


def test_users_see_a_dict_of_fields_and_may_change_it() -> None:
    table = AccumulatorTable(namespaced=True)
    table.declare(FIELDS)
    table.accumulate("sum", numpy.add, table.slots([("k", (0, 10))]), 2.5)
    assert list(ACCUMULATORS.entries(table)) == [("k", (0, 10), {"count": 0, "sum": 2.5})]
    ACCUMULATORS.transform(table, lambda key, namespace, held: {"count": 7})
    assert table.read([("k", (0, 10))])[0].item() == (7, 2.5)
    assert list(ACCUMULATORS.release(table)) == [("k", (0, 10), {"count": 7, "sum": 2.5})]
    assert table.size() == 0


def test_a_look_up_of_one_key_finds_its_row_and_is_settled() -> None:
    delta = AccumulatorDelta([("n", "<i8")], ["a", "b"], b"12345678abcdefgh", ["c"])
    assert ACCUMULATORS.part(delta, "b".__eq__) == (AccumulatorDelta([("n", "<i8")], ["b"], b"abcdefgh", []), True)
    assert ACCUMULATORS.part(delta, "z".__eq__) == (AccumulatorDelta([("n", "<i8")], [], b"", []), False)


def test_without_numpy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigurationError, match=r"pip install 'flott\[columnar\]'"):
        AccumulatorTable().declare(FIELDS)
    assert AccumulatorTable.merge([AccumulatorDelta([("n", "<i8")], ["a"], b"12345678", [])]).entries == ["a"]


def test_key_groups_divide_the_rows(tmp_path: Path) -> None:
    cluster = KindCluster(ACCUMULATORS, tmp_path, False, declared)
    updated(cluster, [(key, 1) for key in KEYS])
    cluster.happen(("rescale", 3))
    assert len(cluster.subtasks) == 3
    assert sum(len(subtask.groups) for subtask in cluster.subtasks) == MAX_PARALLELISM
    assert all(table.size() for table in cluster.tables())
    assert len(seen(cluster)) == len(KEYS)
    cluster.close()


operations = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from("abcd"), max_size=5), st.integers(-9, 9)),
    st.tuples(st.just("discard"), st.lists(st.sampled_from("abcd"), max_size=2), st.just(0)),
)


@settings(max_examples=200)
@given(st.lists(st.lists(operations, max_size=5), min_size=2, max_size=6), st.data())
def test_merged_changes_may_be_applied_over_a_part_of_themselves(
    epochs: list[list[tuple[str, list[str], int]]], data: st.DataObject
) -> None:
    live, deltas = AccumulatorTable(), []
    live.declare(FIELDS)
    for epoch in epochs:
        for name, keys, amount in epoch:
            if name == "add":
                live.accumulate("sum", numpy.add, live.slots(keys), amount)
            else:
                live.discard(keys)
        deltas.append(live.drain(lambda entry: 0).get(0, AccumulatorDelta(FIELDS, [], b"", [])))
    known = data.draw(st.integers(0, len(deltas)), "how many of the merged changes the copy has")
    start = data.draw(st.integers(0, known), "where the merged changes begin")
    copied = AccumulatorTable()
    if data.draw(st.booleans(), "whether the copy is that of a program"):
        copied.declare(FIELDS)
    for delta in deltas[:known]:
        copied.apply(delta)
    copied.apply(AccumulatorTable.merge(deltas[start:]))
    assert dict(copied.contents()) == dict(live.contents())
