"""Columns, filters, groups, joins and set operations of the Table API.

Run it: ``python examples/table/basic_operations.py``
"""

from __future__ import annotations

from flott.datastream import StreamExecutionEnvironment
from flott.table import DataTypes, StreamTableEnvironment
from flott.table.expressions import col, concat

ORDERS = [(1, "ann", 20), (2, "bob", 5), (3, "ann", 7), (4, "cid", 12)]
CUSTOMERS = [("ann", "Oslo"), ("bob", "Rome"), ("dora", "Lima")]


def main(env: StreamExecutionEnvironment) -> None:
    """Show some tables."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    row = DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.INT()),
            DataTypes.FIELD("name", DataTypes.STRING()),
            DataTypes.FIELD("amount", DataTypes.INT()),
        ]
    )
    orders = t_env.from_elements(ORDERS, row)
    customers = t_env.from_elements(CUSTOMERS, ["customer", "city"])

    orders.print_schema()
    label = concat("order ", col("id").cast(DataTypes.STRING())).alias("label")
    large = orders.filter(col("amount") > 6).add_columns(label)
    large.select(col("label"), (col("amount") * 2).alias("twice")).execute().print()

    totals = orders.group_by(col("name")).select(col("name"), col("amount").sum.alias("total"))
    totals.execute().print()

    joined = orders.join(customers, col("name") == col("customer")).drop_columns(col("customer"))
    joined.execute().print()

    names = orders.select(col("name")).union_all(customers.select(col("customer")))
    print(sorted(row[0] for row in names.execute().collect()))


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
