"""Fields of rows within rows: a source reads only those that the query reads, where its format can leave fields out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flott.table._expressions.expression import Expression, FieldAccess, InputRef
from flott.table._plan.logical import Filter, Node, Project, Scan, WatermarkAssigner
from flott.table._types.logical import LogicalType, RowType

#: What is read of a column: positions of its fields; None: all of it.
Needed = dict[int, set[int] | None]


@dataclass(frozen=True)
class _Narrowed:
    """A node that gives fewer fields, and for each column that changed where its fields stand now."""

    node: Node
    moved: dict[int, dict[int, int]]


def prune_nested_fields(root: Node) -> Node:
    """Return a plan whose sources read no field of a nested row that nothing reads."""
    return _narrowed(root, dict.fromkeys(range(len(root.schema)), None)).node


def _narrowed(node: Node, needed: Needed) -> _Narrowed:
    match node:
        case Scan():
            return _scan(node, needed)
        case Project():
            return _project(node, needed)
        case Filter():
            inside = _narrowed(node.input, _joined(needed, node.condition))
            return _Narrowed(Filter(inside.node, _rewritten(node.condition, inside)), inside.moved)
        case WatermarkAssigner():
            wanted = _joined(needed, node.watermark)
            wanted[node.rowtime] = None
            inside = _narrowed(node.input, wanted)
            watermark = _rewritten(node.watermark, inside)
            return _Narrowed(WatermarkAssigner(inside.node, node.rowtime, watermark), inside.moved)
    inputs = tuple(_narrowed(one, dict.fromkeys(range(len(one.schema)), None)).node for one in node.inputs)
    return _Narrowed(node.with_inputs(inputs) if inputs else node, {})


def _project(node: Project, needed: Needed) -> _Narrowed:
    wanted: Needed = {}
    for place, expression in enumerate(node.expressions):
        if isinstance(expression, InputRef):
            _add(wanted, expression.index, needed.get(place, set()))
        else:
            _read(expression, wanted)
    inside = _narrowed(node.input, wanted)
    expressions = tuple(_rewritten(one, inside) for one in node.expressions)
    moved = {
        place: inside.moved[one.index]
        for place, one in enumerate(node.expressions)
        if isinstance(one, InputRef) and one.index in inside.moved
    }
    return _Narrowed(Project(inside.node, expressions, node.names), moved)


def _scan(node: Scan, needed: Needed) -> _Narrowed:
    source = node.source
    if not source.can_narrow or source.filters:
        return _Narrowed(node, {})
    types: list[LogicalType] = list(source.types)
    moved: dict[int, dict[int, int]] = {}
    for column, fields in needed.items():
        of = types[column]
        if fields is None or not isinstance(of, RowType) or not 0 < len(fields) < len(of.fields):
            continue
        kept = sorted(fields)
        types[column] = replace(of, fields=tuple(of.fields[i] for i in kept))
        moved[column] = {old: new for new, old in enumerate(kept)}
    if not moved:
        return _Narrowed(node, {})
    return _Narrowed(replace(node, source=replace(source, types=tuple(types))), moved)


def _joined(needed: Needed, expression: Expression) -> Needed:
    """Return what is needed above a node and by an expression of it."""
    wanted: Needed = {column: None if fields is None else set(fields) for column, fields in needed.items()}
    _read(expression, wanted)
    return wanted


def _read(expression: Expression, wanted: Needed) -> None:
    """Take note of the columns and fields that an expression reads."""
    match expression:
        case FieldAccess(_, InputRef(_, column), index):
            _add(wanted, column, {index})
        case InputRef(_, column):
            _add(wanted, column, None)
        case _:
            for operand in expression.operands:
                _read(operand, wanted)


def _add(wanted: Needed, column: int, fields: set[int] | None) -> None:
    known = wanted.get(column, set())
    wanted[column] = None if known is None or fields is None else known | fields


def _rewritten(expression: Expression, inside: _Narrowed) -> Expression:
    """Return an expression over the narrowed columns."""
    types = inside.node.schema.types
    match expression:
        case FieldAccess(of, InputRef(_, column), index, name) if column in inside.moved:
            return FieldAccess(of, InputRef(types[column], column), inside.moved[column][index], name)
        case InputRef(_, column) if column in inside.moved:
            return InputRef(types[column], column)
    operands = expression.operands
    changed = tuple(_rewritten(operand, inside) for operand in operands)
    return expression if changed == operands else expression.with_operands(changed)
