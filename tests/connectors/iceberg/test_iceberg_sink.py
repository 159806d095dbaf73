"""The Iceberg sink: one commit for each checkpoint, whatever is repeated, killed, or written by others."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyiceberg", reason="the extra flott[iceberg] is not installed")

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError

from flott.common.typeinfo import Types
from flott.common.types import Row, RowKind
from flott.datastream.connectors.base import Guarantee, WriterContext
from flott.datastream.connectors.iceberg import IcebergSink
from flott.errors import ConnectorError, ProgramError, StateError, TypeMismatchError
from flott.testing.connectors import SinkConformance
from flott.testing.connectors.source_run import through_json
from flott.testing.harness import in_process
from flott.testing.sinks import commit_permit
from tests.connectors.iceberg.tables_for_tests import SCHEMA, TABLE, append, load, properties, rows

Catalog = dict[str, str]


def context(epoch: int = 1, subtask: int = 0, attempt: str = "a~1_%", job: str = "job") -> WriterContext:
    return WriterContext(subtask, 2, epoch, f"{attempt}-{epoch}", job, "operator", now_ms=epoch * 1000)


def staged(sink: IcebergSink, records: list[Any], **fields: Any) -> list[Any]:
    """What a task that writes the records hands back."""
    writer = pickle.loads(pickle.dumps(sink)).create_writer(context(**fields))
    writer.write(records, None)
    committables = writer.prepare_commit()
    writer.close()
    return through_json(committables)  # type: ignore[no-any-return]


def committer_of(sink: IcebergSink, job: str = "job") -> Any:
    committer = sink.create_committer()
    committer.open(job, "operator")
    return committer


def files_of(catalog: Catalog) -> set[str]:
    folder = Path(load(catalog).location().removeprefix("file://"))
    return {f"file://{file}" for file in folder.rglob("*.parquet")}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return properties(tmp_path)


@pytest.fixture
def sink(catalog: Catalog) -> IcebergSink:
    return IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).build()


@pytest.fixture
def upserts(catalog: Catalog) -> IcebergSink:
    return IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).with_upsert_keys("id").build()


def test_rows_are_visible_when_they_are_committed_and_not_before(sink: IcebergSink, catalog: Catalog) -> None:
    committer = committer_of(sink)
    committables = staged(sink, [{"id": 1, "name": "a"}, {"id": 2}]) + staged(sink, [{"id": 3}], subtask=1)
    assert rows(catalog) == []
    committer.commit(commit_permit(1, 0), committables)
    assert rows(catalog) == [(1, "a"), (2, None), (3, None)]
    (snapshot,) = load(catalog).snapshots()
    assert snapshot.summary["flott.job"] == "job"
    assert snapshot.summary["flott.checkpoint-id"] == "1"
    assert sink.guarantee is Guarantee.EXACTLY_ONCE


def test_a_repeated_commit_changes_nothing_even_after_its_snapshot_has_expired(
    sink: IcebergSink, catalog: Catalog
) -> None:
    committables = staged(sink, [{"id": 1}])
    for replay in (False, False, True):
        committer_of(sink).commit(commit_permit(1, 0, replay=replay), committables)
    first = load(catalog).current_snapshot().snapshot_id
    append(catalog, 2)
    load(catalog).maintenance.expire_snapshots().by_id(first).commit()
    committer_of(sink).commit(commit_permit(1, 0, replay=True), committables)
    assert rows(catalog) == [(1, None), (2, "a")]
    committer_of(sink).commit(commit_permit(2, 0), [])
    assert len(load(catalog).snapshots()) == 1, "a checkpoint without output makes no snapshot"


def test_of_two_committers_of_one_checkpoint_the_later_one_does_nothing(
    sink: IcebergSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was deposed has loaded the table before its successor commits, and commits after it."""
    committables = staged(sink, [{"id": 1}])
    deposed, leader = committer_of(sink), committer_of(sink)
    write = type(deposed)._write

    def late(self: Any, *arguments: Any) -> None:
        if self is deposed:
            monkeypatch.setattr(type(deposed), "_write", write)
            leader.commit(commit_permit(1, 0, replay=True, leader=2), committables)
        write(self, *arguments)

    monkeypatch.setattr(type(deposed), "_write", late)
    deposed.commit(commit_permit(1, 0, leader=1), committables)
    assert rows(catalog) == [(1, None)]
    leader.commit(commit_permit(2, 0, leader=2), staged(sink, [{"id": 2}], epoch=2))
    deposed.commit(commit_permit(1, 0, leader=1), committables)
    assert rows(catalog) == [(1, None), (2, None)]


