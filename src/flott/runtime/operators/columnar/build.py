"""Operation -> columnar operator: the one table that knows them all. Task side.

An operator's module is imported when a task first needs it.
"""

from __future__ import annotations

from importlib import import_module

from flott.errors import ProgramError
from flott.runtime.operators.columnar.base import ColumnarOperator
from flott.runtime.operators.operator import OperatorContext
from flott.table._plan import operations

#: By operation: the module of this package and its class, which is made of (context, operation).
_OPERATORS: dict[type[operations.ColumnarOperation], tuple[str, str]] = {
    operations.AggregateWindows: ("aggregate_windows", "window_aggregation"),
    operations.LocalWindowAggregate: ("two_phase_windows", "LocalWindowOperator"),
    operations.GlobalWindowAggregate: ("two_phase_windows", "GlobalWindowOperator"),
    operations.AssignWindows: ("assign_windows", "WindowAssignmentOperator"),
    operations.AssignSessions: ("assign_windows", "SessionAssignmentOperator"),
    operations.RankWindows: ("rank_windows", "RankWindowsOperator"),
    operations.JoinWindows: ("join_windows", "JoinWindowsOperator"),
    operations.AssignWatermarks: ("assign_watermarks", "AssignWatermarksOperator"),
    operations.AggregateOver: ("aggregate_over", "over_aggregation"),
    operations.Calc: ("calc", "CalcOperator"),
    operations.Unnest: ("unnest", "UnnestOperator"),
    operations.ConvertFromRecords: ("from_records", "FromRecordsOperator"),
    operations.FoldChanges: ("fold", "FoldOperator"),
    operations.ExpandSets: ("expand", "ExpandOperator"),
    operations.EnforceConstraints: ("enforce_constraints", "EnforceConstraintsOperator"),
    operations.KeepInserts: ("keep_inserts", "KeepInsertsOperator"),
    operations.RegularJoin: ("regular_join", "RegularJoinOperator"),
    operations.JoinIntervals: ("join_intervals", "JoinIntervalsOperator"),
    operations.JoinLookups: ("join_lookups", "JoinLookupsOperator"),
    operations.JoinVersions: ("join_versions", "JoinVersionsOperator"),
    operations.SortRows: ("sort_rows", "SortRowsOperator"),
    operations.RankRows: ("rank_rows", "RankRowsOperator"),
    operations.SetRows: ("set_rows", "SetRowsOperator"),
    operations.KeepOnePerKey: ("keep_one", "KeepOneOperator"),
    operations.NormalizeChanges: ("normalize", "NormalizeOperator"),
    operations.MaterializeForSink: ("materialize", "MaterializeOperator"),
    operations.GroupAggregate: ("group_aggregate", "GroupAggregateOperator"),
    operations.LocalAggregate: ("local_aggregate", "LocalAggregateOperator"),
    operations.GlobalAggregate: ("group_aggregate", "GlobalAggregateOperator"),
    operations.TableAggregateGroups: ("table_aggregate", "TableAggregateOperator"),
}


def build_columnar(context: OperatorContext, operation: operations.ColumnarOperation) -> ColumnarOperator:
    """Return the operator that an operation describes."""
    if type(operation) not in _OPERATORS:
        raise ProgramError(f"There is no columnar operator for {type(operation).__name__}.")
    module, name = _OPERATORS[type(operation)]
    made: ColumnarOperator = getattr(import_module(f"flott.runtime.operators.columnar.{module}"), name)(
        context, operation
    )
    return made
