"""The prompt: history, completion and highlighting, one statement after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from flott._extras import require
from flott.cli.sql.executing import Leave, StatementRunner, reporting_errors
from flott.cli.sql.statement_session import ShellSession
from flott.table._sql.splitter import split_statements

_WELCOME = "Flott SQL. Statements end with a semicolon; HELP; shows more, QUIT; leaves.\n"
_PROMPT = "Flott SQL> "
_MORE = "        ...> "


def run_shell(session: ShellSession, history: Path, place: str = "", *, json: bool = False) -> int:
    """Read and run statements until the user leaves. ``place`` says where statements run."""
    prompt_toolkit = require("prompt_toolkit", "sql")
    runner = StatementRunner(session, interactive=True, json=json)
    sys.stdout.write(_WELCOME + (f"{place}\n" if place else ""))
    prompt = _prompt(prompt_toolkit, session, history)
    while True:
        try:
            text = prompt.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        for statement in split_statements(text):
            try:
                if not reporting_errors(lambda text=statement.text: runner.run(text), sys.stdout):  # type: ignore[misc]
                    break
            except Leave:
                return 0
            except KeyboardInterrupt:
                sys.stdout.write("\n[INFO] Statement cancelled.\n")
                break


def is_complete(text: str) -> bool:
    """Return whether a text needs no further line: its last statement has its semicolon."""
    parts = split_statements(text)
    return not parts or all(part.complete for part in parts)


def _prompt(prompt_toolkit: Any, session: ShellSession, history: Path) -> Any:
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Words(Completer):
        """Suggests words."""

        def get_completions(self, document: Any, complete_event: Any) -> Any:
            typed = document.get_word_before_cursor(WORD=False)
            for word in session.complete(document.text_before_cursor):
                yield Completion(word, start_position=-len(typed))

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: Any) -> None:
        """Run a complete statement; otherwise go on in the next line."""
        if is_complete(event.current_buffer.text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    history.parent.mkdir(parents=True, exist_ok=True)
    return prompt_toolkit.PromptSession(
        history=FileHistory(str(history)),
        completer=Words(),
        complete_while_typing=False,
        complete_in_thread=True,  # a gateway may answer slowly
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=keys,
        multiline=True,
        prompt_continuation=_MORE,
    )
