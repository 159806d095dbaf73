"""The Delta sink: one transaction for each checkpoint, whatever is repeated, killed, or written by others."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

deltalake = pytest.importorskip("deltalake", reason="the extra flott[delta] is not installed")

import pyarrow as pa  # noqa: E402

from flott.common.typeinfo import Types  # noqa: E402
from flott.common.types import Row, RowKind  # noqa: E402
from flott.datastream.connectors.base import Guarantee, WriterContext  # noqa: E402
from flott.datastream.connectors.delta import DeltaSink  # noqa: E402
from flott.errors import ProgramError, StateError, TypeMismatchError  # noqa: E402
from flott.testing.connectors import SinkConformance  # noqa: E402
from flott.testing.connectors.source_run import through_json  # noqa: E402
from flott.testing.harness import in_process  # noqa: E402
from flott.testing.sinks import commit_permit  # noqa: E402

SCHEMA = {"id": "int64", "name": "string"}


def context(epoch: int = 1, subtask: int = 0, attempt: str = "a~1_%", job: str = "job") -> WriterContext:
    return WriterContext(subtask, 2, epoch, f"{attempt}-{epoch}", job, "operator", now_ms=epoch * 1000)


def staged(sink: DeltaSink, records: list[Any], **fields: Any) -> list[Any]:
    """What a task that writes the records hands back."""
    writer = pickle.loads(pickle.dumps(sink)).create_writer(context(**fields))
    writer.write(records, None)
    committables = writer.prepare_commit()
    writer.close()
    return through_json(committables)  # type: ignore[no-any-return]


def committer_of(sink: DeltaSink, job: str = "job") -> Any:
    committer = sink.create_committer()
    committer.open(job, "operator")
    return committer


def rows(path: Path, **where: Any) -> list[tuple[Any, ...]]:
    table = deltalake.DeltaTable(str(path), **where).to_pyarrow_table()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def files_below(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in str(file)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def sink(table: Path) -> DeltaSink:
    return DeltaSink.for_row_data(str(table), SCHEMA).build()


@pytest.fixture
def upserts(table: Path) -> DeltaSink:
    return DeltaSink.for_row_data(str(table), SCHEMA).with_upsert_keys("id").build()


def test_rows_are_visible_when_they_are_committed_and_not_before(sink: DeltaSink, table: Path) -> None:
    committer = committer_of(sink)
    committables = staged(sink, [{"id": 1, "name": "a"}, {"id": 2}]) + staged(sink, [{"id": 3}], subtask=1)
    assert rows(table) == []
    committer.commit(commit_permit(1, 0), committables)
    assert rows(table) == [(1, "a"), (2, None), (3, None)]
    assert deltalake.DeltaTable(str(table)).version() == 1, "one transaction for all subtasks"
    assert sink.guarantee is Guarantee.EXACTLY_ONCE


def test_a_repeated_commit_changes_nothing(sink: DeltaSink, table: Path) -> None:
    committables = staged(sink, [{"id": 1}])
    for replay in (False, False, True):
        committer_of(sink).commit(commit_permit(1, 0, replay=replay), committables)
    assert rows(table) == [(1, None)]
    assert deltalake.DeltaTable(str(table)).version() == 1


def test_a_checkpoint_without_output_makes_no_version(sink: DeltaSink, table: Path) -> None:
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0), [])
    assert staged(sink, []) == []
    assert deltalake.DeltaTable(str(table)).version() == 0


def test_of_two_committers_of_one_checkpoint_the_later_one_does_nothing(
    sink: DeltaSink, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was deposed has read the table before its successor commits, and writes after it."""
    committables = staged(sink, [{"id": 1}])
    deposed, leader = committer_of(sink), committer_of(sink)
    append = type(deposed)._append

    def late(self: Any, *arguments: Any) -> None:
        if self is deposed:
            monkeypatch.setattr(type(deposed), "_append", append)
            leader.commit(commit_permit(1, 0, replay=True, leader=2), committables)
        append(self, *arguments)

    monkeypatch.setattr(type(deposed), "_append", late)
    deposed.commit(commit_permit(1, 0, leader=1), committables)
    assert rows(table) == [(1, None)]
    leader.commit(commit_permit(2, 0, leader=2), staged(sink, [{"id": 2}], epoch=2))
    deposed.commit(commit_permit(1, 0, leader=1), committables)
    assert rows(table) == [(1, None), (2, None)]


class Died(BaseException):
    """A simulated death of the driver."""


