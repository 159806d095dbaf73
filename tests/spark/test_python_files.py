"""Modules that a program brings along, in Spark's workers."""

from __future__ import annotations

from pathlib import Path

from tests.spark.conftest import MakeEnvironment


def test_workers_that_are_already_there_import_what_a_later_job_brings(
    environment: MakeEnvironment, tmp_path: Path
) -> None:
    def described(number: int) -> str:
        from brought_to_spark import describe

        return str(describe(number))

    assert sorted(environment().from_collection([1, 2]).rebalance().execute_and_collect()) == [1, 2]
    module = tmp_path / "brought_to_spark.py"
    module.write_text("def describe(number):\n    return f'number {number}'\n")
    env = environment()
    env.add_python_file(str(module))
    stream = env.from_collection([1, 2, 3]).rebalance().map(described)
    assert sorted(stream.execute_and_collect()) == ["number 1", "number 2", "number 3"]
