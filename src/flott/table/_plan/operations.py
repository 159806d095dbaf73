"""What each columnar operator is told: frozen values that travel to tasks inside a ``ColumnarSpec``.

One class for each operator of ``runtime.operators.columnar``, which builds the operator from it. Columns are positions
of the input; ``output`` is what the operator emits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flott.table._expressions.expression import Expression
from flott.table._plan.logical import (
    AggregateCall,
    EquiKeys,
    Frame,
    JoinKind,
    Schema,
    SortKey,
    Window,
)
from flott.table._types.logical import UNLIMITED, BinaryType, CharType, LogicalType, VarBinaryType, VarCharType


@dataclass(frozen=True)
class SessionSettings:
    """The settings of the session that operators need, apart from the clock of the epoch."""

    time_zone: str = "UTC"
    catalog: str = "default_catalog"
    database: str = "default_database"
    legacy_cast: bool = False
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ColumnarOperation:
    """Common root."""

    output: Schema
    settings: SessionSettings = field(default_factory=SessionSettings)


@dataclass(frozen=True, kw_only=True)
class StatefulOperation(ColumnarOperation):
    """Common root of operators that keep state by key."""

    mini_batch: bool = False  #: one change for a key and epoch; otherwise one for each record
    ttl_ms: int = 0  #: state that was not used for so long may be dropped; 0: never
    update_before: bool = True  #: whether what follows needs the former row of an update
    retracts: tuple[bool, ...] = (False,)  #: per input: whether it brings more than inserts


# --- row by row ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Calc(ColumnarOperation):
    """Filter and projection in one."""

    input: Schema
    condition: Expression | None
    expressions: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Unnest(ColumnarOperation):
    """Joins each row with the rows that a table function makes of it."""

    input: Schema
    call: Expression
    outer: bool
    condition: Expression | None


@dataclass(frozen=True, kw_only=True)
class ExpandSets(ColumnarOperation):
    """Makes a row for each grouping set."""

    input: Schema
    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class AssignWatermarks(ColumnarOperation):
    """Event time in the middle of a stream, where it could not be pushed into the source."""

    input: Schema
    rowtime: int
    watermark: Expression
    idle_ms: int = 0


#: A column that holds the timestamps of records.
TIMESTAMP_FIELD = "$timestamp"


@dataclass(frozen=True, kw_only=True)
class ConvertFromRecords(ColumnarOperation):
    """Columns of the records of a DataStream. A column is a field of the record (its name or position), the record
    itself (None), or the record's timestamp (``TIMESTAMP``)."""

    fields: tuple[Any, ...]
    watermark: Expression | None = None  #: over the columns; None: the watermarks of the stream


@dataclass(frozen=True, kw_only=True)
class KeepInserts(ColumnarOperation):
    """Drops -U rows that another row of their key follows; others become -D: the key has no row any more."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class LengthRule:
    """The length of a column of texts or bytes."""

    column: int
    length: int
    fixed: bool  #: CHAR and BINARY, where shorter values are filled up
    trims: bool  #: make values fit; otherwise fail


def length_rule(column: int, of: LogicalType, mode: str) -> LengthRule | None:
    """Return the length that values of a column have to have; texts and bytes of any length have none."""
    if not isinstance(of, CharType | BinaryType | VarCharType | VarBinaryType) or of.length == UNLIMITED:
        return None
    return LengthRule(column, of.length, isinstance(of, CharType | BinaryType), mode == "TRIM_PAD")


@dataclass(frozen=True, kw_only=True)
class EnforceConstraints(ColumnarOperation):
    """Checks rows before a sink gets them."""

    table: str  #: its name, for messages
    not_null: tuple[int, ...]
    drop_nulls: bool
    lengths: tuple[LengthRule, ...]
    #: Columns whose inner values are checked too, with their declared types.
    nested: tuple[tuple[int, LogicalType], ...] = ()
    collections: bool = False  #: check elements of arrays and maps as well, not only fields of rows
    length_mode: str = "IGNORE"  #: of inner values


# --- aggregation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GroupAggregate(StatefulOperation):
    """Groups by key columns, with state. Output: keys, then calls."""

    input: Schema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, kw_only=True)
class LocalAggregate(ColumnarOperation):
    """The first of two phases: partial accumulators of an epoch's rows by key, before the exchange.

    ``output`` is ``partial_schema`` of the library of aggregates.
    """

    input: Schema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    retracts: bool = False  #: the input brings more than inserts


@dataclass(frozen=True, kw_only=True)
class GlobalAggregate(StatefulOperation):
    """The second of two phases: merges partial accumulators into state. ``input`` is the local phase's input."""

    input: Schema
    keys: tuple[int, ...]  #: of the local phase's input
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, kw_only=True)
class TableAggregateGroups(StatefulOperation):
    """A table aggregate function in Python, by key."""

    input: Schema
    keys: tuple[int, ...]
    call: AggregateCall


# --- windows ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AssignWindows(ColumnarOperation):
    """A window table function of its own: each row once per window, with the three window columns."""

    input: Schema
    window: Window


@dataclass(frozen=True, kw_only=True)
class AssignSessions(StatefulOperation):
    """The window table function SESSION of its own. It keeps rows until their session has ended."""

    input: Schema
    window: Window


@dataclass(frozen=True, kw_only=True)
class AggregateWindows(StatefulOperation):
    """Groups by key columns and windows; emits when the watermark passes a window's end."""

    input: Schema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None
    attached: tuple[int, int] | None
    properties: tuple[str, ...]
    early_ms: int | None = None  #: table.exec.emit.early-fire.delay
    late_ms: int | None = None
    allow_lateness_ms: int = 0
    #: Of attached windows: their bounds are local times of the session's zone, as those over a TIMESTAMP_LTZ column.
    zoned: bool = False
    proctime: bool = False  #: of attached windows: they end by the clock


