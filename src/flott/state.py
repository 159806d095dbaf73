"""State as a table: read, compare, make and change checkpoints and savepoints, without the job and its classes.

Reading::

    snapshot = flott.state.open("/checkpoints/<job id>")        # or .../chk-42, a savepoint, or a job client
    print(snapshot.describe())                                   # operators, states, types, sizes, keys

    totals = snapshot.operator("totals").state("total")
    totals.get("alice")                                          # one key: reads its key group only
    for key, value in totals.items(): ...                        # lazily, one key group in memory
    totals.to_dataframe()                                        # PySpark, read by tasks in parallel
    totals.to_arrow()                                            # pip install flott[arrow]

Comparing::

    print(flott.state.diff(yesterday, today))                    # keys added, removed, changed per state

Writing; the program starts from the result with ``execution.state-recovery.path``::

    new_savepoint().with_operator("totals", keyed={"total": value_state(rows)}).write("/savepoints/first")
    edit(snapshot).transform("totals", "total", lambda key, value: value * 100).write("/savepoints/cents")
    edit(snapshot).change_uid("totals", "sums").remove_operator("debug").write("/savepoints/renamed")

Keeping::

    export_savepoint("/savepoints/savepoint-ab12cd-0123456789ab", "/elsewhere")   # a copy that depends on nothing
    dispose_savepoint("/savepoints/savepoint-ab12cd-0123456789ab")                # with all that only it needs
"""

from flott.runtime.checkpoint.savepoint_files import dispose_savepoint, export_savepoint
from flott.snapshots.difference import Change, ChangeKind, Counts, SnapshotDifference, StateDifference, diff
from flott.snapshots.editing import SavepointEditor, edit, new_savepoint
from flott.snapshots.new_states import (
    NewOperatorState,
    NewState,
    broadcast_state,
    list_state,
    map_state,
    split_state,
    timers,
    union_state,
    value_state,
)
from flott.snapshots.operators import OperatorView
from flott.snapshots.snapshot import StateSnapshot
from flott.snapshots.snapshot import open_snapshot_at as open
from flott.snapshots.table_columns import Column
from flott.snapshots.transforms import DROP
from flott.snapshots.views import KeyedStateView, OperatorStateView, StateView

__all__ = [
    "open",
    "StateSnapshot",
    "OperatorView",
    "StateView",
    "KeyedStateView",
    "OperatorStateView",
    "Column",
    "diff",
    "SnapshotDifference",
    "StateDifference",
    "Change",
    "ChangeKind",
    "Counts",
    "new_savepoint",
    "edit",
    "SavepointEditor",
    "value_state",
    "list_state",
    "map_state",
    "timers",
    "split_state",
    "union_state",
    "broadcast_state",
    "NewState",
    "NewOperatorState",
    "DROP",
    "export_savepoint",
    "dispose_savepoint",
]