def test_a_commit_of_unknown_outcome_is_not_made_twice(
    sink: IcebergSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    committables = staged(sink, [{"id": 1}])
    committer = committer_of(sink)
    write = type(committer)._write

    def unanswered(self: Any, *arguments: Any) -> None:
        write(self, *arguments)
        raise CommitStateUnknownException("the gateway gave up")

    with monkeypatch.context() as patch:
        patch.setattr(type(committer), "_write", unanswered)
        with pytest.raises(ConnectorError, match="gateway gave up"):
            committer.commit(commit_permit(1, 0), committables)
    committer.commit(commit_permit(1, 0), committables)
    assert rows(catalog) == [(1, None)]


def test_what_failed_attempts_wrote_is_discarded_and_nothing_else(sink: IcebergSink, catalog: Catalog) -> None:
    committer = committer_of(sink)
    first = staged(sink, [{"id": 1}])
    committer.commit(commit_permit(1, 0), first)
    staged(sink, [{"id": 2}], epoch=2, attempt="failed")
    other = staged(sink, [{"id": 9}], epoch=2, attempt="failed", job="other job")
    live = staged(sink, [{"id": 2}], epoch=2, attempt="b")
    committer.discard(frozenset({"b-2"}))
    assert files_of(catalog) == {entry["file"]["path"] for entry in first + other + live}
    committer.commit(commit_permit(2, 0), live)
    committer.discard(frozenset())
    assert rows(catalog) == [(1, None), (2, None)]


def test_a_file_that_was_deleted_before_its_commit_is_noticed(sink: IcebergSink) -> None:
    committables = staged(sink, [{"id": 1}])
    Path(committables[0]["file"]["path"].removeprefix("file://")).unlink()
    with pytest.raises(StateError, match=r"checkpoint 1.*is gone"):
        committer_of(sink).commit(commit_permit(1, 0, replay=True), committables)


def test_a_job_that_was_set_back_is_noticed(sink: IcebergSink) -> None:
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0), staged(sink, [{"id": 1}]))
    with pytest.raises(StateError, match="set back"):
        committer.commit(commit_permit(1, 0), staged(sink, [{"id": 2}], attempt="other"))


def test_a_table_that_was_replaced_or_dropped_is_noticed(sink: IcebergSink, catalog: Catalog) -> None:
    committables = staged(sink, [{"id": 1}])
    opened = load_catalog("default", **catalog)
    committer = committer_of(sink)
    opened.drop_table(TABLE)
    with pytest.raises(StateError, match="dropped"):
        committer.commit(commit_permit(1, 0), committables)
    opened.create_table(TABLE, schema=pa.schema([("id", pa.int64())]))
    with pytest.raises(StateError, match="replaced"):
        committer.commit(commit_permit(1, 0), committables)


def test_a_job_that_continues_another_ones_savepoint_commits_its_last_output_once(
    sink: IcebergSink, catalog: Catalog
) -> None:
    committables = staged(sink, [{"id": 1}], job="first")
    committer_of(sink, "second").commit(commit_permit(1, 0, replay=True), committables)
    committer_of(sink, "first").commit(commit_permit(1, 0, replay=True), committables)
    committer_of(sink, "second").commit(commit_permit(2, 0), staged(sink, [{"id": 2}], epoch=2, job="second"))
    assert rows(catalog) == [(1, None), (2, None)]


def _append_elsewhere(catalog: Catalog, go: Any, count: int) -> None:
    go.wait(60)
    for number in range(count):
        append(catalog, 1000 + number, name="other")


def test_conflicts_with_writers_of_another_process_are_retried(sink: IcebergSink, catalog: Catalog) -> None:
    committer = committer_of(sink)
    spawned = multiprocessing.get_context("spawn")
    go = spawned.Event()
    other = spawned.Process(target=_append_elsewhere, args=(catalog, go, 4))
    other.start()
    go.set()
    for epoch in range(1, 11):
        committer.commit(commit_permit(epoch, 0), staged(sink, [{"id": epoch, "name": "mine"}], epoch=epoch))
    other.join()
    found = rows(catalog)
    assert sorted(row[0] for row in found if row[1] == "mine") == list(range(1, 11))
    assert other.exitcode == 0
    assert len(found) == 14


