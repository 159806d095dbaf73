"""Window aggregations, found by their keys: a grouping by the bounds of a window table function."""

from __future__ import annotations

from dataclasses import replace

from flott.table._expressions.expression import Expression, InputRef, columns_of
from flott.table._plan.logical import Aggregate, Node, Project, WindowTable
from flott.table._plan.window_aggregates import windowed_aggregate


def lift_windows(node: Node) -> Node:
    """Return Project(WindowTable(x)) with everything that is computed below the window.

    Then what groups by the window finds it at once, and rows are computed once and not for each of their windows.
    """
    if not (isinstance(node, Project) and isinstance(node.input, WindowTable)):
        return node
    table = node.input
    width = len(table.input.schema)
    computed = [i for i, one in enumerate(node.expressions) if not _is_window_column(one, width)]
    if all(isinstance(node.expressions[i], InputRef) for i in computed):
        return node
    if any(index >= width for i in computed for index in columns_of(node.expressions[i])):
        return node
    # Below: what is computed, then the columns that the window itself reads.
    expressions: list[Expression] = [node.expressions[i] for i in computed]
    names = [node.names[i] for i in computed]
    places: dict[int, int] = {}
    for column in (table.window.time, *table.window.partition):
        ref = InputRef(table.input.schema.types[column], column)
        if ref not in expressions:
            expressions.append(ref)
            names.append(table.input.schema.names[column])
        places[column] = expressions.index(ref)
    below = Project(table.input, tuple(expressions), tuple(names))
    window = replace(
        table.window,
        time=places[table.window.time],
        partition=tuple(places[column] for column in table.window.partition),
    )
    lifted = WindowTable(below, window)
    above: list[Expression] = []
    for i, one in enumerate(node.expressions):
        if i in computed:
            above.append(InputRef(one.type, computed.index(i)))
        else:
            assert isinstance(one, InputRef)
            above.append(InputRef(one.type, len(expressions) + one.index - width))
    return Project(lifted, tuple(above), node.names)


def _is_window_column(expression: Expression, width: int) -> bool:
    return isinstance(expression, InputRef) and expression.index >= width


def find_window_aggregates(node: Node) -> Node:
    """Return an aggregation by both bounds of a window as a window aggregation.

    GROUP BY was resolved so already. This finds DISTINCT, set operations, subqueries, and joins whose condition came
    from WHERE.
    """
    return windowed_aggregate(node) if isinstance(node, Aggregate) else node
