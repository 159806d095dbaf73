"""A stream becomes a table, SQL aggregates it, and its changes become a stream again.

Run it: ``python examples/table/streams_and_tables.py``
"""

from __future__ import annotations

from flott.common import Row
from flott.common.typeinfo import Types
from flott.datastream import StreamExecutionEnvironment
from flott.table import StreamTableEnvironment


def main(env: StreamExecutionEnvironment) -> None:
    """Sum the amounts of a stream with SQL."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    types = Types.ROW_NAMED(["name", "amount"], [Types.STRING(), Types.LONG()])
    payments = env.from_collection([Row("ann", 10), Row("bob", 4), Row("ann", 5)], type_info=types)
    t_env.create_temporary_view("payments", t_env.from_data_stream(payments))
    totals = t_env.sql_query("SELECT name, SUM(amount) AS total FROM payments GROUP BY name")
    changes = t_env.to_changelog_stream(totals)
    changes.map(lambda row: f"{row.get_row_kind()} {row[0]} {row[1]}", output_type=Types.STRING()).print()
    env.execute("streams and tables")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
