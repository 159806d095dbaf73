"""The Iceberg source: a snapshot, then what later ones append, each row once, wherever the job is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="the extra flott[iceberg] is not installed")

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.types import LongType

from flott.common.time import Duration
from flott.common.types import Row
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import Boundedness, SliceRequest
from flott.datastream.connectors.iceberg import IcebergSource, IcebergSourceBuilder
from flott.errors import ConnectorError, ProgramError, StateError
from flott.testing.connectors import SourceConformance, SourceRun, run_source
from flott.testing.connectors.source_run import enumerator_of
from flott.testing.harness import collect, in_process
from tests.connectors.iceberg.tables_for_tests import ARROW, TABLE, append, create, load, properties

Catalog = dict[str, str]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = properties(tmp_path)
    create(made)
    return made


def reading(catalog: Catalog) -> IcebergSourceBuilder:
    return IcebergSource.for_row_data(TABLE).with_catalog(catalog)


def ids(run: SourceRun) -> list[int]:
    return sorted(row["id"] for row in run.records)


def test_a_snapshot_is_read_once_wherever_the_job_is_interrupted(catalog: Catalog) -> None:
    for first in range(0, 120, 30):
        append(catalog, *range(first, first + 30))
    source = reading(catalog).build()
    for seed in range(3):
        run = run_source(source, Random(seed))
        assert ids(run) == list(range(120))
        assert run.largest_state < 200
    assert source.boundedness is Boundedness.BOUNDED


def test_an_older_snapshot_and_some_columns_are_read(catalog: Catalog) -> None:
    first = append(catalog, 1)
    append(catalog, 2)
    run = run_source(reading(catalog).use_snapshot_id(first).project("name", "id").build(), Random(1))
    assert run.records == [Row(name="a", id=1)]


def test_what_later_snapshots_append_follows_the_content(catalog: Catalog) -> None:
    append(catalog, *range(20))
    source = reading(catalog).monitor_interval(Duration.of_millis(10)).build()
    events = [lambda: append(catalog, *range(20, 30)), lambda: append(catalog, 30), lambda: append(catalog, 31, 32)]

    def on_epoch(run: SourceRun) -> None:
        if events and run.epochs % 3 == 0:
            events.pop(0)()

    run = run_source(source, Random(1), on_epoch=on_epoch, until=lambda run: len(run.records) >= 33, max_epochs=300)
    assert ids(run) == list(range(33))
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED


def test_a_table_that_was_empty_at_first_is_followed(catalog: Catalog) -> None:
    source = reading(catalog).monitor_interval(Duration.of_millis(10)).build()
    enumerator = enumerator_of(source, None)
    assert not enumerator.plan(SliceRequest(10, 1, 0)).slices
    append(catalog, 1)
    assert len(enumerator.plan(SliceRequest(10, 1, 1000)).slices) == 1
    assert enumerator_of(reading(catalog).build(), None).plan(SliceRequest(10, 1, 0, everything=True)).finished


def test_only_what_comes_after_a_snapshot_is_read(catalog: Catalog) -> None:
    snapshots = [append(catalog, number) for number in range(1, 6)]
    bounded = reading(catalog).start_snapshot_id(snapshots[1]).end_snapshot_id(snapshots[3]).build()
    assert ids(run_source(bounded, Random(1))) == [3, 4]
    latest = reading(catalog).streaming().start_snapshot_id("latest").build()
    assert not enumerator_of(latest, None).plan(SliceRequest(10, 1, 0)).slices


def test_a_snapshot_that_removes_rows_needs_a_word_from_the_program(catalog: Catalog) -> None:
    first = append(catalog, 1, 2)
    table = load(catalog)
    table.delete("id = 1")
    builder = reading(catalog).start_snapshot_id(first).end_snapshot_id(table.current_snapshot().snapshot_id)
    with pytest.raises(ProgramError, match="reads appended rows only"):
        run_source(builder.build(), Random(1), troubled=False)
    assert ids(run_source(builder.ignore_changes().build(), Random(1))) == [2]
    assert ids(run_source(reading(catalog).build(), Random(1))) == [2]


def test_columns_are_found_by_their_ids_when_they_are_renamed_or_added(catalog: Catalog) -> None:
    append(catalog, 1, name="before")
    with load(catalog).update_schema() as update:
        update.rename_column("name", "title")
        update.add_column("more", LongType())
    load(catalog).append(pa.table({"id": [2], "title": ["after"], "more": [7]}))
    found = sorted(tuple(row) for row in run_source(reading(catalog).build(), Random(1)).records)
    assert found == [(1, "before", None), (2, "after", 7)]


def test_rows_whose_position_is_deleted_are_left_out(catalog: Catalog, tmp_path: Path) -> None:
    """As another engine deletes rows without rewriting their file."""
    append(catalog, *range(10))
    source = reading(catalog).build()
    (part,) = enumerator_of(source, None).plan(SliceRequest(100, 1, 0)).slices
    deletes = tmp_path / "deletes.parquet"
    pq.write_table(pa.table({"file_path": [part.detail["path"], "other"] * 2, "pos": [2, 3, 9, 4]}), deletes)
    part.detail["deletes"] = [str(deletes)]
    assert [row["id"] for row in source.create_reader().read(part)] == [0, 1, 3, 4, 5, 6, 7, 8]


def test_an_expired_snapshot_and_a_missing_file_are_named(catalog: Catalog) -> None:
    first = append(catalog, 1)
    source = reading(catalog).build()
    (part,) = enumerator_of(source, None).plan(SliceRequest(10, 1, 0)).slices
    Path(part.detail["path"].removeprefix("file://")).unlink()
    with pytest.raises(ConnectorError, match=rf"snapshot {first} is gone.*max-snapshot-age-ms"):
        list(source.create_reader().read(part))
    second = append(catalog, 2)
    append(catalog, 3)
    for expired in (first, second):
        load(catalog).maintenance.expire_snapshots().by_id(expired).commit()
    behind = reading(catalog).streaming().start_snapshot_id(first).build()
    with pytest.raises(StateError, match="not in the history"):
        enumerator_of(behind, None).plan(SliceRequest(10, 1, 0))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IcebergSource.for_row_data("shop.nothing"), "no Iceberg table"),
        (lambda: IcebergSource.for_row_data(TABLE).project("colour"), "no column .'colour'"),
        (lambda: IcebergSource.for_row_data(TABLE).use_snapshot_id(99), "no snapshot 99"),
    ],
)
def test_a_source_that_cannot_work_is_refused_before_anything_runs(
    catalog: Catalog, build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        build().with_catalog(catalog).build().create_enumerator().open()


def test_a_job_reads_a_table(catalog: Catalog) -> None:
    append(catalog, *range(50))
    env = in_process(flott__epoch__max_records="20")
    stream = env.from_source(reading(catalog).build(), WatermarkStrategy.no_watermarks(), "orders")
    assert sorted(collect(stream.map(lambda row: row["id"]))) == list(range(50))


class TestIcebergBounded(SourceConformance):
    """The promises of every source, for the content of a table."""

    seeds = 2

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._new = lambda: properties(tmp_path_factory.mktemp("iceberg"))

    def filled(self, count: int) -> Catalog:
        catalog = self._new()
        table = create(catalog)
        for first in range(0, count, 15):
            numbers = list(range(first, min(count, first + 15)))
            table.append(pa.table({"id": numbers, "name": ["a"] * len(numbers)}, schema=ARROW))
        return catalog

    def source(self, count: int) -> IcebergSource:
        return reading(self.filled(count)).build()

    def number(self, record: Any) -> int:
        return int(record["id"])


class TestIcebergStreaming(TestIcebergBounded):
    """The promises of every source, for snapshots one after the other."""

    def source(self, count: int) -> IcebergSource:
        catalog = self.filled(count)
        first = load(catalog).snapshots()[0].snapshot_id
        builder = reading(catalog).use_snapshot_id(first)
        return builder.monitor_interval(Duration.of_millis(10)).build()
