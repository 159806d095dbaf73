"""Emit the best of four records after every second one: ``python examples/windowing/sliding_count_window.py``."""

from __future__ import annotations

from flott.datastream import StreamExecutionEnvironment

#: (athlete, metres), in the order of the throws
THROWS = [("ada", 61), ("ada", 64), ("ada", 58), ("ada", 66), ("ada", 59), ("ada", 60), ("ada", 57), ("ada", 63)]


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    env.from_collection(THROWS).key_by(lambda throw: throw[0]).count_window(4, 2).max(1).print()
    env.execute("sliding count windows")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
