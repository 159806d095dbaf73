"""Flink's own command line client: found in an installation, or fetched once and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.spark.driver_process import ROOT

VERSION = "2.3.0"
_MAIN = "org.apache.flink.client.cli.CliFrontend"
#: Of the package apache-flink-libraries; all that the client needs is in there.
_NEEDED = ("flink-dist-", "log4j-", "slf4j-")
_FETCH_SECONDS = 60


class FlinkClient:
    """``flink``, for one JobManager."""

    def __init__(self, jars: Sequence[Path], folder: Path, url: str):
        self._jars = jars
        self._folder = folder
        address, _, port = url.rpartition("/")[2].rpartition(":")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text(f"rest.address: {address}\nrest.port: {port}\n")

    def __call__(self, *arguments: str | Path, timeout: float = 90) -> subprocess.CompletedProcess[str]:
        """Run it."""
        java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
        opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.net")]
        light = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
        command = [java, *light, *opens, "-cp", os.pathsep.join(map(str, self._jars)), _MAIN, *map(str, arguments)]
        variables = {**os.environ, "FLINK_CONF_DIR": str(self._folder), "FLINK_LIB_DIR": str(self._jars[0].parent)}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, cwd=self._folder, env=variables,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip


def flink_jars() -> list[Path]:
    """The jars of Flink's client; the test is skipped where there are none and none can be had."""
    found, reason = _jars()
    if not found:
        pytest.skip(f"Flink's client is not here: {reason}")
    return list(found)


@cache
def _jars() -> tuple[tuple[Path, ...], str]:
    installed = sorted(ROOT.glob("bench/.venvs/pyflink/lib/python3*/site-packages/pyflink/lib"))
    kept = Path.home() / ".cache" / "flott-tests" / f"flink-{VERSION}"
    for folder in (*installed, kept):
        if found := _needed(folder):
            return found, ""
    try:
        _fetch(kept)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return (), f"apache-flink-libraries {VERSION} could not be fetched: {str(said).strip()[-300:]}"
    return _needed(kept), "the package apache-flink-libraries has no flink-dist"


def _needed(folder: Path) -> tuple[Path, ...]:
    jars = [jar for prefix in _NEEDED for jar in sorted(folder.glob(f"{prefix}*.jar"))]
    return tuple(jars) if jars and jars[0].name.startswith("flink-dist-") else ()


def _fetch(kept: Path) -> None:
    """From the Python package that holds them; nothing of it is installed."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*pip, "--dest", folder, f"apache-flink-libraries=={VERSION}"],
            capture_output=True, text=True, timeout=_FETCH_SECONDS, check=True,
        )  # fmt: skip
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if Path(name).match("lib/*.jar") and Path(name).name.startswith(_NEEDED):
                    packed.extract(name, folder)
        kept.mkdir(parents=True, exist_ok=True)
        for jar in Path(folder).rglob("*.jar"):
            shutil.copyfile(jar, kept / f".{jar.name}")
            (kept / f".{jar.name}").rename(kept / jar.name)
