"""The file sink: every record of a completed epoch is published exactly once, whatever step a crash falls on."""

from __future__ import annotations

import builtins
import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common.serialization import Encoder
from flott.common.types import Row
from flott.datastream.connectors.base import WriterContext
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    BulkWriterFactory,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from flott.datastream.formats.csv import CsvBulkWriters, CsvEncoder, CsvSchema
from flott.datastream.formats.json import JsonLinesEncoder
from flott.errors import ProgramError, StateError, StorageError, TypeMismatchError
from flott.testing.connectors.source_run import run_source, through_json
from flott.testing.sinks import commit_permit

LINES = Encoder.simple_string_encoder()
MINUTE = 60_000


def sink_of(base: Any, encoder: Any = LINES, policy: Any = None, bulk: bool = False, **file: str) -> FileSink:
    builder: Any = (FileSink.for_bulk_format if bulk else FileSink.for_row_format)(str(base), encoder)
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    if policy is not None:
        builder.with_rolling_policy(policy)
    if file:
        builder.with_output_file_config(OutputFileConfig(file.get("prefix", "part"), file.get("suffix", "")))
    return builder.build()  # type: ignore[no-any-return]


def context(subtask: int = 0, epoch: int = 1, attempt: str = "a-1", now_ms: int = 0, job: str = "job") -> WriterContext:
    return WriterContext(subtask, 2, epoch, attempt, job, "operator", now_ms)


def staged(sink: FileSink, records: list[Any], where: WriterContext | None = None, **fields: Any) -> list[Any]:
    """What a task that writes the records hands back."""
    writer = sink.create_writer(where or context(**fields))
    writer.write(records, None)
    committables = writer.prepare_commit()
    writer.close()
    return through_json(committables)  # type: ignore[no-any-return]


def committer_of(sink: FileSink, job: str = "job") -> Any:
    committer = sink.create_committer()
    committer.open(job, "operator")
    return committer


def visible(base: Any) -> dict[str, str]:
    """The published files and what is in them."""
    return {
        str(path.relative_to(base)): path.read_text()
        for path in sorted(Path(base).rglob("*"))
        if path.is_file() and not path.name.startswith((".", "_"))
    }


def hidden(base: Any, kind: str = "") -> list[str]:
    return sorted(path.name for path in Path(base).rglob(".*") if path.name.endswith(kind))


# ---- the plain way ----------------------------------------------------------------------------------------------


def test_nothing_is_visible_before_the_commit_and_everything_after_the_last(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, suffix=".txt")
    committables = staged(sink, ["a", "b"])
    assert visible(tmp_path) == {}
    assert committables[0]["records"] == 2
    assert committables[0]["bytes"] == 4
    committer_of(sink).commit(commit_permit(1, 0, final=True), committables)
    (name,) = visible(tmp_path)
    assert name.startswith("part-")
    assert name.endswith("-0-1-1.txt")
    assert visible(tmp_path)[name] == "a\nb\n"
    assert hidden(tmp_path) == []


