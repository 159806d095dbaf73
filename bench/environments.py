"""The interpreters the runners use, and the facts of the machine. Orchestrator side.

Flott and `native` run under the interpreter that runs the bench. PyFlink pins its own dependencies, so it gets a
virtualenv of its own; `spark-tws` gets one only if this interpreter lacks what Spark's Python state API needs.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

VENVS = Path(__file__).parent / ".venvs"
INSTALL_TIMEOUT_SECONDS = 1_800
TWS_MODULES = "pyspark, pandas, pyarrow, google.protobuf"


class Unavailable(Exception):
    """An interpreter that could not be had; the message is the reason, in one line."""


def now() -> str:
    """The date and time, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def pyflink_python() -> str:
    return _venv("pyflink", ["apache-flink"], "pyflink.datastream")


def spark_tws_python() -> str:
    if _imports(sys.executable, TWS_MODULES):
        return sys.executable
    version = installed("pyspark")
    spark = f"pyspark=={version}" if version else "pyspark>=4.3,<4.4"
    return _venv("spark", [spark, "pandas", "pyarrow", "protobuf"], TWS_MODULES)


def installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def facts() -> dict[str, object]:
    return {
        "date": now(),
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": _java(),
        "spark": installed("pyspark"),
        "flink": flink_version(),
        "flott": installed("flott"),
    }


def flink_version() -> str | None:
    return _package_of(VENVS / "pyflink", "apache_flink")


def _venv(name: str, packages: list[str], modules: str) -> str:
    """The interpreter of a virtualenv made on first use. A half-made one is made again."""
    home = VENVS / name
    python = str(home / "bin" / "python")
    if (home / "ready").exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    print(f"  making {home} ({', '.join(packages)}): a few minutes, once", flush=True)
    _install([sys.executable, "-m", "venv", str(home)])
    _install([python, "-m", "pip", "install", "--quiet", *packages])
    if not _imports(python, modules):
        raise Unavailable(f"{packages[0]} was installed under {home} but {modules} cannot be imported")
    (home / "ready").touch()
    return python


def _install(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(command[-2:])} took over {INSTALL_TIMEOUT_SECONDS} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        raise Unavailable(f"{' '.join(command[-2:])}: {errors[-1] if errors else done.returncode}"[:200])


def _imports(python: str, modules: str) -> bool:
    return subprocess.run([python, "-c", f"import {modules}"], capture_output=True).returncode == 0


def _package_of(home: Path, package: str) -> str | None:
    found = list(home.glob(f"lib/python3*/site-packages/{package}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").split("-")[1] if found else None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    except OSError:
        return None
    return said.splitlines()[0] if said else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
