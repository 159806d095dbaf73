"""Hints of a SELECT: which ones there are, the tables that they name, and what they say about state and lookups.

STATE_TTL concerns the rows that a join keeps of a table, and the groups of an aggregation over one table. LOOKUP says
how rows of a table are fetched. The hints of Flink that choose a join algorithm in batch mode are accepted and have no
effect: Spark chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from flott.common._durations import parse_nanos
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest

_JOIN_HINTS = ("BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN")
_KNOWN = ("OPTIONS", "STATE_TTL", "LOOKUP", *_JOIN_HINTS)
_LOOKUP_OPTIONS = ("table", "async", "output-mode", "capacity", "timeout", "shuffle")
_RETRY_OPTIONS = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")

#: Lookups of one subtask at a time, at most: each has a connection of its own.
_MOST_PARALLEL = 8


@dataclass(frozen=True)
class QueryHints:
    """What the hints of a SELECT say, by the alias or the name of a table."""

    ttl_ms: Mapping[str, int] = field(default_factory=dict)
    parallel_lookups: Mapping[str, int] = field(default_factory=dict)

    def ttl_of(self, relation: sql.SqlRelation) -> int | None:
        """Return how long state about a relation is kept; None if no hint says it."""
        return next((self.ttl_ms[name] for name in relation_names(relation) if name in self.ttl_ms), None)

    def lookups_of(self, relation: sql.SqlRelation) -> int:
        """Return how many lookups of a table run at a time."""
        names = relation_names(relation)
        return next((self.parallel_lookups[name] for name in names if name in self.parallel_lookups), 1)


def query_hints(node: sql.SqlSelect) -> QueryHints:
    """Return what the hints of a SELECT say; raise ``SqlError`` for one that is unknown or names no table of FROM."""
    check_hints(node.hints)
    known = set() if node.source is None else set(_all_names(node.source))
    ttl_ms: dict[str, int] = {}
    lookups: dict[str, int] = {}
    for hint in node.hints:
        match hint.name:
            case "STATE_TTL":
                for option in hint.options:
                    _check_table(hint, option.key, known, option.position)
                    # Flink takes the first of two hints for one table.
                    ttl_ms.setdefault(option.key, _duration(option))
            case "LOOKUP":
                table, parallel = _lookup(hint)
                _check_table(hint, table, known, hint.position)
                lookups[table] = parallel
            case "OPTIONS":
                raise SqlError("OPTIONS belongs behind the name of a table: FROM t /*+ OPTIONS(...) */", hint.position)
            case name if name in _JOIN_HINTS:
                for option in hint.options:
                    _check_table(hint, option.key, known, option.position)
    return QueryHints(ttl_ms, lookups)


def check_hints(hints: tuple[sql.SqlHint, ...]) -> None:
    """Raise ``SqlError`` if there is no hint of such a name."""
    for hint in hints:
        if hint.name not in _KNOWN:
            raise SqlError(
                f"There is no hint {hint.name}.{nearest(hint.name, _KNOWN)} Hints are {', '.join(_KNOWN)}",
                hint.position,
            )


def relation_names(relation: sql.SqlRelation) -> tuple[str, ...]:
    """Return the names by which a hint may call a relation: its alias, or the table with or without its path."""
    from flott.table._plan.resolve.relations import peeled

    alias, _, inner = peeled(relation)
    if isinstance(inner, sql.SqlSnapshot):
        inner_alias, _, inner = peeled(inner.relation)
        alias = alias or inner_alias
    names = [alias] if alias else []
    if isinstance(inner, sql.SqlTableReference):
        names += [".".join(inner.name[start:]) for start in range(len(inner.name))]
    return tuple(names)


def _all_names(relation: sql.SqlRelation) -> Iterator[str]:
    if isinstance(relation, sql.SqlJoin):
        yield from _all_names(relation.left)
        yield from _all_names(relation.right)
    else:
        yield from relation_names(relation)


def _check_table(hint: sql.SqlHint, name: str, known: set[str], position: sql.Position | None) -> None:
    if name not in known:
        raise SqlError(
            f"The hint {hint.name} names {name!r}, which is no table or alias of this FROM.{nearest(name, known)}",
            position,
        )


def _duration(option: sql.SqlHintOption) -> int:
    try:
        return parse_nanos(option.value or "") // 1_000_000
    except ValueError:
        raise SqlError(
            f"STATE_TTL takes 'table' = 'duration', such as '1 d' or '12 h', found {option.value!r}", option.position
        ) from None


def _lookup(hint: sql.SqlHint) -> tuple[str, int]:
    """Return the table of a LOOKUP hint, and how many of its lookups run at a time."""
    options = {option.key.lower(): option.value or "" for option in hint.options}
    for name in options:
        if name in _RETRY_OPTIONS:
            raise SqlError(
                f"LOOKUP: '{name}' is not supported: a lookup that finds no row is not repeated", hint.position
            )
        if name not in _LOOKUP_OPTIONS:
            raise SqlError(f"LOOKUP has no option '{name}'.{nearest(name, _LOOKUP_OPTIONS)}", hint.position)
    if "table" not in options:
        raise SqlError("LOOKUP needs the option 'table'", hint.position)
    if options.get("async", "false").lower() != "true":
        return options["table"], 1
    capacity = options.get("capacity", "100")
    if not capacity.isdigit() or not int(capacity):
        raise SqlError(f"LOOKUP: 'capacity' is a number from 1, found {capacity!r}", hint.position)
    return options["table"], min(int(capacity), _MOST_PARALLEL)