def test_a_driver_that_dies_after_the_transaction_does_not_commit_twice(
    sink: DeltaSink, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committables = staged(sink, [{"id": 1}])
    committer = committer_of(sink)
    append = type(committer)._append

    def then_die(self: Any, *arguments: Any) -> None:
        append(self, *arguments)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(type(committer), "_append", then_die)
        with pytest.raises(Died):
            committer.commit(commit_permit(1, 0), committables)
    again = committer_of(sink)
    again.commit(commit_permit(1, 0, replay=True), committables)
    again.discard(frozenset({"a~1_%-1"}))
    assert rows(table) == [(1, None)]


def test_what_failed_attempts_wrote_is_discarded_and_nothing_else(sink: DeltaSink, table: Path) -> None:
    committer = committer_of(sink)
    first = staged(sink, [{"id": 1}])
    committer.commit(commit_permit(1, 0), first)
    staged(sink, [{"id": 2}], epoch=2, attempt="failed")
    other = staged(sink, [{"id": 9}], epoch=2, attempt="failed", job="other job")
    live = staged(sink, [{"id": 2}], epoch=2, attempt="b")
    committer.discard(frozenset({"b-2"}))
    assert files_below(table) == {entry["path"] for entry in first + other + live}
    committer.commit(commit_permit(2, 0), live)
    committer.discard(frozenset())
    assert rows(table) == [(1, None), (2, None)]


def test_a_file_that_was_deleted_before_its_commit_is_noticed(sink: DeltaSink, table: Path) -> None:
    committables = staged(sink, [{"id": 1}])
    (table / committables[0]["path"]).unlink()
    with pytest.raises(StateError, match=r"checkpoint 1.*is gone"):
        committer_of(sink).commit(commit_permit(1, 0, replay=True), committables)


def test_a_job_that_was_set_back_is_noticed(sink: DeltaSink) -> None:
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0), staged(sink, [{"id": 1}]))
    with pytest.raises(StateError, match="set back"):
        committer.commit(commit_permit(1, 0), staged(sink, [{"id": 2}], attempt="other"))


def test_a_table_that_was_replaced_is_noticed(sink: DeltaSink, table: Path) -> None:
    committables = staged(sink, [{"id": 1}])
    deltalake.DeltaTable.create(str(table), pa.schema([("id", pa.int64())]), mode="overwrite")
    with pytest.raises(StateError, match="replaced"):
        committer_of(sink).commit(commit_permit(1, 0), committables)


def test_a_job_that_continues_another_ones_savepoint_commits_its_last_output_once(sink: DeltaSink, table: Path) -> None:
    committables = staged(sink, [{"id": 1}], job="first")
    committer_of(sink, "second").commit(commit_permit(1, 0, replay=True), committables)
    committer_of(sink, "first").commit(commit_permit(1, 0, replay=True), committables)
    committer_of(sink, "second").commit(commit_permit(2, 0), staged(sink, [{"id": 2}], epoch=2, job="second"))
    assert rows(table) == [(1, None), (2, None)]


def _append_elsewhere(path: str, go: Any, count: int) -> None:
    go.wait(60)
    for number in range(count):
        deltalake.write_deltalake(path, pa.table({"id": [1000 + number], "name": ["other"]}), mode="append")


def test_conflicts_with_writers_of_another_process_are_retried(sink: DeltaSink, table: Path) -> None:
    committer = committer_of(sink)
    spawned = multiprocessing.get_context("spawn")
    go = spawned.Event()
    other = spawned.Process(target=_append_elsewhere, args=(str(table), go, 30))
    other.start()
    go.set()
    epochs = 0
    while other.is_alive() or epochs < 20:
        epochs += 1
        committer.commit(commit_permit(epochs, 0), staged(sink, [{"id": epochs, "name": "mine"}], epoch=epochs))
    other.join()
    found = rows(table)
    assert [row for row in found if row[1] == "mine"] == sorted(((n, "mine") for n in range(1, epochs + 1)), key=repr)
    assert len(found) == epochs + 30


# --- rows and files ---------------------------------------------------------------------------------------------------


class Order(NamedTuple):
    name: str
    id: int


