"""Changelog modes: which kinds of rows each node of a plan gives, and what a sink can take.

Rows of a node are *inserts only*, or there are *updates* (a row of a key replaces a former one), or also *deletes*.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.errors import ProgramError
from flott.table._connectors.table_source import ChangelogMode, TableSink
from flott.table._plan.logical import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    Join,
    JoinKind,
    LookupJoin,
    Node,
    Normalize,
    Rank,
    Scan,
    SetOperation,
    Sort,
    StreamScan,
    TableAggregate,
    TemporalJoin,
    Values,
    WindowAggregate,
    WindowJoin,
)
from flott.table._types.logical import is_rowtime


@dataclass(frozen=True)
class Kinds:
    """Which changes a node gives besides inserts."""

    updates: bool = False
    deletes: bool = False

    @property
    def insert_only(self) -> bool:
        """Return whether nothing is ever taken back."""
        return not (self.updates or self.deletes)

    def __or__(self, other: Kinds) -> Kinds:
        return Kinds(self.updates or other.updates, self.deletes or other.deletes)

    def text(self, update_before: bool = True) -> str:
        """Return the kinds as EXPLAIN prints them."""
        parts = ["I"]
        if self.updates:
            parts += ["UB", "UA"] if update_before else ["UA"]
        if self.deletes:
            parts.append("D")
        return ",".join(parts)


INSERTS = Kinds()
UPDATES = Kinds(updates=True)
ALL = Kinds(updates=True, deletes=True)
_OF_SOURCE = {ChangelogMode.INSERT_ONLY: INSERTS, ChangelogMode.UPSERT: ALL, ChangelogMode.ALL: ALL}


def kinds_of(node: Node, early_fire: bool = False, bounded: bool = False) -> Kinds:
    """Return which changes the rows of a node are. ``early_fire``: windows give results before they end."""
    inputs = [kinds_of(one, early_fire, bounded) for one in node.inputs]
    match node:
        case Scan():
            return _OF_SOURCE[node.source.changelog]
        case StreamScan():
            return _OF_SOURCE[node.changelog]
        case Values():
            return INSERTS
        case Aggregate() | TableAggregate():
            return UPDATES if inputs[0].insert_only and isinstance(node, Aggregate) else ALL
        case WindowAggregate():
            return UPDATES if early_fire and node.legacy else INSERTS
        case Rank():
            return INSERTS if node.window is not None else ALL
        case Deduplicate():
            if node.window is not None:
                return INSERTS
            return INSERTS if node.proctime and not node.keep_last else UPDATES | inputs[0]
        case Join():
            return _join(node.kind, inputs[0], inputs[1])
        case IntervalJoin() | WindowJoin():
            return INSERTS
        case TemporalJoin() | LookupJoin():
            return inputs[0]
        case SetOperation():
            return Kinds(deletes=True)
        case Sort():
            if bounded and not node.keys:
                return INSERTS
            if _is_temporal(node):
                return inputs[0]
            return ALL if node.keys or not inputs[0].insert_only else INSERTS
        case Normalize():
            return ALL
    whole = INSERTS
    for one in inputs:
        whole = whole | one
    return whole


def _join(kind: JoinKind, left: Kinds, right: Kinds) -> Kinds:
    both = left | right
    if kind is JoinKind.INNER:
        return both
    if kind is JoinKind.SEMI:
        return both if not both.insert_only else INSERTS
    # An outer row is taken back when its first partner comes; so is a row of an anti join.
    return both | Kinds(deletes=True)


def _is_temporal(node: Sort) -> bool:
    """Return whether rows are sorted by event time first, so that each is final when the watermark passes it."""
    return (
        bool(node.keys)
        and node.fetch is None
        and not node.offset
        and not node.keys[0].descending
        and is_rowtime(node.input.schema.types[node.keys[0].column])
    )


def check_sink(kinds: Kinds, sink: TableSink, name: str, culprit: Node | None) -> None:
    """Raise ``ProgramError`` if a sink cannot take the changes of a query."""
    if kinds.insert_only or sink.accepts is not ChangelogMode.INSERT_ONLY:
        return
    what = "update and delete" if kinds.deletes and kinds.updates else "update" if kinds.updates else "delete"
    cause = "" if culprit is None else f", which the step {type(culprit).__name__} produces"
    raise ProgramError(
        f"Table sink '{name}' takes inserts only, and the query gives {what} changes{cause}. Write to a table with a"
        " primary key in a connector that takes updates (upsert-kafka, jdbc), or make the query insert only: aggregate"
        " in windows, or join by intervals of time."
    )


def first_updating(node: Node) -> Node | None:
    """Return the lowest node that turns inserts into updates, to name it in errors."""
    for one in node.inputs:
        found = first_updating(one)
        if found is not None:
            return found
    return None if kinds_of(node).insert_only else node
