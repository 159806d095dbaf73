"""What is known of a node's rows: the keys that tell them apart."""

from __future__ import annotations

from flott.table._expressions.expression import Expression, InputRef, conjuncts
from flott.table._plan.logical import (
    Aggregate,
    Correlate,
    Deduplicate,
    Filter,
    IntervalJoin,
    Join,
    JoinKind,
    LookupJoin,
    Node,
    Normalize,
    OverAggregate,
    Project,
    Rank,
    Scan,
    SetOperation,
    Sort,
    StreamScan,
    TemporalJoin,
    WatermarkAssigner,
    WindowAggregate,
    WindowJoin,
    WindowTable,
)

Key = frozenset[int]


def unique_keys(node: Node) -> frozenset[Key]:
    """Return the sets of columns of which each tells all rows of the result apart."""
    match node:
        case Scan() | StreamScan():
            return frozenset([frozenset(node.primary_key)] if node.primary_key else [])
        case Filter() | WatermarkAssigner() | Sort() | Normalize() | OverAggregate():
            return unique_keys(node.inputs[0])
        case Project():
            places: dict[int, int] = {}
            for position, expression in enumerate(node.expressions):
                if isinstance(expression, InputRef):
                    places.setdefault(expression.index, position)
            return _mapped(unique_keys(node.input), places)
        case Aggregate():
            return frozenset([frozenset(range(len(node.keys)))]) if node.keys else frozenset([frozenset()])
        case WindowAggregate():
            width = len(node.keys) + len(node.calls)
            bounds = [width + i for i, p in enumerate(node.properties) if p in ("start", "end")]
            return frozenset([frozenset([*range(len(node.keys)), *bounds])]) if bounds else frozenset()
        case Deduplicate():
            return frozenset([frozenset(node.keys)]) | unique_keys(node.input)
        case Rank():
            found = set(unique_keys(node.input))
            if node.end == 1 and node.start == 1 and node.function == "ROW_NUMBER":
                found.add(frozenset(node.partition))
            if node.rank_name is not None and node.function == "ROW_NUMBER":
                found.add(frozenset([*node.partition, len(node.input.schema)]))
            return frozenset(found)
        case Join():
            return _join_keys(node, unique_keys(node.left), unique_keys(node.right))
        case LookupJoin() | TemporalJoin():
            return frozenset()
        case IntervalJoin() | WindowJoin() | Correlate() | WindowTable():
            return frozenset()
        case SetOperation(all=False):
            return frozenset([frozenset(range(len(node.schema)))])
    return frozenset()


def _mapped(keys: frozenset[Key], places: dict[int, int]) -> frozenset[Key]:
    return frozenset(frozenset(places[i] for i in key) for key in keys if all(i in places for i in key))


def _join_keys(node: Join, left: frozenset[Key], right: frozenset[Key]) -> frozenset[Key]:
    """Return the keys of a join, given those of its inputs."""
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    width = len(node.left.schema)
    pairs = equal_columns(node.condition, width)
    left_columns, right_columns = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    found: set[Key] = set()
    shifted = {frozenset(i + width for i in key) for key in right}
    # A side that is matched by its key at most once leaves the other side's keys valid.
    if any(key <= right_columns for key in right) and not node.kind.right_outer:
        found |= left
    if any(key <= left_columns for key in left) and not node.kind.left_outer:
        found |= shifted
    found |= {one | other for one in left for other in shifted}
    return frozenset(found)


def equal_columns(condition: Expression | None, width: int) -> list[tuple[int, int]]:
    """Return pairs (left column, right column) that a join condition compares for equality."""
    from flott.table._plan.rules.filters import equality

    found = (equality(one, width) for one in conjuncts(condition))
    return [(one[0], one[1]) for one in found if one is not None]


def upsert_keys(node: Node) -> frozenset[Key]:
    """Return the unique keys whose changes come in order: all rows with equal values are sent by the same subtask.

    An operator that is keyed by other columns sends the old and the new row of such a key from different subtasks, and
    what follows may see them in any order. Operators that replace rows by key need one of these keys.
    """
    match node:
        case Scan() | StreamScan() | Aggregate() | WindowAggregate() | SetOperation():
            return unique_keys(node)
        case Filter() | WatermarkAssigner() | Sort() | Normalize():
            return upsert_keys(node.inputs[0])
        case Project():
            places: dict[int, int] = {}
            for position, expression in enumerate(node.expressions):
                if isinstance(expression, InputRef):
                    places.setdefault(expression.index, position)
            return _mapped(upsert_keys(node.input), places)
        case OverAggregate():
            return frozenset(key for key in upsert_keys(node.input) if key >= set(node.partition))
        case Deduplicate():
            held = frozenset(key for key in upsert_keys(node.input) if key >= set(node.keys))
            return held | frozenset([frozenset(node.keys)])
        case Rank():
            own = unique_keys(node) - unique_keys(node.input)
            return own | frozenset(key for key in upsert_keys(node.input) if key >= set(node.partition))
        case Join():
            width = len(node.left.schema)
            pairs = equal_columns(node.condition, width)
            found = _join_keys(node, upsert_keys(node.left), upsert_keys(node.right))
            return frozenset(key for key in found if all(left in key or right + width in key for left, right in pairs))
    return frozenset()


def smallest_key(node: Node) -> tuple[int, ...] | None:
    """Return the columns that rows of a node may be replaced by, as few as possible; None if there are none."""
    keys = upsert_keys(node)
    return min((tuple(sorted(key)) for key in keys), key=lambda key: (len(key), key), default=None)
