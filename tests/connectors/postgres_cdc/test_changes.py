"""A table and its changes, read from a real server."""

from __future__ import annotations

import datetime
import pickle
import uuid
from decimal import Decimal
from typing import Any

from flott.common.types import Row, RowKind
from flott.datastream.connectors.postgres_cdc import (
    UNAVAILABLE_VALUE,
    ChangelogRowDeserializer,
    DebeziumDictDeserializer,
    StartupOptions,
)
from tests.connectors.change_capture import Epochs, replay


def kinds(rows: list[Row]) -> list[str]:
    return [f"{row.get_row_kind()} {row.id}" for row in rows]


def test_the_rows_come_first_and_then_every_change(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    execute("INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 25) i")
    job = Epochs(database.builder("public.t").split_size(10).build())
    job.run()
    assert kinds(job.output) == [f"+I {i}" for i in range(1, 26)]
    execute("INSERT INTO t VALUES (26, 'new')")
    execute("UPDATE t SET v = 'changed' WHERE id = 3")
    execute("DELETE FROM t WHERE id = 4")
    job.run()
    assert kinds(job.output[25:]) == ["+I 26", "+U 3", "-D 4"]
    assert job.output[26] == Row.of_kind(RowKind.UPDATE_AFTER, id=3, v="changed")
    assert job.output[27] == Row.of_kind(RowKind.DELETE, id=4, v=None)


def test_changes_while_the_snapshot_is_read_are_neither_lost_nor_doubled(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 40) i")
    job = Epochs(database.builder("public.t").split_size(10).build(), max_records=10)
    job.step()  # chunk 1..10
    execute("UPDATE t SET v = 1 WHERE id IN (5, 15, 35)")  # after the first chunk, before the others
    execute("UPDATE t SET id = 100 WHERE id = 6")  # from a chunk that was read to one that was not
    execute("UPDATE t SET id = 7000 WHERE id = 36")
    job.step()
    execute("DELETE FROM t WHERE id IN (1, 12, 33)")
    execute("UPDATE t SET id = 0 WHERE id = 40")  # from a chunk that is still to be read to one that was read
    job.run()
    assert replay(job.output) == {i: {"id": i, "v": v} for i, v in execute("SELECT id, v FROM t")}
    assert len([row for row in job.output if row.get_row_kind() is RowKind.INSERT and row.id == 5]) == 1


def test_transactions_that_span_the_snapshot_count_once(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i")
    job = Epochs(database.builder("public.t").split_size(10).build(), max_records=10)
    job.step()
    with database.connect(autocommit=False) as early:
        early.execute("UPDATE t SET v = 7 WHERE id IN (2, 12)")
        early.execute("SAVEPOINT s")
        early.execute("UPDATE t SET v = 8 WHERE id IN (3, 13)")
        early.execute("ROLLBACK TO s")
        early.execute("INSERT INTO t VALUES (50, 1)")
        job.step()  # the second chunk does not see it
        early.commit()
    job.run()
    assert replay(job.output) == {i: {"id": i, "v": v} for i, v in execute("SELECT id, v FROM t")}


def test_updates_show_the_row_before_if_the_server_logs_it(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    execute("ALTER TABLE t REPLICA IDENTITY FULL")
    execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("UPDATE t SET v = 'c' WHERE id = 1")
    execute("DELETE FROM t WHERE id = 2")
    job.run()
    before, after, deleted = job.output[2:]
    assert before == Row.of_kind(RowKind.UPDATE_BEFORE, id=1, v="a")
    assert after == Row.of_kind(RowKind.UPDATE_AFTER, id=1, v="c")
    assert deleted == Row.of_kind(RowKind.DELETE, id=2, v="b")


def test_values_of_the_log_are_those_of_the_snapshot(database, execute):
    columns = (
        "id int PRIMARY KEY, s smallint, l bigint, r real, d double precision, n numeric(12, 3), b boolean, t text,"
        " c char(4), x bytea, da date, ti time, ts timestamp, tz timestamptz, i interval, u uuid, j jsonb, a int[],"
        " ta text[], e mood, m positive, g int GENERATED ALWAYS AS (s * 2) STORED"
    )
    execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    execute(f"CREATE TABLE t ({columns})")
    values = (
        "-3, 9007199254740993, 1.5, 0.1, 12.340, true, 'Grüße, 世界', 'ab', '\\x00ff', '2024-02-29', '12:34:56.789',"
        " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', '1 day 02:00',"
        " '6f2c3f3e-7d3b-4f5e-9d55-3f6f2b1c0a11',"
        " '{\"a\": [1, null]}', '{1,2,NULL}', '{\"x\",\"y,z\"}', 'happy', 5"
    )
    execute(f"INSERT INTO t VALUES (1, {values})")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute(f"INSERT INTO t VALUES (2, {values})")
    execute("INSERT INTO t VALUES (3)")
    job.run()
    first, second, empty = job.output
    assert {**second.as_dict(), "id": 1} == first.as_dict()
    assert [type(value) for value in second] == [type(value) for value in first]
    expected: dict[str, Any] = {
        "l": 9007199254740993, "d": 0.1, "n": Decimal("12.340"), "b": True, "t": "Grüße, 世界", "c": "ab  ",
        "x": b"\x00\xff", "da": datetime.date(2024, 2, 29), "i": datetime.timedelta(days=1, hours=2),
        "tz": datetime.datetime(2024, 2, 29, 10, 34, 56, 789000, datetime.UTC), "j": {"a": [1, None]},
        "u": uuid.UUID("6f2c3f3e-7d3b-4f5e-9d55-3f6f2b1c0a11"), "a": [1, 2, None], "ta": ["x", "y,z"],
        "e": "happy", "m": 5,
    }  # fmt: skip
    assert {name: second.as_dict()[name] for name in expected} == expected
    assert set(empty.as_dict().values()) == {3, None}
    assert pickle.loads(pickle.dumps(second)) == second


def test_a_large_value_that_did_not_change_is_marked_or_taken_from_the_old_row(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int, big text)")
    execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    execute("INSERT INTO t VALUES (1, 0, repeat('x', 100000))")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("UPDATE t SET v = 1")
    execute("ALTER TABLE t REPLICA IDENTITY FULL")
    execute("UPDATE t SET v = 2")
    job.run()
    assert [row.big for row in job.output[1:]] == [UNAVAILABLE_VALUE, "x" * 100000, "x" * 100000]


def test_a_new_column_appears_with_the_change_that_has_it(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("public.t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    execute("ALTER TABLE t ADD COLUMN v text DEFAULT 'd'")
    execute("INSERT INTO t VALUES (2, 'x')")
    execute("ALTER TABLE t DROP COLUMN v")
    execute("INSERT INTO t VALUES (3)")
    job.run()
    assert job.output == [Row(id=1), Row(id=2, v="x"), Row(id=3)]


def test_debezium_dicts_have_the_operation_and_where_it_happened(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    execute("INSERT INTO t VALUES (1, 'a')")
    job = Epochs(database.builder("public.t").deserializer(DebeziumDictDeserializer()).build())
    job.run()
    execute("UPDATE t SET v = 'b'")
    execute("TRUNCATE t")
    job.run()
    read, updated, truncated = job.output
    assert (read["op"], read["after"], read["source"]["snapshot"]) == ("r", {"id": 1, "v": "a"}, True)
    assert (updated["op"], updated["before"], updated["after"]) == ("u", None, {"id": 1, "v": "b"})
    assert updated["source"]["db"] == database.name
    assert (updated["source"]["schema"], updated["source"]["table"]) == ("public", "t")
    assert "/" in updated["source"]["position"]
    assert abs(updated["ts_ms"] / 1000 - datetime.datetime.now().timestamp()) < 120
    assert (truncated["op"], truncated["before"], truncated["after"]) == ("t", None, None)
    assert job.timestamps == [record["ts_ms"] for record in job.output]


def test_rows_can_carry_their_table_and_time(database, execute):
    execute("CREATE TABLE a1 (id int PRIMARY KEY)")
    execute("CREATE TABLE a2 (id int PRIMARY KEY)")
    execute("CREATE TABLE b (id int PRIMARY KEY)")
    execute("INSERT INTO a1 VALUES (1)")
    source = database.builder("public.a.").deserializer(ChangelogRowDeserializer(("table_name", "op_ts"))).build()
    job = Epochs(source)
    job.run()
    execute("INSERT INTO a2 VALUES (2)")
    execute("INSERT INTO b VALUES (3)")
    job.run()
    assert [(row.id, row.table_name) for row in job.output] == [(1, "a1"), (2, "a2")]
    assert [row.op_ts for row in job.output] == job.timestamps


def test_a_snapshot_ends(database, execute):
    execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    execute("CREATE TABLE words (word text PRIMARY KEY)")
    execute("INSERT INTO t SELECT i * 1000 FROM generate_series(-50, 50) i")
    execute("INSERT INTO words VALUES ('a'), ('b')")
    source = database.builder("public.t", "public.words").startup_options(StartupOptions.snapshot()).split_size(7)
    job = Epochs(source.build(), max_records=20)
    job.run()
    assert job.finished
    assert sorted(row.id for row in job.output if "id" in row) == [i * 1000 for i in range(-50, 51)]
    assert [row.word for row in job.output if "word" in row] == ["a", "b"]
    assert execute("SELECT count(*) FROM pg_replication_slots WHERE database = %s", database.name) == [(0,)]


def test_latest_and_committed_begin_in_the_log(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    execute("INSERT INTO t VALUES (1)")
    latest = Epochs(database.builder("public.t").startup_options(StartupOptions.latest()).build())
    latest.run()
    execute("INSERT INTO t VALUES (2)")
    latest.run()
    execute("INSERT INTO t VALUES (3)")
    committed = Epochs(database.builder("public.t").startup_options(StartupOptions.committed()).build())
    committed.run()
    assert ([row.id for row in latest.output], [row.id for row in committed.output]) == ([2], [3])


def test_partitions_are_changes_of_their_table(database, execute):
    execute("CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)")
    execute("CREATE TABLE p_low PARTITION OF p FOR VALUES FROM (0) TO (100)")
    execute("CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (100) TO (200)")
    execute("INSERT INTO p VALUES (1, 1), (101, 1)")
    job = Epochs(database.builder("public.p").build())
    job.run()
    execute("UPDATE p SET v = 2 WHERE id = 101")
    execute("INSERT INTO p VALUES (2, 2)")
    job.run()
    assert kinds(job.output) == ["+I 1", "+I 101", "+U 101", "+I 2"]


def test_a_table_added_to_the_program_is_read_from_its_rows_on(database, execute):
    execute("CREATE TABLE a (id int PRIMARY KEY)")
    execute("CREATE TABLE b (id int PRIMARY KEY)")
    execute("INSERT INTO a VALUES (1)")
    execute("INSERT INTO b VALUES (10)")
    first = Epochs(database.builder("public.a").build())
    first.run()
    execute("INSERT INTO a VALUES (2)")
    execute("INSERT INTO b VALUES (11)")
    second = Epochs(database.builder("public.a", "public.b").build(), state=first.state)
    second.run()
    execute("INSERT INTO b VALUES (12)")
    second.run()
    assert sorted(row.id for row in second.output) == [2, 10, 11, 12]


def test_tables_of_different_shapes_are_read_over_one_connection(database, execute):
    """psycopg prepares a statement that it has seen often, and FETCH gives other columns for another table."""
    execute("CREATE TABLE a (id int PRIMARY KEY, v text)")
    execute("CREATE TABLE b (id int PRIMARY KEY, x float, y date, z int)")
    execute("INSERT INTO a SELECT i, 'a' FROM generate_series(1, 20) i")
    execute("INSERT INTO b SELECT i, 0.5, '2024-01-01', 7 FROM generate_series(1, 20) i")
    job = Epochs(database.builder("public.a", "public.b").split_size(2).build(), max_records=2)
    job.run()
    assert [row.as_dict() for row in job.output[:20]] == [{"id": i, "v": "a"} for i in range(1, 21)]
    date = datetime.date(2024, 1, 1)
    assert [list(row) for row in job.output[20:]] == [[i, 0.5, date, 7] for i in range(1, 21)]
