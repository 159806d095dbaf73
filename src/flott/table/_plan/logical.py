"""The logical plan: what a query asks for, as a tree of frozen nodes. Every column has a name and a type.

Columns are referred to by position. A node's ``schema`` follows from its fields, so a rule that rewrites a tree never
has to mend names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from flott.table._catalog.catalog_table import CatalogTable, Identifier
from flott.table._connectors.table_source import ChangelogMode, LookupSource, TableSink, TableSource
from flott.table._expressions.expression import Expression, UserCall, UserFunction
from flott.table._types.logical import LogicalType


@dataclass(frozen=True)
class Schema:
    """Names and types of columns."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.names + other.names, self.types + other.types)

    def pick(self, positions: tuple[int, ...]) -> Schema:
        """Return some columns, in an order."""
        return Schema(tuple(self.names[i] for i in positions), tuple(self.types[i] for i in positions))


@dataclass(frozen=True)
class Node:
    """Common root of all nodes."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Return the nodes whose rows this one reads."""
        return ()

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """Return the node over other inputs."""
        return self

    @cached_property
    def schema(self) -> Schema:
        """Return the columns of the node's rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class OneInput(Node):
    """Common root of nodes with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, input=inputs[0])

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class TwoInputs(Node):
    """Common root of nodes with two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, left=inputs[0], right=inputs[1])


# --- leaves ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan(Node):
    """Reads a table of a connector: physical and metadata columns. Computed columns are a Project above it."""

    identifier: Identifier
    table: CatalogTable
    source: TableSource

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.source.names, self.source.types)

    @property
    def primary_key(self) -> tuple[int, ...]:
        """Return the positions of the key's columns; empty if there is none or one of them is not read."""
        names = self.source.names
        key = self.table.schema.primary_key
        return tuple(names.index(name) for name in key) if all(name in names for name in key) else ()


@dataclass(frozen=True)
class StreamScan(Node):
    """Reads a DataStream of the program."""

    stream: Any = field(compare=False)  #: the DataStream
    name: str
    columns: Schema
    changelog: ChangelogMode = ChangelogMode.INSERT_ONLY
    primary_key: tuple[int, ...] = ()
    #: How records become columns: positions of fields, or "$rowtime" for the record's timestamp; see ``lower``.
    fields: tuple[Any, ...] = ()
    bounded: bool = False

    @cached_property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class Values(Node):
    """Constant rows: each a tuple of expressions without columns, cast to the types of the schema."""

    columns: Schema
    rows: tuple[tuple[Expression, ...], ...]

    @cached_property
    def schema(self) -> Schema:
        return self.columns


# --- row by row ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Project(OneInput):
    """Computes columns."""

    expressions: tuple[Expression, ...]
    names: tuple[str, ...]

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.names, tuple(expression.type for expression in self.expressions))


@dataclass(frozen=True)
class Filter(OneInput):
    """Keeps the rows for which a condition is true."""

    condition: Expression


@dataclass(frozen=True)
class WatermarkAssigner(OneInput):
    """Says that a column is event time; the schema's type of it has the rowtime attribute."""

    rowtime: int
    watermark: Expression  #: of the type of the rowtime column

    @cached_property
    def schema(self) -> Schema:
        from flott.table._types.logical import TimeAttribute

        inner = self.input.schema
        types = list(inner.types)
        types[self.rowtime] = replace(types[self.rowtime], attribute=TimeAttribute.ROWTIME)  # type: ignore[call-arg]
        return Schema(inner.names, tuple(types))


@dataclass(frozen=True)
class Correlate(OneInput):
    """Joins each row with the rows that a table function makes of it: UNNEST, or a function in Python."""

    #: A ``UserCall`` of a table function, or a ``Call`` of "UNNEST" or "UNNEST_WITH_ORDINALITY" over a collection.
    call: Expression
    columns: Schema  #: of the function's rows
    outer: bool = False  #: a row for which the function gives nothing is kept, with nulls
    condition: Expression | None = None  #: over the columns of both

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema + self.columns

    @property
    def user_call(self) -> UserCall | None:
        """Return the call of a function in Python, if it is one."""
        return self.call if isinstance(self.call, UserCall) else None


