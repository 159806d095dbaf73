"""What a connector gives the planner: sources and sinks of tables, and how much of a query they can take over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from flott.datastream.connectors.base import Sink, Source
from flott.table._catalog.catalog_table import CatalogTable, Identifier
from flott.table._expressions.expression import Expression
from flott.table._types.logical import LogicalType


class ChangelogMode(Enum):
    """Which kinds of rows a table brings or takes."""

    INSERT_ONLY = "I"
    UPSERT = "I,UA,D"  #: an update has no former row: rows of one key replace each other
    ALL = "I,UB,UA,D"


@dataclass(frozen=True)
class SparkScan:
    """How Spark reads the rows of a source: files of a format with a schema (as DDL), or columns in memory."""

    format: str  #: parquet, or arrow: ``columns``
    paths: tuple[str, ...] = ()
    schema: str = ""
    columns: Any = field(default=None, compare=False)  #: a ``pa.Table``


@dataclass(frozen=True)
class TableSource:
    """A table to be read. ``source`` yields columns named and typed exactly as ``names`` and ``types`` say.

    The planner asks a source to read less by the callbacks; each returns another source, or None if it cannot.
    """

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    make: Callable[[TableSource], Source[Any]]  #: makes the source of what the planner chose
    changelog: ChangelogMode = ChangelogMode.INSERT_ONLY
    bounded: bool = True
    estimated_rows: int | None = None
    #: What the planner asked for: fields to read (names), conditions on these rows, a limit, and metadata columns.
    projection: tuple[str, ...] | None = None
    filters: tuple[Expression, ...] = ()
    limit: int | None = None
    can_project: bool = True
    can_narrow: bool = False  #: whether a column of a row type may be asked for with fewer fields
    #: Given the names of columns and conditions over them, returns those that the source applies itself, completely.
    applicable: Callable[[Sequence[str], Sequence[Expression]], Sequence[Expression]] = lambda names, conditions: ()
    can_limit: bool = False
    metadata: Mapping[str, LogicalType] = field(default_factory=dict)  #: metadata columns by key
    #: How Spark reads what the planner chose of the same data in batch mode; the result None: it cannot.
    spark: Callable[[TableSource], SparkScan | None] | None = None

    def projected(self, names: tuple[str, ...]) -> TableSource:
        """Return the source of some columns only."""
        types = dict(zip(self.names, self.types, strict=True))
        return replace(self, names=names, types=tuple(types[name] for name in names), projection=names)

    def applied(self, conditions: Sequence[Expression]) -> Sequence[Expression]:
        """Return which of some conditions over the columns ``names`` the source applies itself, completely."""
        return self.applicable(self.names, conditions)

    def build(self) -> Source[Any]:
        """Return the source that reads the columns ``names``."""
        return self.make(self)


@dataclass(frozen=True)
class TableSink:
    """A table to be written."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    make: Callable[[], Sink[Any]]
    accepts: ChangelogMode = ChangelogMode.INSERT_ONLY
    #: The columns by which an upsert sink tells rows apart.
    key: tuple[str, ...] = ()
    parallelism: int | None = None
    #: Makes the sink that replaces the rows that are there, given the values of PARTITION (arrays of one). None: it
    #: only adds rows.
    overwrite: Callable[[Mapping[str, Any]], Sink[Any]] | None = None
    metadata: Mapping[str, LogicalType] = field(default_factory=dict)


@dataclass(frozen=True)
class LookupSource:
    """A table of which rows are fetched by key, one query for the keys of a batch."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    #: Given the key columns, returns what opens a client in a task: ``open()`` gives ``lookup(keys: pa.RecordBatch)``,
    #: and that a ``pa.Table`` of the columns ``names``, any number of rows for each key.
    make: Callable[[tuple[str, ...]], Callable[[], Callable[[Any], Any]]]


@dataclass(frozen=True)
class ConnectorTable:
    """A table as a connector sees it: its name, declaration, and the session's settings."""

    identifier: Identifier
    table: CatalogTable
    names: tuple[str, ...]  #: of physical columns
    types: tuple[LogicalType, ...]
    options: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)
    batch: bool = False


@dataclass(frozen=True)
class TableConnector:
    """One connector: the value of the option 'connector', what it can make, and the options it knows."""

    name: str
    source: Callable[[ConnectorTable], TableSource] | None = None
    sink: Callable[[ConnectorTable], TableSink] | None = None
    lookup: Callable[[ConnectorTable], LookupSource] | None = None
    #: Options by key with one line about each; a key that ends in ``.*`` stands for all that begin so.
    options: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
