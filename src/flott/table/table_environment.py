"""The entry point of programs with tables: catalogs, SQL, functions, and tables from elements and streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from flott.common.configuration import Configuration
from flott.common.types import Row, RowKind
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.errors import ProgramError
from flott.table._catalog.catalog_table import CatalogTable, Identifier
from flott.table._environment import elements as element_tables
from flott.table._environment.functions import catalog_function
from flott.table._environment.result import StatementResult
from flott.table._environment.session import SqlSession, is_updating
from flott.table._environment.statements import execute_statement, execute_text, plans_of
from flott.table._environment_methods import EnvironmentMethods
from flott.table._plan import logical
from flott.table._plan.resolve.resolver import resolve_query
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_query, parse_statement
from flott.table._types.logical import RowField, RowType
from flott.table.environment_settings import EnvironmentSettings
from flott.table.result_kind import ResultKind
from flott.table.schema import Schema
from flott.table.statement_set import StatementSet
from flott.table.table import Table
from flott.table.table_config import TableConfig
from flott.table.table_descriptor import TableDescriptor
from flott.table.table_result import TableResult
from flott.table.types import DataType, logical_type_of

if TYPE_CHECKING:
    from flott.datastream._data_stream import DataStream
    from flott.table.changelog_mode import ChangelogMode
    from flott.table.explain_detail import ExplainDetail

__all__ = ["StreamTableEnvironment", "TableEnvironment"]


class TableEnvironment(EnvironmentMethods):
    """Runs SQL and makes tables.

    >>> from flott.table import EnvironmentSettings, TableEnvironment
    >>> t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    >>> t_env.get_current_catalog()
    'default_catalog'
    """

    def __init__(self, stream_environment: StreamExecutionEnvironment, settings: EnvironmentSettings) -> None:
        self._environment = stream_environment
        self._config = TableConfig(Configuration(settings.get_configuration()))
        if not settings.is_streaming_mode():
            self._config.set("execution.runtime-mode", "batch")
        self._session = SqlSession(stream_environment)
        # One map of settings: SET statements and TableConfig see the same values.
        self._session.settings = _Settings(self._config)
        catalogs = self._session.catalogs
        name, database = settings.get_built_in_catalog_name(), settings.get_built_in_database_name()
        if (name, database) != (catalogs.catalog, catalogs.database):
            self._session.catalogs = type(catalogs)(name, database)

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Return a new environment."""
        if isinstance(environment_settings, Configuration):
            environment_settings = EnvironmentSettings.new_instance().with_configuration(environment_settings).build()
        configuration = environment_settings.get_configuration()
        stream_environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        return TableEnvironment(stream_environment, environment_settings)

    # --- what tables ask ---------------------------------------------------------------------------------------------

    def schema_of_query(self, query: ast.SqlQuery) -> RowType:
        """Return names and types of a query's columns."""
        return _row_type(self._session.resolve(query).schema)

    def execute_statement(self, statement: ast.SqlStatement) -> TableResult:
        """Run a statement: a query, an INSERT or a statement set."""
        return self._result(execute_statement(self._session, statement))

    def explain_statement(self, statement: ast.SqlStatement, details: Sequence[ExplainDetail]) -> str:
        """Return the plan of a statement."""
        plans = plans_of(self._session, statement)
        return self._session.explain(plans, [detail.name for detail in details])

    def declare_anonymous(self, descriptor: TableDescriptor) -> tuple[str, ...]:
        """Make a temporary table of a descriptor and return its name."""
        identifier = self._new_name("anonymous")
        self._session.catalogs.put_table(identifier, _declared(descriptor), temporary=True, ignore=False)
        return identifier.catalog, identifier.database, identifier.name

    def _new_name(self, prefix: str) -> Identifier:
        return self._session.catalogs.identifier((f"*{prefix}_{uuid4().hex[:12]}*",))

    def _result(self, found: StatementResult) -> TableResult:
        kind = ResultKind.SUCCESS if found.success_only else ResultKind.SUCCESS_WITH_CONTENT
        job = found.job

        def wait(timeout_ms: int | None) -> None:
            if job is not None:
                job.get_job_execution_result().result(None if timeout_ms is None else timeout_ms / 1000)

        return TableResult(
            kind,
            _row_type(found.schema),
            found.rows,
            job_client=job,
            wait=wait,
            close=found.close,
            changelog=found.is_query and not _is_batch(self._config),
        )

    # --- SQL ---------------------------------------------------------------------------------------------------------

    def sql_query(self, query: str) -> Table:
        """Return the result of a query as a table."""
        parsed = parse_query(query)
        resolve_query(parsed, self._session)
        return Table(parsed, self)

    def execute_sql(self, stmt: str) -> TableResult:
        """Run one statement."""
        return self._result(execute_text(self._session, stmt))

    def schemas_of_statement(self, statement: ast.SqlStatement) -> dict[str, list[str]]:
        """Return the declared columns of each table that a statement reads or writes."""
        from flott.table._environment.plans import schemas_of_statement

        return schemas_of_statement(self._session, statement)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return the plan of a statement."""
        return self.explain_statement(parse_statement(stmt), extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return an empty set of INSERTs that run as one job."""
        return StatementSet(self)

    # --- tables ------------------------------------------------------------------------------------------------------

    def from_path(self, path: str) -> Table:
        """Return a registered table or view."""
        name = _path(path)
        self._session.catalogs.get(name)
        return Table(ast.SqlTableQuery(name), self)

    def from_descriptor(self, descriptor: TableDescriptor) -> Table:
        """Return the table of a descriptor."""
        return Table(ast.SqlTableQuery(self.declare_anonymous(descriptor)), self)

    def from_elements(
        self, elements: Iterable[Any], schema: DataType | Sequence[str] | None = None, verify_schema: bool = True
    ) -> Table:
        """Return elements of the program as a table; ``schema`` is a row type, or the names of the columns."""
        rows, own_names, kinds = element_tables.rows_of(elements)
        if isinstance(schema, DataType):
            declared = logical_type_of(schema)
            if isinstance(declared, RowType):
                columns = logical.Schema(declared.names, declared.types)
            else:
                columns = logical.Schema(("value",), (declared,))
        else:
            columns = element_tables.inferred_schema(rows, schema if schema is not None else own_names)
        return self._of_columns(columns, element_tables.columns_of_rows(rows, columns), kinds)

    def from_pandas(self, pdf: Any, schema: DataType | Sequence[Any] | None = None, splits_num: int = 1) -> Table:
        """Return a pandas frame as a table; ``schema`` is a row type, or the names or types of the columns."""
        columns, data = element_tables.columns_of_frame(pdf, schema)
        return self._of_columns(columns, data, None)

    def _of_columns(self, columns: logical.Schema, data: Any, kinds: bytes | None) -> Table:
        identifier = self._new_name("elements")
        scan = logical.Scan(identifier, CatalogTable(_no_schema()), element_tables.table_source(columns, data, kinds))
        self._session.catalogs.put_table(identifier, scan, temporary=True, ignore=False)
        return Table(ast.SqlTableQuery((identifier.catalog, identifier.database, identifier.name)), self)

    def create_temporary_view(self, view_path: str, table: Table | Any, *fields_or_schema: Any) -> None:
        """Register a table under a name; in a StreamTableEnvironment also a DataStream."""
        if not isinstance(table, Table):
            table = self._of_stream(table, fields_or_schema)
        identifier = self._session.catalogs.identifier(_path(view_path))
        self._session.catalogs.put_table(identifier, table.query, temporary=True, ignore=False)

    def _of_stream(self, stream: Any, fields_or_schema: Sequence[Any]) -> Table:
        raise ProgramError(
            f"create_temporary_view() takes a Table, found {type(stream).__name__}. For a DataStream use a"
            " StreamTableEnvironment."
        )

    def create_view(self, view_path: str, table: Table, ignore_if_exists: bool = False) -> bool:
        """Register a table as a view of its catalog; return whether it is new."""
        from flott.table._catalog.catalog_table import CatalogView
        from flott.table._sql.print_queries import print_query

        path = _path(view_path)
        if self._session.catalogs.find(path) is not None and ignore_if_exists:
            return False
        view = CatalogView(print_query(table.query))
        self._session.catalogs.put_table(self._session.catalogs.identifier(path), view, temporary=False, ignore=False)
        return True

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """Register a table of a descriptor for this session."""
        self._create_table(path, descriptor, ignore_if_exists, temporary=True)

    def create_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> bool:
        """Register a table of a descriptor in its catalog; return whether it is new."""
        known = self._session.catalogs.find(_path(path)) is not None
        self._create_table(path, descriptor, ignore_if_exists, temporary=False)
        return not known

    def _create_table(self, path: str, descriptor: TableDescriptor, ignore: bool, *, temporary: bool) -> None:
        identifier = self._session.catalogs.identifier(_path(path))
        self._session.catalogs.put_table(identifier, _declared(descriptor), temporary=temporary, ignore=ignore)

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table; return whether it was there."""
        return self._session.catalogs.drop_table(_path(table_path), view=False, temporary=True, if_exists=True)

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view; return whether it was there."""
        return self._session.catalogs.drop_table(_path(view_path), view=True, temporary=True, if_exists=True)

    def drop_table(self, table_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a table of a catalog; return whether it was there."""
        path = _path(table_path)
        return self._session.catalogs.drop_table(path, view=False, temporary=False, if_exists=ignore_if_not_exists)

    def drop_view(self, view_path: str, ignore_if_not_exists: bool = True) -> bool:
        """Drop a view of a catalog; return whether it was there."""
        path = _path(view_path)
        return self._session.catalogs.drop_table(path, view=True, temporary=False, if_exists=ignore_if_not_exists)

    # --- functions ---------------------------------------------------------------------------------------------------

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a function in Python for this session, under a name without a database."""
        held = self._session.catalogs.system_functions
        if name.lower() in held:
            raise ProgramError(f"Function '{name}' exists already. Drop it with drop_temporary_system_function().")
        held[name.lower()] = catalog_function(name, function)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """Register a function in Python for this session."""
        identifier = self._session.catalogs.identifier(_path(path))
        self._session.catalogs.temporary_functions[identifier] = catalog_function(identifier.name, function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a function; return whether it was there."""
        return self._session.catalogs.system_functions.pop(name.lower(), None) is not None

    def drop_temporary_function(self, path: str) -> bool:
        """Drop a function; return whether it was there."""
        identifier = self._session.catalogs.identifier(_path(path))
        return self._session.catalogs.temporary_functions.pop(identifier, None) is not None

    def register_function(self, name: str, function: Any) -> None:
        """Register a function. The older name of :meth:`create_temporary_system_function`."""
        self.create_temporary_system_function(name, function)

    # --- catalogs ----------------------------------------------------------------------------------------------------

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog current."""
        self._session.catalogs.use_catalog(catalog_name)

    def use_database(self, database_name: str) -> None:
        """Make a database current."""
        self._session.catalogs.use_database((database_name,))

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._session.catalogs.catalog

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._session.catalogs.database

    def list_catalogs(self) -> list[str]:
        """Return the names of catalogs."""
        return sorted(self._session.catalogs.catalogs)

    def list_databases(self) -> list[str]:
        """Return the names of databases of the current catalog."""
        return sorted(self._session.catalogs.catalog_named(self.get_current_catalog()).databases)

    def list_tables(self) -> list[str]:
        """Return the names of tables and views of the current database."""
        return self._session.catalogs.table_names()

    def list_views(self) -> list[str]:
        """Return the names of views of the current database."""
        catalogs = self._session.catalogs
        held = catalogs.tables_in(catalogs.catalog, catalogs.database)
        return [name for name, one in held if not isinstance(one, CatalogTable)]

    def list_temporary_tables(self) -> list[str]:
        """Return the names of temporary tables and views."""
        return sorted(one.name for one, _ in self._session.catalogs.named_temporary_tables())

    def list_temporary_views(self) -> list[str]:
        """Return the names of temporary views."""
        held = self._session.catalogs.named_temporary_tables()
        return sorted(one.name for one, table in held if not isinstance(table, CatalogTable))

    def list_user_defined_functions(self) -> list[str]:
        """Return the names of functions in Python."""
        return self._session.catalogs.function_names()

    def list_functions(self) -> list[str]:
        """Return the names of all functions."""
        return [row[0] for row in self.execute_sql("SHOW FUNCTIONS").collect()]

    def list_modules(self) -> list[str]:
        """Return the names of modules of functions."""
        return ["core"]

    # --- settings ----------------------------------------------------------------------------------------------------

    def get_config(self) -> TableConfig:
        """Return the settings of the session."""
        return self._config

    def add_python_file(self, file_path: str) -> None:
        """Give tasks a Python file, package or folder."""
        self._environment.add_python_file(file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Give tasks the packages of a requirements file."""
        self._environment.set_python_requirements(requirements_file_path, requirements_cache_dir)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Give tasks an archive, unpacked in their working folder."""
        self._environment.add_python_archive(archive_path, target_dir)


class StreamTableEnvironment(TableEnvironment):
    """An environment in which streams become tables, and tables become streams."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return a new environment over a stream environment."""
        settings = environment_settings or EnvironmentSettings.in_streaming_mode()
        return StreamTableEnvironment(stream_execution_environment, settings)

    def from_data_stream(self, data_stream: DataStream[Any], *fields_or_schema: Any) -> Table:
        """Return a stream as an insert-only table; a Schema adds columns, event time and a key."""
        return self._of_stream(data_stream, fields_or_schema)

    def from_changelog_stream(
        self,
        data_stream: DataStream[Any],
        schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> Table:
        """Return a stream of rows with row kinds as a table."""
        from flott.table._environment.streams import stream_table

        return stream_table(self, data_stream, schema, (), changelog_mode, changes=True)

    def _of_stream(self, stream: Any, fields_or_schema: Sequence[Any]) -> Table:
        from flott.table._environment.streams import stream_table

        schema = fields_or_schema[0] if fields_or_schema and isinstance(fields_or_schema[0], Schema) else None
        return stream_table(self, stream, schema, () if schema is not None else tuple(fields_or_schema), None)

    def to_data_stream(self, table: Table) -> DataStream[Any]:
        """Return an insert-only table as a stream of rows."""
        from flott.table._environment.streams import table_stream

        if is_updating(self._session.resolve(table.query)):
            raise ProgramError(
                "The table has updates, and to_data_stream() takes inserts only: use to_changelog_stream()."
            )
        return table_stream(self, table, None)

    def to_changelog_stream(
        self,
        table: Table,
        target_schema: Schema | None = None,
        changelog_mode: ChangelogMode | None = None,
    ) -> DataStream[Any]:
        """Return a table as a stream of rows with row kinds."""
        from flott.table._environment.streams import table_stream

        return table_stream(self, table, changelog_mode)

    def to_append_stream(self, table: Table, type_info: Any = None) -> DataStream[Any]:
        """Return an insert-only table as a stream. The older name of :meth:`to_data_stream`."""
        return self.to_data_stream(table)

    def to_retract_stream(self, table: Table, type_info: Any) -> DataStream[Any]:
        """Return the changes of a table as pairs: whether a row is added, and the row."""
        from flott.common.typeinfo import Types

        pair = Types.TUPLE([Types.BOOLEAN(), type_info])
        return self.to_changelog_stream(table).map(_with_flag, output_type=pair)

    def attach_statement(self, statement: ast.SqlStatement) -> None:
        """Add INSERTs to the program of the stream environment."""
        plans = [plan for plan in plans_of(self._session, statement) if isinstance(plan, logical.SinkNode)]
        self._session.add_inserts(self._environment._program, plans)


def _with_flag(row: Row) -> tuple[bool, Row]:
    return row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER), row


class _Settings(dict[str, str]):
    """The settings of a session, which are those of its TableConfig."""

    def __init__(self, config: TableConfig) -> None:
        super().__init__(config.to_map())
        self._config = config

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, value)
        self._config.set(key, value)

    def _refresh(self) -> None:
        super().clear()
        super().update(self._config.to_map())

    def items(self) -> Any:
        self._refresh()
        return super().items()

    def keys(self) -> Any:
        self._refresh()
        return super().keys()

    def pop(self, key: str, *default: Any) -> Any:
        self._config.get_configuration().remove_config(key)
        return super().pop(key, *default)

    def clear(self) -> None:
        for key in list(self.keys()):
            self.pop(key)


def _is_batch(config: TableConfig) -> bool:
    return config.to_map().get("execution.runtime-mode", "").lower() == "batch"


def _row_type(schema: logical.Schema) -> RowType:
    fields = tuple(RowField(name, of) for name, of in zip(schema.names, schema.types, strict=True))
    return RowType(fields, nullable=False)


def _path(text: str) -> tuple[str, ...]:
    """Return the parts of a name as SQL reads it."""
    parsed = parse_query(f"TABLE {text}")
    if isinstance(parsed, ast.SqlTableQuery):
        return parsed.name
    raise ProgramError(f"{text!r} is no name of a table.")


def _declared(descriptor: TableDescriptor) -> CatalogTable:
    return descriptor.table


def _no_schema() -> Any:
    from flott.table._catalog.catalog_table import TableSchema

    return TableSchema(())