@dataclass(frozen=True)
class Expand(OneInput):
    """Makes several rows of each: one for each grouping set, with nulls in what it does not group by.

    Each of ``sets`` holds positions in ``keys``. The last column of the schema is the position of the row's set.
    """

    keys: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]
    id_name: str = "$e"

    @cached_property
    def schema(self) -> Schema:
        from flott.table._types.logical import BIGINT

        inner = self.input.schema
        types = tuple(of.as_nullable() if i in self.keys else of for i, of in enumerate(inner.types))
        return Schema((*inner.names, self.id_name), (*types, BIGINT.as_nullable(False)))


# --- aggregation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate function over columns of the input."""

    function: str  #: a key of the library of aggregates, or the name of ``user``
    arguments: tuple[int, ...]
    type: LogicalType
    name: str
    distinct: bool = False
    filter: int | None = None  #: a column of type BOOLEAN: rows for which it is true
    user: UserFunction | None = None
    literals: tuple[Any, ...] = ()  #: values of further arguments that must be constants (a separator, a percentage)
    #: Sort keys of ARRAY_AGG(... ORDER BY ...) and the like.
    order: tuple[SortKey, ...] = ()

    @property
    def columns(self) -> frozenset[int]:
        """Return the columns that the call reads."""
        chosen = () if self.filter is None else (self.filter,)
        return frozenset((*self.arguments, *chosen, *(key.column for key in self.order)))

    def moved(self, places: Mapping[int, int]) -> AggregateCall:
        """Return the call over columns that stand at other places."""
        return replace(
            self,
            arguments=tuple(places[column] for column in self.arguments),
            filter=None if self.filter is None else places[self.filter],
            order=tuple(replace(key, column=places[key.column]) for key in self.order),
        )


@dataclass(frozen=True)
class Aggregate(OneInput):
    """Groups by columns; its columns are the keys and then the calls. No keys: one row for all."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl_ms: int | None = None  #: how long a group is kept, if a hint says it

    @cached_property
    def schema(self) -> Schema:
        calls = Schema(tuple(c.name for c in self.calls), tuple(c.type for c in self.calls))
        return self.input.schema.pick(self.keys) + calls


@dataclass(frozen=True)
class TableAggregate(OneInput):
    """Groups by columns; a table aggregate function gives any number of rows for each group."""

    keys: tuple[int, ...]
    call: AggregateCall
    columns: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema.pick(self.keys) + self.columns


class WindowKind(Enum):
    """The windows of window table functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class Window:
    """A window over a time column. Lengths are milliseconds."""

    kind: WindowKind
    time: int  #: the column
    size_ms: int  #: the gap of a session, the largest size of CUMULATE
    slide_ms: int = 0  #: the slide of HOP, the step of CUMULATE
    offset_ms: int = 0
    partition: tuple[int, ...] = ()  #: of SESSION
    proctime: bool = False
    count: int | None = None  #: of row-count windows of the Table API
    count_slide: int | None = None


@dataclass(frozen=True)
class WindowTable(OneInput):
    """A window table function: each row once for each of its windows, with window_start, window_end, window_time."""

    window: Window

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema + window_columns(self.input.schema.types[self.window.time])


def window_columns(time: LogicalType) -> Schema:
    """Return the three columns that a window table function appends."""
    from flott.table._types.logical import LocalZonedTimestampType, TimestampType

    assert isinstance(time, TimestampType | LocalZonedTimestampType)
    bound = TimestampType(3, nullable=False)
    moment = replace(time, nullable=False)
    return Schema(("window_start", "window_end", "window_time"), (bound, bound, moment))


