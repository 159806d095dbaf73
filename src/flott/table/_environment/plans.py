"""COMPILE PLAN and EXECUTE PLAN: statements in a file, with the columns of their tables, that are run later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flott.table._environment.result import StatementResult, success
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession


class _Explaining:
    """Gives the plan of a statement to what stores it."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    def explain_statement(self, statement: sql.SqlStatement, details: Sequence[Any]) -> str:
        """Return the plan of a statement."""
        from flott.table._environment.statements import plans_of
        from flott.table._plan.explain import explain

        plans = plans_of(self._session, statement)
        return explain(plans, self._session.planner_settings(plans), [])

    def schemas_of_statement(self, statement: sql.SqlStatement) -> dict[str, list[str]]:
        """Return the declared columns of each table."""
        return schemas_of_statement(self._session, statement)


def schemas_of_statement(session: SqlSession, statement: sql.SqlStatement) -> dict[str, list[str]]:
    """Return the columns, the watermark and the key of each table that a statement reads or writes, as declared."""
    from flott.table._environment.shows import schema_lines
    from flott.table._environment.statements import plans_of
    from flott.table._plan import logical

    found: dict[str, list[str]] = {}
    for plan in plans_of(session, statement):
        for node in logical.walk(plan):
            if isinstance(node, logical.Scan | logical.SinkNode) and node.identifier is not None:
                table = node.table
                if table is not None and table.schema.columns:
                    found[node.identifier.summary] = schema_lines(table)
    return found


def compile_plan(session: SqlSession, statement: sql.SqlCompilePlan) -> StatementResult:
    """Store the plan of an INSERT or a statement set; with EXECUTE run it, and that of the file if there is one."""
    from flott.table._environment.statements import execute_statement
    from flott.table.compiled_plan import CompiledPlan

    path = Path(statement.path)
    exists = path.exists()
    if exists and not (statement.if_not_exists or statement.execute):
        raise SqlError(f"The file {path} exists; write IF NOT EXISTS to keep it", statement.position)
    if not exists:
        plan = CompiledPlan.of_statement(statement.statement, _Explaining(session))  # type: ignore[arg-type]
        path.write_text(plan.as_json_string(), encoding="utf-8")
    if not statement.execute:
        return success()
    return execute_statement(session, sql.SqlExecutePlan(statement.path, position=statement.position))


def execute_plan(session: SqlSession, statement: sql.SqlExecutePlan) -> StatementResult:
    """Run the plan of a file."""
    from flott.table._environment.statements import execute_statement
    from flott.table.compiled_plan import CompiledPlan

    path = Path(statement.path)
    if not path.is_file():
        raise SqlError(f"There is no file {path}, expected a plan that COMPILE PLAN has written", statement.position)
    plan = CompiledPlan.of_json(path.read_text(encoding="utf-8"), _Explaining(session))  # type: ignore[arg-type]
    return execute_statement(session, plan.checked_statement())
