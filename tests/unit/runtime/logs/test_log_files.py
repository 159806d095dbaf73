"""Log files are listed, read from a place on, from the end, and followed; no name leads out of the folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.errors import ClusterError
from flott.runtime.logs import log_files, task_manager_log
from flott.runtime.logs.entry import LogEntry, LogFilter
from flott.runtime.logs.log_files import (
    LogCursor,
    LogFile,
    job_folder,
    list_logs,
    open_log,
    read_log,
)
from flott.runtime.logs.rotation import RotatingFile, Rotation
from flott.runtime.logs.task_manager_log import TaskManagerCursor, read_task_manager_log


def entry(message: str, **fields: object) -> LogEntry:
    return LogEntry("2026-03-01T12:00:00.000Z", "INFO", "x", message, **fields)  # type: ignore[arg-type]


def write(path: Path, *entries: LogEntry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.writelines(one.encoded() + b"\n" for one in entries)


def _none(lost: int) -> bytes:
    raise AssertionError("nothing is lost here")


def messages(found: log_files.LogLines) -> list[str]:
    return [one.message for one in found.entries]


def test_files_are_listed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(b"12345")
    (tmp_path / "a.out").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.utime(tmp_path / "job.log", ns=(0, 5_000_000))
    found = list_logs(tmp_path)
    assert [file.name for file in found] == ["a.out", "job.log"]
    assert found[1] == LogFile("job.log", 5, 5)
    assert list_logs(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../secret", "/etc/passwd", "jobs/../../secret", "..\\secret", "a\0b", ".hidden", "link", "folder",
     "pipe", "missing", "job.log/", "\ud800", "x" * 5000],
)  # fmt: skip
def test_no_name_leads_out_of_the_folder_or_to_anything_but_a_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "job.log").write_bytes(b"fine\n")
    (folder / ".hidden").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    for attempt in (
        lambda: read_log(folder, name),
        lambda: read_log(folder, name, tail=3),
        lambda: read_log(folder, name, cursor=LogCursor(1, 1)),
        lambda: open_log(folder, name).close(),
    ):
        with pytest.raises(ClusterError, match=r"There is no log|plain name"):
            attempt()


@pytest.mark.parametrize("job_id", ["..", "a/b", "", "../.."])
def test_the_folder_of_a_job_is_below_the_logs(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(ClusterError):
        job_folder(tmp_path, job_id)


def test_a_log_that_is_missing_is_answered_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"There is no log 'job\.lg': there are no logs yet"):
        read_log(tmp_path, "job.lg")
    write(tmp_path / "job.log", entry("x"))
    with pytest.raises(ClusterError, match=r"There is no log 'job\.lg': there is job\.log"):
        read_log(tmp_path, "job.lg")


def test_a_log_is_followed_by_its_cursor_and_unfinished_lines_wait(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    write(path, entry("one"))
    found = read_log(tmp_path, "job.log")
    assert found.lines == ("2026-03-01 12:00:00,000 INFO    [x] one",)
    assert found.text == found.lines[0] + "\n"
    two = entry("two").encoded()
    with open(path, "ab", buffering=0) as file:
        file.write(two[:10])
        half = read_log(tmp_path, "job.log", cursor=found.cursor)
        assert half.lines == ()
        file.write(two[10:] + b"\n")
    rest = read_log(tmp_path, "job.log", cursor=LogCursor.of(str(half.cursor)))
    assert messages(rest) == ["two"]
    assert messages(read_log(tmp_path, "job.log", cursor=rest.cursor)) == []


@settings(max_examples=40)
@given(st.lists(st.integers(1, 6), max_size=8), st.integers(1, 900), st.integers(2, 400))
def test_whoever_follows_sees_every_line_once_while_the_files_rotate(
    batches: list[int], file_bytes: int, answer_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_files, "MAX_BYTES", 100 + answer_bytes)
        log = RotatingFile(Path(folder, "job.log"), Rotation(file_bytes, 60), _none)
        log.append([entry("first").encoded()])
        found = read_log(Path(folder), "job.log")
        seen, written = messages(found), ["first"]
        for number, size in enumerate(batches):
            more = [f"{number}.{index}" for index in range(size)]
            log.append([entry(text).encoded() for text in more])
            written += more
            found = read_log(Path(folder), "job.log", cursor=found.cursor)
            seen += messages(found)
        while (found := read_log(Path(folder), "job.log", cursor=found.cursor)).entries:
            seen += messages(found)
        log.close()
        assert seen == written


def test_a_cursor_into_a_file_that_is_gone_goes_on_with_the_oldest(tmp_path: Path) -> None:
    log = RotatingFile(tmp_path / "job.log", Rotation(1, 2), _none)
    log.append([entry("0").encoded()])
    cursor = read_log(tmp_path, "job.log").cursor
    os.link(tmp_path / "job.log", tmp_path / "keep")  # so that its number is not given to another file
    for number in range(1, 5):
        log.append([entry(str(number)).encoded()])
    assert messages(read_log(tmp_path, "job.log", cursor=cursor)) == ["3"]


@settings(max_examples=40)
@given(
    lines=st.lists(st.sampled_from(["a", "b" * 50, "c" * 3000]), max_size=20),
    tail=st.integers(0, 12),
    file_bytes=st.integers(1, 9000),
)
def test_the_tail_is_the_last_lines_also_of_files_that_made_room(lines: list[str], tail: int, file_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_files, "_BLOCK", 512)
        log = RotatingFile(Path(folder, "job.log"), Rotation(file_bytes, 60), _none)
        log.append([entry("").encoded()])
        log.append([entry(line).encoded() for line in lines])
        found = read_log(Path(folder), "job.log", tail=tail)
        assert messages(found) == (["", *lines][-tail:] if tail else [])
        log.append([entry("new").encoded()])
        assert messages(read_log(Path(folder), "job.log", cursor=found.cursor)) == ["new"]
        log.close()


def test_the_tail_is_there_in_the_moment_between_two_files(tmp_path: Path) -> None:
    (tmp_path / "job.log.1").write_bytes(b"one\ntwo\n")  # renamed; the next is not there yet
    found = read_log(tmp_path, "job.log", tail=1)
    assert found.lines == ("two",)
    (tmp_path / "job.log").write_bytes(b"three\n")
    assert read_log(tmp_path, "job.log", cursor=found.cursor).lines == ("three",)


def test_filters_choose_by_level_operator_and_subtask_and_the_tail_counts_what_is_wanted(tmp_path: Path) -> None:
    for number in range(100):
        parity = "even" if number % 2 == 0 else "odd"
        write(tmp_path / "job.log", entry(str(number), operator=parity, subtask=number % 5))
    (tmp_path / "job.log").write_bytes((tmp_path / "job.log").read_bytes() + b"a line of another kind\n")
    wanted = LogFilter(operator="odd", subtask=3)
    assert messages(read_log(tmp_path, "job.log", tail=3, wanted=wanted)) == ["73", "83", "93"]
    assert messages(read_log(tmp_path, "job.log", wanted=wanted)) == [str(number) for number in range(3, 100, 10)]
    assert read_log(tmp_path, "job.log", tail=1).lines == ("a line of another kind",)
    assert read_log(tmp_path, "job.log", wanted=LogFilter(level="ERROR")).lines == ()


def test_other_files_are_text_whatever_bytes_they_hold(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(b"plain\nbr\xffoken\nunfinished")
    assert read_log(tmp_path, "job.out").lines == ("plain", "br\ufffdoken")


def test_an_answer_is_bounded_and_a_line_longer_than_that_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "MAX_BYTES", 10)
    (tmp_path / "job.out").write_bytes(b"x" * 25 + b"\nyy\n")
    cursor, seen = LogCursor(), ""
    for _ in range(10):
        found = read_log(tmp_path, "job.out", cursor=cursor)
        cursor = found.cursor
        seen += "|".join(found.lines)
    assert seen.replace("|", "").replace("yy", "") == "x" * 25
    assert seen.endswith("yy")


@pytest.mark.parametrize("text", ["", "1", "-", "1-", "a-b", "1--2", "-1-2", "1-2-3", "1" * 60 + "-1", "١-٢"])
def test_a_cursor_that_nobody_gave_out_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="not a place in a log"):
        LogCursor.of(text)


def test_what_an_executor_said_is_found_across_jobs_in_the_order_of_time(tmp_path: Path) -> None:
    def at(second: int, message: str, task_manager: str) -> LogEntry:
        return LogEntry(f"2026-03-01T12:00:0{second}.000Z", "INFO", "x", message, task_manager=task_manager)

    write(tmp_path / "jobs" / "a" / "job.log", at(1, "a1", "1"), at(2, "a2", "2"), at(5, "a5", "1"))
    write(tmp_path / "jobs" / "b" / "job.log", at(3, "b3", "1"), at(4, "b4", "driver"))
    (tmp_path / "jobs" / "empty").mkdir()


    def said(folder: Path, tail: int, cursor: TaskManagerCursor | None = None) -> tuple[list[str], TaskManagerCursor]:
        found = read_task_manager_log(folder, LogFilter(task_manager="1"), tail=tail, cursor=cursor)
        return [line.split()[-1] for line in found.lines], TaskManagerCursor.of(str(found.cursor))

    assert said(tmp_path, 100)[0] == ["a1", "b3", "a5"]
    assert said(tmp_path, 0)[0] == []
    assert said(tmp_path / "nowhere", 5) == ([], TaskManagerCursor.of("0-0"))
    lines, cursor = said(tmp_path, 1)
    assert lines == ["a5"]
    assert said(tmp_path, 1, cursor) == ([], cursor)
    write(tmp_path / "jobs" / "b" / "job.log", at(6, "b6", "1"), at(6, "b6", "2"))
    write(tmp_path / "jobs" / "new" / "job.log", at(7, "new7", "1"))
    lines, cursor = said(tmp_path, 1, cursor)
    assert lines == ["b6", "new7"], "all that is new, also of a job that has begun since"
    (tmp_path / "jobs" / "b" / "job.log").rename(tmp_path / "jobs" / "b" / "job.log.1")
    write(tmp_path / "jobs" / "b" / "job.log", at(8, "b8", "1"))
    lines, cursor = said(tmp_path, 1, cursor)
    assert lines == ["b8"], "its log has made room for the next file"
    assert said(tmp_path, 1, cursor)[0] == []


def test_of_very_many_jobs_the_last_ones_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_manager_log, "MAX_JOBS", 2)
    for number in range(4):
        path = tmp_path / "jobs" / str(number) / "job.log"
        write(path, LogEntry(f"2026-03-01T12:00:0{number}.000Z", "INFO", "x", f"m{number}", task_manager="1"))
        os.utime(path, (number, number))
    found = read_task_manager_log(tmp_path, LogFilter(task_manager="1"), tail=9)
    assert [line.split()[-1] for line in found.lines] == ["m2", "m3"]
    with pytest.raises(ClusterError, match="at most 2 parts"):
        TaskManagerCursor.of("1-1,2-2,3-3")
