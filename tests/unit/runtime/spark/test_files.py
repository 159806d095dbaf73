"""A job's files in workers, without a JVM: by path, and as bytes that come from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles

from flott.runtime.dependencies.job_dependencies import JobFile
from flott.runtime.job_files import JobEnvironment, place_files
from flott.runtime.spark import files
from flott.runtime.spark.files import ship


@dataclass
class FakeBroadcast:
    value: bytes
    destroyed: bool = False

    def destroy(self) -> None:
        self.destroyed = True


class FakeContext:
    def __init__(self) -> None:
        self.sent: list[FakeBroadcast] = []

    def broadcast(self, value: bytes) -> FakeBroadcast:
        self.sent.append(FakeBroadcast(value))
        return self.sent[-1]


@pytest.fixture(autouse=True)
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process is a worker that has served nobody yet; the root of its files."""
    root = tmp_path / "executor"
    root.mkdir()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(root))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(files, "_entered", None)
    monkeypatch.setattr(files, "_first_directory", None)
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield root
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("shipped_"):
            del sys.modules[name]


def environment_in(folder: Path) -> JobEnvironment:
    """A module with a data file beside it, and an archive with a link and a virtual environment in it."""
    folder.mkdir()
    with zipfile.ZipFile(folder / "code.zip", "w") as archive:
        source = "import pathlib\nDATA = pathlib.Path(__file__).with_name('d.txt')\n"
        archive.writestr("shipped_package/__init__.py", source)
        archive.writestr("shipped_package/d.txt", folder.name)
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("env/pyvenv.cfg", "")
        archive.writestr("env/value.txt", f"value of {folder.name}")
    path = list(sys.path)
    try:
        return place_files(folder, [JobFile("code.zip", "python"), JobFile("data.zip", "archive", "under/data")])
    finally:
        sys.path[:] = path  # the driver is another process


def test_workers_on_this_machine_are_told_the_paths(tmp_path: Path) -> None:
    context: Any = FakeContext()
    shipped = ship(context, environment_in(tmp_path / "one"), by_path=True)
    assert context.sent == []
    shipped.enter()
    import shipped_package  # type: ignore[import-not-found]

    assert shipped_package.DATA.read_text() == "one"
    assert Path("under/data/env/value.txt").read_text() == "value of one"


def test_workers_elsewhere_get_the_files_themselves_once(tmp_path: Path, worker: Path) -> None:
    context: Any = FakeContext()
    environment = environment_in(tmp_path / "one")
    shipped = ship(context, environment, by_path=False)
    assert len(context.sent) == 2
    (tmp_path / "one").rename(tmp_path / "gone")  # the driver's machine is another one
    shipped.enter()
    import shipped_package

    assert shipped_package.DATA.read_text() == "one"
    assert str(shipped_package.DATA).startswith(str(worker))
    assert Path("under/data/env/value.txt").read_text() == "value of one"
    unpacked = sorted(path.name for path in worker.iterdir())
    for sent in context.sent:
        sent.value = b"not asked for again"
    files._entered = None  # another worker of the same executor
    shipped.enter()
    assert sorted(path.name for path in worker.iterdir()) == unpacked
    shipped.forget()
    assert all(sent.destroyed for sent in context.sent)


def test_installed_requirements_travel_whole(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    (installed / "shipped_wheel" / "__pycache__").mkdir(parents=True)
    (installed / "shipped_wheel" / "__init__.py").write_text("VALUE = 9\n")
    (installed / "shipped_wheel" / "native.so").write_bytes(b"\x7fELF")
    context: Any = FakeContext()
    shipped = ship(context, JobEnvironment((str(installed),)), by_path=False)
    installed.rename(tmp_path / "gone")
    shipped.enter()
    import shipped_wheel  # type: ignore[import-not-found]

    assert shipped_wheel.VALUE == 9
    assert Path(shipped_wheel.__file__).with_name("native.so").read_bytes() == b"\x7fELF"


def test_a_worker_of_several_jobs_is_in_the_folder_of_the_one_it_serves(tmp_path: Path) -> None:
    context: Any = FakeContext()
    one = ship(context, environment_in(tmp_path / "one"), by_path=True)
    two = ship(context, environment_in(tmp_path / "two"), by_path=True)
    none = ship(context, JobEnvironment(), by_path=True)
    for shipped, value in ((one, "one"), (two, "two"), (one, "one")):
        shipped.enter()
        assert Path("under/data/env/value.txt").read_text() == f"value of {value}"
        assert Path(sys.path[0]).parent.parent.name == value
    none.enter()
    assert Path.cwd() == tmp_path
    one.enter()
    assert Path("under/data/env/value.txt").read_text() == "value of one"


def test_a_job_without_files_changes_nothing(tmp_path: Path, worker: Path) -> None:
    path = list(sys.path)
    ship(FakeContext(), JobEnvironment(), by_path=False).enter()  # type: ignore[arg-type]
    assert (sys.path, Path.cwd(), list(worker.iterdir())) == (path, tmp_path, [])


def test_files_can_be_entered_without_the_session_module() -> None:
    code = "import sys, flott.runtime.spark.files; sys.exit('flott.runtime.spark.session' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}).returncode == 0
