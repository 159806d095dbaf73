"""One measurement in a process of its own: `python -m bench.nexmark.run --engine flott --query q0 ...`.

The query runs twice, the first time to warm up; CPU is that of the process and all that it has started.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.nexmark import statements
from bench.process_tree import tree


def _cpu() -> float:
    return sum(process.cpu_seconds + process.ended_cpu_seconds for process in tree(os.getpid()))


def _flott(settings: dict[str, str]) -> Callable[[str], object]:
    from flott.common import Configuration
    from flott.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    made = EnvironmentSettings.new_instance().with_configuration(configuration).build()
    environment = TableEnvironment.create(made)
    return environment.execute_sql


def _flink(settings: dict[str, str]) -> Callable[[str], object]:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in settings.items():
        environment.get_config().set(key, value)
    return environment.execute_sql


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("engine", "query", "folder", "format", "backend", "interval"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--mini-batch", action="store_true")
    given = parser.parse_args()
    checkpoints = Path(tempfile.mkdtemp(prefix="nexmark-"))
    settings = statements.settings(given.backend, given.mini_batch, checkpoints, given.interval)
    execute = (_flott if given.engine == "flott" else _flink)(settings)
    try:
        for statement in statements.prepare(given.query, Path(given.folder), given.format):
            execute(statement)
        runs = []
        for _ in range(2):
            cpu, wall = _cpu(), time.monotonic()
            execute(statements.insert(given.query)).wait()  # type: ignore[attr-defined]
            runs.append((_cpu() - cpu, time.monotonic() - wall))
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)
    cpu, wall = runs[-1]
    print(
        json.dumps(
            {"cpu_us": cpu / given.events * 1e6, "wall_s": wall, "first_cpu_us": runs[0][0] / given.events * 1e6}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
