"""Random queries over random changelogs, cut into random epochs, crashed and rescaled: DuckDB decides what is left.

The seed chooses the query, the rows, how many of them an epoch brings, at which steps of which epochs the job crashes,
what its parallelism becomes, the backend of state, and whether changes are folded into mini-batches.
"""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.common.job_status import JobStatus
from flott.common.types import RowKind
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.orders import RescaleJob
from flott.table import StreamTableEnvironment
from flott.table._connectors import registry
from flott.testing.harness import Crash, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from tests.unit.table import changelog_tables
from tests.unit.table.plan.random_queries import RandomQueries

duckdb = pytest.importorskip("duckdb")

Row = tuple[Any, ...]

COLUMNS = {"t": "a INT, b BIGINT, c VARCHAR", "u": "a INT, d DOUBLE"}

#: Queries by event time, over inserts only: what Flott runs, and the same in the words of DuckDB.
OVER_TIME = (
    (
        "SELECT window_start AS s, k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most, COUNT(DISTINCT v) AS d FROM"
        " TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k",
        "SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, k, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM e"
        " GROUP BY s, k",
    ),
    (
        "SELECT window_end AS s, k, COUNT(*) AS n, MIN(v) AS least FROM"
        " TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))"
        " GROUP BY window_start, window_end, k",
        "SELECT time_bucket(INTERVAL '5 seconds', ts) + i * INTERVAL '5 seconds' AS s, k, COUNT(*), MIN(v) FROM e,"
        " range(1, 4) AS r(i) GROUP BY s, k",
    ),
    (
        "SELECT window_end AS s, COUNT(*) AS n, SUM(v) AS total FROM"
        " TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND))"
        " GROUP BY window_start, window_end",
        "SELECT time_bucket(INTERVAL '15 seconds', ts) + i * INTERVAL '5 seconds' AS s, COUNT(*), SUM(v) FROM e,"
        " range(1, 4) AS r(i) WHERE ts < time_bucket(INTERVAL '15 seconds', ts) + i * INTERVAL '5 seconds' GROUP BY s",
    ),
    (
        "SELECT window_start AS s, k, COUNT(*) AS n, SUM(v) AS total FROM"
        " TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '4' SECOND))"
        " GROUP BY window_start, window_end, k",
        "SELECT MIN(ts), k, COUNT(*), SUM(v) FROM (SELECT *, SUM(fresh) OVER (PARTITION BY k ORDER BY ts, id) AS nr"
        " FROM (SELECT *, CASE WHEN ts - LAG(ts) OVER (PARTITION BY k ORDER BY ts, id) <= INTERVAL '4 seconds' THEN 0"
        " ELSE 1 END AS fresh FROM e)) GROUP BY k, nr",
    ),
    (
        "SELECT e.id, f.id AS id2 FROM e {join} JOIN f ON e.k = f.k"
        " AND f.ts BETWEEN e.ts - INTERVAL '3' SECOND AND e.ts + INTERVAL '6' SECOND",
        "SELECT e.id, f.id AS id2 FROM e {join} JOIN f ON e.k = f.k"
        " AND f.ts BETWEEN e.ts - INTERVAL '3 seconds' AND e.ts + INTERVAL '6 seconds'",
    ),
    (
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '8' SECOND PRECEDING AND"
        " CURRENT ROW) AS total FROM e",
        "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '8 seconds' PRECEDING AND"
        " CURRENT ROW) FROM e",
    ),
    (
        "SELECT l.s, l.k, l.n, r.n AS n2 FROM"
        " (SELECT window_start AS s, window_start, window_end, k, COUNT(*) AS n FROM"
        " TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k) AS l"
        " {join} JOIN (SELECT window_start, window_end, k, COUNT(*) AS n FROM"
        " TABLE(TUMBLE(TABLE f, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k) AS r"
        " ON l.window_start = r.window_start AND l.window_end = r.window_end AND l.k = r.k",
        "SELECT l.s, l.k, l.n, r.n FROM (SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, k, COUNT(*) AS n FROM e"
        " GROUP BY s, k) AS l {join} JOIN (SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, k, COUNT(*) AS n FROM f"
        " GROUP BY s, k) AS r ON l.s = r.s AND l.k = r.k",
    ),
    (
        "SELECT s, id FROM (SELECT window_start AS s, id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end"
        " ORDER BY v DESC, id) AS r FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE r <= 2",
        "SELECT s, id FROM (SELECT time_bucket(INTERVAL '10 seconds', ts) AS s, id, ROW_NUMBER() OVER (PARTITION BY"
        " time_bucket(INTERVAL '10 seconds', ts) ORDER BY v DESC, id) AS r FROM e) WHERE r <= 2",
    ),
    (
        "SELECT e.id, p.v AS price FROM e LEFT JOIN f FOR SYSTEM_TIME AS OF e.ts AS p ON e.k = p.k",
        "SELECT e.id, p.v FROM e ASOF LEFT JOIN f AS p ON e.k = p.k AND e.ts >= p.ts",
    ),
)


def random_row(random: Random, table: str) -> Row:
    """Return a row; few different values, so that rows meet."""
    a = random.choice([None, 1, 2, 3, 4])
    if table == "u":
        return a, random.choice([0.5, 1.5, 2.5, 7.0, 100.0])
    return a, random.choice([5, 10, 20, 30, 40]), random.choice([None, "x", "y", "z"])


