"""The Spark session of the Spark peers: local mode, all cores, the settings Flott's design found fastest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

# Settings that describe one application, not how it runs: never copied from one session to another.
IDENTITY = ("spark.app.", "spark.driver.host", "spark.driver.port", "spark.executor.id", "spark.master")


def open_session(cores: int, scratch: Path, extra: dict[str, str]) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **{name: value for name, value in extra.items() if not name.startswith(IDENTITY)},
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers must run the driver's interpreter
    builder = SparkSession.builder.master(f"local[{cores}]").appName("flott-bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
