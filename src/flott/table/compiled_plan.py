"""Compiled plans: statements that are stored with the columns of their tables and run later.

Options of tables are not stored, because they hold addresses and passwords. The session that runs a plan has its
tables, and their columns must be those of the plan (Flink's ``table.plan.compile.catalog-objects`` = ``SCHEMA``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flott.errors import ProgramError
from flott.table._session import TableSession
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_statement
from flott.table._sql.print_statements import print_insert

if TYPE_CHECKING:
    from flott.table.explain_detail import ExplainDetail
    from flott.table.table_result import TableResult

__all__ = ["CompiledPlan"]

_VERSION = 1


class CompiledPlan:
    """A plan that can be written to a file, loaded and run."""

    def __init__(self, content: dict[str, Any], t_env: TableSession) -> None:
        if content.get("flottPlanVersion") != _VERSION:
            found = content.get("flottPlanVersion", "none")
            raise ProgramError(f"The plan has the format {found}, expected {_VERSION}: another program has written it")
        self._content = content
        self._t_env = t_env

    @staticmethod
    def of_statement(statement: ast.SqlStatement, t_env: TableSession) -> CompiledPlan:
        """Return the plan of an INSERT or a statement set."""
        inserts = statement.statements if isinstance(statement, ast.SqlStatementSet) else (statement,)
        texts = [print_insert(insert) for insert in inserts if isinstance(insert, ast.SqlInsert)]
        if len(texts) != len(inserts):
            raise ProgramError("Only INSERT and statement sets of INSERTs can be compiled")
        if any(parse_statement(text) != insert for text, insert in zip(texts, inserts, strict=True)):
            raise ProgramError(
                "The query cannot be stored: it reads Python values or a stream, or calls a Python function that has no"
                " name. Register the function with create_temporary_function()."
            )
        content = {
            "flottPlanVersion": _VERSION,
            "statements": texts,
            "tables": t_env.schemas_of_statement(statement),
            "plan": t_env.explain_statement(statement, ()),
        }
        return CompiledPlan(content, t_env)

    @staticmethod
    def of_json(text: str, t_env: TableSession) -> CompiledPlan:
        """Return the plan that a text is."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ProgramError(f"The plan is not JSON: {error}") from error
        return CompiledPlan(content if isinstance(content, dict) else {}, t_env)

    def statement(self) -> ast.SqlStatement:
        """Return the statement that the plan runs."""
        statements = tuple(parse_statement(text) for text in self._content["statements"])
        return statements[0] if len(statements) == 1 else ast.SqlStatementSet(statements)

    def checked_statement(self) -> ast.SqlStatement:
        """Return the statement; raise ``ProgramError`` if a table has other columns than when the plan was made."""
        statement = self.statement()
        found = self._t_env.schemas_of_statement(statement)
        for table, columns in self._content.get("tables", {}).items():
            if found.get(table, columns) != columns:
                raise ProgramError(
                    f"Table {table} has changed since the plan was compiled: it has ({', '.join(found[table])}), and"
                    f" the plan was made for ({', '.join(columns)}). Compile the statement again."
                )
        return statement

    def as_json_string(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self._content, indent=2)

    def as_smile_bytes(self) -> bytes:
        """Refuse: Smile is a binary form of JSON that only Jackson writes."""
        raise ProgramError("Flott stores compiled plans as JSON; use as_json_string()")

    def write_to_file(self, file: str | Path, ignore_if_exists: bool = False) -> None:
        """Write the plan to a file."""
        path = Path(file)
        if path.exists() and not ignore_if_exists:
            raise ProgramError(f"The file {path} exists; pass ignore_if_exists=True to keep it")
        if not path.exists():
            path.write_text(self.as_json_string(), encoding="utf-8")

    def get_flink_version(self) -> str:
        """Return the version of Flink whose plans these are like."""
        return "2.3"

    def print_json_string(self) -> None:
        """Print the plan as JSON."""
        sys.stdout.write(f"{self.as_json_string()}\n")

    def execute(self) -> TableResult:
        """Run the plan."""
        return self._t_env.execute_statement(self.checked_statement())

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plan as text."""
        return self._t_env.explain_statement(self.statement(), extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan as text."""
        sys.stdout.write(f"{self.explain(*extra_details)}\n")
