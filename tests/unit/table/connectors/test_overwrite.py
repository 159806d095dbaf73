"""INSERT OVERWRITE of files: what is replaced, and that a crash or a repeated commit changes nothing about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flott.datastream.connectors.base import Committer, Json, Sink, WriterContext
from flott.errors import ProgramError
from flott.runtime.storage import object_client, object_head
from flott.table import EnvironmentSettings, TableEnvironment
from flott.table._connectors.file_tables import TableFileSink
from flott.table._types import logical as types
from flott.table.expressions import lit
from flott.testing.harness import in_process
from flott.testing.sinks import commit_permit
from tests.unit.runtime.storage.memory_objects import MemoryObjects
from tests.unit.table.connectors.tables import declared, rows_of, sink_of, source_of

FORMATS = ("json", "parquet")


@pytest.fixture
def batch() -> TableEnvironment:
    return TableEnvironment(in_process(2), EnvironmentSettings.in_batch_mode())


def create(environment: TableEnvironment, path: Path, partitioned: str = "", format: str = "json") -> None:
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    environment.execute_sql(
        f"CREATE TABLE t (id INT, d DATE, c STRING) {clause}"
        f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
    )


def run(environment: TableEnvironment, statement: str) -> None:
    environment.execute_sql(statement).wait()


def ids(environment: TableEnvironment) -> list[int]:
    with environment.execute_sql("SELECT id FROM t").collect() as rows:
        return sorted(row[0] for row in rows)


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_without_partitions_is_replaced(batch: TableEnvironment, tmp_path: Path, format: str) -> None:
    create(batch, tmp_path, format=format)
    run(batch, "INSERT INTO t VALUES (1, DATE '2026-01-01', 'x'), (2, DATE '2026-01-02', 'x')")
    run(batch, "INSERT INTO t VALUES (3, DATE '2026-01-03', 'y')")
    run(batch, "INSERT OVERWRITE t VALUES (4, DATE '2026-01-04', 'z')")
    assert ids(batch) == [4]
    run(batch, "INSERT OVERWRITE t SELECT id, d, c FROM t WHERE id > 4")  # no row: the table is empty afterwards
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_table_may_be_replaced_by_what_is_read_from_it(batch: TableEnvironment, tmp_path: Path) -> None:
    create(batch, tmp_path)
    run(batch, "INSERT INTO t VALUES (1, DATE '2026-01-01', 'x'), (2, DATE '2026-01-02', 'x')")
    run(batch, "INSERT OVERWRITE t SELECT id * 10, d, c FROM t")
    assert ids(batch) == [10, 20]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # dynamic: only partitions that get rows
        ("INSERT OVERWRITE t VALUES (9, DATE '2026-01-01', 'x'), (8, DATE '2026-01-05', 'x')", [2, 3, 4, 8, 9]),
        ("INSERT OVERWRITE t SELECT 9, DATE '2026-01-01', 'x' FROM (VALUES 1) AS v(n) WHERE n > 1", [1, 2, 3, 4]),
        # static: the named partition, also if it gets no row; the text is converted to the type of the column
        ("INSERT OVERWRITE t PARTITION (d = '2026-01-01', c = 'x') VALUES (9)", [2, 3, 4, 9]),
        ("INSERT OVERWRITE t PARTITION (d = '2026-01-01', c = 'x') SELECT id FROM t WHERE id > 9", [2, 3, 4]),
        # some columns static: the partitions among them that get rows
        ("INSERT OVERWRITE t PARTITION (d = '2026-01-02') VALUES (9, 'y')", [1, 2, 3, 9]),
        ("INSERT OVERWRITE t PARTITION (d = '2026-01-02') SELECT id, c FROM t WHERE id > 9", [1, 2, 3, 4]),
    ],
)
def test_only_partitions_are_replaced(
    batch: TableEnvironment, tmp_path: Path, statement: str, expected: list[int]
) -> None:
    create(batch, tmp_path, "d, c")
    days = "(1, DATE '2026-01-01', 'x'), (2, DATE '2026-01-01', 'y'), (3, DATE '2026-01-02', 'x')"
    run(batch, f"INSERT INTO t VALUES {days}, (4, DATE '2026-01-02', 'y')")
    run(batch, statement)
    assert ids(batch) == expected


def test_programs_overwrite_too(batch: TableEnvironment, tmp_path: Path) -> None:
    create(batch, tmp_path)
    for number, overwrite in ((1, False), (2, False), (3, True)):
        row = batch.from_elements([(number,)], ["id"]).select(lit(number), lit(None).cast("DATE"), lit("x"))
        row.execute_insert("t", overwrite).wait()
    assert ids(batch) == [3]


def test_streaming_mode_refuses(tmp_path: Path) -> None:
    environment = TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())
    create(environment, tmp_path)
    with pytest.raises(ProgramError, match=r"Streaming mode does not support INSERT OVERWRITE.*'batch'"):
        environment.execute_sql("INSERT OVERWRITE t VALUES (1, DATE '2026-01-01', 'x')")


# --- the committer ---------------------------------------------------------------------------------------------------

COLUMNS = {"id": types.INT, "p": types.STRING}


def rows(*found: tuple[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"id": number, "p": part} for number, part in found], schema=pa.schema({"id": pa.int32(), "p": pa.string()})
    )


class Table:
    """A table of files, as jobs write it."""

    def __init__(self, place: str, format: str, partitioned: bool):
        options = {"connector": "filesystem", "path": place, "format": format}
        self.table = declared(COLUMNS, options, ("p",) if partitioned else (), batch=True)

    def sink(self, overwrite: bool = True) -> Sink[Any]:
        made = sink_of(self.table)
        assert made.overwrite is not None
        return made.overwrite({}) if overwrite else made.make()

    def staged(self, sink: Sink[Any], job: str, *batches: pa.RecordBatch) -> list[Json]:
        """Return what the subtasks of a job hand to the committer, one batch each."""
        found: list[Json] = []
        for subtask, batch in enumerate(batches):
            context = WriterContext(subtask, len(batches), 1, f"{job}-{subtask}", job, "operator", now_ms=1_000_000)
            writer = sink.create_writer(context)
            if batch.num_rows:
                writer.write_columns(batch, None)
            found += writer.prepare_commit()
            writer.close()
        return found

    def add(self, job: str, *found: tuple[int, str]) -> None:
        sink = self.sink(overwrite=False)
        commit(sink, job, self.staged(sink, job, rows(*found)))

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in rows_of(source_of(self.table)))


def committer_of(sink: Sink[Any], job: str) -> Committer:
    committer = sink.create_committer()
    assert committer is not None
    committer.open(job, "operator")
    return committer


def commit(sink: Sink[Any], job: str, committables: list[Json], replay: bool = False) -> None:
    committer_of(sink, job).commit(commit_permit(1, now_ms=1_000_000, final=True, replay=replay), committables)


class Crash(BaseException):
    """Ends the process, as far as a test can."""


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("partitioned", [True, False])
def test_a_crash_between_any_two_steps_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, partitioned: bool
) -> None:
    steps = 0
    for allowed in range(100):
        table = Table(str(tmp_path / str(allowed)), format, partitioned)
        table.add("first", (1, "a"), (2, "b"))
        table.add("second", (3, "a"), (4, "c"))
        sink = table.sink()
        committables = table.staged(sink, "third", rows((5, "a"), (6, "b")), rows((7, "b")))
        assert table.ids() == [1, 2, 3, 4]  # nothing is visible before the commit
        with monkeypatch.context() as patched:
            left = [allowed]
            for name in ("rename", "unlink"):
                patched.setattr(os, name, counted(getattr(os, name), left))
            try:
                commit(sink, "third", committables)
                finished = True
            except Crash:
                finished = False
        for _ in range(2):
            commit(sink, "third", committables, replay=True)
            assert table.ids() == ([4, 5, 6, 7] if partitioned else [5, 6, 7])
        if finished:
            break
        steps += 1
    assert steps >= 4  # two new files at least, and two old ones


def counted(call: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def step(*arguments: Any, **named: Any) -> Any:
        if left[0] == 0:
            raise Crash
        left[0] -= 1
        return call(*arguments, **named)

    return step


def test_a_repeated_commit_deletes_no_file_that_came_later(tmp_path: Path) -> None:
    table = Table(str(tmp_path), "json", partitioned=False)
    (tmp_path / "data.json").write_text('{"id": 1, "p": "a"}\n')
    sink = table.sink()
    committables = table.staged(sink, "first", rows((2, "a")))
    table.add("beside", (3, "a"))  # after the list was made
    commit(sink, "first", committables)
    assert table.ids() == [2, 3]
    (tmp_path / "data.json").write_text('{"id": 4, "p": "a"}\n')  # a new file of the same name and size
    commit(sink, "first", committables, replay=True)
    assert table.ids() == [2, 3, 4]


def test_committed_rows_that_no_file_shows_yet_are_replaced_too(tmp_path: Path) -> None:
    """A stopped streaming job leaves segments, which a later commit would make visible."""
    streaming = Table(str(tmp_path), "json", partitioned=False)
    streaming.table = declared(COLUMNS, dict(streaming.table.options))
    sink = streaming.sink(overwrite=False)
    committer_of(sink, "stopped").commit(
        commit_permit(1, now_ms=1_000_000), streaming.staged(sink, "stopped", rows((1, "a")))
    )
    assert [path.suffix for path in tmp_path.iterdir()] == [".segment"]
    table = Table(str(tmp_path), "json", partitioned=False)
    commit(table.sink(), "next", table.staged(table.sink(), "next", rows((2, "a"))))
    late = table.sink(overwrite=False)
    committer_of(late, "late").commit(commit_permit(1, now_ms=10**12, final=True), [])
    assert table.ids() == [2]


def test_a_sink_that_does_not_overwrite_lists_nothing(tmp_path: Path) -> None:
    table = Table(str(tmp_path), "json", partitioned=False)
    sink = table.sink(overwrite=False)
    assert isinstance(sink, TableFileSink)
    assert all("replaces" not in one for one in table.staged(sink, "first", rows((1, "a"))))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("partitioned", [True, False])
def test_objects_are_replaced(monkeypatch: pytest.MonkeyPatch, format: str, partitioned: bool) -> None:
    store = MemoryObjects()
    monkeypatch.setattr(object_client, "client_of", lambda location, settings: store)
    monkeypatch.setattr(object_head, "RETRY_DELAYS", ())
    table = Table("s3://bucket/t", format, partitioned)
    table.add("first", (1, "a"), (2, "b"))
    sink = table.sink()
    committables = table.staged(sink, "second", rows((3, "a")), rows((4, "a")))
    assert table.ids() == [1, 2]
    for replay in (False, True):
        commit(sink, "second", committables, replay=replay)
        assert table.ids() == ([2, 3, 4] if partitioned else [3, 4])
