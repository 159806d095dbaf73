"""Flott as people install it: from a wheel, and on executors that have never heard of it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.spark.conftest import StartDriver
from tests.spark.driver_process import ROOT, SCRIPTS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if built.returncode != 0 and "hatchling" in built.stderr and "No matching distribution" in built.stderr:
        pytest.skip("the build backend cannot be had: no network and hatchling is not installed")
    assert built.returncode == 0, built.stderr
    (made,) = folder.glob("flott-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has Flott from the wheel and everything else from this one."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], timeout=300, check=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(site), str(wheel)]
    subprocess.run(install, timeout=300, check=True)
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def test_the_wheel_has_the_files_of_the_web_ui(wheel: Path) -> None:
    static = ROOT / "src" / "flott" / "web" / "static"
    files = {file.relative_to(ROOT / "src").as_posix() for file in static.rglob("*") if file.is_file()}
    assert files - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_word_count_runs_from_the_wheel_in_an_empty_folder(start_driver: StartDriver, installed: Path) -> None:
    script = ROOT / "examples" / "word_count.py"
    ended = start_driver(script, python=str(installed), python_path=None).wait(300).expect_success()
    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 43


def test_tasks_use_the_installed_package_and_nothing_else(start_driver: StartDriver, installed: Path) -> None:
    script = SCRIPTS / "where_flott_is.py"
    ended = start_driver(script, python=str(installed), python_path=None).wait(300).expect_success()
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert len(lines) == 4
    assert {Path(flott).is_relative_to(installed.parents[1]) for flott, *_ in lines} == {True}
    assert {interpreter for _, _, interpreter, _ in lines} == {str(installed)}


@pytest.fixture(scope="module")
def bare_interpreter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of the same version that has the standard library and nothing else."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], timeout=300, check=True)
    python = folder / "bin" / "python"
    probe = "import importlib.util as u; print([n for n in ('flott', 'cloudpickle', 'pyspark') if u.find_spec(n)])"
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=300, check=True, cwd="/")
    assert found.stdout == "[]\n"
    return str(python)


@pytest.mark.parametrize("context", ["of Flott", "of the program"])
def test_executors_without_flott_get_it_from_the_driver(
    start_driver: StartDriver, installed: Path, bare_interpreter: str, context: str
) -> None:
    # The driver has Flott from the wheel, not from PYTHONPATH, which executors on this machine would inherit.
    options = ["spark.master=local-cluster[2,1,1024]", "spark.executor.memory=512m", f"context={context}"]
    settings = {"PYSPARK_PYTHON": bare_interpreter, "PYTHONNOUSERSITE": "1"}
    script = SCRIPTS / "where_flott_is.py"
    process = start_driver(script, *options, environment=settings, python=str(installed), python_path=None)
    ended = process.wait(300).expect_success()
    if context == "of Flott":  # a program's own Spark says what it likes
        assert ended.stderr == ""
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert len(lines) == 4
    for flott, cloudpickle, interpreter, _ in lines:
        assert "flott-runtime.zip" in flott
        assert "flott-runtime.zip" in cloudpickle
        assert interpreter == bare_interpreter
