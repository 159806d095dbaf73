"""Prints a logical plan as a Spark SQL query. Each node is a SELECT with the columns c0, c1, ... in order.

Names of users never meet: columns are told apart by position, as in the plan. Spark's optimizer merges the SELECTs.
"""

from __future__ import annotations

from collections.abc import Sequence

from flott.table._connectors.table_source import ChangelogMode, SparkScan, TableSource
from flott.table._expressions.expression import Call, Expression, conjuncts
from flott.table._plan import logical
from flott.table._plan.logical import JoinKind, Node
from flott.table._plan.lower import values_source
from flott.table._plan.spark_sql.aggregates import aggregate, over_call
from flott.table._plan.spark_sql.expressions import printed
from flott.table._plan.spark_sql.query import NotExpressible, SparkQuery
from flott.table._plan.spark_sql.types import is_approximate, quoted, spark_type
from flott.table._types.logical import LogicalType

_JOINS = {
    JoinKind.INNER: "INNER JOIN", JoinKind.LEFT: "LEFT JOIN", JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN", JoinKind.SEMI: "LEFT SEMI JOIN", JoinKind.ANTI: "LEFT ANTI JOIN",
}  # fmt: skip


def spark_query(plan: Node) -> SparkQuery:
    """Return a plan as a query of Spark; raise ``NotExpressible`` if a part of it has no equal there."""
    printer = _Printer()
    return SparkQuery(printer.select(plan), tuple(printer.tables), plan.schema)


def _column(index: int) -> str:
    return f"c{index}"


def _columns(width: int, of: str = "") -> list[str]:
    return [f"{of}c{i}" for i in range(width)]


def _named(expressions: Sequence[str]) -> str:
    return ", ".join(one if one == f"c{i}" else f"{one} AS c{i}" for i, one in enumerate(expressions))


class _Printer:
    """Prints nodes and collects the tables that they read."""

    def __init__(self) -> None:
        self.tables: list[tuple[str, SparkScan]] = []

    def select(self, node: Node) -> str:
        """Return a node as a SELECT."""
        for of in node.schema.types:
            spark_type(of)  # refuses what Spark cannot hold
        match node:
            case logical.Scan():
                return self._scan(node)
            case logical.Values():
                return self._values(node)
            case logical.Project():
                return f"SELECT {_named([printed(e, _column) for e in node.expressions])} FROM {self._from(node.input)}"
            case logical.Filter():
                return f"SELECT * FROM {self._from(node.input)} WHERE {printed(node.condition, _column)}"
            case logical.WatermarkAssigner():
                return self.select(node.input)
            case logical.Aggregate():
                return self._aggregate(node)
            case logical.OverAggregate():
                return self._over(node)
            case logical.Expand():
                return self._expand(node)
            case logical.Join():
                return self._join(node)
            case logical.Sort():
                return self._sort(node)
            case logical.Union():
                return " UNION ALL ".join(f"({self.select(branch)})" for branch in node.branches)
            case logical.SetOperation():
                _exact(node.schema.types, "INTERSECT and EXCEPT")
                word = f"{'INTERSECT' if node.intersect else 'EXCEPT'} {'ALL' if node.all else 'DISTINCT'}"
                return f"({self.select(node.left)}) {word} ({self.select(node.right)})"
        raise NotExpressible(_kind(node))

    def _from(self, node: Node, alias: str = "t") -> str:
        return f"({self.select(node)}) AS {alias}"

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _scan(self, node: logical.Scan) -> str:
        source = node.source
        name = self._table(spark_scan(source, node.identifier.summary))
        text = f"SELECT {_named([quoted(column) for column in source.names])} FROM {name}"
        if not source.filters:
            return text
        return f"SELECT * FROM ({text}) AS t WHERE {_all(source.filters)}"

    def _values(self, node: logical.Values) -> str:
        columns = values_source(node).columns.rename_columns(_columns(len(node.schema)))
        name = self._table(SparkScan("arrow", columns=columns))
        return f"SELECT {', '.join(_columns(len(node.schema)))} FROM {name}"

    def _table(self, scan: SparkScan) -> str:
        name = f"t{len(self.tables)}"
        self.tables.append((name, scan))
        return name

    # --- aggregation -------------------------------------------------------------------------------------------------

    def _aggregate(self, node: logical.Aggregate) -> str:
        inner = node.input.schema
        _exact([inner.types[key] for key in node.keys], "GROUP BY")
        # Columns of the input are qualified: GROUP BY would take a name of the output for a name without a table.
        keys = [f"i.c{key}" for key in node.keys]
        calls = [aggregate(call, _columns(len(inner), "i."), inner) for call in node.calls]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {_named([*keys, *calls])} FROM {self._from(node.input, 'i')}{grouped}"

    def _over(self, node: logical.OverAggregate) -> str:
        inner = node.input.schema
        _exact([inner.types[key] for key in node.partition], "PARTITION BY")
        if not node.order:
            raise NotExpressible("OVER without ORDER BY")
        by = f"PARTITION BY {', '.join(map(_column, node.partition))} " if node.partition else ""
        window = f"{by}ORDER BY {_order(node.order)}"
        columns = _columns(len(inner))
        frame = _frame(node.frame)
        calls = [
            over_call(call, columns, inner, f" OVER ({window})", f" OVER ({window} {frame})") for call in node.calls
        ]
        return f"SELECT {_named([*columns, *calls])} FROM {self._from(node.input)}"

    def _expand(self, node: logical.Expand) -> str:
        width = len(node.input.schema)
        columns = []
        for place in range(width):
            if place not in node.keys:
                columns.append(f"t.c{place}")
                continue
            position = node.keys.index(place)
            kept = [f"{number}L" for number, one in enumerate(node.sets) if position in one]
            columns.append(f"CASE WHEN s.e IN ({', '.join(kept)}) THEN t.c{place} END" if kept else _null(node, place))
        sets = ", ".join(f"{number}L" for number in range(len(node.sets)))
        numbers = f"LATERAL VIEW explode(array({sets})) s AS e"
        return f"SELECT {_named([*columns, 's.e'])} FROM {self._from(node.input)} {numbers}"

    # --- order and joins ---------------------------------------------------------------------------------------------

    def _sort(self, node: logical.Sort) -> str:
        text = f"SELECT * FROM {self._from(node.input)}"
        if node.keys:
            text += f" ORDER BY {_order(node.keys)}"
        if node.fetch is not None:
            text += f" LIMIT {node.fetch}"
        return text + (f" OFFSET {node.offset}" if node.offset else "")

    def _join(self, node: logical.Join) -> str:
        width, more = len(node.left.schema), len(node.right.schema)
        both = [*_columns(width, "l."), *_columns(more, "r.")]
        conditions = [_condition(one, both) for one in conjuncts(node.condition)]
        found = both[:width] if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else both
        listed = ", ".join(f"{one} AS c{i}" for i, one in enumerate(found))
        left, right = self._from(node.left, "l"), self._from(node.right, "r")
        return f"SELECT {listed} FROM {left} {_JOINS[node.kind]} {right} ON {' AND '.join(conditions) or 'TRUE'}"


