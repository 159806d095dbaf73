"""Tables in the form of TPC-H, of random rows, and queries of it in words that Flink and Spark share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MONEY = "DECIMAL(15, 2)"

DECLARED = {
    "region": "r_regionkey INT, r_name STRING",
    "nation": "n_nationkey INT, n_name STRING, n_regionkey INT",
    "supplier": "s_suppkey BIGINT, s_nationkey INT",
    "customer": f"c_custkey BIGINT, c_name STRING, c_nationkey INT, c_acctbal {MONEY}, c_mktsegment STRING",
    "part": "p_partkey BIGINT, p_type STRING, p_brand STRING",
    "orders": (
        f"o_orderkey BIGINT, o_custkey BIGINT, o_totalprice {MONEY}, o_orderdate DATE, o_orderpriority STRING,"
        " o_shippriority INT"
    ),
    "lineitem": (
        f"l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity {MONEY}, l_extendedprice {MONEY},"
        f" l_discount {MONEY}, l_tax {MONEY}, l_returnflag STRING, l_linestatus STRING, l_shipdate DATE,"
        " l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING"
    ),
}

_REVENUE = "SUM(l_extendedprice * (1 - l_discount))"

QUERIES = {
    "q1": f"""
SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice), {_REVENUE},
  AVG(l_quantity), AVG(l_discount), COUNT(*)
FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "q3": f"""
SELECT l_orderkey, {_REVENUE} AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    "q4": """
SELECT o_orderpriority, COUNT(*) FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND EXISTS (
  SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    "q5": f"""
SELECT n_name, {_REVENUE} AS revenue FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
GROUP BY n_name ORDER BY revenue DESC""",
    "q6": """
SELECT SUM(l_extendedprice * l_discount) FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07
  AND l_quantity < 24""",
    "q10": f"""
SELECT c_custkey, c_name, {_REVENUE} AS revenue, c_acctbal, n_name FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01'
  AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC, c_custkey LIMIT 20""",
    "q12": """
SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END),
  SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END)
FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
  AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND l_receiptdate >= DATE '1994-01-01'
  AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode ORDER BY l_shipmode""",
    "q14": """
SELECT SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END),
  SUM(l_extendedprice * (1 - l_discount)) FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
}


def write_tables(folder: Path, scale: float) -> None:
    """Write the tables as Parquet; a scale of 1 has six million rows of lineitem."""
    random = np.random.default_rng(7)
    orders, customers = int(1_500_000 * scale), max(1, int(150_000 * scale))
    parts, suppliers = max(1, int(200_000 * scale)), max(1, int(10_000 * scale))

    def choice(words: list[str], rows: int) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(random.integers(0, len(words), rows)), words).cast(pa.string())

    def decimal(low: int, high: int, rows: int) -> Any:
        """Numbers of cents as DECIMAL(15, 2): the unscaled 128 bits are written as they are."""
        cents = random.integers(low, high, rows)
        words = np.empty((rows, 2), np.int64)
        words[:, 0], words[:, 1] = cents, cents >> 63
        return pa.Array.from_buffers(pa.decimal128(15, 2), rows, [None, pa.py_buffer(words)])

    def days(values: Any) -> Any:
        return pa.array(values.astype(np.int32)).cast(pa.date32())

    def write(name: str, columns: dict[str, Any]) -> None:
        (folder / name).mkdir(parents=True)
        table = pa.table(columns)
        half = (table.num_rows + 1) // 2
        for number in range(2):
            if table.num_rows > number * half:
                pq.write_table(table.slice(number * half, half), folder / name / f"part-{number}.parquet")

    regions = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
    write("region", {"r_regionkey": pa.array(range(5), pa.int32()), "r_name": regions})
    write("nation", {
        "n_nationkey": pa.array(range(25), pa.int32()), "n_name": [f"nation {i}" for i in range(25)],
        "n_regionkey": pa.array([i % 5 for i in range(25)], pa.int32()),
    })  # fmt: skip
    write("supplier", {
        "s_suppkey": np.arange(suppliers), "s_nationkey": random.integers(0, 25, suppliers).astype(np.int32),
    })  # fmt: skip
    write("customer", {
        "c_custkey": np.arange(customers), "c_name": [f"Customer#{i:09}" for i in range(customers)],
        "c_nationkey": random.integers(0, 25, customers).astype(np.int32),
        "c_acctbal": decimal(-99999, 999999, customers),
        "c_mktsegment": choice(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"], customers),
    })  # fmt: skip
    write("part", {
        "p_partkey": np.arange(parts),
        "p_type": choice(["PROMO BRUSHED TIN", "SMALL PLATED TIN", "ECONOMY BRASS"], parts),
        "p_brand": choice(["Brand#11", "Brand#12", "Brand#21"], parts),
    })  # fmt: skip
    ordered = random.integers(8035, 10440, orders)
    write("orders", {
        "o_orderkey": np.arange(orders), "o_custkey": random.integers(0, customers, orders),
        "o_totalprice": decimal(100000, 50000000, orders), "o_orderdate": days(ordered),
        "o_orderpriority": choice(["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"], orders),
        "o_shippriority": np.zeros(orders, np.int32),
    })  # fmt: skip
    of = np.repeat(np.arange(orders), random.integers(1, 8, orders))
    rows = len(of)
    shipped = ordered[of] + random.integers(1, 122, rows)
    write("lineitem", {
        "l_orderkey": of, "l_partkey": random.integers(0, parts, rows),
        "l_suppkey": random.integers(0, suppliers, rows),
        "l_quantity": decimal(100, 5100, rows), "l_extendedprice": decimal(90000, 10500000, rows),
        "l_discount": decimal(0, 11, rows), "l_tax": decimal(0, 9, rows),
        "l_returnflag": choice(["A", "N", "R"], rows), "l_linestatus": choice(["O", "F"], rows),
        "l_shipdate": days(shipped), "l_commitdate": days(ordered[of] + random.integers(30, 91, rows)),
        "l_receiptdate": days(shipped + random.integers(1, 31, rows)),
        "l_shipmode": choice(["AIR", "MAIL", "SHIP", "TRUCK", "RAIL", "FOB", "REG AIR"], rows),
    })  # fmt: skip