@dataclass(frozen=True)
class WindowAggregate(OneInput):
    """Groups by columns and windows. Columns: keys, calls, then the asked-for window properties.

    ``window`` assigns windows to input rows; None: the input has window columns already (a window aggregation over a
    window aggregation), given by ``attached`` = positions of window_start and window_end.
    """

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: Window | None
    properties: tuple[str, ...] = ()  #: of "start", "end", "rowtime", "proctime"
    property_names: tuple[str, ...] = ()
    attached: tuple[int, int] | None = None
    time_type: LogicalType | None = None
    legacy: bool = False  #: GROUP BY TUMBLE(...) of old: allows early and late firing options
    table_call: AggregateCall | None = None
    table_columns: Schema | None = None

    @cached_property
    def schema(self) -> Schema:
        from flott.table._types.logical import TimestampType

        calls = Schema(tuple(c.name for c in self.calls), tuple(c.type for c in self.calls))
        if self.table_columns is not None:
            calls = self.table_columns
        bound = TimestampType(3, nullable=False)
        time = self.time_type or bound
        types = tuple(bound if p in ("start", "end") else time for p in self.properties)
        return self.input.schema.pick(self.keys) + calls + Schema(self.property_names, types)


@dataclass(frozen=True)
class Frame:
    """The rows of an OVER window: from ``lower`` to ``upper`` relative to the current row. None: unbounded.

    Negative numbers are preceding; milliseconds for RANGE over time, rows for ROWS.
    """

    rows: bool
    lower: int | None
    upper: int | None = 0


@dataclass(frozen=True)
class OverAggregate(OneInput):
    """Appends aggregates over the rows around each row. ROW_NUMBER, RANK, LAG, LEAD and so on are calls as well."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    calls: tuple[AggregateCall, ...]

    @cached_property
    def schema(self) -> Schema:
        calls = Schema(tuple(c.name for c in self.calls), tuple(c.type for c in self.calls))
        return self.input.schema + calls


# --- order -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. NULL is the smallest value unless the query says otherwise, as in Flink."""

    column: int
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class Sort(OneInput):
    """Sorts, and keeps ``fetch`` rows behind ``offset``. Without keys it is a limit."""

    keys: tuple[SortKey, ...]
    offset: int = 0
    fetch: int | None = None


@dataclass(frozen=True)
class Rank(OneInput):
    """Top-N: the rows whose rank within their partition is from ``start`` to ``end`` (both inclusive, from 1)."""

    function: str  #: ROW_NUMBER, RANK, DENSE_RANK
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    start: int
    end: int
    rank_name: str | None = None  #: the name of the column with the rank, if it is asked for
    window: tuple[int, int] | None = None  #: the partition contains these window columns: a window top-n

    @cached_property
    def schema(self) -> Schema:
        from flott.table._types.logical import BIGINT

        inner = self.input.schema
        return inner if self.rank_name is None else inner + Schema((self.rank_name,), (BIGINT.as_nullable(False),))


@dataclass(frozen=True)
class Deduplicate(OneInput):
    """Keeps the first or the last row of each key, by a time attribute."""

    keys: tuple[int, ...]
    time: int
    keep_last: bool
    proctime: bool = False
    window: tuple[int, int] | None = None
    rank_name: str | None = None

    @cached_property
    def schema(self) -> Schema:
        from flott.table._types.logical import BIGINT

        inner = self.input.schema
        return inner if self.rank_name is None else inner + Schema((self.rank_name,), (BIGINT.as_nullable(False),))


# --- joins and sets --------------------------------------------------------------------------------------------------


class JoinKind(Enum):
    """How rows without a partner are treated."""

    INNER = "InnerJoin"
    LEFT = "LeftOuterJoin"
    RIGHT = "RightOuterJoin"
    FULL = "FullOuterJoin"
    SEMI = "LeftSemiJoin"
    ANTI = "LeftAntiJoin"

    @property
    def left_outer(self) -> bool:
        """Return whether every left row is kept."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def right_outer(self) -> bool:
        """Return whether every right row is kept."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True)
class Join(TwoInputs):
    """A regular join, before rules find out that it is a special one. The condition is over the columns of both."""

    kind: JoinKind
    condition: Expression | None
    ttl_ms: tuple[int | None, int | None] = (None, None)  #: how long left and right rows are kept, if hints say it
    #: NOT IN: a null on either side makes the condition unknown, so ANTI keeps fewer rows.
    null_aware: bool = False

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.kind, self.left.schema, self.right.schema)


