"""Count words with the Table API: a function in Python splits lines, and each change of a count is shown.

Run it: ``python examples/table/word_count.py``
"""

from __future__ import annotations

from collections.abc import Iterator

from flott.datastream import StreamExecutionEnvironment
from flott.table import DataTypes, StreamTableEnvironment
from flott.table.expressions import col, lit
from flott.table.udf import udtf

LINES = ["to be or not to be", "that is the question", "to sleep or not to sleep"]


@udtf(result_types=[DataTypes.STRING()])  # type: ignore[untyped-decorator]
def split(line: str) -> Iterator[str]:
    """Give the words of a line."""
    yield from line.split()


def main(env: StreamExecutionEnvironment) -> None:
    """Count the words of three lines."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    lines = t_env.from_elements([(line,) for line in LINES], ["line"])
    words = lines.join_lateral(split(col("line")).alias("word"))
    counts = words.group_by(col("word")).select(col("word"), lit(1).count.alias("count"))
    counts.execute().print()


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
