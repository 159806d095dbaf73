"""What tables ask of the environment that made them. ``TableEnvironment`` is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from flott.table._sql import nodes as ast
from flott.table._types.logical import RowType

if TYPE_CHECKING:
    from flott.table.explain_detail import ExplainDetail
    from flott.table.table_descriptor import TableDescriptor
    from flott.table.table_result import TableResult


class TableSession(Protocol):
    """Resolves, explains and runs statements given as syntax trees."""

    def schema_of_query(self, query: ast.SqlQuery) -> RowType:
        """Return names and types of a query's columns."""

    def execute_statement(self, statement: ast.SqlStatement) -> TableResult:
        """Run a statement: a query, an INSERT or a statement set."""

    def explain_statement(self, statement: ast.SqlStatement, details: Sequence[ExplainDetail]) -> str:
        """Return the plan of a statement."""

    def schemas_of_statement(self, statement: ast.SqlStatement) -> dict[str, list[str]]:
        """Return the columns, the watermark and the key of each table that a statement reads or writes."""

    def declare_anonymous(self, descriptor: TableDescriptor) -> tuple[str, ...]:
        """Make a temporary table of a descriptor and return its name."""
