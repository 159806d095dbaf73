"""Plans as compact text, one node a line, inputs indented."""

from __future__ import annotations

from flott.table._plan import logical
from flott.table._plan.logical import AggregateCall, Node, SortKey


def plan_text(node: Node) -> str:
    """Return a plan as text."""
    return "\n".join(_lines(node, 0))


def schema_text(node: Node) -> str:
    """Return the columns of a plan as text."""
    return ", ".join(f"{name} {of}" for name, of in zip(node.schema.names, node.schema.types, strict=True))


def _lines(node: Node, depth: int) -> list[str]:
    return ["  " * depth + _head(node), *(line for one in node.inputs for line in _lines(one, depth + 1))]


def _head(node: Node) -> str:
    match node:
        case logical.Scan():
            return f"Scan {node.identifier.name}"
        case logical.Values():
            return f"Values {len(node.rows)}"
        case logical.Project():
            pairs = zip(node.names, node.expressions, strict=True)
            return f"Project {', '.join(f'{name}={expression}' for name, expression in pairs)}"
        case logical.Filter():
            return f"Filter {node.condition}"
        case logical.WatermarkAssigner():
            return f"Watermark ${node.rowtime} {node.watermark}"
        case logical.Aggregate():
            return f"Aggregate {_columns(node.keys)} {_calls(node.calls)}".rstrip()
        case logical.WindowAggregate():
            where = f"attached={node.attached}" if node.window is None else _window(node.window)
            return f"WindowAggregate {_columns(node.keys)} {_calls(node.calls)} {where} {','.join(node.properties)}"
        case logical.WindowTable():
            return f"WindowTable {_window(node.window)}"
        case logical.OverAggregate():
            frame = f"{'rows' if node.frame.rows else 'range'}[{node.frame.lower},{node.frame.upper}]"
            return f"Over {_columns(node.partition)} {_order(node.order)} {frame} {_calls(node.calls)}"
        case logical.Sort():
            return f"Sort {_order(node.keys)} offset={node.offset} fetch={node.fetch}"
        case logical.Rank():
            return f"Rank {_columns(node.partition)} {_order(node.order)} {node.start}..{node.end}"
        case logical.Join():
            return f"{node.kind.value} {node.condition}{' null-aware' if node.null_aware else ''}"
        case logical.TemporalJoin():
            return (
                f"Temporal{node.kind.value} {node.keys.left}={node.keys.right} at ${node.left_time} {node.right_time}"
            )
        case logical.LookupJoin():
            return f"Lookup{node.kind.value} {node.identifier.name} {node.keys.left}={node.keys.right} {node.condition}"
        case logical.Correlate():
            return f"Correlate {node.call} outer={node.outer} {node.condition}"
        case logical.Expand():
            return f"Expand {node.sets}"
        case logical.SetOperation():
            return f"{'Intersect' if node.intersect else 'Except'}{' all' if node.all else ''}"
        case logical.SinkNode():
            return f"Sink {node.identifier.name if node.identifier else ''}"
    return type(node).__name__


def _columns(positions: tuple[int, ...]) -> str:
    return f"[{','.join(f'${one}' for one in positions)}]"


def _calls(calls: tuple[AggregateCall, ...]) -> str:
    return ", ".join(_call(call) for call in calls)


def _call(call: AggregateCall) -> str:
    arguments = ",".join([*(f"${one}" for one in call.arguments), *(repr(one) for one in call.literals)])
    distinct = "DISTINCT " if call.distinct else ""
    condition = "" if call.filter is None else f" FILTER ${call.filter}"
    return f"{call.function}({distinct}{arguments}){condition}"


def _order(keys: tuple[SortKey, ...]) -> str:
    return ",".join(
        f"${key.column}{' desc' if key.descending else ''}{' last' if key.nulls_last else ''}" for key in keys
    )


def _window(window: logical.Window) -> str:
    lengths = f"{window.slide_ms}/{window.size_ms}" if window.slide_ms else str(window.size_ms)
    partition = f" by {_columns(window.partition)}" if window.partition else ""
    return (
        f"{window.kind.value}(${window.time},{lengths}{f',{window.offset_ms}' if window.offset_ms else ''}){partition}"
    )
