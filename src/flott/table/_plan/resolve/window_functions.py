"""Window table functions: TUMBLE, HOP, CUMULATE and SESSION over a table or a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flott.table._expressions.expression import InputRef
from flott.table._plan import logical
from flott.table._plan.logical import Window, WindowKind
from flott.table._plan.resolve.expressions import ExpressionResolver
from flott.table._plan.resolve.group_windows import WINDOW_FUNCTIONS, check_lengths, interval_ms
from flott.table._plan.resolve.scope import Scope, scope_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, nearest
from flott.table._types.logical import is_proctime, is_time_attribute

if TYPE_CHECKING:
    from flott.table._plan.resolve.queries import QueryResolver

#: The names of the arguments, in order; those in brackets may be left out.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "[OFFSET]"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "[OFFSET]"),
    "CUMULATE": ("DATA", "TIMECOL", "STEP", "SIZE", "[OFFSET]"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
}


def resolve_window_function(queries: QueryResolver, node: sql.SqlFunctionCall, inside: Scope) -> logical.Node:
    """Return the plan of a window function in FROM."""
    name = node.name[-1].upper()
    if len(node.name) > 1 or name not in WINDOW_FUNCTIONS:
        known = [*WINDOW_FUNCTIONS, *queries.environment.function_names()]
        raise SqlError(
            f"Table function {'.'.join(node.name)!r} is not known.{nearest(node.name[-1], known)}", node.position
        )
    given = _arguments(name, node)
    plan, partition = _input(queries, given["DATA"], name, inside)
    scope = scope_of(plan)
    time = _time(given["TIMECOL"], plan, scope, name)
    resolver = ExpressionResolver(queries, Scope(), name)
    size = interval_ms(resolver, given["GAP" if name == "SESSION" else "SIZE"], name)
    slide = next((interval_ms(resolver, given[key], name) for key in ("SLIDE", "STEP") if key in given), 0)
    offset = interval_ms(resolver, given["OFFSET"], name, least=-(2**62)) if "OFFSET" in given else 0
    kind = WindowKind(name)
    check_lengths(kind, size, slide, node.position)
    keys = []
    for expression in partition:
        key = ExpressionResolver(queries, scope, "PARTITION BY").resolve(expression)
        if not isinstance(key, InputRef):
            raise SqlError(f"PARTITION BY of {name} takes columns only", expression.position)
        keys.append(key.index)
    proctime = is_proctime(plan.schema.types[time])
    return logical.WindowTable(plan, Window(kind, time, size, slide, offset, tuple(keys), proctime))


def _arguments(name: str, node: sql.SqlFunctionCall) -> dict[str, sql.SqlNode]:
    expected = _ARGUMENTS[name]
    known = [one.strip("[]") for one in expected]
    given: dict[str, sql.SqlNode] = {}
    for position, argument in enumerate(node.arguments):
        if isinstance(argument, sql.SqlNamedArgument):
            key, value = argument.name.upper(), argument.value
            if key not in known:
                raise SqlError(f"{name} has no argument {argument.name!r}.{nearest(key, known)}", argument.position)
        elif position < len(known):
            key, value = known[position], argument
        else:
            raise SqlError(f"{name} takes {', '.join(expected)}; found {len(node.arguments)} arguments", node.position)
        if key in given:
            raise SqlError(f"The argument {key} of {name} is given twice", argument.position)
        if not isinstance(value, sql.SqlDefaultArgument):
            given[key] = value
    missing = [one for one in expected if not one.startswith("[") and one not in given]
    if missing:
        raise SqlError(f"{name} takes {', '.join(expected)}; {missing[0]} is missing", node.position)
    return given


def _input(
    queries: QueryResolver, node: sql.SqlNode, name: str, inside: Scope
) -> tuple[logical.Node, tuple[sql.SqlExpression, ...]]:
    from flott.table._plan.resolve.relations import resolve_relation

    match node:
        case sql.SqlTableArgument():
            if node.partition_by and name != "SESSION":
                raise SqlError(f"{name} takes no PARTITION BY; group by the columns instead", node.position)
            plan, _ = resolve_relation(queries, node.relation, inside)
            return plan, node.partition_by
        case sql.SqlScalarQuery():
            return queries.query(node.query, inside.parent), ()
        case sql.SqlColumnReference():
            from flott.table._plan.resolve.relations import table_named

            return table_named(queries, node.parts, (), node.position), ()
    raise SqlError(f"The first argument of {name} must be TABLE t or a query", node.position)


def _time(node: sql.SqlNode, plan: logical.Node, scope: Scope, name: str) -> int:
    if not isinstance(node, sql.SqlDescriptor) or len(node.columns) != 1:
        raise SqlError(f"The time column of {name} is written DESCRIPTOR(column)", node.position)
    column = scope.find((node.columns[0].name,), node.columns[0].position or node.position)
    assert isinstance(column, InputRef)
    if not is_time_attribute(column.type):
        raise SqlError(
            f"{name} needs a time attribute: {node.columns[0].name!r} is {column.type}. "
            "Declare WATERMARK FOR it, or use a column AS PROCTIME()",
            node.position,
        )
    return column.index
