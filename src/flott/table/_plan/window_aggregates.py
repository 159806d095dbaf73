"""Turns GROUP BY window_start, window_end into a window aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flott.table._expressions.expression import Expression, columns_of, remapped
from flott.table._plan import logical
from flott.table._plan.resolve.scope import references
from flott.table._plan.window_columns import window_columns_of


def windowed_aggregate(plan: logical.Aggregate) -> logical.Node:
    """Return a window aggregation if the keys contain both bounds of a window, with the columns in the same order."""
    found = window_columns_of(plan.input)
    if found is None:
        return plan
    bounds = found.bounds_among(plan.keys)
    if bounds is None:
        return plan
    asked: dict[int, str] = {}
    for key in plan.keys:
        name = "start" if key in found.start else "end" if key in found.end else "rowtime" if key in found.time else ""
        if name:
            asked[key] = name
    properties = tuple(dict.fromkeys(("start", "end", *asked.values())))
    keys = tuple(key for key in plan.keys if key not in asked)
    merged = _merged(plan.input, _needed(plan, keys))
    names = tuple(f"window_{'time' if name == 'rowtime' else name}" for name in properties)
    if merged is not None and _assigns_as_before(merged[2], {merged[1][key] for key in keys}):
        below, positions, window = merged
        windowed = logical.WindowAggregate(
            below,
            tuple(positions[key] for key in keys),
            tuple(call.moved(positions) for call in plan.calls),
            window,
            properties,
            names,
            time_type=found.time_type,
        )
    else:
        windowed = logical.WindowAggregate(
            plan.input, keys, plan.calls, None, properties, names, attached=bounds, time_type=found.time_type
        )
    return _in_order(windowed, plan, keys, asked)


def _assigns_as_before(window: logical.Window, keys: set[int]) -> bool:
    """Return whether an aggregation by keys assigns the windows of the table function: it merges sessions by key."""
    return window.kind is not logical.WindowKind.SESSION or set(window.partition) == keys


def _in_order(
    windowed: logical.WindowAggregate, plan: logical.Aggregate, keys: Sequence[int], asked: dict[int, str]
) -> logical.Node:
    own = references(windowed.schema)
    first = len(keys) + len(plan.calls)
    of_keys = {key: own[i] for i, key in enumerate(keys)}
    of_names = {name: own[first + i] for i, name in enumerate(windowed.properties)}
    expressions = [of_names[asked[key]] if key in asked else of_keys[key] for key in plan.keys]
    return logical.Project(windowed, (*expressions, *own[len(keys) : first]), plan.schema.names)


def _needed(plan: logical.Aggregate, keys: Sequence[int]) -> frozenset[int]:
    used = set(keys)
    for one in plan.calls:
        used.update(one.arguments)
        used.update(key.column for key in one.order)
        if one.filter is not None:
            used.add(one.filter)
    return frozenset(used)


def _merged(plan: logical.Node, needed: frozenset[int]) -> tuple[logical.Node, dict[int, int], logical.Window] | None:
    """Return the plan without its window table function, the new positions of needed columns, and the window.

    None: something between reads the window's columns, so rows must be assigned to windows before.
    """
    match plan:
        case logical.WindowTable():
            width = len(plan.input.schema)
            if any(column >= width for column in needed):
                return None
            return plan.input, {i: i for i in range(width)}, plan.window
        case logical.Filter():
            inner = _merged(plan.input, needed | columns_of(plan.condition))
            if inner is None:
                return None
            below, positions, window = inner
            return logical.Filter(below, remapped(plan.condition, positions)), positions, window
        case logical.Project():
            return _merged_projection(plan, needed)
        case logical.Expand():
            return _merged_expansion(plan, needed)
    return None


def _merged_expansion(
    plan: logical.Expand, needed: frozenset[int]
) -> tuple[logical.Node, dict[int, int], logical.Window] | None:
    """Return an expansion below which no window is assigned: every set contains the window's columns."""
    found, number = window_columns_of(plan.input), len(plan.input.schema)
    if found is None:
        return None
    of_window = found.start | found.end | found.time
    keys = tuple(key for key in plan.keys if key not in of_window)
    inner = _merged(plan.input, (needed - {number}) | frozenset(keys))
    if inner is None:
        return None
    below, positions, window = inner
    sets = tuple(tuple(positions[key] for key in one if key not in of_window) for one in plan.sets)
    above = logical.Expand(below, tuple(positions[key] for key in keys), sets, plan.id_name)
    return above, {**positions, number: len(below.schema)}, window


def _merged_projection(
    plan: logical.Project, needed: frozenset[int]
) -> tuple[logical.Node, dict[int, int], logical.Window] | None:
    chosen = sorted(needed)
    inner = _merged(plan.input, columns_of(*(plan.expressions[i] for i in chosen)))
    if inner is None:
        return None
    below, positions, window = inner
    expressions: list[Expression] = [remapped(plan.expressions[i], positions) for i in chosen]
    names = [plan.names[i] for i in chosen]
    kept = references(below.schema)

    def place(column: int) -> int:
        if kept[column] not in expressions:
            expressions.append(kept[column])
            names.append(below.schema.names[column] if below.schema.names[column] not in names else f"$t{len(names)}")
        return expressions.index(kept[column])

    window = replace(window, time=place(window.time), partition=tuple(place(one) for one in window.partition))
    return logical.Project(below, tuple(expressions), tuple(names)), {c: i for i, c in enumerate(chosen)}, window