def _condition(condition: Expression, both: Sequence[str]) -> str:
    """Return a condition of a join. That of NOT IN has the form that Spark knows a fast join for."""
    if isinstance(condition, Call) and condition.function == "IS NOT FALSE":
        text = printed(condition.arguments[0], both.__getitem__)
        return f"({text} OR {text} IS NULL)"
    return printed(condition, both.__getitem__)


def spark_scan(source: TableSource, name: str) -> SparkScan:
    """Return how Spark reads a source."""
    if source.changelog is not ChangelogMode.INSERT_ONLY or source.limit is not None:
        raise NotExpressible(f"the table {name}")
    scan = None if source.spark is None else source.spark(source)
    if scan is None:
        raise NotExpressible(f"the table {name}")
    return scan


def _all(conditions: Sequence[Expression]) -> str:
    return " AND ".join(printed(condition, _column) for condition in conditions)


def _order(keys: Sequence[logical.SortKey]) -> str:
    return ", ".join(
        f"c{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'LAST' if key.nulls_last else 'FIRST'}"
        for key in keys
    )


def _frame(frame: logical.Frame) -> str:
    if not frame.rows and (frame.lower is not None or frame.upper not in (0, None)):
        raise NotExpressible("OVER with a RANGE of time")
    unit = "ROWS" if frame.rows else "RANGE"
    return f"{unit} BETWEEN {_bound(frame.lower, 'PRECEDING')} AND {_bound(frame.upper, 'FOLLOWING')}"


def _bound(number: int | None, unbounded: str) -> str:
    if number is None:
        return f"UNBOUNDED {unbounded}"
    if number == 0:
        return "CURRENT ROW"
    return f"{abs(number)} {'PRECEDING' if number < 0 else 'FOLLOWING'}"


def _null(node: Node, place: int) -> str:
    return f"CAST(NULL AS {spark_type(node.schema.types[place])})"


def _exact(types: Sequence[LogicalType], what: str) -> None:
    """Refuse keys that may be NaN or -0.0, which Spark takes for equal to other values than we do."""
    if any(map(is_approximate, types)):
        raise NotExpressible(f"{what} of a FLOAT or DOUBLE")


def _kind(node: Node) -> str:
    names = {
        "StreamScan": "a DataStream", "Correlate": "a table function", "WindowTable": "a window function",
        "LookupJoin": "a lookup join", "TemporalJoin": "a temporal join", "TableAggregate": "a table aggregate",
    }  # fmt: skip
    return names.get(type(node).__name__, f"the operation {type(node).__name__}")
