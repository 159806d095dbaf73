"""Columnar tables against a dict of rows: on both backends, through crashes, rescaling, merging and compaction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.typeinfo import Types
from flott.errors import CorruptStateError, StateError, StateMigrationError
from flott.runtime.managed_state.files.sections import decode_delta, encode_delta
from flott.runtime.managed_state.files.table_header import TableHeader
from flott.runtime.managed_state.key_groups import SameGroup
from flott.runtime.managed_state.schema.type_schema import schema_of
from tests.unit.runtime.managed_state.kind_cluster import KindCluster, events

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable  # noqa: E402

KEY = pa.schema([("user", pa.string()), ("item", pa.int32())])
VALUE = pa.schema([("count", pa.int64()), ("text", pa.string()), ("many", pa.list_(pa.int64()))])
USERS = ["a", "b", None, "", *(f"user {number}" for number in range(20))]

Row = tuple[int | None, str | None, list[int] | None]
Model = dict[tuple[Any, Any], Row]

users = st.sampled_from(USERS)
items = st.one_of(st.none(), st.integers(-3, 12))
rows = st.tuples(
    st.one_of(st.none(), st.integers(-9, 9)),
    st.one_of(st.none(), st.text(max_size=5)),
    st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=3)),
)
steps = st.one_of(
    st.tuples(st.just("put"), st.dictionaries(st.tuples(users, items), rows, min_size=1, max_size=40)),
    st.tuples(st.just("put"), st.dictionaries(st.tuples(users, items), rows, min_size=1, max_size=40)),
    st.tuples(st.just("count"), st.lists(st.tuples(users, items), min_size=1, max_size=30)),
    st.tuples(st.just("remove"), st.lists(users, min_size=1, max_size=8)),
    st.tuples(st.just("happen"), events),
)


def declared(table: ColumnTable) -> None:
    table.declare(KEY, VALUE, 1)


def keys_of(pairs: list[tuple[Any, Any]]) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([user for user, _ in pairs], pa.string()), pa.array([item for _, item in pairs], pa.int32())],
        schema=KEY,
    )


def values_of(held: list[Row]) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([row[place] for row in held], field.type) for place, field in enumerate(VALUE)], schema=VALUE
    )


def by_table(cluster: KindCluster, pairs: list[tuple[Any, Any]]) -> list[tuple[Any, list[tuple[Any, Any]]]]:
    found: dict[int, tuple[Any, list[tuple[Any, Any]]]] = {}
    for pair in pairs:
        table = cluster.table(pair[0])
        found.setdefault(id(table), (table, []))[1].append(pair)
    return list(found.values())


def seen(tables: Any) -> Model:
    found: Model = {}
    for table in tables:
        for user, _, held in COLUMN_TABLES.entries(table):
            for row in held:
                assert (user, row["item"]) not in found
                found[user, row["item"]] = (row["count"], row["text"], row["many"])
    return found


def do(cluster: KindCluster, model: Model, step: tuple[Any, ...]) -> None:
    """Do a step of a program, in the tables and in the model."""
    match step:
        case "put", held:
            for table, pairs in by_table(cluster, list(held)):
                slots, _ = table.slots(keys_of(pairs))
                table.put(slots, values_of([held[pair] for pair in pairs]))
            model.update(held)
        case "count", asked:
            for table, pairs in by_table(cluster, asked):
                slots, new = table.slots(keys_of(pairs))
                assert new.tolist() == [pair not in model for pair in pairs]
                np.add.at(table.column("count"), slots, np.where(table.valid("count")[slots], 1, 1))
                table.valid("count")[slots] = True
                table.mark(slots)
            for pair in asked:
                count, text, many = model.get(pair, (None, None, None))
                model[pair] = ((count or 0) + 1, text, many)
        case "remove", gone:
            for user in gone:
                table = cluster.table(user)
                prefix = keys_of([(user, 0)]).select(["user"])
                positions, slots = table.matching(prefix, 1)
                held = [pair for pair in model if pair[0] == user]
                assert positions.tolist() == [0] * len(held)
                found = table.keys(slots).column(1).to_pylist()
                assert sorted(map(str, found)) == sorted(str(pair[1]) for pair in held)
                table.remove(slots)
                for pair in held:
                    del model[pair]


@settings(max_examples=80)
@given(st.booleans(), st.lists(steps, max_size=25))
def test_it_holds_what_a_dict_of_rows_holds_whatever_happens(rocksdb: bool, history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        cluster = KindCluster(COLUMN_TABLES, Path(folder), rocksdb, declared)
        model: Model = {}
        saved: Model = {}
        for step in [*history, ("happen", ("follow",))]:
            if step[0] != "happen":
                do(cluster, model, step)
            elif cluster.happen(step[1]):
                model = dict(saved)
            elif step[1] != ("put aside",):
                saved = dict(model)
            for user, item in [("a", 1), (None, None), ("", 0)]:
                table = cluster.table(user)
                (slot,) = table.find(keys_of([(user, item)])).tolist()
                assert (slot >= 0) is ((user, item) in model)
                if slot >= 0:
                    (row,) = table.values(np.array([slot])).to_pylist()
                    assert tuple(row.values()) == model[user, item]
        assert seen(cluster.tables()) == model
        assert sum(table.size() for table in cluster.tables()) == len(model)
        assert seen(subtask.follower.table(COLUMN_TABLES, "t") for subtask in cluster.subtasks) == model
        cluster.close()


TYPES = [
    (pa.int8(), [1, -128, None, 1]),
    (pa.int64(), [1, -(2**63), None, 2**63 - 1]),
    (pa.float64(), [0.5, float("inf"), None, -1e300]),
    (pa.float32(), [0.5, float("-inf"), None, 0.25]),
    (pa.bool_(), [True, False, None, True]),
    (pa.string(), ["", "a", None, "ü" * 90]),
    (pa.binary(), [b"", b"\0", None, b"a"]),
    (pa.decimal128(10, 2), ["1.50", "-0.01", None, "99999999.99"]),
    (pa.decimal128(38, 3), ["1.500", "-0.001", None, "9" * 35 + ".999"]),
    (pa.date32(), [0, -1, None, 20000]),
    (pa.time32("ms"), [0, 1, None, 86_399_999]),
    (pa.timestamp("ms"), [0, -1, None, 10**12]),
    (pa.timestamp("ns", "UTC"), [0, -1, None, 10**18]),
    (pa.duration("ms"), [0, -1, None, 10**12]),
    (pa.list_(pa.string()), [[], ["a"], None, ["a", None]]),
    (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": None}, None, {"a": 2}]),
    (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], None, [("a", 2)]]),
    (pa.null(), [None, None, None, None]),
]


def typed_array(arrow_type: Any, values: list[Any]) -> Any:
    if pa.types.is_decimal(arrow_type):
        return pa.array(values, pa.string()).cast(arrow_type)
    return pa.array(values, arrow_type)


@pytest.mark.parametrize(("arrow_type", "values"), TYPES, ids=lambda found: str(found)[:20])
def test_every_type_is_a_key_and_a_value(arrow_type: Any, values: list[Any]) -> None:
    array = typed_array(arrow_type, values)
    table = ColumnTable()
    table.declare(pa.schema([("k", arrow_type)]), pa.schema([("v", arrow_type)]), 1)
    batch = pa.record_batch([array], names=["k"])
    slots, new = table.slots(batch)
    assert new.all()
    assert len(set(slots.tolist())) == len({str(value) for value in array.to_pylist()})
    table.put(slots, pa.record_batch([array], names=["v"]))
    assert table.keys(slots).column(0).equals(array)
    assert table.values(slots).column(0).equals(array)
    copy = ColumnTable()
    for delta in table.drain(SameGroup(0)).values():  # type: ignore[arg-type]
        copy.apply(delta)
    copy.declare(pa.schema([("k", arrow_type)]), pa.schema([("v", arrow_type)]), 1)
    assert copy.values(copy.find(batch)).column(0).equals(array)
    assert not copy.has_changes()


def test_a_table_without_key_columns_has_one_row() -> None:
    table = ColumnTable()
    table.declare(pa.schema([]), pa.schema([("n", pa.int64())]), 0)
    nothing = pa.RecordBatch.from_struct_array(pa.array([{}, {}, {}], pa.struct([])))
    slots, new = table.slots(nothing)
    assert (slots.tolist(), new.tolist()) == ([0, 0, 0], [True] * 3)
    table.put(slots[:1], pa.record_batch([pa.array([7])], names=["n"]))
    (delta,) = table.drain(SameGroup(3)).values()  # type: ignore[arg-type]
    copy = ColumnTable()
    copy.apply(delta)
    assert list(copy.contents()) == [((), {"n": 7})]
    table.remove(slots)
    (gone,) = table.drain(SameGroup(3)).values()  # type: ignore[arg-type]
    assert copy.size() == 1
    copy.apply(gone)
    assert copy.size() == 0


def numbers(*values: int) -> Any:
    return pa.record_batch([pa.array(values, pa.int64())], names=["k"])


def counted(table: ColumnTable) -> ColumnTable:
    table.declare(pa.schema([("k", pa.int64())]), pa.schema([pa.field("n", pa.int64(), nullable=False)]), 1)
    return table


def test_a_delta_is_the_changed_rows_and_no_others() -> None:
    table = counted(ColumnTable())
    slots, _ = table.slots(numbers(*range(1000)))
    table.column("n")[slots] = np.arange(1000)
    (first,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    table.mark(table.find(numbers(7, 500, 7)))
    table.remove(table.find(numbers(3, 5000)))
    fleeting, _ = table.slots(numbers(2000))
    table.remove(fleeting)
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    assert len(delta.rows) < len(first.rows) / 20
    seen_keys: list[int] = []
    part, settled = COLUMN_TABLES.part(delta, lambda key: seen_keys.append(key) or key == 7)  # type: ignore[func-returns-value]
    assert (sorted(seen_keys), settled) == ([3, 7, 500], True)
    copy = ColumnTable()
    copy.apply(part)
    assert list(copy.contents()) == [(7, {"n": 7})]
    assert not table.has_changes()


def test_a_slot_that_was_free_begins_with_nothing() -> None:
    table = ColumnTable()
    declared(table)
    slots, _ = table.slots(keys_of([("a", 1)]))
    table.put(slots, values_of([(5, "text", [1])]))
    table.remove(slots)
    again, _ = table.slots(keys_of([("b", 1)]))
    assert again.tolist() == slots.tolist()
    assert table.values(again).to_pylist() == [{"count": None, "text": None, "many": None}]


def test_different_keys_of_one_hash_are_told_apart() -> None:
    """The hash of a null in one column is that of a number; the keys differ nevertheless."""
    from flott.runtime.managed_state.columns import slot_index

    table = counted(ColumnTable())
    modulus = 1 << 64
    wanted = int(slot_index.hashed([np.zeros(1, np.int64)], np.ones(1, np.uint64), 1)[0])
    # The inverse of the hash: each step can be undone.
    inverse = wanted
    for factor in (int(slot_index._MIX), int(slot_index._GOLDEN)):
        inverse ^= inverse >> 32
        inverse = inverse * pow(factor, -1, modulus) % modulus
    twin = inverse - modulus if inverse >= 1 << 63 else inverse
    assert int(slot_index.hashed([np.array([twin])], None, 1)[0]) == wanted
    slots, _ = table.slots(numbers(None, twin, None, twin))  # type: ignore[arg-type]
    assert slots.tolist() == [0, 1, 0, 1]
    assert table.keys(np.array([0, 1])).column(0).to_pylist() == [None, twin]


def test_rows_expire_by_their_last_update() -> None:
    table = ColumnTable()
    key, value = pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int64())])
    table.declare(key, value, 1, ages_from=1000)
    table.slots(numbers(1, 2))
    table.now_ms = 2000
    table.mark(table.find(numbers(2)))
    table.slots(numbers(3))
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    copy = ColumnTable()
    copy.apply(delta)
    copy.declare(key, value, 1, ages_from=9000)
    assert copy.expire(2000) == 1
    assert sorted(key for key, _ in copy.contents()) == [2, 3]
    assert copy.expire(2001) == 2


def test_rows_without_a_time_are_stamped_when_they_get_a_time_to_live() -> None:
    table = counted(ColumnTable())
    table.slots(numbers(1))
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    copy = ColumnTable()
    copy.apply(delta)
    copy.declare(pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int64())]), 1, ages_from=500)
    assert copy.has_changes()
    assert (copy.expire(500), copy.expire(501)) == (0, 1)


@pytest.mark.parametrize("rocksdb", [False, True])
def test_columns_may_be_widened_added_and_dropped(tmp_path: Path, rocksdb: bool) -> None:
    key = pa.schema([("k", pa.int64())])
    values = [pa.schema([("n", pa.int32()), ("old", pa.string())])]
    cluster = KindCluster(COLUMN_TABLES, tmp_path, rocksdb, lambda table: table.declare(key, values[-1], 1))
    table = cluster.table(1)
    table.put(table.slots(numbers(1, 2))[0], pa.record_batch([[10, 20], ["x", "y"]], schema=values[0]))
    cluster.happen(("checkpoint",))
    values.append(pa.schema([("n", pa.int64()), ("new", pa.string()), pa.field("zero", pa.int32(), nullable=False)]))
    cluster.happen(("restart",))
    table = cluster.table(1)
    table.column("n")[table.find(numbers(1))] = 1 << 40
    table.mark(table.find(numbers(1)))
    cluster.happen(("checkpoint",))
    cluster.happen(("compact", 0, 9))
    held = {key: held for table in cluster.tables() for key, held in table.contents()}
    assert held == {1: {"n": 1 << 40, "new": None, "zero": 0}, 2: {"n": 20, "new": None, "zero": 0}}
    cluster.close()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (pa.schema([("k", pa.int64())]), pa.schema([("n", pa.int32())]), "column 'n' of a state was saved as int64"),
        (pa.schema([("other", pa.int64())]), pa.schema([("n", pa.int64())]), "Keys cannot change"),
    ],
)
def test_columns_that_would_lose_values_are_refused(key: Any, value: Any, message: str) -> None:
    table = counted(ColumnTable())
    table.slots(numbers(1))
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    copy = ColumnTable()
    copy.apply(delta)
    with pytest.raises(StateMigrationError, match=message):
        copy.declare(key, value, 1)


@pytest.mark.parametrize("typed", [True, False])
def test_changes_come_back_from_bytes(typed: bool) -> None:
    header = TableHeader("t", COLUMN_TABLES.name, False, schema_of(Types.LONG()) if typed else None)
    table = counted(ColumnTable())
    table.slots(numbers(1, 2))
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    assert decode_delta(header, encode_delta(header, delta)) == delta
    with pytest.raises(CorruptStateError, match="version 99 of their format"):
        decode_delta(header, encode_delta(header, delta._replace(version=99)))


def test_what_is_dead_is_dropped() -> None:
    table = ColumnTable()
    table.declare(pa.schema([("k", pa.string())]), pa.schema([("v", pa.string())]), 1)
    for turn in range(30):
        texts = pa.array([f"{turn} {number}" for number in range(1000)])
        slots, _ = table.slots(pa.record_batch([texts], names=["k"]))
        table.put(slots, pa.record_batch([texts], names=["v"]))
        if turn:
            table.remove(table.find(pa.record_batch([[f"{turn - 1} {number}" for number in range(1000)]], names=["k"])))
        table.drain(SameGroup(0))  # type: ignore[arg-type]
    assert table.size() == 1000
    assert len(table._numberings[0]) < 8000  # type: ignore[arg-type]
    assert table.nbytes < 2_000_000
    assert {key: held["v"] for key, held in table.contents()} == {f"29 {n}": f"29 {n}" for n in range(1000)}


def test_tools_change_and_release_rows() -> None:
    table = ColumnTable()
    declared(table)
    slots, _ = table.slots(keys_of([("a", 1), ("a", 2), ("b", 1)]))
    table.put(slots, values_of([(1, "x", None), (2, "y", [1]), (3, "z", None)]))
    (delta,) = table.drain(SameGroup(0)).values()  # type: ignore[arg-type]
    copy = ColumnTable()
    copy.apply(delta)
    COLUMN_TABLES.transform(
        copy, lambda key, _, held: None if key == "b" else [{**row, "count": row["count"] + 10} for row in held]
    )
    assert seen([copy]) == {("a", 1): (11, "x", None), ("a", 2): (12, "y", [1])}
    assert [key for key, _, _ in COLUMN_TABLES.release(copy)] == ["a"]
    assert copy.size() == 0


def test_a_table_that_is_used_before_it_is_declared_says_what_to_do() -> None:
    with pytest.raises(StateError, match=r"Say with declare\(\)"):
        ColumnTable().slots(numbers(1))


def test_the_kinds_of_state_import_neither_numpy_nor_pyarrow() -> None:
    code = "import sys, flott.runtime.managed_state.kinds.registry; print({'numpy', 'pyarrow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
