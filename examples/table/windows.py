"""Group windows and over windows in event time: tumbling, sliding, session, and the sum of the last rows.

Run it: ``python examples/table/windows.py``
"""

from __future__ import annotations

from datetime import datetime

from flott.common import Row, WatermarkStrategy
from flott.common.typeinfo import Types
from flott.datastream import StreamExecutionEnvironment
from flott.table import Schema, StreamTableEnvironment
from flott.table.expressions import col, lit, row_interval
from flott.table.window import Over, Session, Slide, Tumble

CLICKS = [
    Row("ann", 1, datetime(2024, 1, 1, 10, 0, 5)),
    Row("bob", 2, datetime(2024, 1, 1, 10, 0, 20)),
    Row("ann", 3, datetime(2024, 1, 1, 10, 0, 40)),
    Row("ann", 4, datetime(2024, 1, 1, 10, 1, 10)),
    Row("bob", 5, datetime(2024, 1, 1, 10, 4, 0)),
]


def main(env: StreamExecutionEnvironment) -> None:
    """Show clicks in windows."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    types = Types.ROW_NAMED(["name", "clicks", "ts"], [Types.STRING(), Types.INT(), Types.SQL_TIMESTAMP()])
    stream = env.from_collection(CLICKS, type_info=types).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks()
    )
    schema = (
        Schema.new_builder()
        .column("name", "STRING")
        .column("clicks", "INT")
        .column("ts", "TIMESTAMP(3)")
        .watermark("ts", "ts - INTERVAL '1' SECOND")
        .build()
    )
    clicks = t_env.from_data_stream(stream, schema)

    minute = Tumble.over(lit(1).minutes).on(col("ts")).alias("w")
    tumbling = clicks.window(minute).group_by(col("w"), col("name"))
    tumbling.select(col("name"), col("w").start.alias("from"), col("clicks").sum.alias("clicks")).execute().print()

    two = Slide.over(lit(2).minutes).every(lit(1).minutes).on(col("ts")).alias("w")
    sliding = clicks.window(two).group_by(col("w"))
    sliding.select(col("w").start.alias("from"), col("clicks").sum.alias("clicks")).execute().print()

    visit = Session.with_gap(lit(1).minutes).on(col("ts")).alias("w")
    sessions = clicks.window(visit).group_by(col("w"), col("name"))
    sessions.select(col("name"), col("w").end.alias("until"), col("clicks").sum.alias("clicks")).execute().print()

    last = Over.partition_by(col("name")).order_by(col("ts")).preceding(row_interval(1)).alias("w")
    clicks.over_window(last).select(col("name"), col("clicks").sum.over(col("w")).alias("recent")).execute().print()


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
