"""Where output goes, and how it is written."""

from __future__ import annotations

import json

import pytest
from rich.text import Text

from flott.cli.terminal import Terminal, table
from flott.cli.wording import duration_text
from flott.common._sizes import size_text


def test_a_document_has_no_numbers_json_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(json=True).document({"a": float("nan"), "b": [float("inf"), 1.5], "ü": "é"})
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": None, "b": [None, 1.5], "ü": "é"}
    assert "ü" in out


def test_lines_that_are_read_by_programs_are_never_broken(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 500
    Terminal().show({}, table(("A", "B"), [(long, 1), (Text("[red]"), None)]))
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["A", "B"]
    assert first.split() == [long, "1"]
    assert second.split() == ["[red]", "-"]


def test_notes_go_to_stderr_and_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().note("[bold]as it is[/bold]")
    assert capsys.readouterr() == ("", "[bold]as it is[/bold]\n")


def test_with_json_only_warnings_and_errors_are_said_beside_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(json=True)
    terminal.note("only for people")
    terminal.line("only for people")
    terminal.warn("for everybody")
    assert capsys.readouterr() == ("", "for everybody\n")


def test_colors_can_be_forced_and_forbidden(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(color="always").warn("careful")
    assert "\x1b[" in capsys.readouterr().err
    Terminal(color="never").warn("careful")
    assert capsys.readouterr().err == "careful\n"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.0 s"), (1500, "1.5 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h 0 min"), (90_000_000, "1 d 1 h")],
)
def test_durations_have_their_two_largest_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_sizes_have_their_unit() -> None:
    assert [size_text(size) for size in (5, 2048, 3 << 20, 1 << 50)] == ["5 B", "2.0 KB", "3.0 MB", "1024.0 TB"]
