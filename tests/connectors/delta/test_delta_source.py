"""The Delta source: a version, then what later versions add, each row once, wherever the job is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest

deltalake = pytest.importorskip("deltalake", reason="the extra flott[delta] is not installed")

import pyarrow as pa  # noqa: E402

from flott.common.types import Row, RowKind  # noqa: E402
from flott.common.watermark_strategy import WatermarkStrategy  # noqa: E402
from flott.datastream.connectors.base import Boundedness, SliceRequest  # noqa: E402
from flott.datastream.connectors.delta import DeltaSource  # noqa: E402
from flott.errors import ConnectorError, ProgramError, StateError  # noqa: E402
from flott.testing.connectors import SourceConformance, run_source  # noqa: E402
from flott.testing.connectors import SourceRun as Run  # noqa: E402
from flott.testing.connectors.source_run import enumerator_of, through_json  # noqa: E402
from flott.testing.harness import collect, in_process  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])
DAY = date(2026, 11, 18)


def write(path: Path, *ids: int, name: str = "a", mode: str = "append", day: Any = DAY) -> None:
    table = pa.table({"id": ids, "name": [name] * len(ids), "day": [day] * len(ids)}, schema=SCHEMA)
    deltalake.write_deltalake(str(path), table, mode=mode, partition_by=["day"])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "a table with spaces"
    feed = {"delta.enableChangeDataFeed": "true"}
    deltalake.DeltaTable.create(str(path), SCHEMA, partition_by=["day"], configuration=feed)
    return path


def ids(run: Run) -> list[int]:
    return sorted(row["id"] for row in run.records)


def changes(run: Run) -> list[tuple[str, int, str]]:
    return [(row.get_row_kind().name, row["id"], row["name"]) for row in run.records]


def watch(source: DeltaSource, *events: Callable[[], object], seed: int = 1, rows: int | None = None) -> Run:
    """Run a source that does not end: one event after every third epoch, until as many rows came."""
    left = list(events)

    def on_epoch(run: Run) -> None:
        if left and run.epochs % 3 == 0:
            left.pop(0)()

    return run_source(
        source, Random(seed), on_epoch=on_epoch, until=lambda run: not left and len(run.records) >= (rows or 0),
        max_epochs=400,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_version_is_read_once_wherever_the_job_is_interrupted(table: Path, seed: int) -> None:
    for first in range(0, 300, 30):
        write(table, *range(first, first + 30), day=None if first % 60 else DAY)
    source = DeltaSource.for_bounded_row_data(str(table)).build()
    run = run_source(source, Random(seed))
    assert ids(run) == list(range(300))
    assert {row["day"] for row in run.records} == {None, DAY}
    assert run.largest_state < 200
    assert source.boundedness is Boundedness.BOUNDED


def test_an_older_version_and_some_columns_are_read(table: Path) -> None:
    write(table, 1)
    write(table, 2)
    run = run_source(
        DeltaSource.for_bounded_row_data(str(table)).version_as_of(1).column_names("name", "id").build(), Random(1)
    )
    assert run.records == [Row(name="a", id=1)]


@pytest.mark.parametrize("seed", range(5))
def test_what_later_versions_add_follows_the_content(table: Path, seed: int) -> None:
    write(table, *range(100))
    source = DeltaSource.for_continuous_row_data(str(table)).update_check_interval_millis(10).build()
    compact = deltalake.DeltaTable(str(table)).optimize.compact
    run = watch(
        source,
        lambda: write(table, *range(100, 150)),
        compact,
        lambda: write(table, 150),
        lambda: write(table, 151, 152),
        seed=seed,
        rows=153,
    )
    assert ids(run) == list(range(153))


def test_only_what_comes_from_a_version_on_is_read(table: Path) -> None:
    for number in range(1, 6):
        write(table, number)
    bounded = DeltaSource.for_bounded_row_data(str(table)).starting_version(2).ending_version(4).build()
    assert ids(run_source(bounded, Random(1))) == [2, 3, 4]
    latest = DeltaSource.for_continuous_row_data(str(table)).starting_version("latest").build()
    assert not enumerator_of(latest, None).plan(SliceRequest(10, 1, 0)).slices


def test_a_batch_job_reads_everything_in_one_plan(table: Path) -> None:
    write(table, *range(500))
    write(table, 500)
    source = DeltaSource.for_bounded_row_data(str(table)).build()
    plan = enumerator_of(source, None).plan(SliceRequest(10, 2, 0, everything=True))
    assert plan.finished
    assert sum(part.records or 0 for part in plan.slices) == 501


def test_a_version_that_removes_or_replaces_rows_needs_a_word_from_the_program(table: Path) -> None:
    write(table, 1, 2)
    write(table, 3, name="b")
    deltalake.DeltaTable(str(table)).delete("name = 'b'")
    builder = DeltaSource.for_bounded_row_data(str(table)).starting_version(1).ending_version(3)
    with pytest.raises(ProgramError, match=r"Version 3 .* removes rows.*ignore_deletes"):
        run_source(builder.build(), Random(1), troubled=False)
    assert ids(run_source(builder.ignore_deletes().build(), Random(1))) == [1, 2, 3]
    deltalake.DeltaTable(str(table)).update({"name": "'c'"}, predicate="id = 1")
    builder = builder.ending_version(4)
    with pytest.raises(ProgramError, match=r"Version 4 .* replaces rows.*read_change_feed"):
        run_source(builder.build(), Random(1), troubled=False)
    assert ids(run_source(builder.ignore_changes().build(), Random(1))) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_the_change_feed_gives_updates_and_deletes_in_order(table: Path, seed: int) -> None:
    write(table, 1, 2, 3)
    source = (
        DeltaSource.for_bounded_row_data(str(table)).starting_version(1).ending_version(5).read_change_feed().build()
    )
    found = deltalake.DeltaTable(str(table))
    found.update({"name": "'b'"}, predicate="id = 1")
    found.delete("id = 2")
    write(table, 2, name="again")
    write(table, 9, name="all", mode="overwrite")
    run = run_source(source, Random(seed), budgets=(1, 100))
    kinds = changes(run)
    assert sorted(kinds[:3]) == [("INSERT", 1, "a"), ("INSERT", 2, "a"), ("INSERT", 3, "a")]
    assert sorted(kinds[3:5]) == [("UPDATE_AFTER", 1, "b"), ("UPDATE_BEFORE", 1, "a")]
    assert kinds[5:7] == [("DELETE", 2, "a"), ("INSERT", 2, "again")]
    assert sorted(kinds[7:10]) == [("DELETE", 1, "b"), ("DELETE", 2, "again"), ("DELETE", 3, "a")]
    assert kinds[10:] == [("INSERT", 9, "all")]
    for plan in run.plans:  # subtasks have no order among them, so an epoch has one step of a log with changes
        steps = {part.split.rpartition("/")[0] for part in plan.slices}
        assert len(steps) <= 1 or steps == {"version/4/0", "version/5/0"} or steps <= {"version/1/0"}, steps


def test_rows_have_their_kind(table: Path) -> None:
    write(table, 1)
    deltalake.DeltaTable(str(table)).delete("id = 1")
    source = (
        DeltaSource.for_bounded_row_data(str(table)).starting_version(2).ending_version(2).read_change_feed().build()
    )
    assert run_source(source, Random(1)).records == [Row.of_kind(RowKind.DELETE, id=1, name="a", day=DAY)]


def test_a_column_that_was_added_later_is_null_in_older_rows(table: Path) -> None:
    write(table, 1)
    wider = pa.table({"id": [2], "name": ["b"], "day": [DAY], "more": [7]})
    deltalake.write_deltalake(str(table), wider, mode="append", schema_mode="merge")
    run = run_source(DeltaSource.for_bounded_row_data(str(table)).build(), Random(1))
    assert sorted((row["id"], row["more"]) for row in run.records) == [(1, None), (2, 7)]


def test_a_vacuumed_file_and_a_cleaned_log_are_named(table: Path) -> None:
    write(table, 1)
    source = DeltaSource.for_bounded_row_data(str(table)).build()
    (part,) = enumerator_of(source, None).plan(SliceRequest(10, 1, 0)).slices
    write(table, 2, mode="overwrite")
    deltalake.DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(ConnectorError, match=r"version 1 is gone.*deletedFileRetentionDuration"):
        list(source.create_reader().read(part))
    behind = DeltaSource.for_continuous_row_data(str(table)).starting_version(1).build()
    deltalake.DeltaTable(str(table)).create_checkpoint()
    for version in (0, 1):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(StateError, match=r"version 1 .* is gone"):
        enumerator_of(behind, None).plan(SliceRequest(10, 1, 0))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda path: DeltaSource.for_bounded_row_data(path + "nowhere"), "no Delta table at"),
        (lambda path: DeltaSource.for_bounded_row_data(path).column_names("colour"), "no column .'colour'"),
        (lambda path: DeltaSource.for_bounded_row_data(path).version_as_of(99), "no version 99"),
    ],
)
def test_a_source_that_cannot_work_is_refused_before_anything_runs(
    table: Path, build: Callable[[str], Any], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        build(str(table)).build().create_enumerator().open()


def test_the_lag_is_known(table: Path) -> None:
    write(table, *range(10))
    enumerator = enumerator_of(DeltaSource.for_bounded_row_data(str(table)).build(), None)
    plan = enumerator.plan(SliceRequest(4, 1, 0))
    enumerator.advance(plan, {})
    assert enumerator.pending(0).records == 6
    assert through_json(enumerator.snapshot()) == {"version": 1, "place": [["content", 1], 0, 4]}


def test_a_job_reads_a_table(table: Path) -> None:
    write(table, *range(50))
    write(table, *range(50, 60))
    env = in_process(flott__epoch__max_records="7")
    source = DeltaSource.for_bounded_row_data(str(table)).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").map(lambda row: row["id"])
    assert sorted(collect(stream)) == list(range(60))


class TestDeltaBounded(SourceConformance):
    """The promises of every source, for the content of a table."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._new = lambda: tmp_path_factory.mktemp("delta") / "orders"

    def filled(self, count: int) -> Path:
        path = self._new()
        deltalake.DeltaTable.create(str(path), SCHEMA, partition_by=["day"])
        for first in range(0, count, 7):
            write(path, *range(first, min(count, first + 7)))
        return path

    def source(self, count: int) -> DeltaSource:
        return DeltaSource.for_bounded_row_data(str(self.filled(count))).build()

    def number(self, record: Any) -> int:
        return int(record["id"])


class TestDeltaContinuous(TestDeltaBounded):
    """The promises of every source, for versions one after the other."""

    def source(self, count: int) -> DeltaSource:
        builder = DeltaSource.for_continuous_row_data(str(self.filled(count))).starting_version(0)
        return builder.update_check_interval_millis(10).build()
