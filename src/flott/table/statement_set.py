"""Several INSERTs that run as one job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from flott.errors import ProgramError
from flott.table._session import TableSession
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_statement
from flott.table.table import Table
from flott.table.table_descriptor import TableDescriptor
from flott.table.table_pipeline import TablePipeline

if TYPE_CHECKING:
    from flott.table.compiled_plan import CompiledPlan
    from flott.table.explain_detail import ExplainDetail
    from flott.table.table_result import TableResult

__all__ = ["StatementSet"]


class StatementSet:
    """Collects INSERTs; what they have in common is computed once."""

    def __init__(self, t_env: TableSession) -> None:
        self._t_env = t_env
        self._inserts: list[ast.SqlInsert] = []

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add a pipeline."""
        self._inserts.append(table_pipeline.insert)
        return self

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT as SQL."""
        statement = parse_statement(stmt)
        if not isinstance(statement, ast.SqlInsert):
            raise ProgramError("Found another statement, expected INSERT")
        self._inserts.append(statement)
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add the rows of a table as what is written into another."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def attach_as_datastream(self) -> None:
        """Add the INSERTs to the program of the stream environment, which then runs them with its own sinks."""
        attach = getattr(self._t_env, "attach_statement", None)
        if attach is None:
            raise ProgramError("attach_as_datastream() needs a StreamTableEnvironment, found a TableEnvironment")
        attach(self._take())

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plan of all INSERTs."""
        return self._t_env.explain_statement(self._statement(), extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan of all INSERTs."""
        sys.stdout.write(f"{self.explain(*extra_details)}\n")

    def execute(self) -> TableResult:
        """Run all INSERTs as one job. The set is empty afterwards."""
        return self._t_env.execute_statement(self._take())

    def compile_plan(self) -> CompiledPlan:
        """Return the plan as a value that can be stored and run later."""
        from flott.table.compiled_plan import CompiledPlan

        return CompiledPlan.of_statement(self._statement(), self._t_env)

    def _statement(self) -> ast.SqlStatementSet:
        if not self._inserts:
            raise ProgramError("The statement set is empty, expected an INSERT")
        return ast.SqlStatementSet(tuple(self._inserts))

    def _take(self) -> ast.SqlStatementSet:
        statement = self._statement()
        self._inserts = []
        return statement
