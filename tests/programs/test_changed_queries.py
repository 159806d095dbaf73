"""A query that is changed between a savepoint and the restart: it keeps its state, or is refused in words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")

from flott.common import JobClient
from flott.common._savepoint_format import SavepointFormatType
from flott.common.completable_future import CompletableFuture
from flott.datastream import StreamExecutionEnvironment
from flott.errors import JobFailedError, ProgramError
from tests.programs import runner, tables
from tests.programs.runner import Setting

TOTALS = "SELECT usr, SUM(cents) AS total FROM orders GROUP BY usr"
JOINED = "SELECT o.id, s.carrier FROM orders o JOIN shipments s ON o.id = s.order_id"
WINDOWS = (
    "SELECT window_start, usr, SUM(cents) AS total FROM"
    " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, usr"
)


def changed(before: str, after: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run one query up to a savepoint and another one from there, at another parallelism; what both have written."""
    savepoints: list[CompletableFuture[str]] = []

    def use(query: str) -> None:
        def build(env: StreamExecutionEnvironment, folder: str) -> None:
            t_env = tables.tables_of(env)
            changes = t_env.to_changelog_stream(t_env.sql_query(query))
            changes.map(tables.described).sink_to(runner.lines_to(folder, "changes")).uid("sink")

        monkeypatch.setattr(runner, "importlib", SimpleNamespace(import_module=lambda _: SimpleNamespace(build=build)))

    def stop(client: JobClient, step: str, epoch: int) -> None:
        if (step, epoch) == ("ran", 2):
            path = str(folder / "savepoints")
            savepoints.append(client.stop_with_savepoint(False, path, SavepointFormatType.CANONICAL))

    use(before)
    runner._run_with(stop, "query", folder, "in-process", Setting(2))
    use(after)
    setting = Setting(3, restore_from=savepoints[0].result())
    runner._environment("query", folder, "in-process", setting).execute("query")
    return runner.output(folder)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (TOTALS, TOTALS, "+U ('ann', '3800')"),
        (TOTALS, TOTALS.replace("FROM orders", "FROM orders WHERE id <> 25"), "+U ('ann', '2900')"),
        (TOTALS, f"SELECT UPPER(usr), total / 100 FROM ({TOTALS})", "+U ('ANN', '38')"),
        (JOINED, JOINED.replace("o.id,", "o.id, o.cents,"), "+I ('5', '700', 'rail')"),
        (JOINED, f"{JOINED} AND o.id < 1000", "+I ('5', 'rail')"),
        (WINDOWS, f"SELECT total, usr FROM ({WINDOWS}) WHERE usr <> 'bob'", "+I ('2000', 'ann')"),
    ],
    ids=["the same", "a filter", "a projection", "a column", "a condition", "a projection of windows"],
)
def test_a_query_that_still_fits_goes_on_with_its_state(
    before: str, after: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"changes\t{expected}" in changed(before, after, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (TOTALS, "SELECT id, SUM(cents) FROM orders GROUP BY id", r"(?s)declared with \['id'\].*GroupAggregate"),
        (TOTALS, TOTALS.replace("SUM(", "MAX("), r"(?s)'0\.sum', .*declared with .*GroupAggregate"),
        (TOTALS, TOTALS.replace("SUM(", "COUNT(*), SUM("), r"(?s)'1\.sum', .*GroupAggregate"),
        (JOINED, JOINED.replace("orders o", "(SELECT id, usr FROM orders) o"), r"(?s)declared with .*Join\("),
        (WINDOWS, WINDOWS.replace("SUM(", "MIN("), "(?s)declared with .*WindowAggregate"),
        (TOTALS, "SELECT usr FROM orders", r"holds state of operator 'GroupAggregate\(groupBy=\[usr\]"),
    ],
    ids=["another key", "another function", "one more function", "fewer columns", "of windows", "no groups"],
)
def test_a_query_that_does_not_fit_is_refused_with_the_name_of_the_operator(
    before: str, after: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises((JobFailedError, ProgramError), match=expected):
        changed(before, after, tmp_path, monkeypatch)
