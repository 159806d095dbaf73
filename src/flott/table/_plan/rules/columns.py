"""Columns that nothing reads: pruned from every node down to the sources."""

from __future__ import annotations

from dataclasses import replace

from flott.table._expressions.expression import InputRef, columns_of, remapped
from flott.table._plan.logical import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    JoinKind,
    Node,
    OverAggregate,
    Project,
    Rank,
    Scan,
    SinkNode,
    Sort,
    Union,
    Values,
    WatermarkAssigner,
    WindowTable,
)

Wanted = frozenset[int]


def prune_columns(root: Node) -> Node:
    """Return a plan in which no node computes or carries a column that nothing above reads."""
    return _exactly(root, tuple(range(len(root.schema)))) if not isinstance(root, SinkNode) else _sink(root)


def _sink(root: SinkNode) -> Node:
    return replace(root, input=_exactly(root.input, tuple(range(len(root.input.schema)))))


def _exactly(node: Node, order: tuple[int, ...]) -> Node:
    """Return a node that gives some columns in an order."""
    pruned, places = _pruned(node, frozenset(order))
    wanted = tuple(places[i] for i in order)
    if wanted == tuple(range(len(pruned.schema))):
        return pruned
    schema = pruned.schema
    refs = tuple(InputRef(schema.types[i], i) for i in wanted)
    return Project(pruned, refs, tuple(schema.names[i] for i in wanted))


def _pruned(node: Node, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    """Return a node with at least the wanted columns, and where each of them stands now."""
    match node:
        case Project() if not node.expressions:  # rows are counted, and a batch without columns has no rows
            return _pruned(node.input, frozenset({0}))
        case Project():
            kept = [i for i in range(len(node.expressions)) if i in wanted] or [0]
            inner, places = _pruned(node.input, columns_of(*(node.expressions[i] for i in kept)))
            expressions = tuple(remapped(node.expressions[i], places) for i in kept)
            return Project(inner, expressions, tuple(node.names[i] for i in kept)), _places(kept)
        case Filter():
            inner, places = _pruned(node.input, wanted | columns_of(node.condition))
            return Filter(inner, remapped(node.condition, places)), places
        case Scan():
            return _scan(node, wanted)
        case Values():
            kept = sorted(wanted) or [0][: len(node.columns)]  # rows need a column to be counted by
            rows = tuple(tuple(row[i] for i in kept) for row in node.rows)
            return Values(node.columns.pick(tuple(kept)), rows), _places(kept)
        case WatermarkAssigner():
            inner, places = _pruned(node.input, wanted | {node.rowtime} | columns_of(node.watermark))
            watermark = remapped(node.watermark, places)
            return WatermarkAssigner(inner, places[node.rowtime], watermark), places
        case Aggregate():
            return _aggregate(node, wanted)
        case Join():
            return _join(node, wanted)
        case WindowTable():
            return _window(node, wanted)
        case Sort():
            inner, places = _pruned(node.input, wanted | {key.column for key in node.keys})
            keys = tuple(replace(key, column=places[key.column]) for key in node.keys)
            return replace(node, input=inner, keys=keys), places
        case Rank():
            return _rank(node, wanted)
        case OverAggregate():
            return _over(node, wanted)
        case Correlate():
            return _correlate(node, wanted)
        case Union():
            kept = sorted(wanted) or [0]
            branches = tuple(_exactly(branch, tuple(kept)) for branch in node.branches)
            return Union(branches), _places(kept)
    # What is not known here keeps all of its columns.
    whole = tuple(_exactly(one, tuple(range(len(one.schema)))) for one in node.inputs)
    return (node.with_inputs(whole) if whole else node), {i: i for i in range(len(node.schema))}


def _places(kept: list[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(kept)}


def _scan(node: Scan, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    if not node.source.can_project:
        return node, {i: i for i in range(len(node.schema))}
    wanted = wanted | columns_of(*node.source.filters)
    kept = sorted(wanted) or [0]  # a count needs rows, so one column
    if len(kept) == len(node.schema):
        return node, {i: i for i in range(len(node.schema))}
    places = _places(kept)
    source = node.source.projected(tuple(node.source.names[i] for i in kept))
    source = replace(source, filters=tuple(remapped(one, places) for one in node.source.filters))
    return replace(node, source=source), places


def _aggregate(node: Aggregate, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.keys)
    calls = [i for i in range(len(node.calls)) if width + i in wanted]
    if not node.keys and not calls:
        calls = [0] if node.calls else []
    used = set(node.keys)
    for i in calls:
        used |= node.calls[i].columns
    inner, places = _pruned(node.input, frozenset(used))
    moved = tuple(node.calls[i].moved(places) for i in calls)
    kept = list(range(width)) + [width + i for i in calls]
    return replace(node, input=inner, keys=tuple(places[k] for k in node.keys), calls=moved), _places(kept)


def _join(node: Join, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.left.schema)
    used = wanted | columns_of(node.condition)
    left, left_places = _pruned(node.left, frozenset(i for i in used if i < width))
    right, right_places = _pruned(node.right, frozenset(i - width for i in used if i >= width))
    places = dict(left_places)
    places.update({width + old: len(left.schema) + new for old, new in right_places.items()})
    condition = None if node.condition is None else remapped(node.condition, places)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return replace(node, left=left, right=right, condition=condition), left_places
    return replace(node, left=left, right=right, condition=condition), places


def _window(node: WindowTable, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.input.schema)
    window = node.window
    inner, places = _pruned(node.input, frozenset(i for i in wanted if i < width) | {window.time, *window.partition})
    moved = replace(window, time=places[window.time], partition=tuple(places[i] for i in window.partition))
    now = dict(places)
    now.update({width + i: len(inner.schema) + i for i in range(3)})
    return WindowTable(inner, moved), now


def _rank(node: Rank, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.input.schema)
    used = frozenset(i for i in wanted if i < width) | {*node.partition, *(key.column for key in node.order)}
    if node.window is not None:
        used |= set(node.window)
    inner, places = _pruned(node.input, used)
    ranked = replace(
        node,
        input=inner,
        partition=tuple(places[i] for i in node.partition),
        order=tuple(replace(key, column=places[key.column]) for key in node.order),
        rank_name=node.rank_name if width in wanted else None,
        window=None if node.window is None else (places[node.window[0]], places[node.window[1]]),
    )
    return ranked, {**places, width: len(inner.schema)}


def _over(node: OverAggregate, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.input.schema)
    used = {i for i in wanted if i < width} | {*node.partition, *(key.column for key in node.order)}
    for call in node.calls:
        used |= call.columns
    inner, places = _pruned(node.input, frozenset(used))
    over = replace(
        node,
        input=inner,
        partition=tuple(places[i] for i in node.partition),
        order=tuple(replace(key, column=places[key.column]) for key in node.order),
        calls=tuple(call.moved(places) for call in node.calls),
    )
    return over, {**places, **{width + i: len(inner.schema) + i for i in range(len(node.calls))}}


def _correlate(node: Correlate, wanted: Wanted) -> tuple[Node, dict[int, int]]:
    width = len(node.input.schema)
    used = columns_of(node.call) | {i for i in wanted | columns_of(node.condition) if i < width}
    inner, places = _pruned(node.input, frozenset(used))
    now = {**places, **{width + i: len(inner.schema) + i for i in range(len(node.columns))}}
    condition = None if node.condition is None else remapped(node.condition, now)
    return replace(node, input=inner, call=remapped(node.call, places), condition=condition), now