def random_changes(random: Random, table: str, count: int, updates: bool) -> tuple[list[tuple[str, Row]], list[Row]]:
    """Return changes of a table and the rows that they leave."""
    changes: list[tuple[str, Row]] = []
    rows: list[Row] = []
    for _ in range(count):
        chance = random.random()
        if updates and rows and chance < 0.2:
            changes.append(("-D", rows.pop(random.randrange(len(rows)))))
        elif updates and rows and chance < 0.4:
            place = random.randrange(len(rows))
            new = random_row(random, table)
            changes += [("-U", rows[place]), ("+U", new)]
            rows[place] = new
        else:
            rows.append(random_row(random, table))
            changes.append(("+I", rows[-1]))
    return changes, rows


class Disturbance:
    """Crashes and rescales a job at random steps, a few times."""

    def __init__(self, random: Random):
        self._random = random
        self._left = random.randrange(4)
        self._master: JobMaster | None = None
        self.crashes = 0

    def begin(self, master: JobMaster) -> None:
        """Note the job that runs now."""
        self._master = master

    def __call__(self, step: str, epoch: int) -> None:
        if self._left and self._random.random() < 0.15:
            self._left -= 1
            if self._random.random() < 0.4 and self._master is not None:
                self._master.submit(RescaleJob(self._random.randint(1, 4)))
            else:
                self.crashes += 1
                raise Crash


def left_over(query: str, create: list[str], random: Random, folder: Path) -> Counter[Row]:
    """Run a query through its disturbances and return the rows that its changelog leaves."""
    ledger = Ledger(str(folder))
    disturb = Disturbance(random)
    options = {
        "flott__epoch__max_records": str(random.choice([3, 7, 20])),
        "state__backend__type": random.choice(["hashmap", "rocksdb"]),
        "io__tmp__dirs": str(folder / "local"),
    }
    settings = {"table.exec.mini-batch.enabled": random.choice(["true", "false"])}
    while True:
        env = in_process(random.randint(1, 3), **options)
        t_env = StreamTableEnvironment.create(env)
        for key, value in settings.items():
            t_env.get_config().set(key, value)
        for statement in create:
            t_env.execute_sql(statement)
        t_env.to_changelog_stream(t_env.sql_query(query)).sink_to(LedgerSink(ledger))
        run = live(env, folder / "job", on_step=disturb, on_start=disturb.begin)
        if not run.crashed:
            assert run.status is JobStatus.FINISHED, run.failure
            return folded(ledger.records)


def folded(records: list[Any]) -> Counter[Row]:
    """Return the rows that are left of changes."""
    rows: Counter[Row] = Counter()
    for row in records:
        added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        rows[tuple(map(comparable, row))] += 1 if added else -1
    assert all(count >= 0 for count in rows.values()), f"rows were taken back that were not there: {-rows}"
    return +rows


def comparable(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def expected(database: Any, query: str) -> Counter[Row]:
    return Counter(tuple(map(comparable, row)) for row in database.execute(query).fetchall())


def check_changelogs(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    random = Random(seed)
    query, _ = RandomQueries(seed).query(1 + seed % 3)
    database, create = duckdb.connect(), []
    for table, columns in COLUMNS.items():
        updates = random.random() < 0.7
        changes, rows = random_changes(random, table, random.choice([0, 5, 15, 25]), updates)
        monkeypatch.setitem(changelog_tables.TABLES, table, changes)
        database.execute(f"CREATE TABLE {table} ({columns})")
        for row in rows:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        create.append(
            f"CREATE TABLE {table} ({columns}) WITH ('connector' = '{changelog_tables.NAME}', 'data' = '{table}',"
            f" 'updates' = '{str(updates).lower()}')"
        )
    assert left_over(query, create, random, folder) == expected(database, query), query


def check_time(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    random = Random(seed)
    ours, theirs = OVER_TIME[seed % len(OVER_TIME)]
    join = random.choice(["", "LEFT", "RIGHT", "FULL"])
    database, create = duckdb.connect(), []
    start = datetime.datetime(2024, 5, 1)
    columns = "id INT, k INT, v INT, ts TIMESTAMP(3)"
    for table in ("e", "f"):
        # Times are all different, and out of order by less than the bound of the watermark: no row is late.
        times = sorted(random.sample(range(0, 90_000, 50), random.choice([1, 12, 30])))
        times.sort(key=lambda time: time + random.randrange(8_000))
        rows = [
            (i, random.choice([1, 2, 3]), random.randrange(6), start + datetime.timedelta(milliseconds=time))
            for i, time in enumerate(times)
        ]
        monkeypatch.setitem(changelog_tables.TABLES, table, [("+I", row) for row in rows])
        database.execute(f"CREATE TABLE {table} (id INT, k INT, v INT, ts TIMESTAMP)")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
        versioned = ", PRIMARY KEY (k) NOT ENFORCED" if table == "f" and "SYSTEM_TIME" in ours else ""
        create.append(
            f"CREATE TABLE {table} ({columns}, WATERMARK FOR ts AS ts - INTERVAL '9' SECOND{versioned}) WITH"
            f" ('connector' = '{changelog_tables.NAME}', 'data' = '{table}')"
        )
    query = ours.format(join=join)
    assert left_over(query, create, random, folder) == expected(database, theirs.format(join=join)), query


@pytest.mark.parametrize("seed", range(30))
def test_changelogs_of_random_queries_leave_the_rows_of_the_query(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_changelogs(seed, tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", range(18))
def test_queries_by_event_time_give_the_rows_of_the_query(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_time(seed, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("check", [check_changelogs, check_time])
@pytest.mark.parametrize("hundred", range(1, 4))
def test_hundreds_of_random_queries(check: Any, hundred: int, tmp_path: Path) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        with pytest.MonkeyPatch.context() as patch:
            check(seed, tmp_path / str(seed), patch)
