"""A program that writes numbers into a table of Spark: its name and a folder for rows that wait are the arguments."""

import sys

from flott.datastream import StreamExecutionEnvironment


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([{"id": number} for number in range(100)])
    numbers.to_spark(sys.argv[1], {"id": "int64"}, staging_folder=sys.argv[2])
    env.execute("numbers to a table")


if __name__ == "__main__":
    main()
