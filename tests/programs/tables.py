"""Queries over two streams that come out of order: groups that are corrected, a join, windows, a top-N, rows before."""

from __future__ import annotations

from typing import Any

from flott.common import Duration, Row, Types, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.table import DataTypes, Schema, StreamTableEnvironment
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

#: (order, user, cents, event time in milliseconds)
ORDERS = {
    "east": [
        (1, "ann", 500, 1000), (2, "bob", 100, 3000), (3, "ann", 200, 2000), EndOfEpoch(), (4, "ann", 400, 9000),
        (5, "bob", 700, 14000), EndOfEpoch(), (6, "cid", 300, 30000), (7, "ann", 800, 31000), EndOfEpoch(),
        (8, "bob", 200, 33000), (9, "cid", 600, 29000), EndOfEpoch(), (10, "ann", 100, 60000),
        (11, "bob", 900, 61000), (12, "cid", 400, 75000),
    ],
    "west": [
        (21, "ann", 300, 4000), EndOfEpoch(), (22, "cid", 200, 11000), (23, "ann", 600, 8000), EndOfEpoch(),
        (24, "cid", 100, 28000), EndOfEpoch(), (25, "ann", 900, 28000), (26, "dan", 500, 35000), EndOfEpoch(),
        (27, "dan", 700, 62000), (28, "dan", 200, 70000), (29, "eve", 800, 71000),
    ],
}  # fmt: skip

#: (order, carrier, event time in milliseconds)
SHIPMENTS = [
    (2, "rail", 5000), (23, "road", 9000), EndOfEpoch(), (1, "road", 12000), EndOfEpoch(), (99, "sea", 13000),
    (5, "rail", 20000), EndOfEpoch(), (7, "road", 36000), (24, "rail", 36000), EndOfEpoch(), (10, "sea", 66000),
    (9, "road", 67000), (12, "rail", 76000),
]  # fmt: skip

#: The results by the name of the sink.
QUERIES = {
    "totals": "SELECT usr, COUNT(*) AS n, SUM(cents) AS total, MAX(cents) AS most FROM orders GROUP BY usr",
    "shipped": "SELECT o.usr, COUNT(*) AS n, SUM(o.cents) AS total, COUNT(s.carrier) AS sent FROM orders o"
    " LEFT JOIN shipments s ON o.id = s.order_id GROUP BY o.usr",
    "joined": "SELECT o.id, o.usr, s.carrier FROM orders o FULL JOIN shipments s ON o.id = s.order_id",
    "windows": "SELECT window_start, usr, SUM(cents) AS total, COUNT(DISTINCT id) AS n FROM"
    " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, usr",
    "best": "SELECT id, usr, cents FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY cents DESC, id) AS r"
    " FROM orders) WHERE r <= 2",
    "running": "SELECT id, SUM(cents) OVER (PARTITION BY usr ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s"
    " FROM orders",
    "soon": "SELECT o.id, s.carrier FROM orders o JOIN shipments s ON o.id = s.order_id"
    " AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '6' SECOND",
}


def tables_of(env: StreamExecutionEnvironment) -> StreamTableEnvironment:
    """Return the environment with the two streams as the tables ``orders`` and ``shipments``."""
    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC").set("table.exec.mini-batch.allow-latency", "1 h")
    t_env.get_config().set("table.exec.mini-batch.size", "1000")
    orders = Types.ROW_NAMED(["id", "usr", "cents"], [Types.LONG(), Types.STRING(), Types.LONG()])
    shipments = Types.ROW_NAMED(["order_id", "carrier"], [Types.LONG(), Types.STRING()])
    for name, script, of in (("orders", ORDERS, orders), ("shipments", SHIPMENTS, shipments)):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
            lambda entry, _: entry[-1]
        )
        stream = env.from_source(ScriptedSource(script), strategy, name).uid(name)
        rows = stream.map(lambda entry: Row(*entry[:-1]), output_type=of).uid(f"{name}-rows")
        schema = Schema.new_builder()
        for field, kind in zip(of.get_field_names(), of.get_field_types(), strict=True):
            schema.column(field, DataTypes.STRING() if kind == Types.STRING() else DataTypes.BIGINT())
        schema.column_by_metadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime").watermark("ts", "SOURCE_WATERMARK()")
        t_env.create_temporary_view(name, t_env.from_data_stream(rows, schema.build()))
    return t_env


def described(row: Any) -> str:
    """Return a change and its values as a line."""
    return f"{row.get_row_kind()} {tuple(map(str, row))}"


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    t_env = tables_of(env)
    for name, query in QUERIES.items():
        # In which order a join's subtasks send rows of one user depends on how many there are: one change per epoch.
        t_env.get_config().set("table.exec.mini-batch.enabled", str(name == "shipped").lower())
        changes = t_env.to_changelog_stream(t_env.sql_query(query))
        changes.map(described).sink_to(lines_to(folder, name)).uid(f"{name}-sink")
