"""What the Table API writes for columns: ranges, exclusions, window properties, and the items of a SELECT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from flott.errors import ProgramError
from flott.table._sql import nodes as ast
from flott.table._sql.errors import nearest
from flott.table._sql.print_expressions import print_type
from flott.table.expression import Expression

Names = Callable[[], Sequence[str]]


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a node with each node in it changed, the inner ones first. Queries in it stay."""
    if isinstance(node, tuple):
        return tuple(rewritten(part, change) for part in node)
    if not isinstance(node, ast.SqlNode) or isinstance(node, ast.SqlQuery):
        return node
    changed = {
        field.name: new
        for field in fields(node)
        if (new := rewritten(old := getattr(node, field.name), change)) is not old and new != old
    }
    return change(replace(node, **changed) if changed else node)


def select_items(expressions: Sequence[Any], names: Names, first: int = 0) -> tuple[ast.SqlSelectItem, ...]:
    """Return the items of a SELECT with Flink's names for those that have none.

    ``names`` tells the columns of the table, for ranges of them; ``first`` is the position of the first item.
    """
    found: list[ast.SqlSelectItem] = []
    given = [as_expression(expression) for expression in expressions]
    aggregates = 0
    properties = sum(is_aggregate(one.node) for one in given)
    for one in given:
        if _is_marker(one.node, "WITH_COLUMNS", "WITHOUT_COLUMNS", "RANGE"):
            found += [ast.SqlSelectItem(ast.SqlColumnReference((name,))) for name in chosen(one.node, names())]
            continue
        if len(one.aliases) > 1:
            raise ProgramError(f"{one} has {len(one.aliases)} names, expected one")
        name: str | None = _default_name(one.node, first + len(found))
        if is_aggregate(one.node):
            name, aggregates = f"EXPR${aggregates}", aggregates + 1
        elif _is_marker(one.node, "START", "END", "ROWTIME", "PROCTIME"):
            name, properties = f"EXPR${properties}", properties + 1
        found.append(ast.SqlSelectItem(one.node, one.aliases[0] if one.aliases else name))
    return tuple(found)


_AGGREGATES = {
    *("SUM", "COUNT", "AVG", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "STDDEV_POP", "STDDEV_SAMP"),
    *("VAR_POP", "VAR_SAMP", "COLLECT", "ARRAY_AGG", "PERCENTILE", "JSON_OBJECTAGG", "JSON_ARRAYAGG"),
}


def is_aggregate(node: ast.SqlExpression) -> bool:
    """Return whether an expression is the aggregate of a group itself."""
    if not isinstance(node, ast.SqlFunctionCall) or node.over is not None:
        return False
    return node.name[-1].upper() in _AGGREGATES or getattr(node.function, "kind", "") == "aggregate"


def _default_name(node: ast.SqlExpression, position: int) -> str | None:
    """Return the name of a column that the program does not name: ``_c0``, ``a-INT`` of a cast, ``a$b`` of a field."""
    match node:
        case ast.SqlColumnReference() | ast.SqlStar() | ast.SqlFlatten():
            return None
        case ast.SqlCast(operand=ast.SqlColumnReference(parts=parts), type=ast.SqlTypeName() as of):
            return f"{parts[-1]}-{print_type(of)}"
        case ast.SqlFieldAccess(operand=ast.SqlColumnReference(parts=parts), name=field):
            return f"{parts[-1]}$_{field}" if isinstance(field, int) else f"{parts[-1]}${field}"
    return f"_c{position}"


def as_expression(value: Any) -> Expression[Any]:
    """Return an expression that a method of Table was given."""
    if isinstance(value, Expression):
        return value
    raise ProgramError(f"Found {value!r}, expected an expression such as col('a')")


def expanded(node: ast.SqlExpression, names: Names) -> tuple[ast.SqlExpression, ...]:
    """Return the columns that an argument such as ``with_columns`` or ``*`` means, or the argument itself."""
    if isinstance(node, ast.SqlStar):
        return tuple(ast.SqlColumnReference((name,)) for name in names())
    if _is_marker(node, "WITH_COLUMNS", "WITHOUT_COLUMNS", "RANGE"):
        return tuple(ast.SqlColumnReference((name,)) for name in chosen(node, names()))
    return (node,)


def _is_marker(node: ast.SqlExpression, *markers: str) -> bool:
    return isinstance(node, ast.SqlFunctionCall) and node.name[0] in [f"${marker}" for marker in markers]


def chosen(node: ast.SqlExpression, names: Sequence[str]) -> list[str]:
    """Return the names of the columns that ``with_columns``, ``without_columns`` or ``range_`` mean."""
    match node:
        case ast.SqlColumnReference():
            return [_known(node.parts[-1], names)]
        case ast.SqlStar():
            return list(names)
        case ast.SqlNumberLiteral():
            return [_at(int(node.text), names)]
        case ast.SqlFunctionCall(name=("$WITH_COLUMNS",)):
            return [name for argument in node.arguments for name in chosen(argument, names)]
        case ast.SqlFunctionCall(name=("$WITHOUT_COLUMNS",)):
            left_out = {name for argument in node.arguments for name in chosen(argument, names)}
            return [name for name in names if name not in left_out]
        case ast.SqlFunctionCall(name=("$RANGE",)):
            first, last = (names.index(chosen(argument, names)[0]) for argument in node.arguments)
            if first > last:
                raise ProgramError(f"The range begins with {names[first]!r} after its end {names[last]!r}")
            return list(names[first : last + 1])
    raise ProgramError(f"Found {Expression(node)}, expected columns: names, positions or range_()")


def _known(name: str, names: Sequence[str]) -> str:
    if name not in names:
        raise ProgramError(f"There is no column {name!r}; the table has {', '.join(names)}.{nearest(name, names)}")
    return name


def _at(position: int, names: Sequence[str]) -> str:
    if not 1 <= position <= len(names):
        raise ProgramError(f"There is no column {position}, expected 1 to {len(names)}")
    return names[position - 1]