def test_records_that_do_not_fit_are_refused(sink: IcebergSink) -> None:
    for record in ({"id": 1, "colour": "red"}, {"id": "one"}, Row.of_kind(RowKind.DELETE, 1, "a")):
        with pytest.raises(TypeMismatchError):
            staged(sink, [record])


def test_all_types_come_back_as_they_were_and_partitions_are_kept_apart(catalog: Catalog) -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()), ("flag", pa.bool_()), ("at", pa.timestamp("us", tz="UTC")), ("text", pa.string()),
            ("price", pa.decimal128(10, 2)), ("list", pa.list_(pa.int64())), ("data", pa.binary()),
            ("ratio", pa.float64()), ("ratio_key", pa.int64()),
        ]
    )  # fmt: skip
    partitions = ("day", "hour(at)", "truncate(2, text)", "bucket(4, ratio_key)")
    sink = IcebergSink.for_row_data(TABLE, schema).with_catalog(catalog).with_partition_columns(*partitions).build()
    at = datetime(2026, 11, 18, 3, 4, 5, 678901, tzinfo=ZoneInfo("UTC"))
    records = [
        (date(2026, 11, 18), True, at, "xy" * 100, Decimal("1.25"), [1, 2], b"\x00", 0.5, 7),
        (date(2026, 11, 18), False, at, "ü", None, None, None, float("nan"), 8),
        (None, None, None, None, None, None, None, None, None),
    ]
    committables = staged(sink, records)
    assert len(committables) == 3
    committer_of(sink).commit(commit_permit(1, 0), committables)
    assert sorted(map(repr, rows(catalog))) == sorted(map(repr, records))
    # A reader that leaves files out by partitions and bounds finds everything.
    for condition in ("at <= '2026-11-18T03:04:05.678901+00:00'", "text = 'ü'", "day = '2026-11-18'"):
        assert load(catalog).scan(row_filter=condition).to_arrow().num_rows >= 1, condition


def test_a_large_epoch_becomes_several_files(catalog: Catalog) -> None:
    sink = IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).with_target_file_size(20_000).build()
    writer = sink.create_writer(context())
    for start in range(0, 4000, 500):
        writer.write([{"id": n, "name": f"name {n}"} for n in range(start, start + 500)], None)
    committables = writer.prepare_commit()
    assert len(committables) > 2
    committer_of(sink).commit(commit_permit(1, 0), committables)
    assert len(rows(catalog)) == 4000


# --- upserts ----------------------------------------------------------------------------------------------------------


def test_a_row_replaces_the_one_with_its_key_and_a_delete_removes_it(upserts: IcebergSink, catalog: Catalog) -> None:
    committer = committer_of(upserts)
    committer.commit(commit_permit(1, 0), staged(upserts, [(1, "a"), (2, "b"), (1, "c"), (3, "d")]))
    assert rows(catalog) == [(1, "c"), (2, "b"), (3, "d")]
    changes = [
        Row.of_kind(RowKind.UPDATE_BEFORE, 1, "c"), Row.of_kind(RowKind.UPDATE_AFTER, 1, "e"),
        Row.of_kind(RowKind.DELETE, 2, None), Row.of_kind(RowKind.DELETE, 77, None), Row(4, "f"),
        Row(5, "g"), Row.of_kind(RowKind.DELETE, 5, "g"),
    ]  # fmt: skip
    committables = staged(upserts, changes, epoch=2)
    committer.commit(commit_permit(2, 0), committables)
    assert rows(catalog) == [(1, "e"), (3, "d"), (4, "f")]
    committer_of(upserts).commit(commit_permit(2, 0, replay=True), committables)
    assert rows(catalog) == [(1, "e"), (3, "d"), (4, "f")]
    assert not [file for file in files_of(catalog) if "_flott_changes" in file], "the files of changes are gone"
    only_deletes = staged(upserts, [Row.of_kind(RowKind.DELETE, n, None) for n in (1, 3, 4)], epoch=3)
    committer.commit(commit_permit(3, 0), only_deletes)
    assert rows(catalog) == []