def joined_schema(kind: JoinKind, left: Schema, right: Schema) -> Schema:
    """Return the columns of a join."""
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    if kind.right_outer:
        left = Schema(left.names, tuple(of.as_nullable() for of in left.types))
    if kind.left_outer:
        right = Schema(right.names, tuple(of.as_nullable() for of in right.types))
    return left + right


@dataclass(frozen=True)
class EquiKeys:
    """The columns that a join compares for equality, pair by pair."""

    left: tuple[int, ...]
    right: tuple[int, ...]  #: counted from the right input's first column
    filter_nulls: tuple[bool, ...] = ()  #: per pair: NULL equals nothing (``=``); False: IS NOT DISTINCT FROM


@dataclass(frozen=True)
class IntervalJoin(TwoInputs):
    """Joins rows whose times differ by ``lower_ms`` to ``upper_ms`` (left time minus right time, inclusive)."""

    kind: JoinKind
    keys: EquiKeys
    left_time: int
    right_time: int
    lower_ms: int
    upper_ms: int
    condition: Expression | None = None  #: what else must hold
    proctime: bool = False

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.kind, self.left.schema, self.right.schema)


@dataclass(frozen=True)
class TemporalJoin(TwoInputs):
    """Joins each left row with the version of the right table that was valid at the left row's time."""

    kind: JoinKind
    keys: EquiKeys
    left_time: int
    right_time: int | None  #: the right table's version time; None with processing time
    condition: Expression | None = None

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.kind, self.left.schema, self.right.schema)


@dataclass(frozen=True)
class LookupJoin(OneInput):
    """Joins each row with rows that are fetched from an external table at that moment."""

    kind: JoinKind
    identifier: Identifier
    lookup: LookupSource
    right: Schema  #: the columns that are fetched
    keys: EquiKeys
    condition: Expression | None = None
    parallel: int = 1  #: lookups of a subtask at a time

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.kind, self.input.schema, self.right)


@dataclass(frozen=True)
class WindowJoin(TwoInputs):
    """Joins rows of the same window: a join of two windowed inputs on window_start and window_end."""

    kind: JoinKind
    keys: EquiKeys
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    condition: Expression | None = None

    @cached_property
    def schema(self) -> Schema:
        return joined_schema(self.kind, self.left.schema, self.right.schema)


@dataclass(frozen=True)
class Union(Node):
    """All rows of all inputs."""

    branches: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        return replace(self, branches=inputs)

    @cached_property
    def schema(self) -> Schema:
        first = self.branches[0].schema
        nullable = [any(b.schema.types[i].nullable for b in self.branches) for i in range(len(first))]
        return Schema(first.names, tuple(of.as_nullable(n) for of, n in zip(first.types, nullable, strict=True)))


@dataclass(frozen=True)
class SetOperation(TwoInputs):
    """INTERSECT or EXCEPT; with ``all`` rows count as often as they occur."""

    intersect: bool
    all: bool

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema


# --- changelogs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Normalize(OneInput):
    """Turns an upsert changelog into one with former rows (Flink's ChangelogNormalize)."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class SinkNode(OneInput):
    """Writes the rows to a table. The input's columns are those of the sink, in its order and types."""

    identifier: Identifier | None
    sink: TableSink
    table: CatalogTable | None = None
    overwrite: bool = False
    static_partition: tuple[tuple[str, Expression], ...] = ()  #: constants


# --- walks -----------------------------------------------------------------------------------------------------------


def walk(node: Node) -> Iterator[Node]:
    """Return a node and everything below it."""
    yield node
    for one in node.inputs:
        yield from walk(one)


def rewritten(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a tree with each node changed, inputs first."""
    inputs = node.inputs
    changed = tuple(rewritten(one, change) for one in inputs)
    same = all(a is b for a, b in zip(inputs, changed, strict=True))
    return change(node if same else node.with_inputs(changed))
