"""CURRENT_WATERMARK: the event time that the former epoch ended with, so that a query can tell which rows are late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.table import StreamTableEnvironment
from flott.table._connectors import registry
from flott.testing.harness import in_process
from tests.unit.table import changelog_tables

START = datetime(2024, 5, 1)


def rows(of: str, zone: Any, query: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    times = [START.replace(tzinfo=zone) + timedelta(seconds=seconds) for seconds in (10, 20, 5, 30)]
    monkeypatch.setitem(changelog_tables.TABLES, "t", [("+I", (time,)) for time in times])
    t_env = StreamTableEnvironment.create(in_process(1, flott__epoch__max_records="1"))
    t_env.execute_sql(
        f"CREATE TABLE t (ts {of}, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)"
        f" WITH ('connector' = '{changelog_tables.NAME}', 'data' = 't')"
    )
    with t_env.execute_sql(query).collect() as found:
        return [tuple(row) for row in found]


@pytest.mark.parametrize(("of", "zone"), [("TIMESTAMP(3)", None), ("TIMESTAMP_LTZ(3)", UTC)])
def test_it_is_the_watermark_before_the_epoch_and_null_at_first(
    of: str, zone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rows(of, zone, "SELECT CURRENT_WATERMARK(ts) FROM t", monkeypatch)
    expected = [None, *(START.replace(tzinfo=zone) + timedelta(seconds=seconds) for seconds in (8, 18, 18))]
    assert [watermark for (watermark,) in found] == expected


def test_a_query_can_drop_late_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT SECOND(ts) FROM t WHERE CURRENT_WATERMARK(ts) IS NULL OR ts > CURRENT_WATERMARK(ts)"
    assert rows("TIMESTAMP(3)", None, query, monkeypatch) == [(10,), (20,), (30,)]
