"""SQL alone: tables over files, a view, a statement set that writes two of them, and reading the results.

Run it: ``python examples/table/sql_statements.py``
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from flott.datastream import StreamExecutionEnvironment
from flott.table import StreamTableEnvironment

ORDERS = "1,ann,20\n2,bob,5\n3,ann,7\n4,cid,12\n"


def main(env: StreamExecutionEnvironment) -> None:
    """Split orders by their amount."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    with TemporaryDirectory() as folder:
        Path(folder, "orders").mkdir()
        Path(folder, "orders", "1.csv").write_text(ORDERS, encoding="utf-8")
        for table in ("orders", "small", "big"):
            t_env.execute_sql(
                f"CREATE TABLE {table} (id INT, name STRING, amount INT) "
                f"WITH ('connector' = 'filesystem', 'path' = '{folder}/{table}', 'format' = 'csv')"
            )
        t_env.execute_sql("CREATE VIEW upper_orders AS SELECT id, UPPER(name) AS name, amount FROM orders")
        t_env.execute_sql(
            """EXECUTE STATEMENT SET BEGIN
                 INSERT INTO small SELECT * FROM upper_orders WHERE amount < 10;
                 INSERT INTO big SELECT * FROM upper_orders WHERE amount >= 10;
               END"""
        ).wait()
        t_env.sql_query("SELECT * FROM big").execute().print()
        t_env.sql_query("SELECT COUNT(*) AS orders, SUM(amount) AS total FROM small").execute().print()


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