def test_a_key_of_two_columns_and_two_subtasks(catalog: Catalog) -> None:
    schema = {"id": "int64", "name": "string", "value": "int64"}
    sink = IcebergSink.for_row_data(TABLE, schema).with_catalog(catalog).with_upsert_keys("id", "name").build()
    committer = committer_of(sink)
    first = staged(sink, [(1, "a", 1), (1, "b", 2)]) + staged(sink, [(1, "b", 3)], subtask=1)
    committer.commit(commit_permit(1, 0), first)
    committer.commit(commit_permit(2, 0), staged(sink, [(1, "a", 4), (2, "a", 5)], epoch=2))
    assert rows(catalog) == [(1, "a", 4), (1, "b", 3), (2, "a", 5)]


def test_an_upsert_beside_another_writer_is_done_on_the_newer_snapshot(
    upserts: IcebergSink, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = committer_of(upserts)
    committer.commit(commit_permit(1, 0), staged(upserts, [(1, "a")]))
    merge = type(committer)._merge
    calls = []

    def interrupted(self: Any, *arguments: Any) -> None:
        merge(self, *arguments)
        if not calls:
            append(catalog, 2, name="theirs")
        calls.append(1)

    monkeypatch.setattr(type(committer), "_merge", interrupted)
    committer.commit(commit_permit(2, 0), staged(upserts, [(2, "mine"), (1, "b")], epoch=2))
    assert len(calls) == 2
    assert rows(catalog) == [(1, "b"), (2, "mine")]


# --- before anything runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IcebergSink.for_row_data(TABLE), "no Iceberg table"),
        (lambda: IcebergSink.for_row_data(TABLE, SCHEMA).with_upsert_keys("key"), "no column .'key'"),
        (lambda: IcebergSink.for_row_data(TABLE, SCHEMA).with_partition_columns("week(id)"), "partitioned by"),
        (lambda: IcebergSink.for_row_data(TABLE, SCHEMA).with_partition_columns("colour"), "no column .'colour'"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_before_anything_runs(
    catalog: Catalog, build: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        build().with_catalog(catalog).build().validate()


def test_a_catalog_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    catalog = {"type": "rest", "uri": "http://127.0.0.1:1/", "credential": "user:hush-hush"}
    sink = IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).build()
    assert "hush" not in repr(sink)
    with pytest.raises(ConnectorError, match=r"Cannot open the Iceberg catalog") as caught:
        sink.validate()
    assert "hush" not in str(caught.value)


def test_a_job_appends_and_upserts(tmp_path: Path) -> None:
    one, two = properties(tmp_path / "one"), properties(tmp_path / "two")
    env = in_process(flott__epoch__max_records="40")
    row = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    numbers = env.from_collection([Row(id=n % 10, name=f"n{n}") for n in range(100)], row)
    numbers.sink_to(IcebergSink.for_row_data(TABLE, row).with_catalog(one).build())
    keyed = numbers.key_by(lambda value: value["id"])
    keyed.sink_to(IcebergSink.for_row_data(TABLE, row).with_catalog(two).with_upsert_keys("id").build())
    env.execute()
    assert rows(one) == sorted([(n % 10, f"n{n}") for n in range(100)], key=repr)
    assert len(rows(two)) == 10


class TestIcebergAppend(SinkConformance):
    """The promises of every sink, for appends."""

    seeds = 2

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._new = lambda: properties(tmp_path_factory.mktemp("iceberg"))

    def build(self, catalog: Catalog) -> IcebergSink:
        return IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).build()

    def sink(self) -> IcebergSink:
        self.catalog = self._new()
        return self.build(self.catalog)

    def record(self, number: int) -> Any:
        return (number, f"record {number}")

    def visible(self) -> list[Any]:
        try:
            return rows(self.catalog)
        except NoSuchTableError:
            return []


class TestIcebergUpsert(TestIcebergAppend):
    """The promises of every sink, for upserts."""

    def build(self, catalog: Catalog) -> IcebergSink:
        return IcebergSink.for_row_data(TABLE, SCHEMA).with_catalog(catalog).with_upsert_keys("id").build()
