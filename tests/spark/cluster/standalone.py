"""A real standalone cluster of Spark for tests: a master and workers in processes of their own, at free ports.

The scripts that start them are in PySpark's package. Executors are children of the worker and carry its mark, so a
machine that dies is a tree that is killed.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.spark.driver_process import DriverProcess

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 300
LOOPBACK = "127.0.0.1"
#: Of a worker, in MB: enough for one small executor.
WORKER_MEMORY = 600

_SMALL = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false"}
_LIGHT = "-XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false"


class StandaloneCluster:
    """A master, and as many workers with one core each as were added."""

    def __init__(self, folder: Path, address: str = LOOPBACK):
        self._folder = folder
        self._workers: list[DriverProcess] = []
        self._added = 0
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", address=address)
        try:
            self.url = _await_line(self._master, r"Starting Spark master at (spark://\S+)")
            _await_line(self._master, r"New state: (ALIVE)")
        except BaseException:
            self.stop()
            raise

    def add_worker(self, address: str = LOOPBACK, prefix: Sequence[str] = ()) -> DriverProcess:
        """Start a worker, by a command that begins with a prefix; returns when the master knows it."""
        self._added += 1
        sized = ["--cores", "1", "--memory", f"{WORKER_MEMORY}M", "--work-dir", str(self._folder / "work")]
        name = f"worker-{self._added}"
        main = "org.apache.spark.deploy.worker.Worker"
        worker = self._start(name, main, *sized, self.url, address=address, prefix=prefix)
        self._workers.append(worker)
        _await_line(worker, r"Successfully registered with master (\S+)")
        return worker

    def keep_workers(self, count: int) -> list[DriverProcess]:
        """Have so many workers that live: a test may have killed some."""
        self._workers = [worker for worker in self._workers if worker._process.poll() is None]
        while len(self._workers) < count:
            self.add_worker()
        return list(self._workers)

    def stop(self) -> None:
        """Kill all of it."""
        for process in (*self._workers, self._master):
            process.kill_tree()

    def _start(
        self, name: str, main: str, *arguments: str, address: str, prefix: Sequence[str] = ()
    ) -> DriverProcess:
        anywhere = ["--host", address, "--port", "0", "--webui-port", "0"]
        settings = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_JAVA_OPTS": _LIGHT}
        first, *command = [*prefix, str(SPARK_HOME / "bin" / "spark-class"), main, *anywhere, *arguments]
        return DriverProcess(
            command,
            self._folder / name,
            {**_SMALL, **settings},
            python=first,
            python_path=None,  # executors have Flott from the driver, or not at all
        )


def _await_line(process: DriverProcess, pattern: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while (found := re.search(pattern, process.stderr)) is None:
        ended = process._process.poll() is not None
        assert not ended, f"It did not start:\n{process.stderr[-2000:]}"
        assert time.monotonic() < deadline, f"It did not say {pattern!r}:\n{process.stderr[-2000:]}"
        time.sleep(0.05)
    return found[1]


if __name__ == "__main__":  # by hand: python -m tests.spark.cluster.standalone FOLDER WORKERS
    cluster = StandaloneCluster(Path(sys.argv[1]))
    try:
        cluster.keep_workers(int(sys.argv[2]))
        sys.stdout.write(f"{cluster.url}\n")
        sys.stdin.read()
    finally:
        cluster.stop()
