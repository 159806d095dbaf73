"""Run the same program as a stream and as a batch: ``python examples/batch_mode.py``.

As a stream, it emits a running total with each record. As a batch, it reads the input to its end and emits each total
once. Only the runtime mode differs.
"""

from __future__ import annotations

from flott.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

GOALS = [("north", 1), ("south", 2), ("north", 1), ("east", 3), ("south", 1), ("north", 2)]


def run(env: StreamExecutionEnvironment, mode: RuntimeExecutionMode) -> None:
    print(f"{mode.name}:")
    env.set_runtime_mode(mode)
    env.from_collection(GOALS).key_by(lambda goal: goal[0]).sum(1).print()
    env.execute(f"goals, {mode.name.lower()}")


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    run(env, RuntimeExecutionMode.STREAMING)
    run(env, RuntimeExecutionMode.BATCH)


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
