"""The execution of statements: one function for each kind, and the table that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flott.common._secrets import shown
from flott.common.types import Row
from flott.table._catalog.in_memory import StoredCatalog
from flott.table._environment import catalogs, definitions, jobs, shows
from flott.table._environment import plans as stored_plans
from flott.table._environment.result import StatementResult, success, table_of
from flott.table._plan import logical
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._sql.parser import parse_statements
from flott.table._types.logical import STRING

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession


def execute_text(session: SqlSession, text: str) -> StatementResult:
    """Run one statement. Errors show the place in the text."""
    statements = parse_statements(text)
    if len(statements) != 1:
        raise SqlError(
            f"execute_sql() runs one statement, found {len(statements)}. Call it for each of them, or use a file with"
            " 'flott sql -f'."
        )
    try:
        return execute_statement(session, statements[0])
    except SqlError as error:
        if error.position is None:
            raise type(error)(error.reason, statements[0].position, text) from error.__cause__
        raise error.in_text(text) from error.__cause__


def execute_statement(session: SqlSession, statement: sql.SqlStatement) -> StatementResult:
    """Run a parsed statement."""
    for of, action in _ACTIONS.items():
        if isinstance(statement, of):
            return action(session, statement)
    raise SqlError(f"Flott does not run {type(statement).__name__.removeprefix('Sql')} statements.", statement.position)


# --- queries and inserts ---------------------------------------------------------------------------------------------


def _query(session: SqlSession, statement: sql.SqlQueryStatement) -> StatementResult:
    return session.run_query(session.resolve(statement.query))


def _insert(session: SqlSession, statement: sql.SqlInsert) -> StatementResult:
    return session.run_inserts([session.resolve_insert(statement)])


def inserts_of(session: SqlSession, statement: sql.SqlStatementSet) -> list[logical.SinkNode]:
    """Return the plans of the INSERTs of a statement set."""
    plans = []
    for one in statement.statements:
        if not isinstance(one, sql.SqlInsert):
            raise SqlError("A statement set holds INSERT statements only.", one.position)
        plans.append(session.resolve_insert(one))
    return plans


def _statement_set(session: SqlSession, statement: sql.SqlStatementSet) -> StatementResult:
    return session.run_inserts(inserts_of(session, statement))


def _execute(session: SqlSession, statement: sql.SqlExecute) -> StatementResult:
    return execute_statement(session, statement.statement)


def plans_of(session: SqlSession, statement: sql.SqlStatement) -> list[logical.Node]:
    """Return the logical plans of a statement that can be explained or compiled."""
    match statement:
        case sql.SqlQueryStatement():
            return [session.resolve(statement.query)]
        case sql.SqlInsert():
            return [session.resolve_insert(statement)]
        case sql.SqlStatementSet():
            return list(inserts_of(session, statement))
        case sql.SqlExecute():
            return plans_of(session, statement.statement)
    raise SqlError("EXPLAIN takes a query, an INSERT or a statement set.", statement.position)


def _explain(session: SqlSession, statement: sql.SqlExplain) -> StatementResult:
    text = session.explain(plans_of(session, statement.statement), statement.details)
    return table_of({"result": STRING}, [(text,)])


# --- the session -----------------------------------------------------------------------------------------------------


def _set(session: SqlSession, statement: sql.SqlSet) -> StatementResult:
    if statement.key is None:
        rows = sorted(shown(session.configuration).items())
        return table_of({"key": STRING, "value": STRING}, rows)
    session.settings[statement.key] = statement.value or ""
    return success()


def _reset(session: SqlSession, statement: sql.SqlReset) -> StatementResult:
    if statement.key is None:
        session.settings.clear()
    else:
        session.settings.pop(statement.key, None)
    return success()


def _use_catalog(session: SqlSession, statement: sql.SqlUseCatalog) -> StatementResult:
    session.catalogs.use_catalog(statement.name)
    return success()


def _use_database(session: SqlSession, statement: sql.SqlUseDatabase) -> StatementResult:
    session.catalogs.use_database(statement.name)
    return success()


def _drop_table(session: SqlSession, statement: sql.SqlDropTable) -> StatementResult:
    session.catalogs.drop_table(
        statement.name, view=False, temporary=statement.temporary, if_exists=statement.if_exists
    )
    return success()


def _drop_view(session: SqlSession, statement: sql.SqlDropView) -> StatementResult:
    session.catalogs.drop_table(statement.name, view=True, temporary=statement.temporary, if_exists=statement.if_exists)
    return success()


# --- databases and catalogs ------------------------------------------------------------------------------------------


def _catalog_of(session: SqlSession, name: tuple[str, ...]) -> StoredCatalog:
    return session.catalogs.catalog_named(name[0] if len(name) == 2 else session.catalogs.catalog)


def _create_database(session: SqlSession, statement: sql.SqlCreateDatabase) -> StatementResult:
    _catalog_of(session, statement.name).create_database(
        statement.name[-1], definitions.options_of(statement.options), statement.comment, statement.if_not_exists
    )
    return success()


def _alter_database(session: SqlSession, statement: sql.SqlAlterDatabase) -> StatementResult:
    catalog = _catalog_of(session, statement.name)
    held = catalog.database(statement.name[-1])
    held.properties.update(definitions.options_of(statement.options))
    for key in statement.reset_keys:
        held.properties.pop(key, None)
    catalog.changed()
    return success()


def _drop_database(session: SqlSession, statement: sql.SqlDropDatabase) -> StatementResult:
    catalog = _catalog_of(session, statement.name)
    if (catalog.name, statement.name[-1]) == (session.catalogs.catalog, session.catalogs.database):
        raise SqlError(f"Database '{statement.name[-1]}' is in use: USE another one first.", statement.position)
    catalog.drop_database(statement.name[-1], statement.if_exists, statement.cascade)
    return success()


def _refused(reason: str) -> Callable[[SqlSession, Any], StatementResult]:
    def refuse(session: SqlSession, statement: sql.SqlStatement) -> StatementResult:
        raise SqlError(reason, statement.position)

    return refuse


#: By class of statement: what runs it. The first class that fits is taken.
_ACTIONS: dict[type[sql.SqlStatement], Callable[[SqlSession, Any], StatementResult]] = {
    sql.SqlQueryStatement: _query,
    sql.SqlInsert: _insert,
    sql.SqlStatementSet: _statement_set,
    sql.SqlExecute: _execute,
    sql.SqlExplain: _explain,
    sql.SqlSet: _set,
    sql.SqlReset: _reset,
    sql.SqlUseCatalog: _use_catalog,
    sql.SqlUseDatabase: _use_database,
    sql.SqlCreateTable: definitions.create_table,
    sql.SqlAlterTable: definitions.alter_table,
    sql.SqlDropTable: _drop_table,
    sql.SqlCreateView: definitions.create_view,
    sql.SqlAlterViewQuery: definitions.alter_view,
    sql.SqlRenameView: definitions.alter_view,
    sql.SqlDropView: _drop_view,
    sql.SqlCreateFunction: definitions.create_function,
    sql.SqlAlterFunction: definitions.alter_function,
    sql.SqlDropFunction: definitions.drop_function,
    sql.SqlCreateDatabase: _create_database,
    sql.SqlAlterDatabase: _alter_database,
    sql.SqlDropDatabase: _drop_database,
    sql.SqlCompilePlan: stored_plans.compile_plan,
    sql.SqlExecutePlan: stored_plans.execute_plan,
    sql.SqlCreateCatalog: catalogs.create_catalog,
    sql.SqlAlterCatalog: catalogs.alter_catalog,
    sql.SqlDropCatalog: catalogs.drop_catalog,
    sql.SqlShow: shows.show,
    sql.SqlShowCurrent: shows.show_current,
    sql.SqlShowCreate: shows.show_create,
    sql.SqlDescribe: shows.describe,
    sql.SqlDescribeJob: jobs.describe_job,
    sql.SqlStopJob: jobs.stop_job,
    sql.SqlAddJar: _refused("Flott runs no Java, so a jar has no use: connectors are Python packages (extras)."),
    sql.SqlRemoveJar: _refused("Flott runs no Java, so there are no jars."),
    sql.SqlLoadModule: _refused("Flott has one module of functions, 'core'."),
    sql.SqlUnloadModule: _refused("Flott has one module of functions, 'core'."),
}


def rows_of(result: StatementResult) -> list[Row]:
    """Return all rows of a result, for statements that end."""
    return list(result.rows())
