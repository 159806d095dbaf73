"""Flink without Python: the Java classes in `java/`, against the jars that come with PyFlink. Orchestrator side."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

from bench import environments
from bench.latency.timetable import SPLITS, Timetable

SOURCES = Path(__file__).parent / "java"
HOME = environments.VENVS / "latency-java"
_BUILD_SECONDS = 300
_OPENED = ("java.util", "java.lang", "java.time")


def libraries() -> Path:
    """Return the folder of Flink's jars."""
    python = Path(environments.pyflink_python())
    return next(python.parent.parent.glob("lib/python3*/site-packages/pyflink")) / "lib"


def jar() -> Path:
    """Return the compiled classes, made anew when their sources have changed."""
    sources = sorted(SOURCES.glob("*.java"))
    name = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    built = HOME / f"latency-{name}.jar"
    if not built.exists():
        shutil.rmtree(HOME, ignore_errors=True)
        classes = HOME / "classes"
        classes.mkdir(parents=True)
        _compile(sources, classes)
        whole = HOME / "half.jar"
        with zipfile.ZipFile(whole, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        whole.rename(built)
    return built


def command(table: Timetable, checkpoints: str) -> list[str]:
    """Return the command of the Java program."""
    opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    path = os.pathsep.join([str(jar()), str(libraries() / "*")])
    numbers = (table.records, table.rate, table.keys, table.fill, SPLITS, table.every, table.longest_s, table.settle_s)
    return ["java", *opened, "-cp", path, "LatencyBench", table.folder, *map(str, numbers), checkpoints]


def _compile(sources: list[Path], classes: Path) -> None:
    path = str(libraries() / "*")
    try:
        subprocess.run(
            ["javac", "-d", str(classes), "-cp", path, *map(str, sources)],
            check=True, capture_output=True, text=True, timeout=_BUILD_SECONDS,
        )  # fmt: skip
    except FileNotFoundError:
        raise environments.Unavailable("there is no Java compiler") from None
    except subprocess.CalledProcessError as error:
        raise environments.Unavailable(f"javac: {error.stderr.strip().splitlines()[0]}"[:200]) from None