def test_the_output_of_several_epochs_becomes_one_part(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    committer = committer_of(sink)
    for epoch in range(1, 5):
        committer.commit(commit_permit(epoch, epoch), staged(sink, [f"e{epoch}"], epoch=epoch, now_ms=epoch))
        assert visible(tmp_path) == {}
    committer.commit(commit_permit(5, MINUTE + 1), [])
    ((name, content),) = visible(tmp_path).items()
    assert name.endswith("-0-1-4")
    assert content == "e1\ne2\ne3\ne4\n"


@pytest.mark.parametrize(
    ("policy", "now_ms", "rolls"),
    [
        (RollingPolicy.default_rolling_policy(1000, 1000, 1000), 999, False),
        (RollingPolicy.default_rolling_policy(6, 10**9, 10**9), 200, True),
        (RollingPolicy.default_rolling_policy(7, 10**9, 10**9), 200, False),
        (RollingPolicy.default_rolling_policy(1000, 1000, 10**9), 1100, True),
        (RollingPolicy.default_rolling_policy(1000, 10**9, 1000), 1200, True),
        (RollingPolicy.default_rolling_policy(1000, 10**9, 1000), 1199, False),
        (RollingPolicy.on_checkpoint_rolling_policy(), 100, True),
    ],
)
def test_rolling_policies_go_by_size_age_and_inactivity(tmp_path: Path, policy: Any, now_ms: int, rolls: bool) -> None:
    never = sink_of(tmp_path, policy=RollingPolicy.default_rolling_policy())
    committer_of(never).commit(commit_permit(1, 100), staged(never, ["a"], epoch=1, now_ms=100))
    committer_of(never).commit(commit_permit(2, 200), staged(never, ["bcd"], epoch=2, now_ms=200))
    committer_of(sink_of(tmp_path, policy=policy)).commit(commit_permit(3, now_ms), [])
    assert bool(visible(tmp_path)) == rolls


def test_part_size_counts_every_waiting_epoch(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, policy=RollingPolicy.default_rolling_policy(6, 10**9, 10**9))
    committer = committer_of(sink)
    for epoch in range(1, 8):
        committer.commit(commit_permit(epoch, epoch), staged(sink, ["x"], epoch=epoch, now_ms=epoch))
    assert [name[-3:] for name in visible(tmp_path)] == ["1-3", "4-6"]


def test_buckets_are_directories_and_a_plain_function_chooses_them(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(str(tmp_path), LINES).with_bucket_assigner(lambda n: f"rest={n % 3}/")
    sink = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    committables = staged(sink, list(range(2000)))
    committer_of(sink).commit(commit_permit(1, 0), committables)
    found = {name.split("/")[0]: content.split() for name, content in visible(tmp_path).items()}
    assert found == {f"rest={r}": [str(n) for n in range(2000) if n % 3 == r] for r in range(3)}
    committer_of(sink).commit(commit_permit(1, 0, replay=True), committables)


@pytest.mark.parametrize("bucket", ["../x", "/etc", "a/../../b", 7])
def test_a_bucket_outside_the_base_path_is_refused(tmp_path: Path, bucket: Any) -> None:
    sink = FileSink.for_row_format(str(tmp_path), LINES).with_bucket_assigner(lambda value: bucket).build()
    with pytest.raises(ProgramError, match="bucket"):
        sink.create_writer(context()).write(["x"], None)


def test_the_default_bucket_is_the_hour_of_the_epoch(tmp_path: Path) -> None:
    assigner = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC")
    assert assigner.buckets(["x"], 1_700_000_000_123) == "2023-11-14--22"
    fine = BucketAssigner.date_time_bucket_assigner("'at' yyyy/DDD HH:mm:ss.SSS '%''x'", "GMT-08:00")
    assert fine.buckets([], 1_700_000_000_123) == "at 2023/318 14:13:20.123 %'x"
    local = FileSink.for_row_format(str(tmp_path), LINES).build().bucket_assigner.buckets([], 0)
    assert len(local) == len("yyyy-MM-dd--HH")
    for wrong in ({"format_str": "QQ"}, {"format_str": "'open"}, {"timezone_id": "Mars/Base"}):
        with pytest.raises(ProgramError):
            BucketAssigner.date_time_bucket_assigner(**wrong)


def test_a_large_epoch_is_written_while_it_is_received(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    writer = sink.create_writer(context())
    for _ in range(30):
        writer.write(["x" * 99] * 1000, None)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 1_000_000
    committables = writer.prepare_commit()
    writer.close()
    committer_of(sink).commit(commit_permit(1, 0, final=True), committables)
    assert [len(content) for content in visible(tmp_path).values()] == [3_000_000]


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = sink_of(tmp_path).create_writer(context())
    writer.write(["x" * 2_000_000], None)
    assert hidden(tmp_path)
    writer.close()
    assert hidden(tmp_path) == []


def test_an_epoch_without_records_has_nothing_to_commit(tmp_path: Path) -> None:
    assert staged(sink_of(tmp_path), []) == []


def test_stale_output_is_discarded_and_live_output_is_not(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    staged(sink, ["old"], attempt="a-1")
    live = staged(sink, ["new"], attempt="b/2")
    staged(sink, ["somebody else's"], job="another")
    committer = committer_of(sink)
    committer.discard(frozenset({"b/2"}))
    assert len(hidden(tmp_path, ".staged")) == 2
    committer.commit(commit_permit(1, 0, final=True), live)
    assert list(visible(tmp_path).values()) == ["new\n"]


def test_output_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    committables = staged(sink, ["x"])
    (tmp_path / committables[0]["staged"]).unlink()
    for kind in (sink, sink_of(tmp_path, bulk=True)):
        with pytest.raises(StateError, match=committables[0]["staged"]):
            committer_of(kind).commit(commit_permit(1, 0), committables)


def test_a_job_set_back_to_an_older_checkpoint_is_refused_instead_of_losing_output(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, policy=RollingPolicy.on_checkpoint_rolling_policy())
    committer_of(sink).commit(commit_permit(1, 0), staged(sink, ["x"], epoch=1))
    with pytest.raises(StateError, match="set back"):
        committer_of(sink).commit(commit_permit(1, 0), staged(sink, ["y"], epoch=1, attempt="later"))


def test_a_second_run_into_the_same_directory_keeps_the_output_of_the_first(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, policy=RollingPolicy.on_checkpoint_rolling_policy())
    for job in ("first", "second"):
        committer_of(sink, job).commit(commit_permit(1, 0, final=True), staged(sink, [job], job=job))
    assert sorted(visible(tmp_path).values()) == ["first\n", "second\n"]


def test_what_an_abandoned_job_left_waiting_is_published_in_the_end(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    committer_of(sink, "old").commit(commit_permit(1, 0), staged(sink, ["x"], job="old"))
    committer_of(sink, "new").commit(commit_permit(1, 9 * MINUTE, final=True), [])
    assert visible(tmp_path) == {}
    committer_of(sink, "new").commit(commit_permit(1, 10 * MINUTE), [])
    assert list(visible(tmp_path).values()) == ["x\n"]


# ---- formats ----------------------------------------------------------------------------------------------------


def test_csv_parts_begin_with_one_header(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, CsvEncoder(("id", "name"), with_header=True))
    committer = committer_of(sink)
    committer.commit(commit_permit(1, 1), staged(sink, [{"id": 1, "name": "a,b"}, (2, None)], epoch=1))
    committer.commit(commit_permit(2, 2, final=True), staged(sink, [Row(id=3, name="x\ny")], epoch=2))
    assert list(visible(tmp_path).values()) == ['id,name\n1,"a,b"\n2,\n3,"x\ny"\n']
    bulk_schema = CsvSchema.builder().add_number_column("id").add_array_column("tags").set_use_header().build()
    bulk = sink_of(tmp_path / "bulk", CsvBulkWriters.for_schema(bulk_schema), bulk=True)
    committer_of(bulk).commit(commit_permit(1, 1), staged(bulk, [Row(1, ["a", "b"])]))
    assert list(visible(tmp_path / "bulk").values()) == ["id,tags\n1,a;b\n"]
    for wrong in ({"strange": 1}, "text", (1, 2, 3)):
        with pytest.raises(TypeMismatchError):
            CsvEncoder(("id", "name")).encode(wrong)


def test_json_lines_are_written_and_read_again(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, JsonLinesEncoder())
    records = [{"n": n, "text": "ä\n"} for n in range(10)]
    committer_of(sink).commit(commit_permit(1, 1, final=True), staged(sink, [*records, Row(n=10, inner=Row(1, 2))]))
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), str(tmp_path)).build()
    assert run_source(source, Random(0)).records == [*records, {"n": 10, "inner": [1, 2]}]
    with pytest.raises(TypeMismatchError, match="map it first"):
        JsonLinesEncoder().encode(object())


def test_parquet_files_appear_on_every_checkpoint(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, BulkWriterFactory.parquet(), bulk=True, suffix=".parquet")
    committer = committer_of(sink)
    for epoch in (1, 2):
        committables = staged(sink, [{"id": epoch}, {"id": epoch, "late": "field"}], epoch=epoch)
        committer.commit(commit_permit(epoch, 0), committables)
        committer.commit(commit_permit(epoch, 0, replay=True), committables)
    parts = sorted(tmp_path.glob("part-*.parquet"))
    assert [pq.read_table(part).to_pylist() for part in parts] == [
        [{"id": epoch, "late": None}, {"id": epoch, "late": "field"}] for epoch in (1, 2)
    ]
    assert hidden(tmp_path) == []


def test_a_parquet_schema_is_kept_and_nothing_is_dropped_silently(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, BulkWriterFactory.parquet({"id": "int64", "name": "string"}), bulk=True)
    committer_of(sink).commit(commit_permit(1, 0), staged(sink, [{"id": 1}, Row(id=2, name="b"), (3, "c")]))
    (part,) = tmp_path.glob("part-*")
    assert pq.read_table(part).to_pylist() == [
        {"id": 1, "name": None}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"},
    ]  # fmt: skip
    for wrong in ({"id": "text"}, {"id": 1, "more": 2}, 7):
        with pytest.raises(TypeMismatchError):
            staged(sink, [wrong], epoch=2)
    with pytest.raises(ProgramError, match="int65"):
        staged(sink_of(tmp_path, BulkWriterFactory.parquet({"id": "int65"}), bulk=True), [{"id": 1}])


# ---- crashes ----------------------------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone: no handler of ours may see it."""


STEPS = ((os, "rename"), (os, "replace"), (os, "unlink"), (os, "fsync"), (builtins, "open"))


@contextmanager
def crash_at(step: int, error: BaseException, after: bool) -> Iterator[list[int]]:
    """Raise at the n-th file system step of this thread, before or after it had its effect."""
    done, attacked_thread = [0], threading.get_ident()
    originals = {(module, name): getattr(module, name) for module, name in STEPS}

    def attacked(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != attacked_thread:  # a client of an earlier test may still write its log
                return original(*args, **kwargs)
            done[0] += 1
            if done[0] - 1 != step:
                return original(*args, **kwargs)
            if after:
                result = original(*args, **kwargs)
                if hasattr(result, "close"):
                    result.close()
            raise error

        return call

    for (module, name), original in originals.items():
        setattr(module, name, attacked(original))
    try:
        yield done
    finally:
        for (module, name), original in originals.items():
            setattr(module, name, original)


def check_visible(base: Any, epochs: dict[tuple[int, int], list[str]], complete: bool) -> None:
    """No record twice, none from an epoch that is not complete, no part that lacks something of its epochs."""
    seen: set[tuple[int, int]] = set()
    for name, content in visible(base).items():
        bucket = os.path.dirname(name)
        subtask, first, last = map(int, name.removesuffix(".txt").rsplit("-", 3)[1:])
        inside = [(s, e) for s, e in sorted(epochs) if s == subtask and first <= e <= last]
        expected = [r for key in inside for r in epochs[key] if f"b={r[-1]}" == bucket]
        assert content.split() == expected, name
        keys = {(bucket, key) for key in inside if any(f"b={r[-1]}" == bucket for r in epochs[key])}
        assert not seen & keys
        seen |= keys  # type: ignore[arg-type]
    if complete:
        found = sorted(line for content in visible(base).values() for line in content.split())
        assert found == sorted(record for records in epochs.values() for record in records)


def bucketed(base: str, policy: Any) -> FileSink:
    return (
        FileSink.for_row_format(base, LINES)
        .with_bucket_assigner(lambda record: f"b={record[-1]}")
        .with_rolling_policy(policy)
        .with_output_file_config(OutputFileConfig("part", ".txt"))
        .build()
    )


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), after=st.booleans(), dies=st.booleans())
def test_a_crash_at_any_step_of_any_commit_loses_and_doubles_nothing(seed: int, after: bool, dies: bool) -> None:
    rng = Random(seed)
    policy = rng.choice([
        RollingPolicy.default_rolling_policy(40, 1000, 1000),
        RollingPolicy.default_rolling_policy(10**9, 300, 10**9),
        RollingPolicy.on_checkpoint_rolling_policy(),
    ])  # fmt: skip
    with TemporaryDirectory() as base:
        sink = bucketed(base, policy)
        committer = committer_of(sink)
        epochs: dict[tuple[int, int], list[str]] = {}
        last = 12
        for epoch in range(1, last + 1):
            committables: list[Any] = []
            for subtask in range(rng.choice([1, 3])):
                records = [f"{epoch}.{subtask}.{n}.{rng.randint(0, 1)}" for n in range(rng.randint(0, 4))]
                for attempt in range(rng.randint(1, 2)):  # of several attempts the last one is acknowledged
                    where = context(subtask, epoch, f"{epoch}-{attempt}", epoch * 100)
                    handed_back = staged(sink, records, where)
                committables += handed_back
                epochs[subtask, epoch] = records
            final, replay, step = epoch == last, False, rng.randint(0, 25)
            while True:
                error: BaseException = Crash() if dies else OSError("disk on fire")
                try:
                    with crash_at(step, error, after):
                        committer.commit(commit_permit(epoch, epoch * 100, replay=replay, final=final), committables)
                    break
                except (Crash, StorageError):
                    check_visible(base, epochs, complete=False)
                    replay, step = dies or rng.random() < 0.5, step + rng.randint(0, 12)
                    if dies:
                        committer = committer_of(sink)
            check_visible(base, epochs, complete=final)
            if rng.random() < 0.3:
                committer.commit(commit_permit(epoch, epoch * 100, replay=True, final=final), committables)
                committer.discard(frozenset())
                assert hidden(base, ".staged") == []
                check_visible(base, epochs, complete=final)
        assert hidden(base, ".segment") == []
        assert hidden(base, ".rolling") == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("bulk", [False, True])
def test_every_single_step_of_a_roll_may_be_the_last(tmp_path: Path, bulk: bool, after: bool) -> None:
    """All steps, one after the other: three epochs wait, the fourth commit rolls them."""
    step = 0
    while True:
        base = tmp_path / str(step)
        sink = sink_of(base, policy=None, bulk=bulk)
        for epoch in (1, 2, 3):
            committer_of(sink).commit(commit_permit(epoch, 0), staged(sink, [f"r{epoch}"], epoch=epoch))
        committables = staged(sink, ["r4"], epoch=4)
        try:
            with crash_at(step, Crash(), after) as done:
                committer_of(sink).commit(commit_permit(4, 0, final=True), committables)
        except Crash:
            assert all(content in ("r1\nr2\nr3\nr4\n", "r1\n", "r2\n", "r3\n", "r4\n")
                       for content in visible(base).values())  # fmt: skip
            committer_of(sink).commit(commit_permit(4, 0, replay=True, final=True), committables)
            assert "".join(content for _, content in sorted(visible(base).items())) == "r1\nr2\nr3\nr4\n"
            assert hidden(base) == []
            step += 1
        else:
            assert step == done[0]
            assert step > (1 if bulk else 8)
            return


def test_a_task_that_dies_while_staging_leaves_nothing_visible(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    for step in range(3):
        writer = sink.create_writer(context(attempt=str(step)))
        writer.write(["x"], None)
        with pytest.raises(Crash), crash_at(step, Crash(), after=True):
            writer.prepare_commit()
    assert visible(tmp_path) == {}
    committer_of(sink).discard(frozenset())
    assert hidden(tmp_path) == []


def test_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    sink = sink_of(tmp_path)
    writer = sink.create_writer(context())
    writer.write(["x"], None)
    with pytest.raises(StorageError, match="has room"), crash_at(0, OSError(28, "No space left"), after=False):
        writer.prepare_commit()
    writer.close()
    assert hidden(tmp_path) == []


# ---- the rest ---------------------------------------------------------------------------------------------------


def test_a_base_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ProgramError, match="is a file"):
        sink_of(tmp_path / "file" / "below").validate()
    sink_of(tmp_path / "new" / "directory").validate()


def test_the_builders_take_what_a_ported_program_says(tmp_path: Path) -> None:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).set_size_threshold(1024).build()
    config = OutputFileConfig.builder().with_part_prefix("pre").with_part_suffix(".txt").build()
    sink = (
        FileSink.for_row_format(str(tmp_path), LINES).with_bucket_check_interval(1000).with_output_file_config(config)
        .enable_compact(strategy, FileCompactor.concat_file_compactor()).disable_compact().build()
    )  # fmt: skip
    assert sink.output_file_config.get_part_prefix() == "pre"
    assert pickle.loads(pickle.dumps(sink)) == sink
    with pytest.raises(ProgramError, match="every checkpoint"):
        sink_of(tmp_path, bulk=True, policy=RollingPolicy.default_rolling_policy())
    with pytest.warns(DeprecationWarning, match="FileSink"):
        assert StreamingFileSink.for_row_format(str(tmp_path), LINES).build().base_path == str(tmp_path)
    with pytest.raises(ProgramError, match="unfinished"):
        OutputFileConfig("_part", "")


def test_committables_are_json(tmp_path: Path) -> None:
    committables = sink_of(tmp_path).create_writer(context()).prepare_commit()
    assert json.loads(json.dumps(committables)) == committables
