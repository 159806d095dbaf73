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
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Color = Literal["auto", "always", "never"]

#: Where nobody looks (a pipe, a file) a line is never broken.
_UNBROKEN = 100_000


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
                self.console.print(part)

    def document(self, document: Any) -> None:
        """The result as JSON."""
        _write(json.dumps(_finite(document), indent=2, ensure_ascii=False))

    def document_line(self, document: Any) -> None:
        """One of many results, as JSON on a line of its own: for commands that go on."""
        _write(json.dumps(_finite(document), ensure_ascii=False))

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
            sys.stderr.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
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


def table(columns: Iterable[str], rows: Iterable[Sequence[object]], right: Iterable[str] = ()) -> Table:
    """A table for people: a head, rows, no frame. Cells are texts or anything Rich draws; ``right``: numbers."""
    from rich.table import Table
    from rich.text import Text

    numbers = set(right)
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in map(_cell, row)))
    return made


def _cell(value: object) -> Any:
    if value is None:
        return "-"
    return value if hasattr(value, "__rich_console__") or hasattr(value, "__rich__") else str(value)


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
