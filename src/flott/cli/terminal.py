"""The output of a command: results to stdout, all other messages to stderr.

With ``--json``, stdout contains one JSON document (or one per line, for a continuous command) and nothing else. Rich is
imported when something is drawn, because the import would dominate the run time of most commands.
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

#: The width of a line that is not written to a terminal; such a line is never wrapped.
_UNBROKEN = 100_000
#: The minimum width of a table cell; a table that needs less is written as blocks.
_BROKEN = 8


class Terminal:
    """The output of one invocation."""

    def __init__(self, json: bool = False, color: Color = "auto") -> None:
        self.json = json
        self.color: Color = color

    @property
    def interactive(self) -> bool:
        """Return whether the user can be asked: both stdin and stderr are a terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    @cached_property
    def console(self) -> Console:
        """Return Rich's console on stdout, for drawings."""
        return self._console(stderr=False)

    @cached_property
    def notes(self) -> Console:
        """Return Rich's console on stderr, for notes, questions and progress."""
        return self._console(stderr=True)

    def show(self, document: Any, *drawing: RenderableType) -> None:
        """Write the result: the document with ``--json``, else the drawing (texts, tables, …)."""
        if self.json:
            self.document(document)
        else:
            for part in drawing:
                self.draw(part)

    def draw(self, drawing: RenderableType) -> None:
        """Write a drawing. If stdout is not a terminal, remove the padding at the end of lines."""
        if self.console.is_terminal:
            self.console.print(drawing)
            return
        with self.console.capture() as captured:
            self.console.print(drawing)
        for line in captured.get().removesuffix("\n").split("\n"):
            _write(line.rstrip())

    def report(self, text: str, document: Any) -> None:
        """Write the result as lines that are never wrapped, or as the document with ``--json``."""
        if self.json:
            self.document(document)
        else:
            self.line(text)

    def document(self, document: Any) -> None:
        """Write the result as JSON."""
        _write(_json(document, indent=2))

    def document_line(self, document: Any) -> None:
        """Write one of many results as JSON on a line, for continuous commands."""
        _write(_json(document))

    def line(self, text: str) -> None:
        """Write a line of the result unchanged. Write nothing with ``--json``."""
        if not self.json:
            _write(text)

    def note(self, text: str, style: str = "") -> None:
        """Write a message that is not a result. Write nothing with ``--json``, when stderr contains only an error."""
        if not self.json:
            self._say(text, style)

    def warn(self, text: str) -> None:
        """Write a warning."""
        self._say(text, "yellow")

    def _say(self, text: str, style: str) -> None:
        from rich.text import Text

        self.notes.print(Text(text, style=style), soft_wrap=True)

    def error(self, message: str, kind: str, exit_code: int) -> None:
        """Write the error of a failed command: a message, or a document on stderr."""
        if self.json:
            document = {"error": {"kind": kind, "message": message}, "exit-code": exit_code}
            sys.stderr.write(_json(document, sys.stderr, indent=2) + "\n")
        else:
            self.note(f"flott: {message}", "red")

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show what the command waits for."""
        if self.notes.is_terminal:
            with self.notes.status(f"{what} …"):
                yield
        else:
            yield

    def ask(self, question: str, answers: str) -> str:
        """Ask until the user types one letter of ``answers``, and return it."""
        while True:
            self.notes.print(question, end=" ", markup=False, highlight=False)
            typed = input().strip().lower()
            if typed and typed[0] in answers:
                return typed[0]

    def _console(self, stderr: bool) -> Console:
        from rich.console import Console

        class PipedConsole(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # Rich would end the process here, with the exit code of any failure

        stream = sys.stderr if stderr else sys.stdout
        return PipedConsole(
            stderr=stderr, highlight=False, force_terminal=True if self.color == "always" else None,
            no_color=True if self.color == "never" else None, width=None if stream.isatty() else _UNBROKEN,
        )  # fmt: skip


def table(columns: Iterable[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> FittingTable:
    """Return a table with a head and without a frame. ``right``: columns of numbers. Cells may be Rich's texts."""
    return FittingTable(tuple(columns), tuple(tuple(map(_cell, row)) for row in rows), frozenset(right))


def pairs(lines: Iterable[tuple[str, object]]) -> Table:
    """Return names and values, one pair per line."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in lines:
        made.add_row(_cell(name), _cell(value))
    return made


@dataclass(frozen=True)
class FittingTable:
    """A table that becomes a block of lines per row if the terminal is too narrow."""

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
        """Return the minimum width at which the table is readable: a cell may be wrapped, but not into letters."""
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
    """Return a document as JSON. Characters that the stream's encoding lacks are escaped."""
    encoding = (stream or sys.stdout).encoding or ""
    plain = not encoding.lower().replace("-", "").startswith("utf")
    return json.dumps(_finite(document), indent=indent, ensure_ascii=plain)


def _finite(value: Any) -> Any:
    """Replace NaN and infinite numbers, which JSON does not have, by None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def duration_text(milliseconds: float) -> str:
    """Return a duration with its two largest units."""
    seconds = int(milliseconds // 1000)
    if seconds < 60:
        return f"{milliseconds / 1000:.1f} s"
    units = [("d", seconds // 86400), ("h", seconds // 3600 % 24), ("min", seconds // 60 % 60), ("s", seconds % 60)]
    first = next(index for index, (_, amount) in enumerate(units) if amount)
    return " ".join(f"{amount} {unit}" for unit, amount in units[first : first + 2])


def time_text(epoch_ms: int) -> str:
    """Return a time in local time, or a dash if there is none."""
    if epoch_ms <= 0:
        return "-"
    return datetime.fromtimestamp(epoch_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
