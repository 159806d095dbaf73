"""What is drawn on a terminal, and the keys that are pressed at it."""

from __future__ import annotations

import os
import pty
import termios
from typing import Any

from flott.cli.commands.checkpoints import phase_bar
from flott.cli.commands.info import drawn
from flott.cli.drawings.job_panel import busy_bar, rates_of, sparkline
from flott.cli.keyboard import Keyboard


def test_a_key_is_heard_at_once_and_the_terminal_is_left_as_it_was() -> None:
    master, terminal = pty.openpty()
    try:
        before = termios.tcgetattr(terminal)
        with Keyboard(terminal) as keyboard:
            assert not termios.tcgetattr(terminal)[3] & termios.ICANON
            assert keyboard.wait(0) is None
            os.write(master, b"q")
            assert keyboard.wait(120) == "q"
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(master)
        os.close(terminal)


def test_where_there_is_no_terminal_nobody_presses_anything() -> None:
    with Keyboard(None) as keyboard:
        assert keyboard.wait(0.001) is None


def test_a_share_of_time_is_a_bar_of_ten() -> None:
    assert [busy_bar(share).plain for share in (0, 0.25, 1, 1.7)] == [
        "··········   0%",
        "██▌·······  25%",
        "██████████ 100%",
        "██████████ 100%",
    ]


def test_a_line_of_numbers_goes_from_nothing_to_the_largest() -> None:
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_rates_are_records_between_the_ends_of_two_epochs() -> None:
    epochs: list[dict[str, Any]] = [
        {"completed": 1000, "read-records": 7},
        {"completed": 3000, "read-records": 100},
        {"completed": 3000, "read-records": 5},
    ]
    assert rates_of(epochs) == (50.0, 5000.0)
    assert rates_of(epochs[:1]) == ()


def test_phases_share_a_bar_by_their_time() -> None:
    bar = phase_bar({"plan": 1.0, "run": 2.0, "commit": 1.0}, 8)
    assert [(span.style, span.end - span.start) for span in bar.spans if span.end > span.start] == [
        ("blue", 2),
        ("green", 4),
        ("cyan", 2),
    ]
    assert phase_bar({}, 8).plain == ""


def test_a_plan_is_drawn_with_its_title() -> None:
    nodes = [{"id": "a", "parallelism": 2, "description": "Source: x -> map<br/>"},
             {"id": "b", "parallelism": 1, "description": "Sink: y<br/>",
              "inputs": [{"id": "a", "ship_strategy": "GLOBAL"}]}]  # fmt: skip
    assert drawn({"name": "shop", "type": "STREAMING", "nodes": nodes}).plain.splitlines() == [
        "shop  streaming, 2 vertices, 3 subtasks",
        "",
        "● Source: x  ×2",
        "│   map",
        "│ GLOBAL",
        "● Sink: y  ×1",
    ]
