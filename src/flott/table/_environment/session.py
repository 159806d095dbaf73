"""The session: resolves, plans and starts queries. It is what the resolver asks for tables and functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flott.common.job_client import JobClient
from flott.common.types import Row
from flott.errors import ProgramError
from flott.graph.transformations import Program
from flott.table._catalog.catalog_table import CatalogTable, Identifier, PhysicalColumn
from flott.table._catalog.session_catalogs import SessionCatalogs
from flott.table._connectors.registry import can_look_up, lookup_source, table_sink, table_source
from flott.table._connectors.table_source import ConnectorTable, LookupSource, TableSink, TableSource
from flott.table._environment.functions import user_function
from flott.table._environment.result import StatementResult, success
from flott.table._environment.settings import is_batch, planner_settings
from flott.table._expressions.expression import UserFunction
from flott.table._plan import logical
from flott.table._plan.changelog import kinds_of
from flott.table._plan.explain import advice, explain, rows_of_job
from flott.table._plan.logical import Node
from flott.table._plan.lower import Lowering
from flott.table._plan.optimize import optimize
from flott.table._plan.physical import PlannerSettings, Step, plan_physically, walk_steps
from flott.table._plan.resolve.environment import FoundTable
from flott.table._plan.resolve.resolver import resolve_insert, resolve_query
from flott.table._sql import nodes as sql
from flott.table._types.record_types import record_type_of

if TYPE_CHECKING:
    from flott.datastream.stream_execution_environment import StreamExecutionEnvironment


#: Jobs that a session knows: EXPLAIN shows their rows, and SHOW JOBS lists them.
_REMEMBERED_JOBS = 100


@dataclass(frozen=True)
class StartedJob:
    """A job that a session has started."""

    labels: tuple[str, ...]  #: of its steps
    name: str
    client: JobClient


class SqlSession:
    """Catalogs, settings and the environment that jobs run in."""

    def __init__(self, environment: StreamExecutionEnvironment, configuration: dict[str, str] | None = None):
        self.environment = environment
        self.catalogs = SessionCatalogs()
        self.settings: dict[str, str] = dict(configuration or {})
        #: The jobs that this session started last.
        self.jobs: deque[StartedJob] = deque(maxlen=_REMEMBERED_JOBS)
        #: Waits for the job of an INSERT, with table.dml-sync.
        self.await_job: Callable[[JobClient], None] = await_job

    # --- what the resolver asks --------------------------------------------------------------------------------------

    @property
    def catalog(self) -> str:
        """Return the name of the current catalog."""
        return self.catalogs.catalog

    @property
    def database(self) -> str:
        """Return the name of the current database."""
        return self.catalogs.database

    @property
    def configuration(self) -> Mapping[str, str]:
        """Return the settings by key: those of the environment under those of the session."""
        # items(), not **: settings may be a view of a TableConfig, and a copy of a dict does not ask its subclass
        return dict((*self.environment._configuration.to_dict().items(), *self.settings.items()))

    def find_table(self, path: tuple[str, ...]) -> FoundTable | None:
        """Return the table or view that a name stands for."""
        if len(path) > 3:
            return None
        found = self.catalogs.find(path)
        return None if found is None else FoundTable(*found)

    def table_names(self) -> Iterable[str]:
        """Return the names that a name of one part may mean."""
        return self.catalogs.table_names()

    def find_function(self, path: tuple[str, ...]) -> UserFunction | None:
        """Return the function in Python that a name stands for."""
        if len(path) > 3:
            return None
        found = self.catalogs.find_function(path)
        return None if found is None else user_function(path[-1], found)

    def function_names(self) -> Iterable[str]:
        """Return the names of the functions in Python."""
        return self.catalogs.function_names()

    def query_of(self, table: Hashable) -> sql.SqlQuery | Node:
        """Return the query or the plan of a Table object."""
        query: sql.SqlQuery | Node = table.query  # type: ignore[attr-defined]
        return query

    def source(self, identifier: Identifier, table: CatalogTable) -> TableSource:
        """Return the source of a table."""
        return table_source(self._connector_table(identifier, table))

    def sink(self, identifier: Identifier, table: CatalogTable) -> TableSink:
        """Return the sink of a table."""
        return table_sink(self._connector_table(identifier, table))

    def lookup(self, identifier: Identifier, table: CatalogTable) -> LookupSource | None:
        """Return how rows of a table are fetched by key; None if its connector cannot."""
        return lookup_source(self._connector_table(identifier, table)) if can_look_up(table.options) else None

    def _connector_table(self, identifier: Identifier, table: CatalogTable) -> ConnectorTable:
        physical = [column for column in table.schema.columns if isinstance(column, PhysicalColumn)]
        return ConnectorTable(
            identifier,
            table,
            tuple(column.name for column in physical),
            tuple(column.type for column in physical),
            table.options,
            self.configuration,
            is_batch(self.configuration),
        )

    # --- plans -------------------------------------------------------------------------------------------------------

    def resolve(self, query: sql.SqlQuery) -> Node:
        """Return the logical plan of a query. Names and types are checked; nothing runs."""
        return resolve_query(query, self)

    def resolve_insert(self, statement: sql.SqlInsert) -> logical.SinkNode:
        """Return the logical plan of an INSERT."""
        return resolve_insert(statement, self)

    def planner_settings(self, plans: Sequence[Node]) -> PlannerSettings:
        """Return how plans of this session run."""
        bounded = all(is_bounded(plan) for plan in plans)
        if is_batch(self.configuration) and not bounded:
            raise ProgramError(
                "Batch mode reads input that ends, and a table of this query is unbounded. Bound it by its options"
                " (such as 'scan.bounded.mode' or 'number-of-rows'), or SET 'execution.runtime-mode' = 'streaming'."
            )
        return planner_settings(self.configuration, self.catalog, self.database, bounded=bounded)

    def physical(self, plan: Node, settings: PlannerSettings | None = None) -> Step:
        """Return the physical plan of a logical plan."""
        return plan_physically(optimize(plan), settings or self.planner_settings([plan]))

    # --- jobs --------------------------------------------------------------------------------------------------------

    def run_query(self, plan: Node, job_name: str | None = None) -> StatementResult:
        """Start a query; its rows are collected here."""
        from flott.datastream._data_stream import DataStream

        settings = self.planner_settings([plan])
        child = self._child()
        if settings.batch and (rows := self._run_on_spark(plan, child)) is not None:
            return StatementResult(plan.schema, lambda: rows, is_query=True)
        step = self.physical(plan, settings)
        ident = Lowering(child._program, settings).add(step)
        stream: DataStream[Row] = DataStream(child, ident, record_type_of(step.schema))
        results = stream.execute_and_collect(job_name or "collect")
        self._remember([step], job_name or "collect", results.get_job_client())
        return StatementResult(
            plan.schema, lambda: results, job=results.get_job_client(), is_query=True, close=results.close
        )

    def _run_on_spark(self, plan: Node, child: StreamExecutionEnvironment) -> Iterator[Row] | None:
        """Return the rows of a query that Spark SQL computes; None if the operators of streams have to."""
        from flott.table._environment import spark_batches

        query = spark_batches.batch_query(plan, self.configuration)
        return None if isinstance(query, str) else spark_batches.run(query, child._configuration)

    def explain(self, plans: Sequence[Node], details: Sequence[str]) -> str:
        """Return the plans of a statement as text; in batch mode with the query that Spark gets."""
        from flott.table._environment.spark_batches import explained

        settings, wanted = self.planner_settings(plans), {detail.upper() for detail in details}
        parts = [explain(plans, settings, details)]
        steps = [self.physical(plan, settings) for plan in plans]
        if "JSON_EXECUTION_PLAN" in wanted:
            parts.append(f"== Physical Execution Plan ==\n\n{self._execution_plan(steps, settings)}\n")
        if "PLAN_ADVICE" in wanted:
            parts.append(advice(steps, settings))
        parts += [more for plan in plans if (more := explained(plan, self.configuration))]
        parts += self._rows_of_job(steps, settings)
        return "\n".join(parts)

    def _execution_plan(self, steps: Sequence[Step], settings: PlannerSettings) -> str:
        """Return the program of some steps as JSON; the rows of a query are collected."""
        from flott.datastream._data_stream import DataStream
        from flott.table._connectors.collect import CollectColumns

        child = self._child()
        lowering = Lowering(child._program, settings)
        for step in steps:
            ident = lowering.add(step)
            if step.kind != "sink":
                stream: DataStream[Row] = DataStream(child, ident, record_type_of(step.schema))
                stream.sink_to(CollectColumns(None)).name("collect")
        return child.get_execution_plan()

    def _rows_of_job(self, steps: Sequence[Step], settings: PlannerSettings) -> list[str]:
        """Return the real numbers of rows, if the last job of this session with the same steps knows them."""
        labels = _labels(steps)
        job = next((one.client for one in reversed(self.jobs) if one.labels == labels), None)
        records = None if job is None else job.get_operator_records()
        if job is None or not records:
            return []
        lowering = Lowering(self._child()._program, settings)
        for step in steps:
            lowering.add(step)
        counts = {step: records[uid] for step, uid in lowering.uids.items() if uid in records}
        title = f"Rows of job {job.get_job_id()} ({job.get_job_status().result().name})"
        return [rows_of_job(steps, title, counts)]

    def _remember(self, steps: Sequence[Step], name: str, job: JobClient | None) -> None:
        if job is not None:
            self.jobs.append(StartedJob(_labels(steps), name, job))

    def run_inserts(self, plans: Sequence[logical.SinkNode], job_name: str | None = None) -> StatementResult:
        """Start one job that writes to all of the sinks."""
        child = self._child()
        steps = self.add_inserts(child._program, plans)
        names = [plan.identifier.summary for plan in plans if plan.identifier is not None]
        name = job_name or self.configuration.get("pipeline.name") or "insert-into_" + ",".join(names)
        job = child.execute_async(name)
        self._remember(steps, name, job)
        if self.configuration.get("table.dml-sync", "false").lower() == "true":
            self.await_job(job)
        return _insert_result(names, job)

    def add_inserts(self, program: Program, plans: Sequence[logical.SinkNode]) -> list[Step]:
        """Add plans with their sinks to a program, and return their steps. Steps that they share run once."""
        settings = self.planner_settings(plans)
        lowering = Lowering(program, settings)
        steps = [self.physical(plan, settings) for plan in plans]
        for step in steps:
            lowering.add(step)
        return steps

    def _child(self) -> StreamExecutionEnvironment:
        """Return an environment with the same settings and streams, so that a statement is a job of its own."""
        from copy import copy

        from flott.common.configuration import Configuration

        child = copy(self.environment)
        child._configuration = Configuration(self.environment._configuration)
        for key, value in self.settings.items():
            if not key.startswith(("table.", "sql-client.")):
                child._configuration.set_string(key, value)
        child._program = Program(dict(self.environment._program._steps), self.environment._program._made)
        child._program.remove_sinks()
        return child


def _labels(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return what tells statements apart: the labels of their steps."""
    return tuple(one.label for step in steps for one in walk_steps(step))


def await_job(job: JobClient) -> None:
    """Wait for the end of a job. Ctrl-C ends the job as well, because the statement is the job."""
    try:
        job.get_job_execution_result().result()
    except KeyboardInterrupt:
        job.cancel()
        raise


def is_bounded(plan: Node) -> bool:
    """Return whether all input of a plan ends."""
    for node in logical.walk(plan):
        if isinstance(node, logical.Scan) and not node.source.bounded:
            return False
        if isinstance(node, logical.StreamScan) and not node.bounded:
            return False
    return True


def is_updating(plan: Node) -> bool:
    """Return whether a query takes rows back."""
    return not kinds_of(plan).insert_only


def _insert_result(names: Sequence[str], job: JobClient) -> StatementResult:
    """Return Flink's result of an INSERT: a column for each sink, with the number of rows, which is not known (-1)."""
    from flott.table._types.logical import BIGINT

    def rows() -> Iterator[Row]:
        job.get_job_execution_result().result()
        yield Row(*[-1] * len(names))

    if not names:
        return success(job)
    return StatementResult(logical.Schema(tuple(names), (BIGINT,) * len(names)), rows, job=job)
