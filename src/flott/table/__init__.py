"""Tables and SQL: PyFlink's Table API and Flink SQL, executed on columns. Re-exports only."""

from flott._absent import names_of
from flott.table.changelog_mode import ChangelogMode
from flott.table.compiled_plan import CompiledPlan
from flott.table.data_view import DataView, ListView, MapView
from flott.table.environment_settings import EnvironmentSettings
from flott.table.explain_detail import ExplainDetail
from flott.table.expression import Expression
from flott.table.module import Module, ModuleEntry
from flott.table.plan_reference import PlanReference
from flott.table.result_kind import ResultKind
from flott.table.schema import Schema
from flott.table.sql_dialect import SqlDialect
from flott.table.statement_set import StatementSet
from flott.table.table import GroupedTable, GroupWindowedTable, OverWindowedTable, Table, WindowGroupedTable
from flott.table.table_config import TableConfig
from flott.table.table_descriptor import FormatDescriptor, TableDescriptor
from flott.table.table_environment import StreamTableEnvironment, TableEnvironment
from flott.table.table_pipeline import TablePipeline
from flott.table.table_result import TableResult
from flott.table.table_schema import TableSchema
from flott.table.types import DataTypes, Row, RowKind
from flott.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
)

__all__ = [
    "StreamTableEnvironment",
    "TableEnvironment",
    "AggregateFunction",
    "AsyncScalarFunction",
    "ChangelogMode",
    "CompiledPlan",
    "DataTypes",
    "DataView",
    "EnvironmentSettings",
    "ExplainDetail",
    "Expression",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "ListView",
    "MapView",
    "Module",
    "ModuleEntry",
    "OverWindowedTable",
    "PlanReference",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "SqlDialect",
    "StatementSet",
    "Table",
    "TableAggregateFunction",
    "TableConfig",
    "TableDescriptor",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "WindowGroupedTable",
]

__getattr__ = names_of(__name__)
