"""Random transactions run while a job reads, crashes and continues; its changelog must give the table, exactly.

Every update of a row adds one to its counter, so a change that is lost or read twice is noticed at once, not only if
it is the last.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import psycopg
import pytest

from flott.common.types import Row, RowKind
from tests.connectors.change_capture import Crash, Epochs

KEYS = 60


def write(database: Any, seed: int, transactions: int, failures: list[BaseException], hold: float = 0.01) -> None:
    """Run random transactions: short and long, with savepoints, rolled back or committed."""
    chance = random.Random(seed)
    try:
        connection = _again(database)
        for _ in range(transactions):
            try:
                for _ in range(chance.choice((1, 1, 2, 5))):
                    _change(connection, chance)
                    if chance.random() < 0.2:
                        time.sleep(chance.random() * hold)
                    if chance.random() < 0.2:
                        connection.execute("SAVEPOINT s")
                        _change(connection, chance)
                        connection.execute(chance.choice(("ROLLBACK TO s", "RELEASE s")))
                (connection.rollback if chance.random() < 0.15 else connection.commit)()
            except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
                connection.rollback()
            except psycopg.OperationalError:  # the server was killed: the outcome is what the table says
                connection = _again(database)
        connection.close()
    except BaseException as error:
        failures.append(error)


def _again(database: Any) -> Any:
    for _ in range(600):
        try:
            return database.connect(autocommit=False)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError("the server did not come back")


def _change(connection: Any, chance: random.Random) -> None:
    key, table = chance.randrange(KEYS), chance.choice(("t", "f"))
    what = chance.random()
    if what < 0.3:
        connection.execute(f"INSERT INTO {table} VALUES ({key}, 0) ON CONFLICT DO NOTHING")
    elif what < 0.75:
        connection.execute(f"UPDATE {table} SET n = n + 1 WHERE id = {key}")
    elif what < 0.85:
        other = (key + chance.randrange(1, KEYS)) % KEYS
        connection.execute(f"UPDATE {table} SET id = {other}, n = 0 WHERE id = {key}")
    else:
        connection.execute(f"DELETE FROM {table} WHERE id = {key}")


def apply(rows: list[Row]) -> dict[str, dict[int, int]]:
    """Replay a changelog. Each step must be possible, given those before."""
    tables: dict[str, dict[int, int]] = {"t": {}, "f": {}}
    for place, row in enumerate(rows):
        table, kind, (key, count) = tables[row.table_name], row.get_row_kind(), (row[0], row[1])
        found = table.get(key)
        said = f"record {place}, {kind} {row}: the replayed row is {found}"
        if kind is RowKind.INSERT:
            assert found is None, said
            table[key] = count
        elif kind is RowKind.UPDATE_BEFORE:
            assert found == count, said
            del table[key]
        elif kind is RowKind.UPDATE_AFTER:
            # Table f logs the old row, so the update before has removed it here.
            assert (found is None) if row.table_name == "f" else (found is not None and count == found + 1), said
            table[key] = count
        else:
            assert found is not None, said
            assert row.table_name == "t" or found == count, said
            del table[key]
    return tables


def run(database: Any, seed: int, writers: int, transactions: int, death: float, disturb: Any = None) -> Epochs:
    from flott.datastream.connectors.postgres_cdc import ChangelogRowDeserializer

    database.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
    database.execute("CREATE TABLE f (id int PRIMARY KEY, n int)")
    database.execute("ALTER TABLE f REPLICA IDENTITY FULL")
    for table in ("t", "f"):
        database.execute(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(0, {KEYS - 1}, 2) i")
    chance = random.Random(seed)

    def crash(place: str) -> None:
        if chance.random() < death:
            raise Crash(place)

    source = database.builder("public.[tf]").deserializer(ChangelogRowDeserializer(("table_name",))).split_size(7)
    job = Epochs(source.build(), max_records=9, crash=crash, acknowledges=lambda: chance.random() < 0.7)
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=write, args=(database, seed * 100 + i, transactions, failures), daemon=True)
        for i in range(writers)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if disturb is not None:
            disturb(job)
        else:
            job.step()
    assert not failures, failures
    job.crash = lambda place: None
    job.run()
    return job


def check(database: Any, job: Epochs) -> None:
    found = apply(job.output)
    for table in ("t", "f"):
        assert found[table] == dict(database.execute(f"SELECT id, n FROM {table}"))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_job_that_crashes_between_any_two_steps_reads_every_change_once(database, seed):
    job = run(database, seed, writers=3, transactions=120, death=0.08)
    check(database, job)
    assert job.epochs > 10


@pytest.mark.connectors
@pytest.mark.parametrize("seed", range(3, 23))
def test_many_jobs_that_crash_read_every_change_once(database, seed):
    job = run(database, seed, writers=4, transactions=400, death=0.02 * (seed % 6))
    check(database, job)
