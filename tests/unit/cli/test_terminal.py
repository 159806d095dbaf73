"""Where output goes, and how it is written."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from flott.cli.terminal import Terminal, duration_text, pairs, table
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


def test_where_nobody_looks_lines_have_no_blanks_at_their_end(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().show({}, "", table(("A", "B"), [("x", "much longer"), ("y", "z")]), pairs([("a", 1), ("bcd", None)]))
    assert capsys.readouterr().out == "\nA  B\nx  much longer\ny  z\na    1\nbcd  -\n"


def drawn(width: int, *rows: tuple[object, ...]) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        console.print(table(("name", "number"), rows, {"number"}))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_table_that_does_not_fit_becomes_blocks_before_its_cells_are_broken_into_letters() -> None:
    rows = (("a longer name", 1), ("b", None))
    assert drawn(40, *rows) == ["name           number", "a longer name       1", "b                   -"]
    assert drawn(17, *rows)[1:3] == ["a longer        1", "name"]
    blocks = [["name    a", "        longer", "        name", "number  1"], ["name    b", "number  -"]]
    assert drawn(15, *rows) == [*blocks[0], "", *blocks[1]]
    assert drawn(10) == []


@given(
    st.integers(12, 60), st.lists(st.tuples(st.text("ab ", max_size=30), st.integers(0, 10**9)), min_size=1, max_size=4)
)
def test_no_letter_of_a_table_is_lost_however_narrow_it_is(width: int, rows: list[tuple[str, int]]) -> None:
    lines = drawn(width, *rows)
    assert all(len(line) <= width for line in lines)
    text = "".join(lines)
    for letter in "ab123456789":
        wanted = sum(f"{name}{number}".count(letter) for name, number in rows)
        titles = text.count("name") + text.count("number") if letter in "ab" else 0
        assert wanted <= text.count(letter) <= wanted + titles


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
