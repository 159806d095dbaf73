"""The names that an expression may use: columns of FROM with their qualifiers, and those of queries around."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from flott.table._expressions.expression import Expression, FieldAccess, InputRef, Literal, rewritten, shifted
from flott.table._plan import logical
from flott.table._plan.resolve.internal import OuterRef
from flott.table._sql.errors import SqlError, nearest
from flott.table._sql.nodes.base import Position
from flott.table._types.logical import ArrayType, IntType, LogicalType, RowType, plain


@dataclass(frozen=True)
class ScopeColumn:
    """A column of FROM: what computes it, its name, and the table name or alias that may stand before it."""

    name: str
    expression: Expression
    qualifier: tuple[str, ...] = ()
    #: Only a qualified name finds it, and ``*`` leaves it out: USING shows the merged column in its place.
    hidden: bool = False


@dataclass(frozen=True)
class Scope:
    """All columns that are in sight. ``parent`` belongs to the query around this one."""

    columns: tuple[ScopeColumn, ...] = ()
    parent: Scope | None = None
    level: int = 0
    #: Aliases of the SELECT that GROUP BY, HAVING and ORDER BY may use.
    aliases: tuple[tuple[str, Expression], ...] = field(default=())

    def beside(self, other: Scope, width: int) -> Scope:
        """Return the scope of a join; ``width`` is the number of columns of the left input."""
        right = tuple(replace(column, expression=shifted(column.expression, width)) for column in other.columns)
        return replace(self, columns=self.columns + right)

    def outer(self) -> Scope:
        """Return an empty scope for a query inside this one."""
        return Scope(parent=self, level=self.level + 1)

    def find(self, parts: Sequence[str], position: Position | None) -> Expression:
        """Return what a name stands for; raise ``SqlError`` if it is unknown or ambiguous."""
        found = self._find(tuple(parts), position)
        if found is not None:
            return found
        raise SqlError(self._unknown(tuple(parts)), position)

    def _find(self, parts: tuple[str, ...], position: Position | None) -> Expression | None:
        for width in range(len(parts) - 1, -1, -1):
            matches = [c for c in self.columns if c.name == parts[width] and _qualifies(parts[:width], c)]
            different = list(dict.fromkeys(match.expression for match in matches))
            if len(different) > 1:
                tables = sorted({".".join(c.qualifier) for c in matches if c.qualifier})
                hint = (
                    f" It is a column of {' and of '.join(tables)}: write the table's name before it." if tables else ""
                )
                raise SqlError(f"Column {'.'.join(parts[: width + 1])!r} is ambiguous.{hint}", position)
            if different:
                return field_path(different[0], parts[width + 1 :], position)
        if self.parent is not None:
            found = self.parent._find(parts, position)
            return None if found is None else rewritten(found, self.parent._as_outer)
        return None

    def _as_outer(self, expression: Expression) -> Expression:
        if isinstance(expression, InputRef):
            return OuterRef(plain(expression.type), expression.index, self.level)
        return expression

    def star(self, qualifier: tuple[str, ...], position: Position | None) -> list[ScopeColumn]:
        """Return the columns that ``*`` or ``t.*`` stands for."""
        if not qualifier:
            return [column for column in self.columns if not column.hidden]
        found = [c for c in self.columns if c.qualifier and _qualifies(qualifier, c)]
        if found:
            return found
        for width in range(len(qualifier)):  # the fields of a row: a.b.*
            rows = [c for c in self.columns if c.name == qualifier[width] and _qualifies(qualifier[:width], c)]
            if len(rows) == 1:
                return flattened(field_path(rows[0].expression, qualifier[width + 1 :], position), position)
        tables = sorted({".".join(c.qualifier) for c in self.columns if c.qualifier})
        raise SqlError(
            f"Table {'.'.join(qualifier)!r} is not in FROM.{nearest('.'.join(qualifier), tables)}{_listed(tables)}",
            position,
        )

    def _unknown(self, parts: tuple[str, ...]) -> str:
        name = parts[-1] if len(parts) == 1 else ".".join(parts)
        own = [c for c in self.columns if len(parts) == 1 or _qualifies(parts[:-1], c)]
        if len(parts) > 1 and not own:
            tables = sorted({c.qualifier[-1] for c in self.columns if c.qualifier})
            return f"Table {'.'.join(parts[:-1])!r} is not in FROM.{nearest(parts[-2], tables)}{_listed(tables)}"
        names = list(dict.fromkeys(c.name for c in own if len(parts) > 1 or not c.hidden))
        return f"Column {name!r} is not known.{nearest(parts[-1], names)}{_listed(names)}"


def _qualifies(prefix: tuple[str, ...], column: ScopeColumn) -> bool:
    if not prefix:
        return not column.hidden
    return column.qualifier[-len(prefix) :] == prefix


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    if not shown:
        return " There is no FROM with columns here."
    return f" There is: {', '.join(shown[:20])}{', ...' if len(shown) > 20 else ''}."


def field_path(expression: Expression, path: Sequence[str], position: Position | None) -> Expression:
    """Return the field of a row that a path of names leads to."""
    for name in path:
        expression = field_of(expression, name, position)
    return expression


def field_of(expression: Expression, name: str | int, position: Position | None) -> Expression:
    """Return one field of a row, by its name or position."""
    of = expression.type
    if not isinstance(of, RowType):
        inner = " Use [index] for the elements of an array." if isinstance(of, ArrayType) else ""
        raise SqlError(f"Only a ROW has fields: {name!r} was asked of {of}.{inner}", position)
    index = name if isinstance(name, int) else next((i for i, n in enumerate(of.names) if n == name), -1)
    if not 0 <= index < len(of.fields):
        raise SqlError(f"The row has no field {name!r}.{nearest(str(name), of.names)}{_listed(of.names)}", position)
    field_type = of.types[index]
    return FieldAccess(field_type.as_nullable(field_type.nullable or of.nullable), expression, index, of.names[index])


def flattened(expression: Expression, position: Position | None) -> list[ScopeColumn]:
    """Return the fields of a row as columns."""
    if not isinstance(expression.type, RowType):
        raise SqlError(f"Only a ROW has fields to list, not {expression.type}", position)
    return [ScopeColumn(name, field_of(expression, i, position)) for i, name in enumerate(expression.type.names)]


def scope_of(node: logical.Node, qualifier: tuple[str, ...] = (), *, like: Scope | None = None) -> Scope:
    """Return the scope of a node's columns, inside the same queries as ``like``."""
    columns = tuple(
        ScopeColumn(name, InputRef(of, i), qualifier)
        for i, (name, of) in enumerate(zip(node.schema.names, node.schema.types, strict=True))
    )
    return Scope(columns) if like is None else replace(like, columns=columns)


def one_row() -> logical.Values:
    """Return what a SELECT without FROM reads: one row, of a column that no name leads to."""
    of = IntType(nullable=False)
    return logical.Values(logical.Schema(("ZERO",), (of,)), ((Literal(of, 0),),))


def references(schema: logical.Schema) -> tuple[InputRef, ...]:
    """Return all columns of a schema as expressions."""
    return tuple(InputRef(of, i) for i, of in enumerate(schema.types))


def plain_type(expression: Expression) -> LogicalType:
    """Return the type of an expression without a time attribute."""
    return plain(expression.type)
