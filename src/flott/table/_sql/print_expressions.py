"""Prints expressions and types as SQL. Operands that are operators themselves stand in parentheses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flott.table._sql.keywords import NILADIC, RESERVED
from flott.table._sql.nodes import expressions as ast
from flott.table._sql.nodes.base import SqlNode, SqlTypeName

_ATOMIC = (
    ast.SqlNumberLiteral,
    ast.SqlStringLiteral,
    ast.SqlBinaryLiteral,
    ast.SqlBooleanLiteral,
    ast.SqlNullLiteral,
    ast.SqlTemporalLiteral,
    ast.SqlIntervalLiteral,
    ast.SqlValueLiteral,
    ast.SqlColumnReference,
    ast.SqlStar,
    ast.SqlFunctionCall,
    ast.SqlCast,
    ast.SqlCase,
    ast.SqlScalarQuery,
    ast.SqlRowConstructor,
    ast.SqlArrayConstructor,
    ast.SqlMapConstructor,
    ast.SqlMultisetConstructor,
    ast.SqlItemAccess,
    ast.SqlFieldAccess,
)
_PLAIN_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")


def quote_text(text: str) -> str:
    """Return a text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name, in backquotes if it needs them."""
    if name and set(name) <= _PLAIN_NAME and not name[0].isdigit() and name.upper() not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def print_name(parts: Iterable[str]) -> str:
    """Return a name of several parts."""
    return ".".join(quote_name(part) for part in parts)


def print_type(type_name: SqlTypeName) -> str:
    """Return a type as SQL."""
    text = _print_plain_type(type_name)
    return text if type_name.nullable else f"{text} NOT NULL"


def _print_plain_type(of: SqlTypeName) -> str:
    match of.name:
        case "ROW":
            fields = ", ".join(_print_field(field.name, field.type, field.description) for field in of.fields)
            return f"ROW<{fields}>"
        case "STRUCTURED":
            fields = "".join(f", {_print_field(field.name, field.type, field.description)}" for field in of.fields)
            return f"STRUCTURED<{quote_text(of.texts[0])}{fields}>"
        case "RAW":
            return f"RAW({', '.join(map(quote_text, of.texts))})"
        case "INTERVAL":
            digits = [f"({number})" for number in of.parameters] + ["", ""]
            return f"INTERVAL {' TO '.join(unit + digit for unit, digit in zip(of.interval, digits, strict=False))}"
        case "ARRAY" | "MAP" | "MULTISET":
            return f"{of.name}<{', '.join(map(print_type, of.elements))}>"
    numbers = f"({', '.join(map(str, of.parameters))})" if of.parameters else ""
    name = of.name if of.name.upper() == of.name and "." not in of.name else print_name(of.name.split("."))
    return name + numbers


def _print_field(name: str, type_name: SqlTypeName, description: str | None) -> str:
    comment = "" if description is None else f" {quote_text(description)}"
    return f"{quote_name(name)} {print_type(type_name)}{comment}"


def print_expression(node: SqlNode) -> str:
    """Return an expression as SQL."""
    return _PRINTERS[type(node)](node)


def operand(node: ast.SqlExpression) -> str:
    """Return an operand of an operator, in parentheses if it is an operator itself."""
    text = print_expression(node)
    return text if isinstance(node, _ATOMIC) else f"({text})"


def commas(nodes: Iterable[SqlNode]) -> str:
    """Return expressions with commas between them."""
    return ", ".join(print_expression(node) for node in nodes)


def _query(node: SqlNode) -> str:
    from flott.table._sql.print_queries import print_query

    return print_query(node)


def _relation(node: SqlNode) -> str:
    from flott.table._sql.print_queries import print_relation

    return print_relation(node)


def print_qualifier(qualifier: ast.SqlIntervalQualifier) -> str:
    """Return the units of an interval."""
    text = qualifier.start
    if qualifier.precision is not None:
        second = f", {qualifier.fraction}" if qualifier.fraction is not None and qualifier.end is None else ""
        text += f"({qualifier.precision}{second})"
    if qualifier.end is not None:
        text += f" TO {qualifier.end}" + (f"({qualifier.fraction})" if qualifier.fraction is not None else "")
    return text


def _unary(node: ast.SqlUnaryOperation) -> str:
    if node.operator in ("NOT", "-", "+", "FINAL", "RUNNING"):
        return f"{node.operator} {operand(node.operand)}"
    return f"{operand(node.operand)} {node.operator}"


def _negation(node: Any) -> str:
    return "NOT " if node.negated else ""


def _between(node: ast.SqlBetween) -> str:
    mode = "SYMMETRIC " if node.symmetric else ""
    bounds = f"{mode}{operand(node.low)} AND {operand(node.high)}"
    return f"{operand(node.operand)} {_negation(node)}BETWEEN {bounds}"


def _like(node: ast.SqlLike) -> str:
    escape = "" if node.escape is None else f" ESCAPE {operand(node.escape)}"
    return f"{operand(node.operand)} {_negation(node)}{node.operator} {operand(node.pattern)}{escape}"


def _case(node: ast.SqlCase) -> str:
    first = "" if node.operand is None else f" {print_expression(node.operand)}"
    branches = "".join(
        f" WHEN {print_expression(when.condition)} THEN {print_expression(when.result)}" for when in node.branches
    )
    otherwise = "" if node.otherwise is None else f" ELSE {print_expression(node.otherwise)}"
    return f"CASE{first}{branches}{otherwise} END"


def print_order(item: ast.SqlOrderItem) -> str:
    """Return an item of ORDER BY."""
    direction = " DESC" if item.descending else ""
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[item.nulls_first]
    return f"{print_expression(item.expression)}{direction}{nulls}"


def print_window(window: ast.SqlWindowSpecification | ast.SqlWindowName) -> str:
    """Return a window of OVER."""
    if isinstance(window, ast.SqlWindowName):
        return quote_name(window.name)
    parts = [] if window.base is None else [quote_name(window.base)]
    if window.partition_by:
        parts.append(f"PARTITION BY {commas(window.partition_by)}")
    if window.order_by:
        parts.append(f"ORDER BY {', '.join(map(print_order, window.order_by))}")
    if window.frame is not None:
        parts.append(_frame(window.frame))
    return f"({' '.join(parts)})"


def _frame(frame: ast.SqlFrame) -> str:
    start = _bound(frame.start)
    return f"{frame.mode} {start}" if frame.end is None else f"{frame.mode} BETWEEN {start} AND {_bound(frame.end)}"


def _bound(bound: ast.SqlFrameBound) -> str:
    return bound.kind if bound.offset is None else f"{operand(bound.offset)} {bound.kind}"


def _call(node: ast.SqlFunctionCall) -> str:
    name = node.name[0].upper() if len(node.name) == 1 else ""
    if name in NILADIC and node.name[0] == name:
        return f"{name}({commas(node.arguments)})" if node.arguments else name
    special = _SPECIAL_CALLS.get(name) if node.name[0] == name else None
    if special is not None:
        inner = special(node)
    else:
        inner = ("DISTINCT " if node.distinct else "") + commas(node.arguments)
    if node.order_by:
        inner += f" ORDER BY {', '.join(map(print_order, node.order_by))}"
    inner += "".join(f" {_option(option)}" for option in node.options)
    shown = name if special is not None else _function_name(node.name)
    text = f"{shown}({inner.strip()})"
    if node.nulls is not None:
        text += f" {node.nulls} NULLS"
    if node.within_group:
        text += f" WITHIN GROUP (ORDER BY {', '.join(map(print_order, node.within_group))})"
    if node.filter is not None:
        text += f" FILTER (WHERE {print_expression(node.filter)})"
    if node.over is not None:
        text += f" OVER {print_window(node.over)}"
    return text


def _function_name(parts: tuple[str, ...]) -> str:
    """Return the name of a function, which may be a reserved word such as COUNT without quotes."""
    if len(parts) == 1 and parts[0].upper() in RESERVED and set(parts[0]) <= _PLAIN_NAME:
        return parts[0] if parts[0].upper() not in _NOT_CALLED else quote_name(parts[0])
    return print_name(parts)


#: Reserved words that mean something else when a parenthesis follows.
_NOT_CALLED = NILADIC | {
    *("CAST", "TRY_CAST", "CASE", "NOT", "EXISTS", "ARRAY", "MAP", "MULTISET", "ROW", "INTERVAL"),
    *("NULL", "TRUE", "FALSE", "UNKNOWN", "EXTRACT", "CEIL", "CEILING", "FLOOR", "POSITION", "TRIM", "SUBSTRING"),
    "OVERLAY",
    *("JSON_EXISTS", "JSON_VALUE", "JSON_QUERY", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG"),
}


def _option(option: ast.SqlCallOption) -> str:
    match option.clause:
        case "RETURNING":
            return f"RETURNING {print_type(option.value)}" if isinstance(option.value, SqlTypeName) else ""
        case "WRAPPER":
            return f"{option.keyword} WRAPPER"
    default = f" {print_expression(option.value)}" if option.value is not None else ""
    return f"{option.keyword}{default} {option.clause}"


def _trim(node: ast.SqlFunctionCall) -> str:
    side, characters, text = (print_expression(argument) for argument in node.arguments)
    return f"{side} {characters} FROM {text}"


def _position(node: ast.SqlFunctionCall) -> str:
    start = f" FROM {print_expression(node.arguments[2])}" if len(node.arguments) > 2 else ""
    return f"{operand(node.arguments[0])} IN {print_expression(node.arguments[1])}{start}"


def _entries(node: ast.SqlFunctionCall) -> str:
    pairs = zip(node.arguments[::2], node.arguments[1::2], strict=True)
    return ", ".join(f"KEY {print_expression(key)} VALUE {print_expression(value)}" for key, value in pairs)


def _round_to_unit(node: ast.SqlFunctionCall) -> str:
    if len(node.arguments) == 2 and isinstance(node.arguments[1], ast.SqlSymbol):
        return f"{print_expression(node.arguments[0])} TO {print_expression(node.arguments[1])}"
    return commas(node.arguments)


_SPECIAL_CALLS: dict[str, Callable[[ast.SqlFunctionCall], str]] = {
    "EXTRACT": lambda node: " FROM ".join(map(print_expression, node.arguments)),
    "TRIM": _trim,
    "POSITION": _position,
    "JSON_OBJECT": _entries,
    "JSON_OBJECTAGG": _entries,
    **dict.fromkeys(("CEIL", "FLOOR"), _round_to_unit),
    **dict.fromkeys(
        ("SUBSTRING", "OVERLAY", "JSON_EXISTS", "JSON_VALUE", "JSON_QUERY", "JSON_ARRAY", "JSON_ARRAYAGG"),
        lambda node: commas(node.arguments),
    ),
}


def _table_argument(node: ast.SqlTableArgument) -> str:
    text = f"TABLE {_relation(node.relation)}"
    if node.partition_by:
        text += f" PARTITION BY ({commas(node.partition_by)})"
    if node.order_by:
        text += f" ORDER BY ({', '.join(map(print_order, node.order_by))})"
    return text


def _descriptor(node: ast.SqlDescriptor) -> str:
    columns = (
        quote_name(column.name) + ("" if column.type is None else f" {print_type(column.type)}")
        for column in node.columns
    )
    return f"DESCRIPTOR({', '.join(columns)})"


def _star(node: ast.SqlStar) -> str:
    return f"{print_name(node.qualifier)}.*" if node.qualifier else "*"


def _interval(node: ast.SqlIntervalLiteral) -> str:
    return f"INTERVAL {'-' if node.negative else ''}{quote_text(node.text)} {print_qualifier(node.qualifier)}"


def _cast(node: ast.SqlCast) -> str:
    shown = print_type(node.type) if isinstance(node.type, SqlTypeName) else str(node.type)
    return f"{'TRY_CAST' if node.safe else 'CAST'}({print_expression(node.operand)} AS {shown})"


def _field(node: ast.SqlFieldAccess) -> str:
    inner = print_expression(node.operand)
    inner = inner if isinstance(node.operand, ast.SqlItemAccess | ast.SqlFunctionCall) else f"({inner})"
    return f"{inner}.{quote_name(str(node.name))}"


def _in_parentheses(text: str) -> str:
    return f"({text})"


_PRINTERS: dict[type, Callable[[Any], str]] = {
    ast.SqlNumberLiteral: lambda node: str(node.text),
    ast.SqlStringLiteral: lambda node: quote_text(node.value),
    ast.SqlBinaryLiteral: lambda node: f"X'{node.value.hex().upper()}'",
    ast.SqlBooleanLiteral: lambda node: {True: "TRUE", False: "FALSE", None: "UNKNOWN"}[node.value],
    ast.SqlNullLiteral: lambda node: "NULL",
    ast.SqlTemporalLiteral: lambda node: f"{node.kind} {quote_text(node.text)}",
    ast.SqlIntervalLiteral: _interval,
    ast.SqlIntervalValue: lambda node: f"INTERVAL ({print_expression(node.operand)}) {print_qualifier(node.qualifier)}",
    ast.SqlValueLiteral: lambda node: quote_text(node.value) if isinstance(node.value, str) else str(node.value),
    ast.SqlSymbol: lambda node: str(node.name),
    ast.SqlColumnReference: lambda node: print_name(node.parts),
    ast.SqlStar: _star,
    ast.SqlFieldAccess: _field,
    ast.SqlItemAccess: lambda node: f"{operand(node.operand)}[{print_expression(node.index)}]",
    ast.SqlFlatten: lambda node: f"({print_expression(node.operand)}).*",
    ast.SqlUnaryOperation: _unary,
    ast.SqlBinaryOperation: lambda node: f"{operand(node.left)} {node.operator} {operand(node.right)}",
    ast.SqlBetween: _between,
    ast.SqlLike: _like,
    ast.SqlInList: lambda node: f"{operand(node.operand)} {_negation(node)}IN ({commas(node.values)})",
    ast.SqlInQuery: lambda node: f"{operand(node.operand)} {_negation(node)}IN ({_query(node.query)})",
    ast.SqlQuantified: lambda node: f"{operand(node.operand)} {node.operator} {node.quantifier} ({_query(node.query)})",
    ast.SqlExists: lambda node: f"EXISTS ({_query(node.query)})",
    ast.SqlScalarQuery: lambda node: _in_parentheses(_query(node.query)),
    ast.SqlCase: _case,
    ast.SqlCast: _cast,
    ast.SqlRowConstructor: lambda node: f"{'ROW' if node.explicit else ''}({commas(node.items)})",
    ast.SqlArrayConstructor: lambda node: f"ARRAY[{commas(node.items)}]",
    ast.SqlMapConstructor: lambda node: f"MAP[{commas(node.items)}]",
    ast.SqlMultisetConstructor: lambda node: f"MULTISET[{commas(node.items)}]",
    ast.SqlCollectionQuery: lambda node: f"{node.kind}({_query(node.query)})",
    ast.SqlFunctionCall: _call,
    ast.SqlNamedArgument: lambda node: f"{quote_name(node.name)} => {print_expression(node.value)}",
    ast.SqlDefaultArgument: lambda node: "DEFAULT",
    ast.SqlDescriptor: _descriptor,
    ast.SqlTableArgument: _table_argument,
    ast.SqlModelArgument: lambda node: f"MODEL {print_name(node.name)}",
}
