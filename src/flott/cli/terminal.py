"""Where a command's output goes: data to stdout, everything said about it to stderr.

With ``--json`` stdout holds one JSON document (or one per line, for a command that goes on), and nothing else ever.
Rich is imported when something is drawn, not before: most of the time a command takes would be that import.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

Color = Literal["auto", "always", "never"]

#: Where nobody looks (a pipe, a file) a line is never broken.
_UNBROKEN = 100_000
#: A cell of a table is at least so wide before the table is given up.
_BROKEN = 8


class Terminal:
    """What a command writes to. One for each invocation."""

    def __init__(self, json: bool = False, color: Color = "auto") -> None:
        self.json = json
        self.color: Color = color

    @property
    def interactive(self) -> bool:
        """Whether somebody can be asked: both what is typed and what is said are a terminal's."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @cached_property
    def console(self) -> Console:
        """Rich's console on stdout, for what is drawn for people."""
        return self._console(stderr=False)

    @cached_property
    def notes(self) -> Console:
        """Rich's console on stderr, for notes, questions and progress."""
        return self._console(stderr=True)

    def show(self, document: Any, *drawing: RenderableType) -> None:
        """The result: the document with ``--json``, else the drawing (texts, tables, …)."""
        if self.json:
            self.document(document)
        else:
            for part in drawing:
                self.draw(part)

    def draw(self, drawing: RenderableType) -> None:
        """Something for people; where nobody looks, without the blanks that fill its lines up."""
        if self.console.is_terminal:
            self.console.print(drawing)
            return
        with self.console.capture() as captured:
            self.console.print(drawing)
        for line in captured.get().removesuffix("\n").split("\n"):
            _write(line.rstrip())

    def report(self, text: str, document: Any) -> None:
        """The result as lines that are exactly as they are, however narrow the terminal; or the document."""
        if self.json:
            self.document(document)
        else:
            self.line(text)

    def document(self, document: Any) -> None:
        """The result as JSON."""
        _write(_json(document, indent=2))

    def document_line(self, document: Any) -> None:
        """One of many results, as JSON on a line of its own: for commands that go on."""
        _write(_json(document))

    def line(self, text: str) -> None:
        """A line of the result, exactly as it is; nothing with ``--json``."""
        if not self.json:
            _write(text)

    def note(self, text: str, style: str = "") -> None:
        """Something worth saying that is no result. Not with ``--json``: an error is then all that stderr holds."""
        if not self.json:
            self._say(text, style)

    def warn(self, text: str) -> None:
        """Something that may be wrong."""
        self._say(text, "yellow")

    def _say(self, text: str, style: str) -> None:
        from rich.text import Text

        self.notes.print(Text(text, style=style), soft_wrap=True)

    def error(self, message: str, kind: str, exit_code: int) -> None:
        """Why the command fails: a message, or a document on stderr."""
        if self.json:
            document = {"error": {"kind": kind, "message": message}, "exit-code": exit_code}
            sys.stderr.write(_json(document, sys.stderr, indent=2) + "\n")
        else:
            self.note(f"flott: {message}", "red")

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Say what is being waited for, as long as it takes."""
        if self.notes.is_terminal:
            with self.notes.status(f"{what} …"):
                yield
        else:
            yield

    def ask(self, question: str, answers: str) -> str:
        """One letter of ``answers``, typed by somebody. The question is asked again until it is answered."""
        while True:
            self.notes.print(question, end=" ", markup=False, highlight=False)
            typed = input().strip().lower()
            if typed and typed[0] in answers:
                return typed[0]

    def _console(self, stderr: bool) -> Console:
        from rich.console import Console

        class PipedConsole(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # Rich would end the process here, with the code for any failure

        stream = sys.stderr if stderr else sys.stdout
        return PipedConsole(
            stderr=stderr, highlight=False, force_terminal=True if self.color == "always" else None,
            no_color=True if self.color == "never" else None, width=None if stream.isatty() else _UNBROKEN,
        )  # fmt: skip


def table(columns: Iterable[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> FittingTable:
    """A table for people: a head, rows, no frame. ``right``: columns of numbers. Cells may be Rich's texts."""
    return FittingTable(tuple(columns), tuple(tuple(map(_cell, row)) for row in rows), frozenset(right))


def pairs(lines: Iterable[tuple[str, object]]) -> Table:
    """Names and what they stand for, a line each."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in lines:
        made.add_row(_cell(name), _cell(value))
    return made


@dataclass(frozen=True)
class FittingTable:
    """A table, or, where the terminal is too narrow for that, each of its rows as a block of lines."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    right: frozenset[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self.least_width <= options.max_width:
            yield self._whole()
            return
        for index, row in enumerate(self.rows):
            if index:
                yield ""
            yield pairs(zip(self.columns, row, strict=True))

    @property
    def least_width(self) -> int:
        """Where it can still be read: a cell may be broken into a few lines, not into letters."""
        widths = [max((row[index].cell_len for row in self.rows), default=0) for index in range(len(self.columns))]
        least = [max(len(name), min(width, _BROKEN)) for name, width in zip(self.columns, widths, strict=True)]
        return sum(least) + 2 * (len(least) - 1)

    def _whole(self) -> Table:
        from rich.table import Table

        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in self.columns:
            made.add_column(column, justify="right" if column in self.right else "left", overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made


def _cell(value: object) -> Text:
    from rich.text import Text

    return value if isinstance(value, Text) else Text("-" if value is None else str(value))


def _json(document: Any, stream: TextIO | None = None, indent: int | None = None) -> str:
    """A document as it can be written there: a letter that does not fit must not become another one."""
    encoding = (stream or sys.stdout).encoding or ""
    plain = not encoding.lower().replace("-", "").startswith("utf")
    return json.dumps(_finite(document), indent=indent, ensure_ascii=plain)


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def duration_text(milliseconds: float) -> str:
    """A duration for people: its two largest units."""
    seconds = int(milliseconds // 1000)
    if seconds < 60:
        return f"{milliseconds / 1000:.1f} s"
    units = [("d", seconds // 86400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60)]
    first = next(index for index, (_, amount) in enumerate(units) if amount)
    return " ".join(f"{amount} {unit}" for unit, amount in units[first : first + 2])


def time_text(epoch_ms: int) -> str:
    """A moment in local time; a dash for one that never was."""
    if epoch_ms <= 0:
        return "-"
    return datetime.fromtimestamp(epoch_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
