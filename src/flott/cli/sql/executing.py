"""What the shell does with one statement: commands of its own, then everything that the session runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from flott.cli.sql.results import show_live, show_paged, write_json_rows
from flott.cli.sql.statement_session import ShellSession, ShownResult
from flott.errors import FlottError
from flott.rest.gateway.shapes import exact_json
from flott.table._sql.splitter import split_statements
from flott.table._tableau import print_rows

RESULT_MODE = "sql-client.execution.result-mode"
_HELP = """\
Statements end with a semicolon. Besides SQL the shell knows:
  HELP;              this text
  SOURCE 'file.sql'; run the statements of a file
  CLEAR;             clear the screen
  QUIT; EXIT;        leave the shell (Ctrl-D does the same)
Results of queries: SET 'sql-client.execution.result-mode' = 'tableau' (rows as they come, the default), 'table' (the
rows as they stand now, updated in place) or 'changelog' (as tableau, with every change). Ctrl-C ends a query.
"""


class Leave(Exception):
    """The user leaves the shell."""


@dataclass
class StatementRunner:
    """Runs statements of a session and writes what they give. ``json``: as one JSON document per line."""

    session: ShellSession
    out: TextIO = field(default_factory=lambda: sys.stdout)
    interactive: bool = False
    json: bool = False

    def run_script(self, text: str) -> None:
        """Run all statements of a text; the first that fails ends it."""
        for statement in split_statements(text):
            self.run(statement.text)

    def run(self, text: str) -> None:
        """Run one statement."""
        bare = text.strip().rstrip(";").strip()
        if not bare:
            return
        word, _, rest = bare.partition(" ")
        match word.upper():
            case "QUIT" | "EXIT":
                raise Leave
            case "HELP":
                self.out.write(_HELP)
            case "CLEAR":
                self.out.write("\x1b[2J\x1b[H")
            case "SOURCE":
                self.run_script(Path(rest.strip().strip("'\"")).read_text("utf-8"))
            case _:
                self._statement(bare)

    def _statement(self, text: str) -> None:
        result = self.session.execute(text)
        try:
            if result.job_id is not None and not result.is_query:
                self._insert(result)
            elif result.success_only:
                self._say("[INFO] Execute statement succeeded.", {"result": "OK"})
            else:
                self._rows(result)
        finally:
            result.close()
            self.out.flush()

    def _insert(self, result: ShownResult) -> None:
        job = {"job-id": result.job_id}
        self._say(f"[INFO] SQL update statement has been started.\nJob ID: {result.job_id}", job)
        # A shell that ends takes its jobs with it, so a script waits for them.
        awaited = not self.interactive or self.session.setting("table.dml-sync", "false").lower() == "true"
        if result.wait is not None and awaited:
            result.wait()
            self._say("[INFO] Complete execution of the SQL update statement.", {**job, "status": "FINISHED"})

    def _rows(self, result: ShownResult) -> None:
        try:
            self._show(result)
        except KeyboardInterrupt:
            result.cancel()
            if not self.interactive:  # Ctrl-C ends a script, and at a prompt the query only
                raise
            self.out.write("\n[INFO] Query ended.\n")

    def _show(self, result: ShownResult) -> None:
        rows, schema, out = result.rows(), result.schema, self.out
        if self.json:
            write_json_rows(rows, result, out)
        elif not result.is_query and schema.names == ("result",):
            for row in rows:  # a plan, or the statement that creates a table: lines, not a cell
                out.write(f"{row[0]}\n")
        elif not result.changelog:
            if self.interactive:
                show_paged(rows, schema, out)
            else:
                print_rows(rows, schema, out, changelog=False)
        elif self.interactive and self.session.setting(RESULT_MODE, "tableau").lower() == "table":
            show_live(rows, schema, out)
        else:
            print_rows(rows, schema, out, changelog=True)

    def _say(self, text: str, document: Mapping[str, object]) -> None:
        self.out.write(f"{exact_json(document) if self.json else text}\n")


def failure_of(run: Callable[[], None]) -> FlottError | OSError | None:
    """Run something; return the error of a statement, or None if there was none."""
    try:
        run()
    except (FlottError, OSError) as error:
        return error
    return None


def reporting_errors(run: Callable[[], None], err: TextIO) -> bool:
    """Run something; write an error of a statement as a sentence, and return whether there was none."""
    failure = failure_of(run)
    if failure is not None:
        err.write(f"[ERROR] {failure}\n")
    return failure is None
