"""One measurement in a process of its own: `python -m bench.cep.run --engine cep --workload three --events 1000000`.

The job runs twice, the first time to warm up. CPU is that of the process and all that it has started.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from bench.cep.workloads import build
from bench.process_tree import tree
from flott.common import Configuration
from flott.datastream import StreamExecutionEnvironment


def _cpu() -> float:
    return sum(process.cpu_seconds + process.ended_cpu_seconds for process in tree(os.getpid()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("engine", "workload", "target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--events", type=int, required=True)
    given = parser.parse_args()
    configuration = Configuration()
    configuration.set_string("execution.target", given.target)
    configuration.set_string("flott.progress", "off")
    runs = []
    for _ in range(2):
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(os.cpu_count() or 1)
        matches = build(env, given.workload, given.engine, given.events)
        cpu, wall = _cpu(), time.monotonic()
        found = sum(1 for _ in matches.execute_and_collect("cep"))
        runs.append((_cpu() - cpu, time.monotonic() - wall, found))
    cpu, wall, found = runs[-1]
    print(json.dumps({"cpu_us": cpu / given.events * 1e6, "wall_s": wall, "matches": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
