"""Prints queries and relations as SQL, on one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flott.table._sql.nodes import queries as ast
from flott.table._sql.nodes.base import SqlNode
from flott.table._sql.print_expressions import (
    commas,
    operand,
    print_expression,
    print_name,
    print_order,
    print_window,
    quote_name,
    quote_text,
)


def print_query(node: SqlNode) -> str:
    """Return a query as SQL."""
    return _QUERIES[type(node)](node)


def print_relation(node: SqlNode) -> str:
    """Return a relation as SQL."""
    return _RELATIONS[type(node)](node)


def print_hints(hints: tuple[ast.SqlHint, ...]) -> str:
    """Return hints in their comment with a space before it; an empty text if there are none."""
    return f" /*+ {', '.join(map(_hint, hints))} */" if hints else ""


def _hint(hint: ast.SqlHint) -> str:
    options = ", ".join(
        quote_text(option.key) if option.value is None else f"{quote_text(option.key)} = {quote_text(option.value)}"
        for option in hint.options
    )
    return f"{hint.name}({options})" if hint.options else hint.name


def _item(item: ast.SqlSelectItem) -> str:
    text = print_expression(item.expression)
    return text if item.alias is None else f"{text} AS {quote_name(item.alias)}"


def _select(node: ast.SqlSelect) -> str:
    distinct = " DISTINCT" if node.distinct else ""
    text = f"SELECT{print_hints(node.hints)}{distinct} {', '.join(map(_item, node.items))}"
    if node.source is not None:
        text += f" FROM {print_relation(node.source)}"
    if node.where is not None:
        text += f" WHERE {print_expression(node.where)}"
    if node.group_by is not None:
        every = " DISTINCT" if node.group_by.distinct else ""
        text += f" GROUP BY{every} {', '.join(map(_grouping, node.group_by.items))}"
    if node.having is not None:
        text += f" HAVING {print_expression(node.having)}"
    if node.windows:
        windows = (f"{quote_name(window.name)} AS {print_window(window.specification)}" for window in node.windows)
        text += f" WINDOW {', '.join(windows)}"
    if node.qualify is not None:
        text += f" QUALIFY {print_expression(node.qualify)}"
    return text


def _grouping(item: ast.GroupingItem) -> str:
    match item:
        case ast.SqlGroupingSets():
            return f"GROUPING SETS ({', '.join(map(_grouping, item.sets))})"
        case ast.SqlRollup():
            return f"ROLLUP ({commas(item.items)})"
        case ast.SqlCube():
            return f"CUBE ({commas(item.items)})"
        case ast.SqlEmptyGroup():
            return "()"
    return print_expression(item)


def _operand(query: ast.SqlQuery) -> str:
    text = print_query(query)
    return text if isinstance(query, ast.SqlSelect | ast.SqlValues | ast.SqlTableQuery) else f"({text})"


def _set_operation(node: ast.SqlSetOperation) -> str:
    return f"{_operand(node.left)} {node.operator}{' ALL' if node.all else ''} {_operand(node.right)}"


def _sorted(node: ast.SqlSortedQuery) -> str:
    text = _operand(node.query)
    if node.order_by:
        text += f" ORDER BY {', '.join(map(print_order, node.order_by))}"
    if node.offset is not None:
        text += f" OFFSET {print_expression(node.offset)} ROWS"
    if node.limit is not None:
        text += f" FETCH NEXT {operand(node.limit)} ROWS ONLY"
    return text


def _with(node: ast.SqlWithQuery) -> str:
    tables = ", ".join(
        f"{quote_name(table.name)}{_columns(table.columns)} AS ({print_query(table.query)})" for table in node.tables
    )
    inner = print_query(node.query)
    inner = f"({inner})" if isinstance(node.query, ast.SqlWithQuery) else inner
    return f"WITH {'RECURSIVE ' if node.recursive else ''}{tables} {inner}"


def _columns(names: tuple[str, ...]) -> str:
    return f" ({', '.join(map(quote_name, names))})" if names else ""


def _table_aggregate(node: ast.SqlTableAggregate) -> str:
    keys = "".join(f"{_item(item)}, " for item in node.group_by)
    return f"SELECT {keys}{print_expression(node.call)}{_columns(node.columns)} FROM {print_relation(node.source)}"


_QUERIES: dict[type, Callable[[Any], str]] = {
    ast.SqlSelect: _select,
    ast.SqlValues: lambda node: f"VALUES {commas(node.rows)}",
    ast.SqlTableQuery: lambda node: f"TABLE {print_name(node.name)}",
    ast.SqlSetOperation: _set_operation,
    ast.SqlSortedQuery: _sorted,
    ast.SqlWithQuery: _with,
    ast.SqlTableAggregate: _table_aggregate,
}


# --- relations ------------------------------------------------------------------------------------------------------


def _function(node: ast.SqlFunctionRelation) -> str:
    return print_expression(node.call)


def _lateral(node: ast.SqlLateral) -> str:
    inner = print_relation(node.relation)
    return f"LATERAL TABLE({inner})" if isinstance(node.relation, ast.SqlFunctionRelation) else f"LATERAL {inner}"


def _sample(node: ast.SqlSample) -> str:
    seed = "" if node.seed is None else f" REPEATABLE ({node.seed})"
    return f"{print_relation(node.relation)} TABLESAMPLE {node.method} ({print_expression(node.percentage)}){seed}"


def _join(node: ast.SqlJoin) -> str:
    right = print_relation(node.right)
    right = f"({right})" if isinstance(node.right, ast.SqlJoin) else right
    left = print_relation(node.left)
    natural = "NATURAL " if node.natural else ""
    text = f"{left} {natural}{node.kind} JOIN {right}"
    if node.condition is not None:
        text += f" ON {print_expression(node.condition)}"
    elif node.using:
        text += f" USING ({', '.join(map(quote_name, node.using))})"
    return text


def _aliased(node: ast.SqlAliased) -> str:
    inner = print_relation(node.relation)
    inner = f"({inner})" if isinstance(node.relation, ast.SqlJoin) else inner
    return f"{inner} AS {quote_name(node.alias)}{_columns(node.columns)}"


def _pattern(node: ast.SqlPattern) -> str:
    match node:
        case ast.SqlPatternVariable():
            return quote_name(node.name)
        case ast.SqlPatternAnchor():
            return node.symbol
        case ast.SqlPatternSequence():
            return " ".join(
                f"({_pattern(part)})"
                if isinstance(part, ast.SqlPatternSequence | ast.SqlPatternAlternation)
                else _pattern(part)
                for part in node.parts
            )
        case ast.SqlPatternAlternation():
            parts = (
                f"({_pattern(part)})" if isinstance(part, ast.SqlPatternAlternation) else _pattern(part)
                for part in node.parts
            )
            return " | ".join(parts)
        case ast.SqlPatternPermutation():
            return f"PERMUTE({', '.join(map(_pattern, node.parts))})"
        case ast.SqlPatternExclusion():
            return f"{{- {_pattern(node.part)} -}}"
        case ast.SqlPatternRepetition():
            most = "" if node.most is None else node.most
            inner = _pattern(node.part)
            simple = isinstance(node.part, ast.SqlPatternVariable)
            return f"{inner if simple else f'({inner})'}{{{node.least},{most}}}{'' if node.greedy else '?'}"
    raise TypeError(f"{type(node).__name__} is no pattern")


def _match(node: ast.SqlMatchRecognize) -> str:
    parts = []
    if node.partition_by:
        parts.append(f"PARTITION BY {commas(node.partition_by)}")
    if node.order_by:
        parts.append(f"ORDER BY {', '.join(map(print_order, node.order_by))}")
    if node.measures:
        measures = (f"{print_expression(m.expression)} AS {quote_name(m.alias)}" for m in node.measures)
        parts.append(f"MEASURES {', '.join(measures)}")
    if node.rows:
        parts.append(f"{node.rows} PER MATCH")
    if node.skip:
        target = "" if node.skip_to is None else f" {quote_name(node.skip_to)}"
        to = "" if node.skip == "PAST LAST ROW" else "TO "
        parts.append(f"AFTER MATCH SKIP {to}{node.skip}{target}")
    parts.append(f"PATTERN ({_pattern(node.pattern)})")
    if node.within is not None:
        parts.append(f"WITHIN {print_expression(node.within)}")
    if node.subsets:
        subsets = (f"{quote_name(s.name)} = ({', '.join(map(quote_name, s.variables))})" for s in node.subsets)
        parts.append(f"SUBSET {', '.join(subsets)}")
    definitions = (f"{quote_name(d.variable)} AS {print_expression(d.condition)}" for d in node.definitions)
    parts.append(f"DEFINE {', '.join(definitions)}")
    return f"{print_relation(node.relation)} MATCH_RECOGNIZE ({' '.join(parts)})"


_RELATIONS: dict[type, Callable[[Any], str]] = {
    ast.SqlTableReference: lambda node: f"{print_name(node.name)}{print_hints(node.hints)}",
    ast.SqlTableInput: lambda node: quote_name(str(node.table)),
    ast.SqlQueryRelation: lambda node: f"({print_query(node.query)})",
    ast.SqlFunctionRelation: _function,
    ast.SqlUnnest: lambda node: f"UNNEST({commas(node.operands)}){' WITH ORDINALITY' if node.with_ordinality else ''}",
    ast.SqlLateral: _lateral,
    ast.SqlSnapshot: lambda node: f"{print_relation(node.relation)} FOR SYSTEM_TIME AS OF {operand(node.period)}",
    ast.SqlSample: _sample,
    ast.SqlAliased: _aliased,
    ast.SqlJoin: _join,
    ast.SqlMatchRecognize: _match,
}