@pytest.mark.parametrize(
    "record",
    [{"id": 1, "name": "a"}, (1, "a"), Row(id=1, name="a"), Row(1, "a"), Row(name="a", id=1), Order("a", 1)],
    ids=repr,
)
def test_records_of_all_shapes_become_rows(sink: DeltaSink, table: Path, record: Any) -> None:
    committer_of(sink).commit(commit_permit(1, 0), staged(sink, [record]))
    assert rows(table) == [(1, "a")]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": 1, "colour": "red"}, "no column .'colour'"),
        ((1, 2, 3), "3 fields, expected 2"),
        ({"id": "one"}, "column id"),
        (7, "dicts, rows and tuples"),
        (Row.of_kind(RowKind.DELETE, 1, "a"), "with_upsert_keys"),
    ],
)
def test_records_that_do_not_fit_are_refused(sink: DeltaSink, record: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        staged(sink, [record])


def test_a_null_in_a_column_that_must_not_be_null_is_refused(table: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with pytest.raises(TypeMismatchError, match="must not be null"):
        staged(DeltaSink.for_row_data(str(table), schema).build(), [{"id": None}])


def test_all_types_come_back_as_they_were_and_partitions_are_kept_apart(table: Path) -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()), ("flag", pa.bool_()), ("at", pa.timestamp("us", tz="UTC")), ("text", pa.string()),
            ("price", pa.decimal128(10, 2)), ("list", pa.list_(pa.int64())), ("data", pa.binary()),
            ("ratio", pa.float64()),
        ]
    )  # fmt: skip
    sink = DeltaSink.for_row_data(str(table), schema).with_partition_columns("day", "flag").build()
    at = datetime(2026, 11, 18, 3, 4, 5, 678901, tzinfo=ZoneInfo("UTC"))
    records = [
        (date(2026, 11, 18), True, at, "x" * 100, Decimal("1.25"), [1, 2], b"\x00", 0.5),
        (date(2026, 11, 18), False, at, "ü", None, None, None, float("nan")),
        (None, None, None, None, None, None, None, None),
    ]
    committables = staged(sink, records)
    assert len(committables) == 3
    committer_of(sink).commit(commit_permit(1, 0), committables)
    found = deltalake.DeltaTable(str(table))
    assert sorted(map(repr, (tuple(row.values()) for row in found.to_pyarrow_table().to_pylist()))) == sorted(
        map(repr, records)
    )
    # A reader that leaves files out by the bounds in the log finds everything.
    for condition in ("at <= '2026-11-18T03:04:05.678901Z'", "at >= '2026-11-18T03:04:05.678901Z'", "text = 'ü'"):
        assert len(found.file_uris(file_pruning_predicate=condition)) >= 1, condition


def test_a_large_epoch_becomes_several_files(table: Path) -> None:
    sink = DeltaSink.for_row_data(str(table), SCHEMA).with_target_file_size(10_000).build()
    writer = sink.create_writer(context())
    for start in range(0, 4000, 500):
        writer.write([{"id": n, "name": f"name {n}"} for n in range(start, start + 500)], None)
    committables = writer.prepare_commit()
    assert len(committables) > 2
    committer_of(sink).commit(commit_permit(1, 0), committables)
    assert len(rows(table)) == 4000


def test_small_files_are_put_together(table: Path) -> None:
    sink = DeltaSink.for_row_data(str(table), SCHEMA).with_compaction(every_commits=5).build()
    committer = committer_of(sink)
    for epoch in range(1, 11):
        committer.commit(commit_permit(epoch, 0), staged(sink, [{"id": epoch}], epoch=epoch))
    committer.close()
    found = deltalake.DeltaTable(str(table))
    assert len(found.file_uris()) <= 6, "ten commits made ten files, and five of them are one now"
    assert rows(table) == sorted([(n, None) for n in range(1, 11)], key=repr)
    again = committer_of(sink)
    again.discard(frozenset())
    assert len(rows(table, version=5)) == 5, "older versions can still be read"


# --- upserts ----------------------------------------------------------------------------------------------------------


def test_a_row_replaces_the_one_with_its_key_and_a_delete_removes_it(upserts: DeltaSink, table: Path) -> None:
    committer = committer_of(upserts)
    committer.commit(commit_permit(1, 0), staged(upserts, [(1, "a"), (2, "b"), (1, "c"), (3, "d")]))
    assert rows(table) == [(1, "c"), (2, "b"), (3, "d")]
    changes = [
        Row.of_kind(RowKind.UPDATE_BEFORE, 1, "c"), Row.of_kind(RowKind.UPDATE_AFTER, 1, "e"),
        Row.of_kind(RowKind.DELETE, 2, None), Row.of_kind(RowKind.DELETE, 77, None), Row(4, "f"),
        Row(5, "g"), Row.of_kind(RowKind.DELETE, 5, "g"),
    ]  # fmt: skip
    committables = staged(upserts, changes, epoch=2)
    committer.commit(commit_permit(2, 0), committables)
    assert rows(table) == [(1, "e"), (3, "d"), (4, "f")]
    committer_of(upserts).commit(commit_permit(2, 0, replay=True), committables)
    assert rows(table) == [(1, "e"), (3, "d"), (4, "f")]
    assert not list(table.glob("_flott_changes/*/*")), "the files of changes are gone"


def test_the_same_key_in_two_subtasks_is_merged_once(upserts: DeltaSink, table: Path) -> None:
    committables = staged(upserts, [(1, "b")], subtask=1) + staged(upserts, [(1, "a"), (2, "a")], subtask=0)
    committer_of(upserts).commit(commit_permit(1, 0), committables)
    assert rows(table) == [(1, "b"), (2, "a")]