@dataclass(frozen=True, kw_only=True)
class LocalWindowAggregate(ColumnarOperation):
    """Partial accumulators by key and slice, before the exchange."""

    input: Schema
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: Window
    retracts: bool = False  #: whether the input brings more than inserts


@dataclass(frozen=True, kw_only=True)
class GlobalWindowAggregate(AggregateWindows):
    """Merges partial accumulators by key and slice. ``input`` is the local phase's input."""


@dataclass(frozen=True, kw_only=True)
class AggregateOver(StatefulOperation):
    """Appends aggregates over the rows around each row."""

    input: Schema
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]
    proctime: bool = False
    complete: bool = False  #: all rows come in one epoch, and they are inserts: a batch job


@dataclass(frozen=True, kw_only=True)
class RankWindows(StatefulOperation):
    """Top-N within windows: emits when the watermark passes a window's end."""

    input: Schema
    partition: tuple[int, ...]  #: without the window's columns
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank: bool  #: append the rank
    window: tuple[int, int]
    latest: bool = False  #: of rows that are equal in order the last one is the first: deduplication keeps the last row
    zoned: bool = False  #: windows are local times of the session's zone, as those over a TIMESTAMP_LTZ column


@dataclass(frozen=True, kw_only=True)
class JoinWindows(StatefulOperation):
    """Joins rows of the same window."""

    kind: JoinKind
    left: Schema
    right: Schema
    keys: EquiKeys
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    condition: Expression | None
    zoned: bool = False  #: windows are local times of the session's zone, as those over a TIMESTAMP_LTZ column


# --- joins -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RegularJoin(StatefulOperation):
    """Joins two changelogs with state of both."""

    kind: JoinKind
    left: Schema
    right: Schema
    keys: EquiKeys
    condition: Expression | None
    left_unique: tuple[int, ...] | None = None  #: columns that tell left rows apart, if known
    right_unique: tuple[int, ...] | None = None
    null_aware: bool = False
    side_ttl_ms: tuple[int | None, int | None] = (None, None)  #: of left and right rows; None: ``ttl_ms``


@dataclass(frozen=True, kw_only=True)
class JoinIntervals(StatefulOperation):
    """Joins rows whose times differ by an interval."""

    kind: JoinKind
    left: Schema
    right: Schema
    keys: EquiKeys
    left_time: int
    right_time: int
    lower_ms: int
    upper_ms: int
    condition: Expression | None
    proctime: bool = False


@dataclass(frozen=True, kw_only=True)
class JoinVersions(StatefulOperation):
    """Joins left rows with the version of the right table at their time."""

    kind: JoinKind
    left: Schema
    right: Schema
    keys: EquiKeys
    left_time: int
    right_time: int | None
    condition: Expression | None


@dataclass(frozen=True)
class LookupSettings:
    """How rows are fetched from an external table."""

    parallel: int = 1  #: queries at a time
    batch_keys: int = 10_000  #: keys of one query at most
    cache_keys: int = 0  #: keys whose rows are remembered; 0: none
    cache_ms: int = 0  #: for so long after they were fetched; 0: until there is no room
    cache_missing: bool = True  #: remember keys without rows as well


@dataclass(frozen=True, kw_only=True)
class JoinLookups(ColumnarOperation):
    """Joins rows with rows fetched from an external table."""

    kind: JoinKind
    left: Schema
    right: Schema
    keys: EquiKeys
    condition: Expression | None
    open_lookup: Any = field(compare=False)  #: ``open() -> lookup(keys) -> pa.Table``
    lookups: LookupSettings = field(default_factory=lambda: LookupSettings())


@dataclass(frozen=True, kw_only=True)
class SetRows(StatefulOperation):
    """INTERSECT or EXCEPT over two changelogs, keyed by all columns."""

    left: Schema
    intersect: bool
    all: bool


# --- order -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RankRows(StatefulOperation):
    """Top-N by partition, continuously updated."""

    input: Schema
    function: str
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank: bool  #: append the rank
    unique: tuple[int, ...] | None = None  #: columns that tell input rows apart, if known


@dataclass(frozen=True, kw_only=True)
class KeepOnePerKey(StatefulOperation):
    """Deduplication by a time attribute."""

    input: Schema
    keys: tuple[int, ...]
    time: int
    keep_last: bool
    proctime: bool
    rank: bool = False


@dataclass(frozen=True, kw_only=True)
class SortRows(StatefulOperation):
    """Sorts by event time first in a stream; completely where the input ends."""

    input: Schema
    order: tuple[SortKey, ...]
    offset: int = 0
    fetch: int | None = None


# --- changelogs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FoldChanges(ColumnarOperation):
    """Gives the final rows of a step that takes rows back, in a batch job."""


@dataclass(frozen=True, kw_only=True)
class NormalizeChanges(StatefulOperation):
    """Turns an upsert changelog into one with former rows."""

    input: Schema
    keys: tuple[int, ...]
    condition: Expression | None = None  #: rows for which it is not true are as if they had been deleted


@dataclass(frozen=True, kw_only=True)
class MaterializeForSink(StatefulOperation):
    """Keeps all rows of a sink's key so that the last one that is left wins (Flink's SinkUpsertMaterializer)."""

    input: Schema
    keys: tuple[int, ...]
    unique: tuple[int, ...] | None = None  #: columns that tell input rows apart, if known
