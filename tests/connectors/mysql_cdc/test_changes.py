"""A table and its changes, read from a real server."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from flott.common.types import Row, RowKind
from flott.datastream.connectors.mysql_cdc import ChangelogRowDeserializer, DebeziumDictDeserializer, StartupOptions
from flott.errors import ConnectorError
from tests.connectors.change_capture import Epochs, replay

pytestmark = pytest.mark.connectors


def kinds(rows: list[Row]) -> list[str]:
    return [f"{row.get_row_kind()} {row.id}" for row in rows]


def test_the_rows_come_first_and_then_every_change(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(20))")
    execute("INSERT INTO t SELECT seq, CONCAT('a', seq) FROM seq_1_to_25")
    job = Epochs(database.builder("t").split_size(10).build())
    job.run()
    assert kinds(job.output) == [f"+I {i}" for i in range(1, 26)]
    execute("INSERT INTO t VALUES (26, 'new')")
    execute("UPDATE t SET v = 'changed' WHERE id = 3")
    execute("DELETE FROM t WHERE id = 4")
    job.run()
    assert kinds(job.output[25:]) == ["+I 26", "-U 3", "+U 3", "-D 4"]
    assert job.output[26] == Row.of_kind(RowKind.UPDATE_BEFORE, id=3, v="a3")
    assert job.output[27] == Row.of_kind(RowKind.UPDATE_AFTER, id=3, v="changed")
    assert job.output[28] == Row.of_kind(RowKind.DELETE, id=4, v="a4")


def test_changes_while_the_snapshot_is_read_are_neither_lost_nor_doubled(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    execute("INSERT INTO t SELECT seq, 0 FROM seq_1_to_40")
    job = Epochs(database.builder("t").split_size(10).build(), max_records=10)
    job.step()  # chunk 1..10
    execute("UPDATE t SET v = 1 WHERE id IN (5, 15, 35)")
    execute("UPDATE t SET id = 100 WHERE id = 6")  # from a chunk that was read to one that was not
    job.step()
    execute("DELETE FROM t WHERE id IN (1, 12, 33)")
    execute("UPDATE t SET id = 0 WHERE id = 40")  # from a chunk that is still to be read to one that was read
    job.run()
    assert replay(job.output) == {i: {"id": i, "v": v} for i, v in execute("SELECT id, v FROM t")}


def test_transactions_that_span_the_snapshot_count_once(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    execute("INSERT INTO t SELECT seq, 0 FROM seq_1_to_20")
    job = Epochs(database.builder("t").split_size(10).build(), max_records=10)
    job.step()
    early = database.connect(autocommit=False)
    with early.cursor() as cursor:
        cursor.execute("UPDATE t SET v = 7 WHERE id IN (2, 12)")
        cursor.execute("SAVEPOINT s")
        cursor.execute("UPDATE t SET v = 8 WHERE id IN (3, 13)")
        cursor.execute("ROLLBACK TO s")
        cursor.execute("INSERT INTO t VALUES (50, 1)")
        job.step()
        early.commit()
    job.run()
    early.close()
    assert replay(job.output) == {i: {"id": i, "v": v} for i, v in execute("SELECT id, v FROM t")}


def test_a_prepared_transaction_counts_when_it_is_committed(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    for name, key in (("kept", 1), ("dropped", 2)):
        other = database.connect()
        with other.cursor() as cursor:
            for statement in (f"XA START '{name}'", f"INSERT INTO t VALUES ({key})", f"XA END '{name}'"):
                cursor.execute(statement)
            cursor.execute(f"XA PREPARE '{name}'")
        other.close()
    execute("INSERT INTO t VALUES (3)")
    job.run()
    assert kinds(job.output) == ["+I 3"]
    with pytest.raises(ConnectorError, match="2 XA transactions"):
        Epochs(database.builder("t").build()).run()
    job.die()
    execute("XA COMMIT 'kept'")
    execute("XA ROLLBACK 'dropped'")
    execute("INSERT INTO t VALUES (4)")
    job.run()
    assert kinds(job.output) == ["+I 3", "+I 1", "+I 4"]


def test_values_of_the_log_are_those_of_the_snapshot(database, execute):
    columns = (
        "id int PRIMARY KEY, ti tinyint unsigned, big bigint unsigned, f float, d double, n decimal(12, 3), b bit(5),"
        " bo boolean, y year, e enum('sad', 'happy'), s set('p', 'q', 'r'), s0 set('p'), j json, bl blob, tx text,"
        " v varchar(300), c char(4), bi binary(4), vb varbinary(9), da date, dt datetime(3), ts timestamp(6) NULL,"
        " t0 timestamp NULL, tm time(2), tn time, dz date, g point"
    )
    execute(f"CREATE TABLE t ({columns}) CHARACTER SET utf8mb4")
    values = (
        "200, 18446744073709551615, 1.1, 0.1, '12.340', b'10110', true, 2024, 'happy', 'r,p', '',"
        " '{\"a\": [1, null]}', x'00ff00', 'Grüße, 世界', 'v', 'ab', x'0102', x'010200', '2024-02-29',"
        " '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789123', '1970-01-02 00:00:00', '-12:34:56.78', '101:02:03',"
        " '0000-00-00', Point(1, 2)"
    )
    execute("SET sql_mode = '', time_zone = '+00:00'")
    execute(f"INSERT INTO t VALUES (1, {values})")
    job = Epochs(database.builder("t").server_time_zone("Europe/Berlin").build())
    job.run()
    execute(f"INSERT INTO t VALUES (2, {values})")
    execute("INSERT INTO t (id) VALUES (3)")
    job.run()
    first, second, empty = job.output
    assert {**second.as_dict(), "id": 1} == first.as_dict()
    assert [type(value) for value in second] == [type(value) for value in first]
    expected: dict[str, Any] = {
        "ti": 200, "big": 18446744073709551615, "d": 0.1, "n": Decimal("12.340"), "b": 0b10110, "y": 2024,
        "e": "happy", "s": "p,r", "s0": "", "bl": b"\x00\xff\x00", "tx": "Grüße, 世界", "c": "ab",
        "bi": b"\x01\x02\x00\x00", "vb": b"\x01\x02\x00", "da": datetime.date(2024, 2, 29), "dz": None,
        "ts": datetime.datetime(2024, 2, 29, 13, 34, 56, 789123), "t0": datetime.datetime(1970, 1, 2, 1),
        "tm": -datetime.timedelta(hours=12, minutes=34, seconds=56, milliseconds=780),
        "tn": datetime.timedelta(hours=101, minutes=2, seconds=3),
    }  # fmt: skip
    assert {name: second.as_dict()[name] for name in expected} == expected
    assert set(empty.as_dict().values()) == {3, None}


def test_a_new_column_appears_with_the_change_that_has_it(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = Epochs(database.builder("t").build())
    job.run()
    execute("INSERT INTO t VALUES (1)")
    execute("ALTER TABLE t ADD COLUMN v varchar(9) DEFAULT 'd'")
    execute("INSERT INTO t VALUES (2, 'x')")
    execute("ALTER TABLE t DROP COLUMN v")
    execute("INSERT INTO t VALUES (3)")
    job.run()
    assert job.output == [Row(id=1), Row(id=2, v="x"), Row(id=3)]


def test_debezium_dicts_have_the_operation_and_where_it_happened(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(9))")
    execute("INSERT INTO t VALUES (1, 'a')")
    job = Epochs(database.builder("t").deserializer(DebeziumDictDeserializer()).build())
    job.run()
    execute("UPDATE t SET v = 'b'")
    execute("TRUNCATE t")
    job.run()
    read, updated, truncated = job.output
    assert (read["op"], read["after"], read["source"]["snapshot"]) == ("r", {"id": 1, "v": "a"}, True)
    assert (updated["op"], updated["before"], updated["after"]) == ("u", {"id": 1, "v": "a"}, {"id": 1, "v": "b"})
    assert (updated["source"]["db"], updated["source"]["table"]) == (database.name, "t")
    assert updated["source"]["position"].startswith("binlog.00")
    assert abs(updated["ts_ms"] / 1000 - datetime.datetime.now().timestamp()) < 120
    assert (truncated["op"], truncated["before"], truncated["after"]) == ("t", None, None)
    assert job.timestamps == [record["ts_ms"] for record in job.output]


def test_other_tables_are_left_out_and_need_no_epochs(database, execute):
    execute("CREATE TABLE a1 (id int PRIMARY KEY)")
    execute("CREATE TABLE a2 (id int PRIMARY KEY)")
    execute("CREATE TABLE b (id int PRIMARY KEY)")
    job = Epochs(database.builder("a.").deserializer(ChangelogRowDeserializer(("table_name",))).build())
    job.run()
    before = job.epochs
    for i in range(30):
        execute(f"INSERT INTO b VALUES ({i})")
        job.step()
    assert job.epochs <= before + 1  # one may end the snapshot phase
    execute("INSERT INTO a2 VALUES (2)")
    job.run()
    assert [(row.id, row.table_name) for row in job.output] == [(2, "a2")]


def test_a_snapshot_ends(database, execute):
    execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    execute("CREATE TABLE words (word varchar(9) PRIMARY KEY)")
    execute("INSERT INTO t SELECT seq * 1000 FROM seq_1_to_101")
    execute("INSERT INTO words VALUES ('a'), ('b')")
    job = Epochs(database.builder("t", "words").startup_options(StartupOptions.snapshot()).split_size(7).build(), 20)
    job.run()
    assert job.finished
    assert sorted(row.id for row in job.output if "id" in row) == [i * 1000 for i in range(1, 102)]
    assert [row.word for row in job.output if "word" in row] == ["a", "b"]


def test_the_log_is_read_from_its_end_its_beginning_or_an_offset(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY)")
    file, position = execute("SHOW MASTER STATUS")[0][:2]
    execute("INSERT INTO t VALUES (1)")
    latest = Epochs(database.builder("t").startup_options(StartupOptions.latest()).build())
    latest.run()
    execute("FLUSH BINARY LOGS")
    execute("INSERT INTO t VALUES (2)")
    execute("FLUSH BINARY LOGS")
    execute("FLUSH BINARY LOGS")
    execute("INSERT INTO t VALUES (3)")
    latest.run()
    earliest = Epochs(database.builder("t").startup_options(StartupOptions.earliest()).build())
    earliest.run()
    offset = Epochs(database.builder("t").startup_options(StartupOptions.specific_offset(file, position)).build())
    offset.run()
    found = [[row.id for row in job.output] for job in (latest, earliest, offset)]
    assert found == [[2, 3], [1, 2, 3], [1, 2, 3]]


def test_a_large_transaction_is_one_slice_and_small_ones_are_bundled(database, execute):
    execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(100))")
    job = Epochs(database.builder("t").build(), max_records=50)
    job.run()
    execute("INSERT INTO t SELECT seq, REPEAT('x', 90) FROM seq_1_to_20000")
    for i in range(200):
        execute(f"INSERT INTO t VALUES ({30000 + i}, 'y')")
    job.run()
    assert [row.id for row in job.output] == [*range(1, 20001), *range(30000, 30200)]
    assert job.epochs < 60