def test_an_upsert_beside_another_writer_is_done_on_the_newer_version(
    upserts: DeltaSink, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committer = committer_of(upserts)
    committer.commit(commit_permit(1, 0), staged(upserts, [(1, "a")]))
    read = type(committer)._read_changes
    calls = []

    def interrupted(self: Any, group: Any) -> Any:
        if not calls:
            deltalake.write_deltalake(str(table), pa.table({"id": [2], "name": ["theirs"]}), mode="append")
        calls.append(1)
        return read(self, group)

    monkeypatch.setattr(type(committer), "_read_changes", interrupted)
    committer.commit(commit_permit(2, 0), staged(upserts, [(2, "mine"), (1, "b")], epoch=2))
    assert len(calls) == 2
    assert rows(table) == [(1, "b"), (2, "mine")]


def test_an_upsert_of_which_the_changes_are_gone_is_noticed(upserts: DeltaSink, table: Path) -> None:
    committables = staged(upserts, [(1, "a")])
    (table / committables[0]["changes"]).unlink()
    with pytest.raises(StateError, match="is gone"):
        committer_of(upserts).commit(commit_permit(1, 0), committables)


def test_a_key_must_not_be_null(upserts: DeltaSink) -> None:
    with pytest.raises(TypeMismatchError, match="null in its key"):
        staged(upserts, [(None, "a")])


def test_names_that_sql_would_misread_are_quoted(table: Path) -> None:
    sink = (
        DeltaSink.for_row_data(str(table), {"Order Id": "int64", "select": "string"})
        .with_upsert_keys("Order Id")
        .build()
    )
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 0), staged(sink, [(1, "a")]))
    committer.commit(commit_permit(2, 0), staged(sink, [(1, "b")], epoch=2))
    assert rows(table) == [(1, "b")]


# --- before anything runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda path: DeltaSink.for_row_data(path), "no Delta table at"),
        (lambda path: DeltaSink.for_row_data(path, SCHEMA).with_upsert_keys("key"), "no column .'key'"),
        (lambda path: DeltaSink.for_row_data(path, {"id": "integer?"}), "Arrow's names"),
        (lambda path: DeltaSink.for_row_data(path, [1]), "schema is a pyarrow.Schema"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_before_anything_runs(
    table: Path, build: Callable[[str], Any], message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        build(str(table)).build().validate()


def test_a_table_with_rules_that_tasks_do_not_respect_is_refused(sink: DeltaSink, table: Path) -> None:
    committer_of(sink)
    sink.validate()
    deltalake.DeltaTable(str(table)).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(ProgramError, match=r"delta\.constraints\.positive"):
        sink.validate()


def test_secrets_do_not_show(table: Path) -> None:
    options = {"AWS_SECRET_ACCESS_KEY": "hush-hush", "aws_region": "here"}
    assert "hush" not in repr(DeltaSink.for_row_data(str(table), SCHEMA).with_storage_options(options).build())


def test_a_job_appends_and_upserts(tmp_path: Path) -> None:
    appended, latest = tmp_path / "appended", tmp_path / "latest"
    env = in_process(flott__epoch__max_records="20")
    row = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    numbers = env.from_collection([Row(id=n % 10, name=f"n{n}") for n in range(100)], row)
    numbers.sink_to(DeltaSink.for_row_data(str(appended), row).build())
    keyed = numbers.key_by(lambda value: value["id"])
    keyed.sink_to(DeltaSink.for_row_data(str(latest), row).with_upsert_keys("id").build())
    env.execute()
    assert rows(appended) == sorted([(n % 10, f"n{n}") for n in range(100)], key=repr)
    assert len(rows(latest)) == 10


class TestDeltaAppend(SinkConformance):
    """The promises of every sink, for appends."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._new = lambda: tmp_path_factory.mktemp("delta") / "orders"

    def build(self, path: Path) -> DeltaSink:
        return DeltaSink.for_row_data(str(path), SCHEMA).build()

    def sink(self) -> DeltaSink:
        self.path = self._new()
        return self.build(self.path)

    def record(self, number: int) -> Any:
        return (number, f"record {number}")

    def visible(self) -> list[Any]:
        return rows(self.path) if deltalake.DeltaTable.is_deltatable(str(self.path)) else []


class TestDeltaUpsert(TestDeltaAppend):
    """The promises of every sink, for upserts."""

    def build(self, path: Path) -> DeltaSink:
        return DeltaSink.for_row_data(str(path), SCHEMA).with_upsert_keys("id").with_compaction(2).build()
