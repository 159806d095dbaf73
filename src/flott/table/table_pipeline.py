"""A query together with the table that its rows are written to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from flott.table._session import TableSession
from flott.table._sql import nodes as ast

if TYPE_CHECKING:
    from flott.table.catalog import ObjectIdentifier
    from flott.table.compiled_plan import CompiledPlan
    from flott.table.explain_detail import ExplainDetail
    from flott.table.table_result import TableResult

__all__ = ["TablePipeline"]


class TablePipeline:
    """What ``Table.insert_into`` makes."""

    def __init__(self, insert: ast.SqlInsert, t_env: TableSession) -> None:
        self.insert = insert
        self._t_env = t_env

    def execute(self) -> TableResult:
        """Write the rows."""
        return self._t_env.execute_statement(self.insert)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return the plan."""
        return self._t_env.explain_statement(self.insert, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print the plan."""
        sys.stdout.write(f"{self.explain(*extra_details)}\n")

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Return the name of the table that is written."""
        from flott.table.catalog import ObjectIdentifier

        return ObjectIdentifier.of_name(self.insert.table)

    def compile_plan(self) -> CompiledPlan:
        """Return the plan as a value that can be stored and run later."""
        from flott.table.compiled_plan import CompiledPlan

        return CompiledPlan.of_statement(self.insert, self._t_env)
