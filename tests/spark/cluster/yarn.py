"""A real YARN for tests: Hadoop's own small cluster in one process, its jars fetched once by Maven and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyspark
import pytest

from tests.spark.driver_process import DriverProcess

#: Unset, tests on YARN are skipped: they take longer than they are worth in every run.
ASKED_FOR = "FLOTT_TEST_YARN"
START_SECONDS = 300

_SPARK_HOME = Path(pyspark.__file__).parent
_SOURCE = Path(__file__).with_name("MiniYarn.java")
#: What the small cluster needs beside the Hadoop in PySpark's package.
_BESIDE = (
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "org.junit.platform:junit-platform-commons:1.13.4",
    "org.opentest4j:opentest4j:1.3.0",
    "org.bouncycastle:bcprov-jdk18on:1.82",
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "org.bouncycastle:bcutil-jdk18on:1.82",
)
_FETCH_SECONDS = 180


class YarnCluster:
    """A resource manager and a node manager of 3 GB."""

    def __init__(self, folder: Path, jars: Path):
        self.configuration = folder / "configuration"  #: what HADOOP_CONF_DIR is to be
        self.configuration.mkdir(parents=True)
        self.settings = {
            "spark.master": "yarn",
            "spark.yarn.jars": f"local:{_SPARK_HOME / 'jars'}/*",  # otherwise they are packed and uploaded
            "spark.yarn.stagingDir": str(folder / "staging"),
            "spark.yarn.am.memory": "256m",
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
        }
        light = ["-Xmx384m", "-XX:TieredStopAtLevel=1"]
        path = os.pathsep.join([f"{jars}/*", f"{_SPARK_HOME / 'jars'}/*"])
        self._process = DriverProcess(
            [*light, "-cp", path, str(_SOURCE), str(self.configuration)], folder / "cluster", python="java",
            python_path=None,
        )  # fmt: skip
        self._process.wait_for_line("ready", START_SECONDS)  # or it is killed

    def stop(self) -> None:
        """Kill it, and the containers it runs."""
        self._process.kill_tree()


def start_yarn(folder: Path) -> YarnCluster:
    """A new cluster, or a skipped test where none is wanted or can be had."""
    if not os.environ.get(ASKED_FOR):
        pytest.skip(f"Tests on YARN take a minute and fetch 60 MB of jars: set {ASKED_FOR}=1 to run them.")
    jars, reason = _jars()
    if jars is None:
        pytest.skip(reason)
    return YarnCluster(folder, jars)


@cache
def _jars() -> tuple[Path | None, str]:
    """The folder with the jars, or why there is none."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        return None, "There is no JDK to run YARN with."
    [hadoop] = (_SPARK_HOME / "jars").glob("hadoop-client-api-*.jar")
    version = hadoop.stem.rpartition("-")[2]
    kept = Path.home() / ".cache" / "flott-tests" / f"yarn-{version}"
    if kept.is_dir():
        return kept, ""
    if shutil.which("mvn") is None:
        return None, "There is no mvn to fetch YARN's jars with."
    draft = kept.with_name(f".{kept.name}-{os.getpid()}")
    for artifact in (f"org.apache.hadoop:hadoop-client-minicluster:{version}", *_BESIDE):
        copied = [f"-Dartifact={artifact}", f"-DoutputDirectory={draft}"]
        command = ["mvn", "--batch-mode", "-q", "dependency:copy", *copied]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        if done.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            return None, f"{artifact} could not be fetched: {done.stdout.strip()[-300:]}"
    with suppress(OSError):  # somebody else was faster
        draft.rename(kept)
    shutil.rmtree(draft, ignore_errors=True)
    return kept, ""
