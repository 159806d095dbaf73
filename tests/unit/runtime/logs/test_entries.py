"""Entries of a structured log: as JSON, for people, and by what somebody wants to see."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.runtime.logs.entry import LogEntry, LogFilter, parse, stamp

ENTRY = LogEntry(
    "2026-03-01T12:00:00.250Z", "INFO", "stdout", "got 7", "2f" * 16,
    task="Map -> Sink", operator="Map", subtask=1, parallelism=4, host="a", task_manager="3", stream="stdout", epoch=9,
)  # fmt: skip


def test_an_entry_is_one_line_of_json_without_what_does_not_apply() -> None:
    assert json.loads(ENTRY.encoded()) == {
        "time": "2026-03-01T12:00:00.250Z",
        "level": "INFO",
        "logger": "stdout",
        "message": "got 7",
        "job": "2f" * 16,
        "task": "Map -> Sink",
        "operator": "Map",
        "subtask": 1,
        "parallelism": 4,
        "host": "a",
        "task_manager": "3",
        "stream": "stdout",
        "epoch": 9,
    }


def test_people_see_time_level_who_and_what() -> None:
    assert ENTRY.text() == "2026-03-01 12:00:00,250 INFO    [Map (2/4)] got 7"
    assert LogEntry(ENTRY.time, "ERROR", "flott.job", "no").text() == "2026-03-01 12:00:00,250 ERROR   [flott.job] no"


def test_no_message_can_look_like_another_entry_or_write_to_a_terminal() -> None:
    text = LogEntry(ENTRY.time, "INFO", "x", "a\n2026-03-01 12:00:00,250 ERROR   [x] b\x1b[2J\r\x9b\tc").text()
    first, second = text.split("\n")
    assert first.endswith("[x] a")
    assert second == "    2026-03-01 12:00:00,250 ERROR   [x] b\\x1b[2J\\r\\x9b\tc"


@given(st.text(alphabet=st.characters(exclude_categories=[])), st.text())
def test_any_message_comes_back_and_takes_one_line(message: str, operator: str) -> None:
    line = LogEntry(ENTRY.time, "INFO", "x", message, operator=operator).encoded()
    assert b"\n" not in line
    found = parse(line)
    assert found is not None
    assert found.operator == operator
    assert found.message == message.encode("utf-8", "backslashreplace").decode()
    assert found.text().encode()


def test_half_a_character_that_somebody_else_wrote_can_be_shown() -> None:
    found = parse(b'{"time":"t","level":"INFO","logger":"x","message":"\\ud83d","operator":"\\u001b"}')
    assert found is not None
    assert found.text() == "t INFO    [\\x1b] \\ud83d"


@pytest.mark.parametrize(
    "line",
    [b"", b"text", b"7", b"[]", b"{}", b'{"time": 1}', b'{"time":"t","level":"INFO","logger":"x","message":7}',
     b'{"time":"t","level":"INFO","logger":"x","message":"m","subtask":"one"}', b"\xff\xfe", b'{"time":'],
)  # fmt: skip
def test_what_is_no_entry_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_fields_of_a_later_version_are_passed_over() -> None:
    found = parse(b'{"time":"t","level":"INFO","logger":"x","message":"m","colour":"red"}')
    assert found == LogEntry("t", "INFO", "x", "m")


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (LogFilter(), True),
        (LogFilter(level="INFO"), True),
        (LogFilter(level="warning"), False),
        (LogFilter(level="DEBUG"), True),
        (LogFilter(operator="Map"), True),
        (LogFilter(operator="Map -> Sink"), True),
        (LogFilter(operator="Sink"), False),
        (LogFilter(subtask=1), True),
        (LogFilter(subtask=0), False),
        (LogFilter(task_manager="3"), True),
        (LogFilter(task_manager="4"), False),
        (LogFilter(level="INFO", operator="Map", subtask=0), False),
        (LogFilter(search=ENTRY.message.upper()), True),
        (LogFilter(search="[map (2/"), True),
        (LogFilter(search="elsewhere"), False),
        (LogFilter(search=ENTRY.message, subtask=0), False),
    ],
)
def test_a_filter_takes_what_fits_all_of_it(wanted: LogFilter, taken: bool) -> None:
    assert wanted.takes(ENTRY) is taken


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (LogFilter(), True),
        (LogFilter(search="PRINTED"), True),
        (LogFilter(search="other"), False),
        (LogFilter(level="DEBUG"), False),
        (LogFilter(level="DEBUG", search="printed"), False),
    ],
)
def test_a_line_that_is_no_entry_is_only_searched(wanted: LogFilter, taken: bool) -> None:
    assert wanted.takes_line("printed by something") is taken


def test_a_time_has_milliseconds() -> None:
    assert stamp(1_772_366_400_005) == "2026-03-01T12:00:00.005Z"
