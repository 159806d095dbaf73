"""Prints INSERT as SQL, which is what plans store."""

from __future__ import annotations

from flott.table._sql.nodes.statements import SqlInsert
from flott.table._sql.print_expressions import print_expression, print_name, quote_name
from flott.table._sql.print_queries import print_hints, print_query


def print_insert(insert: SqlInsert) -> str:
    """Return an INSERT as SQL."""
    text = f"INSERT {'OVERWRITE' if insert.overwrite else 'INTO'} {print_name(insert.table)}{print_hints(insert.hints)}"
    if insert.partition:
        values = (
            quote_name(part.column) + ("" if part.value is None else f" = {print_expression(part.value)}")
            for part in insert.partition
        )
        text += f" PARTITION ({', '.join(values)})"
    if insert.columns:
        text += f" ({', '.join(map(print_name, insert.columns))})"
    text += f" {print_query(insert.query)}"
    return text if insert.on_conflict is None else f"{text} ON CONFLICT DO {insert.on_conflict}"
