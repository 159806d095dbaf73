"""The queries of Nexmark give the rows of an independent engine, per record, with mini-batches and in batch mode."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.nexmark.events import make_events
from bench.nexmark.queries import EVENTS, QUERIES, VIEWS
from flott.common.types import Row, RowKind
from flott.table import EnvironmentSettings, TableEnvironment
from flott.testing.harness import in_process

duckdb = pytest.importorskip("duckdb")

_HOP = """(SELECT *, make_timestamp(w * 1000) AS window_start, make_timestamp((w + 10000) * 1000) AS window_end
  FROM bid, UNNEST(generate_series(
    (epoch_ms("dateTime") // 2000) * 2000 - 8000, (epoch_ms("dateTime") // 2000) * 2000, 2000)) AS u(w))"""


def _tumble(table: str) -> str:
    start = '(epoch_ms("dateTime") // 10000) * 10000'
    return (
        f"(SELECT *, make_timestamp({start} * 1000) AS window_start,"
        f" make_timestamp(({start} + 10000) * 1000) AS window_end FROM {table})"
    )


def for_duckdb(query: str) -> str:
    """Return a query of Nexmark in DuckDB's dialect."""
    text = query.replace("`", '"').replace("DATE_FORMAT(", "strftime(")
    text = text.replace("'yyyy-MM-dd'", "'%Y-%m-%d'").replace("'HH:mm'", "'%H:%M'")
    text = text.replace("AVG(Q.final)", "CAST(trunc(AVG(Q.final)) AS BIGINT)")
    text = text.replace("avg(price)", "CAST(trunc(avg(price)) AS BIGINT)").replace(
        "MOD(auction, 123)", "(auction % 123)"
    )
    hop = """TABLE(HOP(TABLE bid, DESCRIPTOR("dateTime"), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"""
    text = text.replace(hop, _HOP)
    for table in ("bid", "person", "auction"):
        window = f"""TABLE(TUMBLE(TABLE {table}, DESCRIPTOR("dateTime"), INTERVAL '10' SECOND))"""
        text = text.replace(window, _tumble(table))
    return text


#: Queries that DuckDB can run after a change of words.
COMPARED = [q for q in QUERIES if q not in ("q11", "q12", "q13", "q14", "q21", "q22")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nexmark")
    pq.write_table(make_events(2000, per_second=70), made / "events.parquet")
    return made


@pytest.fixture(scope="module")
def expected(folder: Path) -> Any:
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute(
        f"""CREATE VIEW events AS SELECT *, CASE WHEN event_type = 0 THEN person."dateTime" WHEN event_type = 1
        THEN auction."dateTime" ELSE bid."dateTime" END AS "dateTime" FROM '{folder}/events.parquet'"""
    )
    for view in VIEWS:
        base.execute(view.replace("`", '"').replace("TEMPORARY ", ""))
    return base


def rows_of(environment: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    """What is left of a query's changelog; every row that is taken back was there."""
    left: Counter[tuple[Any, ...]] = Counter()
    with environment.execute_sql(QUERIES[query].select).collect() as rows:
        for row in rows:
            assert isinstance(row, Row)
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                left[tuple(row)] += 1
            else:
                assert left[tuple(row)] > 0, row
                left[tuple(row)] -= 1
    return +left


def decided(query: str, rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """What a query decides of its rows: which of several bids with the same price has a rank (q19) is open."""
    if query != "q19":
        return rows
    chosen: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        chosen[row[0], row[2], row[-1]] += count
    return chosen


def environment_of(folder: Path, mode: str) -> TableEnvironment:
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    env = in_process(2, flott__epoch__max_records="700")
    environment = TableEnvironment(env, settings)
    environment.get_config().set("table.exec.mini-batch.enabled", str(mode == "mini-batch").lower())
    options = f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet'"
    environment.execute_sql(EVENTS.format(options=options))
    for view in VIEWS:
        environment.execute_sql(view)
    return environment


@pytest.mark.parametrize("query", COMPARED)
def test_a_query_gives_the_rows_of_another_engine(folder: Path, expected: Any, query: str) -> None:
    wanted = decided(query, Counter(expected.execute(for_duckdb(QUERIES[query].select)).fetchall()))
    for mode in ("stream", "mini-batch", "batch"):
        found = decided(query, rows_of(environment_of(folder, mode), query))
        assert found == wanted, (mode, (found - wanted).most_common(3), (wanted - found).most_common(3))


@pytest.mark.parametrize("query", ["q11", "q14", "q21", "q22"])
def test_a_query_gives_the_same_rows_in_every_mode(folder: Path, query: str) -> None:
    stream, folded, batch = (rows_of(environment_of(folder, mode), query) for mode in ("stream", "mini-batch", "batch"))
    assert stream
    assert stream == folded == batch
